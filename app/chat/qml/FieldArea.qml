// SPDX-License-Identifier: Apache-2.0
// Several lines to write in. Tab leaves it.
import QtQuick
import QtQuick.Controls.Basic

TextArea {
    id: area

    wrapMode: TextArea.Wrap
    color: Theme.text
    placeholderTextColor: Theme.muted
    selectionColor: Theme.accent
    selectedTextColor: Theme.accentText
    font.pixelSize: Theme.fontSize
    font.family: Theme.fontFamily
    persistentSelection: menu.shown
    Keys.onTabPressed: nextItemInFocusChain(true).forceActiveFocus(Qt.TabFocusReason)
    Keys.onBacktabPressed: nextItemInFocusChain(false).forceActiveFocus(Qt.BacktabFocusReason)
    Accessible.role: Accessible.EditableText
    onPressed: event => menu.openFor(event)
    background: Rectangle {
        implicitHeight: Theme.fontSize * 5
        color: Theme.surface
        radius: Theme.radius
        border.width: area.activeFocus ? 2 : 1
        border.color: area.activeFocus ? Theme.accent : Theme.strongBorder
    }
    FieldMenu {
        id: menu
        field: area
    }
}
