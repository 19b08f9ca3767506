// SPDX-License-Identifier: Apache-2.0
// Everything the keyboard does.
import QtQuick
import QtQuick.Controls.Basic
import QtQuick.Layouts
import Runnel.Chat

Sheet {
    id: sheet

    signal tourWanted

    title: qsTr("Keyboard shortcuts")

    Flickable {
        id: scroller
        anchors.fill: parent
        contentHeight: grid.implicitHeight + tour.height + Theme.margin * 3
        boundsBehavior: Flickable.StopAtBounds
        ScrollBar.vertical: ScrollBar {
            policy: scroller.contentHeight > scroller.height ? ScrollBar.AlwaysOn : ScrollBar.AsNeeded
        }

        TextButton {
            id: tour
            x: Theme.margin * 1.5
            y: Theme.margin
            text: qsTr("Take a tour in three steps")
            enabled: App.models.state !== ModelPicker.None
            onClicked: {
                sheet.close();
                sheet.tourWanted();
            }
        }
        GridLayout {
            id: grid
            x: Theme.margin * 1.5
            y: tour.height + Theme.margin * 2
            width: scroller.width - x * 2
            columns: 2
            columnSpacing: Theme.margin * 2
            rowSpacing: Theme.gap

            Repeater {
                model: [
                    App.keys("Return"), qsTr("Send"),
                    App.keys("Shift+Return"), qsTr("New line"),
                    App.keys("Up"), qsTr("Edit the last message"),
                    App.keys("Esc"), qsTr("Stop the answer or close a page"),
                    App.keys("Ctrl+N"), qsTr("New chat"),
                    App.keys("Ctrl+L"), qsTr("Go to the message field"),
                    App.keys("Ctrl+F, Ctrl+K"), qsTr("Search all messages"),
                    App.keys("Ctrl+R"), qsTr("Try again"),
                    App.keys("Ctrl+D"), qsTr("Compare the last versions"),
                    App.keys("Ctrl+Z"), qsTr("Undo the last deletion"),
                    App.keys("Ctrl+B, Ctrl+T"), qsTr("Show or hide the chat list, the timeline"),
                    App.keys("Ctrl+M"), qsTr("Models"),
                    App.keys("Ctrl+E"), qsTr("Export this chat"),
                    App.keys("Ctrl+,"), qsTr("Settings"),
                    App.keys("Ctrl+I"), qsTr("Settings of this chat"),
                    App.keys("F2, Del"), qsTr("Rename or delete the selected chat or folder"),
                    App.keys("Left, Right"), qsTr("Fold or unfold the selected folder or branch"),
                    App.keys("PgUp, PgDown"), qsTr("Scroll"),
                    App.keys("Ctrl++, Ctrl+-, Ctrl+0"), qsTr("Larger, smaller, default text size"),
                    App.keys("Alt+Left, Alt+Right"), qsTr("Back to the place before, forward again"),
                    App.keys("Ctrl+Q"), qsTr("Quit"),
                    App.keys("F1"), qsTr("Show this list")
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
