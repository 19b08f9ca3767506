// SPDX-License-Identifier: Apache-2.0
// What a model thought before its answer: folded to one line until it is asked for.
import QtQuick
import QtQuick.Controls.Basic
import QtQuick.Layouts
import Runnel.Chat

ColumnLayout {
    id: block

    required property string thought
    required property real milliseconds
    required property bool thinking  // it goes on
    property bool open: false
    signal linkWanted(string link)
    signal toggled

    readonly property string words: {
        if (thinking) return qsTr("Thinking…");
        const seconds = Math.round(milliseconds / 1000);
        if (seconds < 1) return qsTr("Thought for less than a second");
        if (seconds < 60) return qsTr("Thought for %n seconds", "", seconds);
        return qsTr("Thought for %1 min %2 s").arg(Math.floor(seconds / 60)).arg(seconds % 60);
    }

    spacing: Theme.unit

    AbstractButton {
        id: head
        objectName: "thought"
        padding: Theme.unit
        leftPadding: 0
        Accessible.role: Accessible.Button
        Accessible.name: block.words
        Accessible.description: block.open ? qsTr("Hide the thought") : qsTr("Show the thought")
        onClicked: block.toggled()
        Keys.onReturnPressed: clicked()
        contentItem: Row {
            spacing: Theme.unit
            ToolButton {
                anchors.verticalCenter: parent.verticalCenter
                width: Theme.icon
                height: Theme.icon
                padding: 0
                enabled: false
                focusPolicy: Qt.NoFocus
                Accessible.ignored: true
                rotation: block.open ? 90 : 0
                icon.source: "qrc:/qt/qml/Runnel/Chat/icons/chevron-right.svg"
                icon.width: Theme.fontSize
                icon.height: Theme.fontSize
                icon.color: Theme.muted
                background: null
            }
            Text {
                anchors.verticalCenter: parent.verticalCenter
                text: block.words
                color: head.hovered ? Theme.text : Theme.muted
                font.pixelSize: Theme.smallSize
                font.family: Theme.fontFamily
            }
        }
        background: Rectangle {
            radius: Theme.radius
            color: "transparent"
            border.width: head.visualFocus ? 2 : 0
            border.color: Theme.accent
        }
    }
    RowLayout {
        visible: block.open
        Layout.fillWidth: true
        spacing: Theme.margin
        Rectangle {
            Layout.fillHeight: true
            Layout.leftMargin: Theme.icon / 2 - 1
            implicitWidth: 2
            color: Theme.strongBorder
        }
        Loader {
            active: block.open
            Layout.fillWidth: true
            sourceComponent: MarkdownView {
                objectName: "thoughtText"
                text: block.thought
                opacity: 0.8
                onLinkWanted: link => block.linkWanted(link)
            }
        }
    }
}
