// SPDX-License-Identifier: Apache-2.0
// Editing a message or an answer: a new branch beside it.
import QtQuick
import QtQuick.Controls.Basic
import QtQuick.Layouts

ColumnLayout {
    id: editor

    required property string original  // what it begins with
    property bool ofAnswer: false
    signal typed(string text)
    signal accepted(string text)
    signal rejected

    function focusField() {
        field.forceActiveFocus();
    }
    spacing: Theme.gap
    Component.onCompleted: {
        field.text = original;
        field.cursorPosition = field.length;
        // The keyboard comes back with it, if it went with it and to nothing else.
        for (let at = editor.parent; at !== null; at = at.parent) {
            if (at === Window.activeFocusItem) return focusField();
        }
    }

    FieldArea {
        id: field
        Layout.fillWidth: true
        onTextChanged: if (text !== editor.original) editor.typed(text)
        padding: Theme.gap * 2
        Accessible.name: qsTr("Edit message")
        background: Rectangle {
            color: Theme.surface
            radius: Theme.radius
            border.width: 2
            border.color: Theme.accent
        }
        Keys.onPressed: event => {
            if (event.key === Qt.Key_Escape) {
                editor.rejected();
                event.accepted = true;
            } else if ((event.key === Qt.Key_Return || event.key === Qt.Key_Enter) && editor.ofAnswer === ((event.modifiers & Qt.ControlModifier) !== 0) && !(event.modifiers & Qt.ShiftModifier)) {
                editor.accepted(field.text);
                event.accepted = true;
            }
        }
    }
    RowLayout {
        Layout.alignment: Qt.AlignRight
        spacing: Theme.gap
        TextButton {
            text: qsTr("Cancel")
            onClicked: editor.rejected()
        }
        TextButton {
            primary: true
            text: editor.ofAnswer ? qsTr("Save as a new version") : qsTr("Send as a new branch")
            enabled: field.text.trim() !== ""
            onClicked: editor.accepted(field.text)
        }
    }
}
