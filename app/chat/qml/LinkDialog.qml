// SPDX-License-Identifier: Apache-2.0
// Asks before a link of an answer is handed to the browser.
import QtQuick
import QtQuick.Controls.Basic
import QtQuick.Layouts
import QtQuick.Templates as T
import Runnel.Chat

Popup {
    id: dialog

    property string link
    function openFor(wanted) {
        link = wanted;
        open();
    }

    parent: T.Overlay.overlay
    x: (parent.width - width) / 2
    y: (parent.height - height) / 3
    width: Math.min(parent.width - Theme.margin * 2, Theme.fontSize * 34)
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
        Accessible.name: question.text
        Text {
            id: question
            Layout.fillWidth: true
            text: App.isWebLink(dialog.link) ? qsTr("Open this link in your browser? Models sometimes invent addresses.") : qsTr("Only web and mail links can be opened.")
            wrapMode: Text.Wrap
            color: Theme.text
            font.pixelSize: Theme.fontSize
            font.family: Theme.fontFamily
        }
        Text {
            Layout.fillWidth: true
            text: dialog.link
            textFormat: Text.PlainText
            wrapMode: Text.WrapAnywhere
            color: Theme.muted
            font.pixelSize: Theme.smallSize
            font.family: Theme.monospace
        }
        RowLayout {
            Layout.alignment: Qt.AlignRight
            spacing: Theme.gap
            TextButton {
                text: qsTr("Copy")
                onClicked: {
                    App.copy(dialog.link);
                    dialog.close();
                }
            }
            TextButton {
                text: qsTr("Cancel")
                onClicked: dialog.close()
            }
            TextButton {
                primary: true
                enabled: App.isWebLink(dialog.link)
                text: qsTr("Open")
                onClicked: {
                    App.openLink(dialog.link);
                    dialog.close();
                }
            }
        }
    }
}
