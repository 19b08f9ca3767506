// SPDX-License-Identifier: Apache-2.0
// Everything the keyboard does.
import QtQuick
import QtQuick.Controls.Basic
import QtQuick.Layouts

Sheet {
    title: qsTr("Keyboard")

    Flickable {
        id: scroller
        anchors.fill: parent
        contentHeight: grid.implicitHeight + Theme.margin * 2
        boundsBehavior: Flickable.StopAtBounds
        ScrollBar.vertical: ScrollBar {
            policy: scroller.contentHeight > scroller.height ? ScrollBar.AlwaysOn : ScrollBar.AsNeeded
        }

        GridLayout {
            id: grid
            x: Theme.margin * 1.5
            y: Theme.margin
            width: scroller.width - x * 2
            columns: 2
            columnSpacing: Theme.margin * 2
            rowSpacing: Theme.gap

            Repeater {
                model: [
                    "Enter", qsTr("Send"),
                    "Shift+Enter", qsTr("New line"),
                    "↑", qsTr("Say the last message differently"),
                    "Esc", qsTr("Stop the answer, close a page"),
                    "Ctrl+N", qsTr("New chat"),
                    "Ctrl+L", qsTr("Write"),
                    "Ctrl+F", qsTr("Search all messages"),
                    "Ctrl+R", qsTr("Answer again"),
                    "Ctrl+D", qsTr("Compare the last versions"),
                    "Ctrl+Z", qsTr("Undo a deletion, while its notice shows"),
                    "Ctrl+B, Ctrl+T", qsTr("Show or hide chats, timeline"),
                    "Ctrl+M", qsTr("Models"),
                    "Ctrl+E", qsTr("Export this chat"),
                    "Ctrl+,", qsTr("Settings"),
                    "F2, " + qsTr("Delete"), qsTr("Rename or delete the chat chosen in the list"),
                    "Page up, Page down", qsTr("Scroll"),
                    "Ctrl++, Ctrl+-, Ctrl+0", qsTr("Larger, smaller, usual text"),
                    "F1", qsTr("This list")
                ]
                Text {
                    required property string modelData
                    required property int index
                    Layout.fillWidth: index % 2 === 1
                    text: modelData
                    wrapMode: Text.Wrap
                    color: index % 2 === 0 ? Theme.accent : Theme.text
                    font.pixelSize: Theme.fontSize
                    font.family: Theme.fontFamily
                    font.bold: index % 2 === 0
                }
            }
        }
    }
}
