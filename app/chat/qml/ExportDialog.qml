// SPDX-License-Identifier: Apache-2.0
// Where an export goes and as what. One field with the whole path; a picker for its folder.
import QtQuick
import QtQuick.Controls.Basic
import QtQuick.Layouts
import QtQuick.Templates as T
import Runnel.Chat

Popup {
    id: dialog

    property double conversation: 0
    property bool json: false
    readonly property alias fileField: field
    property string folder  // chosen before, else the usual one
    signal folderWanted(string folder)

    function openFor(id) {
        conversation = id;
        choose(json);
        open();
        field.forceActiveFocus();
        field.selectAll();
    }
    function choose(asJson) {
        json = asJson;
        const file = App.library.exportFile(conversation, json);
        field.text = folder !== "" ? Files.inFolder(folder, Files.nameOf(file)) : file;
    }
    function moveTo(path) {
        folder = path;
        field.text = Files.inFolder(folder, Files.nameOf(field.text));
        field.forceActiveFocus();
    }
    function accept() {
        if (field.text === "") return;
        App.library.exportTo(conversation, field.text);
        close();
    }

    parent: T.Overlay.overlay
    x: (parent.width - width) / 2
    y: Theme.touch ? Theme.margin : (parent.height - height) / 3
    width: Math.min(parent.width - Theme.margin * 2, Theme.fontSize * 40)
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
        Accessible.name: qsTr("Export this chat")

        Text {
            text: qsTr("Export this chat")
            color: Theme.text
            font.pixelSize: Theme.largeSize
            font.family: Theme.fontFamily
            font.bold: true
            Accessible.role: Accessible.Heading
            Accessible.name: text
        }
        RowLayout {
            spacing: Theme.gap
            TextButton {
                text: qsTr("Markdown")
                primary: !dialog.json
                Accessible.role: Accessible.RadioButton
                Accessible.checkable: true
                Accessible.checked: primary
                onClicked: dialog.choose(false)
            }
            TextButton {
                text: qsTr("JSON")
                primary: dialog.json
                Accessible.role: Accessible.RadioButton
                Accessible.checkable: true
                Accessible.checked: primary
                onClicked: dialog.choose(true)
            }
            Text {
                Layout.fillWidth: true
                Layout.leftMargin: Theme.gap
                text: dialog.json ? qsTr("All branches. Can be imported again.") : qsTr("The branch you see, for reading.")
                wrapMode: Text.Wrap
                color: Theme.muted
                font.pixelSize: Theme.smallSize
                font.family: Theme.fontFamily
            }
        }
        RowLayout {
            Layout.fillWidth: true
            spacing: Theme.unit
            Field {
                id: field
                Layout.fillWidth: true
                Accessible.name: qsTr("File name")
                onAccepted: dialog.accept()
            }
            IconButton {
                name: qsTr("Choose a folder")
                symbol: "folder"
                onClicked: dialog.folderWanted(Files.folderOf(field.text))
            }
        }
        Text {
            visible: dialog.opened && App.library.fileExists(field.text)
            Layout.fillWidth: true
            text: qsTr("This file already exists and will be replaced.")
            wrapMode: Text.Wrap
            color: Theme.danger
            font.pixelSize: Theme.smallSize
            font.family: Theme.fontFamily
        }
        RowLayout {
            Layout.alignment: Qt.AlignRight
            spacing: Theme.gap
            TextButton {
                text: qsTr("Cancel")
                onClicked: dialog.close()
            }
            TextButton {
                primary: true
                enabled: field.text !== ""
                text: qsTr("Save")
                onClicked: dialog.accept()
            }
        }
    }
}
