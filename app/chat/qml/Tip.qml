// SPDX-License-Identifier: Apache-2.0
// A tooltip that looks like the rest of the window.
import QtQuick
import QtQuick.Controls.Basic

ToolTip {
    id: tip

    property bool shown: false

    visible: shown && !Theme.touch && text !== ""
    delay: 600
    width: Math.min(implicitWidth, Theme.fontSize * 32)
    padding: Theme.gap
    font.pixelSize: Theme.smallSize
    font.family: Theme.fontFamily
    contentItem: Text {
        text: tip.text
        textFormat: Text.PlainText
        wrapMode: Text.Wrap
        color: Theme.text
        font: tip.font
    }
    background: Rectangle {
        color: Theme.surface
        radius: Theme.radius
        border.color: Theme.strongBorder
    }
}
