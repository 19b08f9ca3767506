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
    TextEdit {
        id: formula
        x: Math.max(0, 4 * Math.round((block.width - width) / 8))  // whole pixels of the screen, as its size is
        y: Theme.unit
        text: "\ufffc"  // the place of the picture
        font.pixelSize: Theme.fontSize
        enabled: false
        Accessible.ignored: true

        FormulaText {
            target: formula.textDocument
            formulas: [block.source]
            display: true
            pixelSize: Theme.fontSize * 1.1
            scale: Screen.devicePixelRatio
            colour: Theme.text
        }
    }
}
