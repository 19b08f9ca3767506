// SPDX-License-Identifier: Apache-2.0
// All conversations: new, search, list, and the way to models and settings.
import QtQuick
import QtQuick.Controls.Basic
import QtQuick.Layouts
import Runnel.Chat

Rectangle {
    id: pane

    property bool canHide: true
    signal hideWanted
    signal chosen
    signal modelsWanted
    signal settingsWanted
    signal importWanted
    signal documentWanted
    signal sourcesWanted
    signal trashWanted
    signal exportWanted(double conversation)
    signal folderWanted(double conversation)  // 0: a new one

    readonly property alias menu: chatsMenu

    function focusSearch() {
        search.forceActiveFocus();
        search.selectAll();
    }

    color: Theme.side

    // Words, with an icon where both fit.
    component FooterButton: TextButton {
        readonly property bool roomy: pane.width >= Theme.fontSize * 25
        Layout.fillWidth: true
        Layout.minimumWidth: Theme.control
        Layout.maximumWidth: Math.ceil(implicitWidth)  // half a pixel less would cut a letter
        flatter: true
        font.pixelSize: Theme.smallSize
        leftPadding: Theme.gap
        rightPadding: Theme.gap
    }

    ColumnLayout {
        anchors.fill: parent
        anchors.margins: Theme.gap
        spacing: Theme.gap

        RowLayout {
            Layout.fillWidth: true
            spacing: Theme.unit
            Text {
                Layout.fillWidth: true
                Layout.leftMargin: Theme.gap * 2
                text: "Runnel"
                color: Theme.accent
                font.pixelSize: Theme.largeSize
                font.family: Theme.fontFamily
                font.bold: true
                Accessible.role: Accessible.Heading
                Accessible.name: text
            }
            IconButton {
                name: qsTr("New chat")
                symbol: "plus"
                shortcut: "Ctrl+N"
                onClicked: {
                    App.chat.startNew();
                    pane.chosen();
                }
            }
            IconButton {
                visible: pane.canHide
                name: qsTr("Hide the chat list")
                symbol: "menu"
                shortcut: "Ctrl+B"
                onClicked: pane.hideWanted()
            }
        }
        Field {
            id: search
            objectName: "search"
            Layout.fillWidth: true
            outline: Theme.border
            placeholderText: qsTr("Search all messages")
            leftPadding: Theme.margin
            rightPadding: clear.visible ? clear.width : Theme.gap
            text: App.library.query
            onTextChanged: App.library.query = text
            Accessible.name: placeholderText
            Keys.onEscapePressed: event => {
                event.accepted = text !== "";  // with nothing to clear it closes what it is in
                text = "";
            }
            Keys.onDownPressed: {
                if (list.count > 0 && list.currentIndex < 0) list.currentIndex = 0;
                list.forceActiveFocus();
            }
            Keys.onReturnPressed: {
                if (list.count === 0 || !App.library.searching) return;
                list.currentIndex = Math.max(0, list.currentIndex);
                list.currentItem.clicked();
            }
            IconButton {
                id: clear
                anchors.right: parent.right
                anchors.verticalCenter: parent.verticalCenter
                visible: search.text !== ""
                name: qsTr("Clear the search")
                symbol: "close"
                onClicked: search.text = ""
            }
        }
        ListView {
            id: list
            objectName: "library"
            Layout.fillWidth: true
            Layout.fillHeight: true
            model: App.library
            clip: true
            spacing: 1
            boundsBehavior: Flickable.StopAtBounds
            keyNavigationEnabled: true
            activeFocusOnTab: true
            highlightMoveDuration: 0  // gliding along a long list would draw frames for a while
            currentIndex: -1
            section.property: "section"
            section.delegate: Text {
                required property string section
                width: ListView.view.width
                leftPadding: Theme.gap * 2
                topPadding: Theme.gap * 2
                bottomPadding: Theme.unit
                text: ({
                        pinned: qsTr("Pinned"),
                        folders: qsTr("Folders"),
                        today: qsTr("Today"),
                        week: qsTr("Previous 7 days"),
                        older: qsTr("Earlier"),
                        names: qsTr("Chat titles"),
                        found: qsTr("Messages")
                    })[section] ?? ""
                color: Theme.muted
                font.pixelSize: Theme.smallSize
                font.family: Theme.fontFamily
                font.bold: true
                Accessible.role: Accessible.Heading
                Accessible.name: text
            }
            ScrollBar.vertical: ScrollBar {}
            Accessible.role: Accessible.List
            Accessible.name: qsTr("Chats")
            // A chat that is dragged, and the folder it would go into; 0: into none, -1: nowhere.
            property string draggedName: ""
            property double dropFolder: -1
            function folderUnder(at) {
                if (at.x < 0 || at.x > width || at.y < 0 || at.y > height) return -1;
                return Math.max(0, App.library.folderAt(indexAt(at.x + contentX, at.y + contentY)));
            }
            delegate: LibraryRow {
                id: entry
                width: ListView.view.width
                dropFolder: list.dropFolder
                onChosen: pane.chosen()
                onExportWanted: pane.exportWanted(conversation)
                onMoveWanted: pane.folderWanted(conversation)
                onDragged: at => {
                    const place = entry.mapToItem(list, at.x, at.y);
                    list.draggedName = name;
                    list.dropFolder = list.folderUnder(place);
                    ghost.x = place.x + Theme.gap;
                    ghost.y = place.y + Theme.gap;
                }
                onDropped: taken => {
                    const to = list.dropFolder;
                    list.dropFolder = -1;
                    list.draggedName = "";
                    if (taken && to >= 0) App.library.putIntoFolder(conversation, to);
                }
            }
            Rectangle {
                id: ghost
                objectName: "draggedChat"
                z: 10
                visible: list.draggedName !== ""
                width: Math.min(list.width * 0.7, words.implicitWidth + Theme.gap * 2)
                height: Theme.control
                radius: Theme.radius
                color: Theme.surface
                opacity: 0.9
                border.color: list.dropFolder >= 0 ? Theme.accent : Theme.strongBorder
                Text {
                    id: words
                    anchors.fill: parent
                    anchors.margins: Theme.gap
                    verticalAlignment: Text.AlignVCenter
                    text: list.draggedName
                    textFormat: Text.PlainText
                    elide: Text.ElideRight
                    color: Theme.text
                    font.pixelSize: Theme.smallSize
                    font.family: Theme.fontFamily
                }
            }
            Connections {
                target: App.library
                function onFolderAdded(folder) {
                    const at = App.library.rowOfFolder(folder);
                    if (at < 0) return;
                    list.currentIndex = at;
                    list.positionViewAtIndex(at, ListView.Contain);
                }
            }

            Text {
                anchors.centerIn: parent
                width: parent.width - Theme.margin * 2
                visible: list.count === 0 && App.library.ready
                horizontalAlignment: Text.AlignHCenter
                wrapMode: Text.Wrap
                text: App.library.searching ? qsTr("No results.") : qsTr("Your chats will appear here.")
                color: Theme.muted
                font.pixelSize: Theme.fontSize
                font.family: Theme.fontFamily
            }
        }
        RowLayout {
            Layout.fillWidth: true
            spacing: 0
            FooterButton {
                id: more
                objectName: "libraryMenuButton"
                symbol: roomy ? "more" : ""
                text: qsTr("More")
                onClicked: chatsMenu.popup(more, 0, -chatsMenu.height)

                StyledMenu {
                    id: chatsMenu
                    width: Theme.fontSize * 18

                    Action {
                        text: qsTr("New folder…")
                        onTriggered: Qt.callLater(pane.folderWanted, 0)  // when the menu has given the keyboard back
                    }
                    Action {
                        text: qsTr("Read a document…")
                        onTriggered: pane.documentWanted()
                    }
                    Action {
                        text: qsTr("Read a folder…")
                        onTriggered: pane.sourcesWanted()
                    }
                    Action {
                        text: qsTr("Import chats…")
                        onTriggered: pane.importWanted()
                    }
                    Action {
                        text: qsTr("Export this chat…")
                        enabled: App.chat.conversation > 0
                        onTriggered: pane.exportWanted(App.chat.conversation)
                    }
                    Action {
                        text: qsTr("Recently deleted")
                        onTriggered: pane.trashWanted()
                    }
                }
            }
            Item { Layout.fillWidth: true }
            FooterButton {
                symbol: roomy ? "model" : ""
                text: qsTr("Models")
                onClicked: pane.modelsWanted()
            }
            FooterButton {
                symbol: roomy ? "sliders" : ""
                text: qsTr("Settings")
                onClicked: pane.settingsWanted()
            }
        }
    }
    Rectangle {
        anchors.right: parent.right
        width: 1
        height: parent.height
        color: Theme.border
    }
}
