// SPDX-License-Identifier: Apache-2.0
// Makes a folder, or asks for the one that a chat is put into.
import QtQuick
import QtQuick.Controls.Basic
import QtQuick.Layouts
import QtQuick.Templates as T
import Runnel.Chat

Popup {
    id: dialog

    property double conversation: 0  // 0: only a folder is made
    property double present: 0
    property var choices: []  // [{id, name}]

    function openFor(chat) {
        conversation = chat;
        present = chat > 0 ? App.library.folderOf(chat) : 0;
        choices = chat > 0 ? [{id: 0, name: qsTr("No folder")}].concat(App.library.folders) : [];
        field.text = "";
        open();
        if (choices.length > 1) rows.itemAt(Math.max(0, choices.findIndex(entry => entry.id === present))).forceActiveFocus(Qt.TabFocusReason);
        else field.forceActiveFocus();
    }
    function put(folder) {
        App.library.putIntoFolder(conversation, folder);
        close();
    }
    function make() {
        if (field.text.trim() === "") return;
        App.library.addFolder(field.text, conversation);
        close();
    }

    objectName: "folderDialog"
    parent: T.Overlay.overlay
    x: (parent.width - width) / 2
    y: Theme.touch ? Theme.margin : (parent.height - height) / 3
    width: Math.min(parent.width - Theme.margin * 2, Theme.fontSize * 28)
    modal: true
    focus: true
    padding: Theme.margin * 1.5
    T.Overlay.modal: Rectangle { color: "#80000000" }
    background: Rectangle {
        color: Theme.window
        radius: Theme.radius * 2
        border.color: Theme.border
    }

    ColumnLayout {
        width: parent.width
        spacing: Theme.margin
        Accessible.role: Accessible.Dialog
        Accessible.name: heading.text
        Text {
            id: heading
            Layout.fillWidth: true
            text: dialog.conversation > 0 ? qsTr("Move “%1” to a folder").arg(App.library.nameOf(dialog.conversation)) : qsTr("New folder")
            textFormat: Text.PlainText
            elide: Text.ElideRight
            color: Theme.text
            font.pixelSize: Theme.fontSize
            font.family: Theme.fontFamily
            font.bold: true
            Accessible.role: Accessible.Heading
            Accessible.name: text
        }
        Flickable {
            id: list
            visible: dialog.choices.length > 1
            Layout.fillWidth: true
            implicitHeight: Math.min(contentHeight, Theme.control * (Theme.touch ? 4 : 8))
            contentHeight: column.height
            clip: true
            boundsBehavior: Flickable.StopAtBounds
            ScrollBar.vertical: ScrollBar {}
            function show(item) {
                contentY = Math.max(item.y + item.height - height, Math.min(contentY, item.y));
            }
            Column {
                id: column
                width: list.width
                Accessible.role: Accessible.List
                Accessible.name: qsTr("Folders")
                Repeater {
                    id: rows
                    model: dialog.choices
                    TextButton {
                        id: choice
                        required property var modelData
                        width: column.width
                        flatter: true
                        text: modelData.name
                        symbol: modelData.id === dialog.present ? "check" : modelData.id > 0 ? "folder" : "close"
                        Accessible.role: Accessible.RadioButton
                        Accessible.checkable: true
                        Accessible.checked: modelData.id === dialog.present
                        onActiveFocusChanged: if (activeFocus) list.show(choice)
                        Keys.onDownPressed: nextItemInFocusChain(true).forceActiveFocus(Qt.TabFocusReason)
                        Keys.onUpPressed: nextItemInFocusChain(false).forceActiveFocus(Qt.BacktabFocusReason)
                        onClicked: dialog.put(modelData.id)
                    }
                }
            }
        }
        RowLayout {
            spacing: Theme.gap
            Field {
                id: field
                Layout.fillWidth: true
                placeholderText: dialog.conversation > 0 ? qsTr("New folder") : qsTr("Name of the folder")
                leftPadding: Theme.gap
                maximumLength: 80
                Accessible.name: placeholderText
                onAccepted: dialog.make()
            }
            TextButton {
                primary: true
                text: dialog.conversation > 0 ? qsTr("Create and move") : qsTr("Create")
                enabled: field.text.trim() !== ""
                onClicked: dialog.make()
            }
        }
        TextButton {
            Layout.alignment: Qt.AlignRight
            text: qsTr("Cancel")
            onClicked: dialog.close()
        }
    }
}
