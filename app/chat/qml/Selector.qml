// SPDX-License-Identifier: Apache-2.0
// One of several, chosen from a list that unfolds.
import QtQuick
import QtQuick.Controls.Basic

ComboBox {
    id: selector

    required property string title
    Accessible.name: title + ": " + displayText

    implicitHeight: Theme.control
    leftPadding: Theme.gap
    Accessible.role: Accessible.ComboBox
    font.pixelSize: Theme.fontSize
    font.family: Theme.fontFamily
    palette.buttonText: Theme.text
    palette.window: Theme.surface
    palette.text: Theme.text
    palette.light: Theme.hover
    palette.midlight: Theme.hover
    palette.mid: Theme.border
    palette.dark: Theme.muted
    background: Rectangle {
        radius: Theme.radius
        color: selector.down ? Theme.selected : selector.hovered ? Theme.hover : Theme.surface
        border.width: selector.visualFocus ? 2 : 1
        border.color: selector.visualFocus ? Theme.accent : Theme.strongBorder
    }
    contentItem: Text {
        leftPadding: Theme.gap
        text: selector.displayText
        textFormat: Text.PlainText
        elide: Text.ElideRight
        verticalAlignment: Text.AlignVCenter
        color: Theme.text
        font: selector.font
    }
    delegate: ItemDelegate {
        id: option
        required property int index
        width: ListView.view.width
        height: Theme.control
        leftPadding: Theme.margin
        text: selector.textAt(index)
        highlighted: selector.highlightedIndex === index
        font.pixelSize: Theme.fontSize
        font.family: Theme.fontFamily
        font.bold: chosen
        readonly property bool chosen: selector.currentIndex === index
        Accessible.role: Accessible.ListItem
        Accessible.name: text + (chosen ? ", " + qsTr("selected") : "")
        Accessible.selectable: true
        Accessible.selected: chosen
        palette.text: Theme.text
        palette.highlightedText: Theme.text
        background: Rectangle {
            color: option.highlighted ? Theme.selected : Theme.surface
        }
    }
}
