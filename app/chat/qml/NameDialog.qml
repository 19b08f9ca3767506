// SPDX-License-Identifier: Apache-2.0
// Asks for the name of a place in the conversation.
import QtQuick
import QtQuick.Controls.Basic
import QtQuick.Layouts
import QtQuick.Templates as T
import Runnel.Chat

Popup {
    id: dialog

    property double messageId: 0

    function openFor(id, now) {
        messageId = id;
        field.text = now;
        open();
        field.forceActiveFocus();
        field.selectAll();
    }
    function accept() {
        App.chat.nameMessage(messageId, field.text);
        close();
    }

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
        Accessible.name: qsTr("Name for this place")
        Text {
            text: qsTr("Name for this place")
            color: Theme.text
            font.pixelSize: Theme.fontSize
            font.family: Theme.fontFamily
            font.bold: true
        }
        Field {
            id: field
            Layout.fillWidth: true
            maximumLength: 80
            Accessible.name: qsTr("Name for this place")
            onAccepted: dialog.accept()
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
                text: qsTr("Save")
                onClicked: dialog.accept()
            }
        }
    }
}
