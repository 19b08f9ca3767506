// SPDX-License-Identifier: Apache-2.0
// A formula on lines of its own; one that is wider than the page scrolls sideways. Copied and read as its source.
import QtQuick
import Runnel.Chat

Flickable {
    id: block

    required property string source
    property bool wholeSelected: false
    readonly property string wholeText: source

    implicitHeight: formula.implicitHeight + Theme.gap
    contentWidth: Math.max(width, formula.implicitWidth)
    contentHeight: implicitHeight
    boundsBehavior: Flickable.StopAtBounds
    flickableDirection: Flickable.HorizontalFlick
    interactive: formula.implicitWidth > width
    clip: true
    Accessible.role: Accessible.Equation
    Accessible.name: source

    Rectangle {
        anchors.fill: formula
        visible: block.wholeSelected
        color: Theme.selected
    }
    FormulaItem {
        id: formula
        x: Math.max(0, (block.width - width) / 2)
        y: Theme.unit
        source: block.source
        pixelSize: Theme.fontSize * 1.1
        colour: Theme.text
    }
}
