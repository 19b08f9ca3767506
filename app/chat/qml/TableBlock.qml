// SPDX-License-Identifier: Apache-2.0
// A table of an answer; one that is wider than the page scrolls sideways.
import QtQuick
import QtQuick.Layouts

Flickable {
    id: table

    required property var cells
    required property int columns
    property var alignments: []
    property bool wholeSelected: false
    readonly property string wholeText: {
        const rows = [];
        for (let i = 0; i < cells.length; i += Math.max(1, columns)) rows.push(cells.slice(i, i + columns).join("\t"));
        return rows.join("\n");
    }

    implicitHeight: grid.implicitHeight
    contentWidth: Math.max(grid.implicitWidth, 1)
    contentHeight: grid.implicitHeight
    boundsBehavior: Flickable.StopAtBounds
    flickableDirection: Flickable.HorizontalFlick
    interactive: contentWidth > width
    clip: true
    Accessible.role: Accessible.Table
    Accessible.name: qsTr("Table with %1 columns").arg(columns)

    GridLayout {
        id: grid
        columns: Math.max(1, table.columns)
        columnSpacing: 0
        rowSpacing: 0

        Repeater {
            model: table.cells

            Rectangle {
                required property string modelData
                required property int index
                readonly property bool heading: index < table.columns

                Layout.fillWidth: true
                Layout.fillHeight: true
                implicitWidth: Math.min(cell.implicitWidth, Theme.fontSize * 18) + Theme.margin * 2
                implicitHeight: cell.implicitHeight + Theme.gap * 2
                color: table.wholeSelected ? Theme.selected : heading ? Theme.code : "transparent"
                Accessible.role: heading ? Accessible.ColumnHeader : Accessible.Cell
                Accessible.name: modelData

                Text {
                    id: cell
                    anchors.fill: parent
                    anchors.leftMargin: Theme.margin
                    anchors.rightMargin: Theme.margin
                    text: parent.modelData
                    textFormat: Text.MarkdownText
                    wrapMode: Text.Wrap
                    horizontalAlignment: {
                        const side = table.alignments[parent.index % table.columns];
                        return side === "right" ? Text.AlignRight : side === "center" ? Text.AlignHCenter : Text.AlignLeft;
                    }
                    verticalAlignment: Text.AlignVCenter
                    color: Theme.text
                    font.family: Theme.fontFamily
                    font.pixelSize: Theme.fontSize
                    font.bold: parent.heading
                }
                Rectangle {
                    anchors.bottom: parent.bottom
                    width: parent.width
                    height: 1
                    color: Theme.border
                }
            }
        }
    }
}
