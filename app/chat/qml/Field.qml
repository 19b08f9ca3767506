// SPDX-License-Identifier: Apache-2.0
// One line to write in.
import QtQuick
import QtQuick.Controls.Basic

TextField {
    id: field

    property color outline: Theme.strongBorder
    readonly property alias menuShown: menu.shown

    implicitHeight: Theme.control
    color: Theme.text
    placeholderTextColor: Theme.muted
    selectionColor: Theme.accent
    selectedTextColor: Theme.accentText
    font.pixelSize: Theme.fontSize
    font.family: Theme.fontFamily
    persistentSelection: menu.shown
    Accessible.role: Accessible.EditableText
    onPressed: event => menu.openFor(event)
    background: Rectangle {
        color: Theme.surface
        radius: Theme.radius
        border.width: field.activeFocus ? 2 : 1
        border.color: field.activeFocus ? Theme.accent : field.outline
    }
    FieldMenu {
        id: menu
        field: field
    }
}
