// SPDX-License-Identifier: Apache-2.0
// What of the chat was read again before a question: folded to one line until it is asked for.
import QtQuick
import QtQuick.Controls.Basic
import QtQuick.Layouts
import Runnel.Chat

ColumnLayout {
    id: block

    required property var quoted  // [{message, text}], in the order of the chat
    property bool open: false
    signal toggled
    signal placeWanted(double messageId)

    readonly property int messages: new Set(quoted.map(one => one.message)).size
    readonly property string words: qsTr("Re-read %n earlier messages", "", messages)

    spacing: Theme.unit

    AbstractButton {
        id: head
        objectName: "remind"
        Layout.alignment: Qt.AlignRight
        padding: Theme.unit
        rightPadding: 0
        Accessible.role: Accessible.Button
        Accessible.name: block.words
        Accessible.description: block.open ? qsTr("Hide what was re-read") : qsTr("Show what was re-read")
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
    Repeater {
        model: block.open ? block.quoted : []
        RowLayout {
            id: quotation
            required property var modelData
            Layout.fillWidth: true
            spacing: Theme.margin
            Rectangle {
                Layout.fillHeight: true
                Layout.leftMargin: Theme.icon / 2 - 1
                implicitWidth: 2
                color: Theme.strongBorder
            }
            ColumnLayout {
                Layout.fillWidth: true
                spacing: 0
                Text {
                    objectName: "quotation"
                    Layout.fillWidth: true
                    text: quotation.modelData.text
                    textFormat: Text.PlainText
                    wrapMode: Text.Wrap
                    color: Theme.text
                    opacity: 0.8
                    font.pixelSize: Theme.fontSize
                    font.family: Theme.fontFamily
                    Accessible.role: Accessible.StaticText
                    Accessible.name: text
                }
                TextButton {
                    visible: quotation.modelData.message > 0
                    text: qsTr("Show this message")
                    font.pixelSize: Theme.smallSize
                    onClicked: block.placeWanted(quotation.modelData.message)
                }
            }
        }
    }
}
