// SPDX-License-Identifier: Apache-2.0
// Says what deleting from a message on takes with it, and asks.
import QtQuick
import QtQuick.Controls.Basic
import QtQuick.Layouts
import QtQuick.Templates as T
import Runnel.Chat

Popup {
    id: dialog

    property double messageId: 0
    property var goes: ({messages: 0, branches: 0, pinned: 0})

    function openFor(id) {
        messageId = id;
        goes = App.chat.whatGoes(id);
        open();
        (goes.pinned > 0 ? cancel : remove).forceActiveFocus();
    }

    parent: T.Overlay.overlay
    x: (parent.width - width) / 2
    y: Theme.touch ? Theme.margin : (parent.height - height) / 3
    width: Math.min(parent.width - Theme.margin * 2, Theme.fontSize * 30)
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
        Accessible.name: words.text
        Text {
            id: words
            Layout.fillWidth: true
            text: [dialog.goes.branches > 1 ? qsTr("Delete %n messages on %1 branches?", "", dialog.goes.messages).arg(dialog.goes.branches)
                                            : qsTr("Delete %n messages?", "", dialog.goes.messages),
                   dialog.goes.pinned > 0 ? qsTr("%n pinned places go too.", "", dialog.goes.pinned) : ""].filter(part => part !== "").join(" ")
            wrapMode: Text.Wrap
            color: Theme.text
            font.pixelSize: Theme.fontSize
            font.family: Theme.fontFamily
            font.bold: true
            Accessible.role: Accessible.AlertMessage
            Accessible.name: text
        }
        RowLayout {
            Layout.alignment: Qt.AlignRight
            spacing: Theme.gap
            TextButton {
                id: cancel
                text: qsTr("Cancel")
                onClicked: dialog.close()
            }
            TextButton {
                id: remove
                primary: true
                text: qsTr("Delete")
                onClicked: {
                    App.chat.deleteFrom(dialog.messageId);
                    dialog.close();
                }
            }
        }
    }
}
