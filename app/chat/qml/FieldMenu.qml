// SPDX-License-Identifier: Apache-2.0
// What a right click on a field offers, made when it is first asked for.
import QtQuick
import QtQuick.Controls.Basic

Loader {
    id: loader

    required property Item field
    readonly property bool shown: item !== null && item.visible

    // Where the field was pressed.
    function openFor(event) {
        if (event.button !== Qt.RightButton) return;
        event.accepted = true;
        field.forceActiveFocus(Qt.MouseFocusReason);
        active = true;
        const x = event.x, y = event.y;
        Qt.callLater(() => item.popup(field, x, y));  // a TextArea takes the keyboard back when it was pressed
    }
    active: false
    sourceComponent: StyledMenu {
        objectName: "fieldMenu"
        width: Theme.fontSize * 14
        Action {
            text: qsTr("Cut")
            enabled: loader.field.selectedText !== "" && !loader.field.readOnly
            onTriggered: loader.field.cut()
        }
        Action {
            text: qsTr("Copy")
            enabled: loader.field.selectedText !== ""
            onTriggered: loader.field.copy()
        }
        Action {
            text: qsTr("Paste")
            enabled: loader.field.canPaste
            onTriggered: loader.field.paste()
        }
        Action {
            text: qsTr("Select all")
            enabled: loader.field.length > 0
            onTriggered: loader.field.selectAll()
        }
    }
}
