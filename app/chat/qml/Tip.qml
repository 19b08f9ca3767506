// SPDX-License-Identifier: Apache-2.0
// A tooltip that looks like the rest of the window, made when it is shown: a page has hundreds of buttons, and one tip at
// a time.
import QtQuick
import QtQuick.Controls.Basic

Loader {
    id: tip

    property bool shown: false
    property string text
    property string name  // the object name of the tooltip

    anchors.fill: parent
    active: shown && !Theme.touch && text !== ""
    sourceComponent: ToolTip {
        id: bubble

        objectName: tip.name
        text: tip.text
        visible: true
        delay: 600
        width: Math.min(implicitWidth, Theme.fontSize * 32)
        padding: Theme.gap
        font.pixelSize: Theme.smallSize
        font.family: Theme.fontFamily
        contentItem: Text {
            text: bubble.text
            textFormat: Text.PlainText
            wrapMode: Text.Wrap
            color: Theme.text
            font: bubble.font
        }
        background: Rectangle {
            color: Theme.surface
            radius: Theme.radius
            border.color: Theme.strongBorder
        }
    }
}
