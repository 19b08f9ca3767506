// SPDX-License-Identifier: Apache-2.0
// Where one writes. Enter sends, Shift+Enter breaks the line, Stop stands where Send stood.
import QtQuick
import QtQuick.Controls.Basic
import QtQuick.Layouts
import Runnel.Chat

Rectangle {
    id: composer

    readonly property bool running: App.chat.state !== ChatModel.Idle
    readonly property bool queued: App.chat.queued
    readonly property alias field: input
    signal editLastWanted
    signal schemaWanted

    function focusField() {
        input.forceActiveFocus();
        input.cursorPosition = input.length;
    }
    function sendOrStop() {
        if (running) App.chat.stop();
        else if (queued) App.chat.unqueue();
        else if (App.chat.send()) input.forceActiveFocus();
    }

    component AnswerKindItem: MenuItem {
        property int kind
        readonly property bool chosen: App.chat.answerKind === kind
        Accessible.role: Accessible.RadioButton
        Accessible.checkable: true
        Accessible.checked: chosen
        leftPadding: padding + (chosen ? 0 : Theme.icon + spacing)
        icon.source: chosen ? "qrc:/qt/qml/Runnel/Chat/icons/check.svg" : ""
        icon.width: Theme.icon
        icon.height: Theme.icon
        icon.color: Theme.accent
    }

    implicitHeight: row.implicitHeight + Theme.gap * 2 + (waiting.visible ? waiting.height + Theme.gap : 0) + (form.visible ? form.height : 0)
    radius: Theme.radius * 2
    color: Theme.surface
    border.width: input.activeFocus ? 2 : 1
    border.color: input.activeFocus ? Theme.accent : Theme.strongBorder

    RowLayout {
        id: waiting
        objectName: "queueNotice"
        visible: composer.queued || (App.chat.busyElsewhere && input.length > 0)
        x: Theme.gap * 2
        y: Theme.gap
        width: parent.width - x * 2
        spacing: Theme.gap
        Text {
            Layout.fillWidth: true
            text: composer.queued ? qsTr("Sent when the other answer is done.") : qsTr("Another chat is being answered. Enter queues your message.")
            wrapMode: Text.Wrap
            color: Theme.warm
            font.pixelSize: Theme.smallSize
            font.family: Theme.fontFamily
        }
        TextButton {
            visible: composer.queued
            flatter: true
            text: qsTr("Cancel")
            onClicked: App.chat.unqueue()
        }
    }
    // What this chat's answers must be.
    RowLayout {
        id: form
        objectName: "answerForm"
        visible: App.chat.answerKind !== ChatModel.AnswerFree
        x: Theme.gap * 2
        y: composer.height - height - Theme.unit
        width: parent.width - x * 2
        spacing: Theme.gap
        Text {
            Layout.fillWidth: true
            text: App.chat.answerKind === ChatModel.AnswerSchema ? qsTr("Answers come as JSON by %1.").arg(App.chat.schemaName) : qsTr("Answers come as JSON.")
            textFormat: Text.PlainText
            wrapMode: Text.Wrap
            maximumLineCount: 2
            elide: Text.ElideRight
            color: Theme.warm
            font.pixelSize: Theme.smallSize
            font.family: Theme.fontFamily
        }
        TextButton {
            flatter: true
            text: qsTr("Answer freely")
            font.pixelSize: Theme.smallSize
            onClicked: App.chat.answerFreely()
        }
    }
    RowLayout {
        id: row
        anchors.fill: parent
        anchors.bottomMargin: Theme.gap + (form.visible ? form.height : 0)
        anchors.margins: Theme.gap
        anchors.topMargin: Theme.gap + (waiting.visible ? waiting.height + Theme.gap : 0)
        spacing: Theme.gap

        ScrollView {
            Layout.fillWidth: true
            Layout.preferredHeight: Math.min(input.implicitHeight, Theme.fontSize * (Theme.touch ? 5 : 10))
            ScrollBar.horizontal.policy: ScrollBar.AlwaysOff

            FieldArea {
                id: input
                objectName: "composer"
                text: App.chat.draft
                placeholderText: App.chat.busyElsewhere ? qsTr("Another chat is being answered. Enter queues your message.") : qsTr("Message")
                topPadding: (Theme.control - Theme.fontSize * 1.4) / 2
                bottomPadding: topPadding
                leftPadding: Theme.gap
                rightPadding: Theme.gap
                background: null
                selectByMouse: true
                Accessible.name: qsTr("Message")
                onTextChanged: App.chat.draft = text
                readOnly: composer.queued
                Keys.onPressed: event => {
                    if ((event.key === Qt.Key_Return || event.key === Qt.Key_Enter) && !(event.modifiers & Qt.ShiftModifier)) {
                        event.accepted = true;
                        if (!composer.running) App.chat.send();
                    } else if (event.key === Qt.Key_Up && input.length === 0 && !composer.running) {
                        event.accepted = true;
                        composer.editLastWanted();
                    } else if (event.matches(StandardKey.Copy) && input.selectedText === "" && Selection.owner !== null) {
                        event.accepted = true;
                        Selection.copy();
                    } else if (event.matches(StandardKey.Undo) && input.length === 0 && App.canUndo) {
                        event.accepted = true;  // of a deletion: there is no text to undo
                        App.undo();
                    }
                }
                Connections {
                    target: App.chat
                    function onDraftChanged() {
                        if (input.text !== App.chat.draft) input.text = App.chat.draft;
                    }
                }
            }
        }
        IconButton {
            id: asButton
            objectName: "answerAs"
            Layout.alignment: Qt.AlignBottom
            name: qsTr("Answer as")
            symbol: "braces"
            color: App.chat.answerKind === ChatModel.AnswerFree ? Theme.muted : Theme.accent
            onClicked: asMenu.popup(asButton, 0, -asMenu.height)
            StyledMenu {
                id: asMenu
                objectName: "answerAsMenu"
                width: Theme.fontSize * 14
                AnswerKindItem {
                    text: qsTr("Free text")
                    kind: ChatModel.AnswerFree
                    onTriggered: App.chat.answerFreely()
                }
                AnswerKindItem {
                    text: "JSON"
                    kind: ChatModel.AnswerJson
                    onTriggered: App.chat.answerAsJson()
                }
                AnswerKindItem {
                    text: qsTr("JSON by a schema…")
                    kind: ChatModel.AnswerSchema
                    onTriggered: Qt.callLater(composer.schemaWanted)  // when the menu has given the keyboard back
                }
            }
        }
        Button {
            id: button
            objectName: "sendButton"
            readonly property bool stops: composer.running
            Layout.alignment: Qt.AlignBottom
            implicitWidth: Theme.control
            implicitHeight: Theme.control
            padding: 0
            enabled: stops ? App.chat.state !== ChatModel.Stopping : input.text.trim() !== "" && !composer.queued
            display: stops ? AbstractButton.TextOnly : AbstractButton.IconOnly
            icon.source: "qrc:/qt/qml/Runnel/Chat/icons/send.svg"
            icon.width: Theme.icon
            icon.height: Theme.icon
            icon.color: enabled ? Theme.accentText : Theme.muted
            Accessible.name: stops ? qsTr("Stop") : qsTr("Send")
            Accessible.role: Accessible.Button
            Tip {
                shown: button.hovered
                text: (button.stops ? qsTr("Stop") : qsTr("Send")) + " (" + App.keys(button.stops ? "Esc" : "Return") + ")"
            }
            onClicked: composer.sendOrStop()
            Keys.onReturnPressed: clicked()
            background: Rectangle {
                radius: Theme.radius * 1.5
                color: !button.enabled ? Theme.hover : button.down ? Qt.darker(Theme.accent, 1.15) : Theme.accent
                border.width: button.visualFocus ? 2 : 0
                border.color: Theme.text
                Rectangle {
                    visible: button.stops
                    anchors.centerIn: parent
                    width: Theme.icon * 0.6
                    height: width
                    radius: 2
                    color: button.enabled ? Theme.accentText : Theme.muted
                }
            }
        }
    }
}
