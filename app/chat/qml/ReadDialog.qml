// SPDX-License-Identifier: Apache-2.0
// A document is opened, what reading it costs is said, and the user asked.
import QtQuick
import QtQuick.Controls.Basic
import QtQuick.Layouts
import QtQuick.Templates as T
import Runnel.Chat

Popup {
    id: dialog

    readonly property DocumentModel document: App.documents
    property string name  // stays while the dialog goes
    readonly property double seconds: document.ready ? App.chat.secondsFor(document.tokens) : 0

    onClosed: document.close()

    Connections {
        target: App.documents
        function onOpened() {
            dialog.name = App.documents.name;
            dialog.open();
            cancel.forceActiveFocus();
        }
        function onChanged() {
            if (App.documents.name === "") dialog.close();
        }
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
            text: !dialog.document.ready ? qsTr("Opening %1…").arg(dialog.name)
                  : dialog.seconds > 0
                  ? qsTr("Read %1? %L2 tokens, about %3 s. Old details fade.").arg(dialog.name).arg(dialog.document.tokens).arg(Math.max(1, Math.round(dialog.seconds)))
                  : qsTr("Read %1? About %L2 tokens. Old details fade.").arg(dialog.name).arg(dialog.document.tokens)
            textFormat: Text.PlainText
            wrapMode: Text.Wrap
            color: Theme.text
            font.pixelSize: Theme.fontSize
            font.family: Theme.fontFamily
            font.bold: true
        }
        Text {
            Layout.fillWidth: true
            visible: dialog.document.files > 0
            text: qsTr("%n text and source files.", "", dialog.document.files)
                  + (dialog.document.leftOut > 0 ? " " + qsTr("%n left out: no text, or larger than 1 MB.", "", dialog.document.leftOut) : "")
            textFormat: Text.PlainText
            wrapMode: Text.Wrap
            color: Theme.muted
            font.pixelSize: Theme.smallSize
            font.family: Theme.fontFamily
        }
        Rectangle {
            Layout.fillWidth: true
            visible: !dialog.document.ready
            implicitHeight: Theme.unit
            radius: height / 2
            color: Theme.border
            Accessible.role: Accessible.ProgressBar
            Accessible.name: words.text
            Rectangle {
                height: parent.height
                radius: height / 2
                width: parent.width * dialog.document.progress
                color: Theme.accent
            }
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
                id: read
                primary: true
                text: qsTr("Read")
                onEnabledChanged: if (enabled && dialog.visible) forceActiveFocus()
                enabled: dialog.document.ready && App.models.state === ModelPicker.Loaded && App.chat.state === ChatModel.Idle && !App.chat.busyElsewhere
                onClicked: {
                    App.documents.read();
                    dialog.close();
                }
            }
        }
    }
}
