// SPDX-License-Identifier: Apache-2.0
// Says what reading a document costs, and asks.
import QtQuick
import QtQuick.Controls.Basic
import QtQuick.Layouts
import QtQuick.Templates as T
import Runnel.Chat

Popup {
    id: dialog

    property string file
    property double tokens: 0
    property double seconds: 0

    function openFor(document, length, time) {
        file = document;
        tokens = length;
        seconds = time;
        open();
        read.forceActiveFocus();
    }

    parent: T.Overlay.overlay
    x: (parent.width - width) / 2
    y: Theme.touch ? Theme.margin : (parent.height - height) / 3
    width: Math.min(parent.width - Theme.margin * 2, Theme.fontSize * 32)
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
            text: dialog.seconds > 0
                  ? qsTr("Read %1? %L2 tokens, about %3 s. Old details fade.").arg(Files.nameOf(dialog.file)).arg(dialog.tokens).arg(Math.max(1, Math.round(dialog.seconds)))
                  : qsTr("Read %1? About %L2 tokens. Old details fade.").arg(Files.nameOf(dialog.file)).arg(dialog.tokens)
            textFormat: Text.PlainText
            wrapMode: Text.Wrap
            color: Theme.text
            font.pixelSize: Theme.fontSize
            font.family: Theme.fontFamily
            font.bold: true
        }
        RowLayout {
            Layout.alignment: Qt.AlignRight
            spacing: Theme.gap
            TextButton {
                text: qsTr("Cancel")
                onClicked: dialog.close()
            }
            TextButton {
                id: read
                primary: true
                text: qsTr("Read")
                enabled: App.models.state === ModelPicker.Loaded && App.chat.state === ChatModel.Idle && !App.chat.busyElsewhere
                onClicked: {
                    App.chat.readDocument(dialog.file);
                    dialog.close();
                }
            }
        }
    }
}
