// SPDX-License-Identifier: Apache-2.0
// A button that is an icon; its name is shown as a tip and read to screen readers.
import QtQuick
import QtQuick.Controls.Basic
import Runnel.Chat

ToolButton {
    id: button

    required property string name
    property string symbol
    property color color: Theme.muted
    property string shortcut

    icon.source: "qrc:/qt/qml/Runnel/Chat/icons/" + symbol + ".svg"
    icon.width: Theme.icon
    icon.height: Theme.icon
    icon.color: enabled ? (hovered || checked ? Theme.text : color) : Theme.border
    implicitWidth: Theme.control
    implicitHeight: Theme.control
    padding: 0
    focusPolicy: Qt.StrongFocus
    Accessible.name: name
    Accessible.role: Accessible.Button
    Accessible.onPressAction: clicked()
    Tip {
        shown: button.hovered
        text: button.shortcut !== "" ? button.name + " (" + App.keys(button.shortcut) + ")" : button.name
    }
    Keys.onReturnPressed: clicked()

    background: Rectangle {
        radius: Theme.radius
        color: button.down || button.checked ? Theme.selected : button.hovered ? Theme.hover : "transparent"
        border.width: button.visualFocus ? 2 : 0
        border.color: Theme.accent
    }
}
