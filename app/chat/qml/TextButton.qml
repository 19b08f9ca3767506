// SPDX-License-Identifier: Apache-2.0
// A button with words, plain or (the one that matters) filled.
import QtQuick
import QtQuick.Controls.Basic

Button {
    id: button

    property bool primary: false
    property bool flatter: false
    property string symbol

    icon.source: symbol !== "" ? "qrc:/qt/qml/Runnel/Chat/icons/" + symbol + ".svg" : ""
    icon.width: Theme.icon
    icon.height: Theme.icon
    icon.color: textColor
    readonly property color textColor: !enabled ? Theme.muted : primary ? Theme.accentText : flatter ? Theme.accent : Theme.text
    palette.buttonText: textColor
    palette.brightText: textColor
    font.pixelSize: Theme.fontSize
    font.family: Theme.fontFamily
    implicitHeight: Theme.control
    leftPadding: Theme.margin
    rightPadding: Theme.margin
    spacing: Theme.gap
    Accessible.name: text
    Accessible.role: Accessible.Button
    Accessible.onPressAction: clicked()
    Keys.onReturnPressed: clicked()

    background: Rectangle {
        radius: Theme.radius
        color: button.primary && button.enabled
               ? (button.down ? Qt.darker(Theme.accent, 1.15) : button.hovered ? Qt.lighter(Theme.accent, 1.08) : Theme.accent)
               : button.down ? Theme.selected : button.hovered ? Theme.hover : button.flatter ? "transparent" : Theme.surface
        border.width: button.visualFocus ? 2 : button.flatter || button.primary ? 0 : 1
        border.color: button.visualFocus ? (button.primary ? Theme.text : Theme.accent) : Theme.border
    }
}
