// SPDX-License-Identifier: Apache-2.0
// A setting that is on or off.
import QtQuick
import QtQuick.Controls.Basic
import Runnel.Chat

CheckBox {
    id: box

    required property string title

    text: title
    implicitHeight: Math.max(Theme.control, implicitContentHeight)
    leftPadding: 0
    spacing: Theme.gap * 2
    font.pixelSize: Theme.fontSize
    font.family: Theme.fontFamily
    Accessible.role: Accessible.CheckBox
    Accessible.name: title
    Accessible.checkable: true
    Accessible.checked: checked
    contentItem: Text {
        leftPadding: box.indicator.width + box.spacing
        text: box.title
        wrapMode: Text.Wrap
        verticalAlignment: Text.AlignVCenter
        color: Theme.text
        font: box.font
    }
    indicator: Rectangle {
        y: (box.height - height) / 2
        width: Theme.icon
        height: width
        radius: Theme.unit
        color: box.checked ? Theme.accent : Theme.surface
        border.width: box.visualFocus ? 2 : 1
        border.color: box.visualFocus ? Theme.text : box.checked ? Theme.accent : Theme.strongBorder
        Text {
            anchors.centerIn: parent
            visible: box.checked
            text: "✓"
            color: Theme.accentText
            font.pixelSize: Theme.fontSize
            font.bold: true
        }
    }
}
