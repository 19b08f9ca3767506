// SPDX-License-Identifier: Apache-2.0
// An answer: its blocks one below the other.
import QtQuick
import Runnel.Chat

Item {
    id: view

    required property string text
    property var others: []  // words that these texts do not have are marked
    signal linkWanted(string link)

    implicitHeight: column.implicitHeight

    SelectableArea {
        id: selectable
        z: 1
        anchors.fill: parent
        column: column
        onLinkWanted: link => view.linkWanted(link)
    }
    Column {
        id: column
        width: parent.width
        spacing: Theme.gap * 1.5

        Repeater {
            model: MarkdownBlocks {
                text: view.text
            }

            Loader {
                id: loader

                required property int kind
                required property string text
                required property string language
                required property var cells
                required property int columns
                required property var alignments
                required property var formulas
                required property int quotation

                width: view.width
                sourceComponent: kind === MarkdownBlocks.Code ? code : kind === MarkdownBlocks.Table ? table
                                 : kind === MarkdownBlocks.Formula ? formula : prose

                Component {
                    id: prose
                    ProseBlock {
                        markdown: loader.text
                        formulas: loader.formulas
                        quotation: loader.quotation
                        others: view.others
                        onLinkWanted: link => view.linkWanted(link)
                    }
                }
                Component {
                    id: formula
                    FormulaBlock {
                        source: loader.text
                    }
                }
                Component {
                    id: code
                    CodeBlock {
                        code: loader.text
                        language: loader.language
                    }
                }
                Component {
                    id: table
                    TableBlock {
                        cells: loader.cells
                        columns: loader.columns
                        alignments: loader.alignments
                    }
                }
            }
        }
    }
}
