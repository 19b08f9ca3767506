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
    signal exportWanted(double conversation)

    function focusSearch() {
        search.forceActiveFocus();
        search.selectAll();
    }

    color: Theme.side

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
                name: qsTr("Hide the list")
                symbol: "menu"
                shortcut: "Ctrl+B"
                onClicked: pane.hideWanted()
            }
        }
        TextField {
            id: search
            objectName: "search"
            Layout.fillWidth: true
            implicitHeight: Theme.control
            placeholderText: qsTr("Search all messages")
            placeholderTextColor: Theme.muted
            color: Theme.text
            selectionColor: Theme.accent
            selectedTextColor: Theme.accentText
            font.pixelSize: Theme.fontSize
            font.family: Theme.fontFamily
            leftPadding: Theme.margin
            rightPadding: clear.visible ? clear.width : Theme.gap
            text: App.library.query
            onTextChanged: App.library.query = text
            Accessible.role: Accessible.EditableText
            Accessible.name: placeholderText
            Keys.onEscapePressed: event => {
                event.accepted = text !== "";  // with nothing to clear it closes what it is in
                text = "";
            }
            Keys.onDownPressed: list.forceActiveFocus()
            background: Rectangle {
                radius: Theme.radius
                color: Theme.surface
                border.width: search.activeFocus ? 2 : 1
                border.color: search.activeFocus ? Theme.accent : Theme.border
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
                        today: qsTr("Today"),
                        week: qsTr("Last seven days"),
                        older: qsTr("Earlier"),
                        names: qsTr("Names"),
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
            delegate: LibraryRow {
                width: ListView.view.width
                onChosen: pane.chosen()
                onExportWanted: pane.exportWanted(conversation)
            }

            Text {
                anchors.centerIn: parent
                width: parent.width - Theme.margin * 2
                visible: list.count === 0 && App.library.ready
                horizontalAlignment: Text.AlignHCenter
                wrapMode: Text.Wrap
                text: App.library.searching ? qsTr("Nothing found.") : qsTr("Your chats will be here.")
                color: Theme.muted
                font.pixelSize: Theme.fontSize
                font.family: Theme.fontFamily
            }
        }
        RowLayout {
            Layout.fillWidth: true
            spacing: 0
            IconButton {
                name: qsTr("Models")
                symbol: "model"
                shortcut: "Ctrl+M"
                onClicked: pane.modelsWanted()
            }
            IconButton {
                name: qsTr("Import a chat")
                symbol: "upload"
                onClicked: pane.importWanted()
            }
            IconButton {
                visible: App.chat.conversation > 0
                name: qsTr("Export this chat")
                symbol: "download"
                shortcut: "Ctrl+E"
                onClicked: pane.exportWanted(App.chat.conversation)
            }
            Item { Layout.fillWidth: true }
            IconButton {
                name: qsTr("Settings")
                symbol: "sliders"
                shortcut: "Ctrl+,"
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
