// SPDX-License-Identifier: Apache-2.0
// A paragraph, heading or list of an answer: selectable, links are asked about.
import QtQuick
import Runnel.Chat

TextEdit {
    id: prose

    required property string markdown
    property var formulas: []
    property int quotation: 0  // how deep it is quoted
    property var others: []
    function sourceOf(begin, end) { return pictures.text(begin, end); }
    readonly property Item editor: prose
    signal linkWanted(string link)

    text: markdown
    textFormat: TextEdit.MarkdownText
    readOnly: true
    selectByMouse: false  // SelectableArea selects, across blocks
    persistentSelection: true
    wrapMode: TextEdit.Wrap
    color: Theme.text
    selectionColor: Theme.accent
    selectedTextColor: Theme.accentText
    font.family: Theme.fontFamily
    font.pixelSize: Theme.fontSize
    palette.link: Theme.accent
    activeFocusOnPress: false
    activeFocusOnTab: false
    onLinkActivated: link => linkWanted(link)
    Accessible.role: Accessible.Paragraph
    Accessible.name: formulas.length > 0 && pictures.drawn > 0 ? pictures.text(0, length) : getText(0, length)

    WordMarker {
        target: prose.textDocument
        others: prose.others
        ground: Theme.selected
    }
    FormulaText {
        id: pictures
        target: prose.textDocument
        formulas: prose.formulas
        pixelSize: Theme.fontSize
        scale: Screen.devicePixelRatio
        colour: Theme.text
    }

    component Bar: Rectangle {
        objectName: "quotationBar"
        width: 3
        radius: 1
        color: Theme.strongBorder
    }

    // The bars of a quotation, and of one in it.
    Repeater {
        model: prose.quotation
        Bar {
            required property int index
            x: Theme.margin + index * 40  // as Qt moves the text of one in
            height: prose.height
        }
    }
    // Bars of a quotation in an item of a list.
    QuotationBars {
        id: inner
        target: prose.textDocument
        depth: prose.quotation
    }
    Repeater {
        model: inner.bars
        Bar {
            required property rect modelData
            x: modelData.x + Theme.margin
            y: modelData.y
            height: modelData.height
        }
    }
    // A document takes the colour of links when it is read.
    Connections {
        target: Theme
        function onAccentChanged() {
            Qt.callLater(() => {
                prose.text = "";
                prose.text = Qt.binding(() => prose.markdown);
            });
        }
    }
    HoverHandler {
        cursorShape: prose.hoveredLink !== "" ? Qt.PointingHandCursor : Qt.IBeamCursor
    }
}
