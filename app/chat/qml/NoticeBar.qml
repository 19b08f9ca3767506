// SPDX-License-Identifier: Apache-2.0
// Says what happened or went wrong, in words; details fold out; a deletion can be undone here.
import QtQuick
import QtQuick.Layouts
import Runnel.Chat

Rectangle {
    id: bar

    property bool unfolded: false

    visible: App.notice !== ""
    implicitHeight: column.implicitHeight + Theme.gap * 2
    radius: Theme.radius
    color: Theme.dark ? "#2a3037" : "#2b2f35"
    Accessible.role: Accessible.AlertMessage
    Accessible.name: App.notice

    Connections {
        target: App
        function onNoticeChanged() {
            bar.unfolded = false;
            if (App.notice !== "") leave.restart();
        }
    }
    Timer {
        id: leave
        // What went wrong stays until it was read.
        interval: App.canUndo ? 10000 : 3000
        running: bar.visible && !App.noticeIsProblem && !hover.hovered
        onTriggered: App.dismissNotice()
    }
    HoverHandler { id: hover }

    ColumnLayout {
        id: column
        anchors.fill: parent
        anchors.margins: Theme.gap
        anchors.leftMargin: Theme.margin
        spacing: 0

        RowLayout {
            spacing: Theme.gap
            Text {
                Layout.fillWidth: true
                text: App.notice
                textFormat: Text.PlainText
                wrapMode: Text.Wrap
                color: "#ffffff"
                font.pixelSize: Theme.fontSize
                font.family: Theme.fontFamily
            }
            TextButton {
                visible: App.noticeDetails !== ""
                flatter: true
                text: bar.unfolded ? qsTr("Less") : qsTr("Details")
                palette.buttonText: "#8fdcec"
                background: null
                onClicked: bar.unfolded = !bar.unfolded
            }
            TextButton {
                visible: App.canUndo
                flatter: true
                text: qsTr("Undo")
                palette.buttonText: "#8fdcec"
                background: null
                onClicked: App.undo()
            }
            IconButton {
                name: qsTr("Dismiss")
                symbol: "close"
                icon.color: "#ffffff"
                background: null
                onClicked: App.dismissNotice()
            }
        }
        Text {
            visible: bar.unfolded
            Layout.fillWidth: true
            Layout.bottomMargin: Theme.gap
            text: App.noticeDetails
            textFormat: Text.PlainText
            wrapMode: Text.WrapAnywhere
            color: "#d5dade"
            font.pixelSize: Theme.smallSize
            font.family: Theme.monospace
        }
    }
}
