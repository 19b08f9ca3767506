// SPDX-License-Identifier: Apache-2.0
// A message of another branch, looked at without going there.
import QtQuick
import QtQuick.Controls.Basic
import QtQuick.Layouts
import QtQuick.Templates as T
import Runnel.Chat

Popup {
    id: preview

    property double messageId: 0
    property string speaker: ""

    function openFor(id, row) {  // beside a row of the timeline; without one in the middle of the window
        messageId = id;
        price.text = App.costInWords(App.chat.timeline.costOf(id));
        speaker = App.chat.roleOf(id);
        text.text = App.chat.textOf(id);
        const at = row ? row.mapToItem(parent, -width - Theme.gap, 0) : Qt.point((parent.width - width) / 2, (parent.height - height) / 2);
        x = Math.max(Theme.gap, at.x);
        y = Math.max(Theme.gap, Math.min(parent.height - height - Theme.gap, at.y));
        open();
        go.forceActiveFocus();
    }

    objectName: "placePreview"
    parent: T.Overlay.overlay
    width: Math.min(parent.width - Theme.gap * 2, Theme.fontSize * 30)
    height: Math.min(parent.height * 0.6, column.implicitHeight + padding * 2)
    padding: Theme.margin
    focus: true
    background: Rectangle {
        color: Theme.window
        radius: Theme.radius
        border.color: Theme.strongBorder
    }

    ColumnLayout {
        id: column
        anchors.fill: parent
        spacing: Theme.gap
        Accessible.role: Accessible.Dialog
        Accessible.name: heading.text
        Text {
            id: heading
            text: preview.speaker === "user" ? qsTr("You") : qsTr("Answer")
            color: Theme.muted
            font.pixelSize: Theme.smallSize
            font.family: Theme.fontFamily
            font.bold: true
        }
        Flickable {
            Layout.fillWidth: true
            Layout.fillHeight: true
            Layout.preferredHeight: text.implicitHeight
            contentHeight: text.implicitHeight
            clip: true
            boundsBehavior: Flickable.StopAtBounds
            ScrollBar.vertical: ScrollBar {}
            MarkdownView {
                id: text
                width: parent.width
                text: ""
            }
        }
        Text {
            id: price
            Layout.alignment: Qt.AlignRight
            color: Theme.muted
            font.pixelSize: Theme.smallSize
            font.family: Theme.fontFamily
        }
        TextButton {
            id: go
            Layout.alignment: Qt.AlignRight
            primary: true
            text: qsTr("Continue from here")
            enabled: App.chat.state === ChatModel.Idle
            onClicked: {
                App.chat.rewind(preview.messageId);
                preview.close();
            }
        }
    }
}
