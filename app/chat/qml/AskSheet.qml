// SPDX-License-Identifier: Apache-2.0
// Asks a copy of the model's memory of this chat; the chat stays as it is.
import QtQuick
import QtQuick.Controls.Basic
import QtQuick.Layouts
import Runnel.Chat

Sheet {
    id: sheet

    readonly property bool running: App.chat.asking

    function ask() {
        if (running) App.chat.stop();
        else App.chat.askAside(field.text);
    }

    title: qsTr("What do you still know?")
    onOpened: {
        field.forceActiveFocus();
        field.selectAll();
    }
    onClosed: if (running) App.chat.stop()

    ColumnLayout {
        anchors.fill: parent
        anchors.margins: Theme.margin * 1.5
        spacing: Theme.margin

        Text {
            Layout.fillWidth: true
            text: qsTr("Nothing is added to this chat.")
            wrapMode: Text.Wrap
            color: Theme.muted
            font.pixelSize: Theme.fontSize
            font.family: Theme.fontFamily
        }
        RowLayout {
            Layout.fillWidth: true
            spacing: Theme.gap
            Field {
                id: field
                Layout.fillWidth: true
                text: qsTr("What do you still know of our chat? List names, numbers and facts.")
                leftPadding: Theme.gap
                Accessible.name: qsTr("Question")
                onAccepted: sheet.ask()
            }
            TextButton {
                primary: true
                text: sheet.running ? qsTr("Stop") : qsTr("Ask")
                enabled: sheet.running || (field.text.trim() !== "" && App.chat.state === ChatModel.Idle && !App.chat.busyElsewhere && App.chat.conversation > 0)
                onClicked: sheet.ask()
            }
        }
        Flickable {
            Layout.fillWidth: true
            Layout.fillHeight: true
            contentHeight: told.implicitHeight
            clip: true
            boundsBehavior: Flickable.StopAtBounds
            ScrollBar.vertical: ScrollBar {}
            MarkdownView {
                id: told
                objectName: "told"
                width: parent.width - Theme.gap
                text: App.chat.told
            }
        }
    }
}
