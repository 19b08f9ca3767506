// SPDX-License-Identifier: Apache-2.0
// Everything the keyboard does.
import QtQuick
import QtQuick.Controls.Basic
import QtQuick.Layouts

Sheet {
    title: qsTr("Keyboard shortcuts")

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
                    "↑", qsTr("Edit the last message"),
                    "Esc", qsTr("Stop the answer or close a page"),
                    "Ctrl+N", qsTr("New chat"),
                    "Ctrl+L", qsTr("Go to the message field"),
                    "Ctrl+F, Ctrl+K", qsTr("Search all messages"),
                    "Ctrl+R", qsTr("Try again"),
                    "Ctrl+D", qsTr("Compare the last versions"),
                    "Ctrl+Z", qsTr("Undo the last deletion"),
                    "Ctrl+B, Ctrl+T", qsTr("Show or hide the chat list, the timeline"),
                    "Ctrl+M", qsTr("Models"),
                    "Ctrl+E", qsTr("Export this chat"),
                    "Ctrl+,", qsTr("Settings"),
                    "F2, " + qsTr("Delete"), qsTr("Rename or delete the selected chat"),
                    "Page up, Page down", qsTr("Scroll"),
                    "Ctrl++, Ctrl+-, Ctrl+0", qsTr("Larger, smaller, default text size"),
                    "Alt+←, Alt+→", qsTr("Back to the place before, forward again"),
                    "Ctrl+Q", qsTr("Quit"),
                    "F1", qsTr("Show this list")
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
