// SPDX-License-Identifier: Apache-2.0
// The rail: every message is a place to go back to, every way the talk took is a lane.
import QtQuick
import QtQuick.Controls.Basic
import QtQuick.Layouts
import Runnel.Chat

Rectangle {
    id: pane

    property bool inDrawer: false
    readonly property alias messageMenu: menu
    signal hideWanted
    signal nameWanted(double messageId)
    signal deleteWanted(double messageId)
    signal compareWanted(double messageId)
    signal tryWanted(double messageId)
    signal saveWanted(double messageId)
    signal askWanted

    color: Theme.side

    ColumnLayout {
        anchors.fill: parent
        anchors.margins: Theme.gap
        spacing: Theme.gap

        RowLayout {
            Layout.fillWidth: true
            Text {
                Layout.fillWidth: true
                Layout.leftMargin: Theme.gap * 2
                text: qsTr("Timeline")
                color: Theme.text
                font.pixelSize: Theme.fontSize
                font.family: Theme.fontFamily
                font.bold: true
                Accessible.role: Accessible.Heading
                Accessible.name: text
            }
            IconButton {
                objectName: "goBack"
                name: qsTr("Back")
                symbol: "chevron-left"
                shortcut: "Alt+Left"
                enabled: App.chat.canGoBack && App.chat.state === ChatModel.Idle
                onClicked: App.chat.goBack()
            }
            IconButton {
                objectName: "goForward"
                name: qsTr("Forward")
                symbol: "chevron-right"
                shortcut: "Alt+Right"
                enabled: App.chat.canGoForward && App.chat.state === ChatModel.Idle
                onClicked: App.chat.goForward()
            }
            IconButton {
                name: qsTr("Hide the timeline")
                symbol: "tree"
                shortcut: "Ctrl+T"
                onClicked: pane.hideWanted()
            }
        }
        ListView {
            id: list
            objectName: "timeline"
            property double head: 0  // what was brought into view last
            Layout.fillWidth: true
            Layout.fillHeight: true
            model: visible ? App.chat.timeline : null  // the drawer has another of these
            onModelChanged: showHead()
            highlightMoveDuration: 0
            clip: true
            boundsBehavior: Flickable.StopAtBounds
            activeFocusOnTab: true
            keyNavigationEnabled: true
            ScrollBar.vertical: ScrollBar {}
            Accessible.role: Accessible.Tree
            Accessible.name: qsTr("Timeline")
            delegate: TimelineRow {
                id: delegate
                width: ListView.view.width
                lanes: App.chat.timeline.lanes
                onLookWanted: if (!App.chat.look(messageId)) preview.openFor(messageId, delegate)
                onMenuWanted: at => menu.openFor(messageId, pinned, App.chat.alternativesOf(messageId).length, at)
            }
            function showHead() {
                if (count > 0 && App.chat.timeline.headRow >= 0) positionViewAtIndex(App.chat.timeline.headRow, ListView.Contain);
            }
            Connections {
                target: App.chat.timeline
                function onChanged() {
                    if (App.chat.timeline.headMessage === list.head) return;  // a branch was folded
                    list.head = App.chat.timeline.headMessage;
                    list.showHead();
                }
            }

            Text {
                anchors.centerIn: parent
                width: parent.width - Theme.margin * 2
                visible: list.count === 0
                horizontalAlignment: Text.AlignHCenter
                wrapMode: Text.Wrap
                text: qsTr("Every message will appear here. Click one to look at it; “Continue from here” goes back to it.")
                color: Theme.muted
                font.pixelSize: Theme.smallSize
                font.family: Theme.fontFamily
            }
        }
        TourBar {
            visible: App.tour.place > 0 && pane.inDrawer  // the one of the chat is covered
            Layout.fillWidth: true
        }
        MemoryMeter {
            Layout.fillWidth: true
            Layout.margins: Theme.gap
            Layout.bottomMargin: 0
        }
        TextButton {
            visible: App.chat.conversation > 0
            flatter: true
            text: qsTr("What do you still know?")
            font.pixelSize: Theme.smallSize
            leftPadding: Theme.gap
            rightPadding: Theme.gap
            onClicked: pane.askWanted()
        }
    }
    Rectangle {
        width: 1
        height: parent.height
        color: Theme.border
    }
    MessageMenu {
        id: menu
        onNameWanted: id => pane.nameWanted(id)
        onCompareWanted: id => pane.compareWanted(id)
        onDeleteWanted: id => pane.deleteWanted(id)
        onTryWanted: id => pane.tryWanted(id)
        onSaveWanted: id => pane.saveWanted(id)
    }
    PlacePreview { id: preview }
}
