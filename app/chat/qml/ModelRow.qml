// SPDX-License-Identifier: Apache-2.0
// A model file and what it says about itself.
import QtQuick
import QtQuick.Controls.Basic
import QtQuick.Layouts
import Runnel.Chat

ItemDelegate {
    id: row

    required property string file
    required property string title
    required property string facts
    required property string memory
    required property string problem
    required property bool current
    required property bool fits

    // Also when the arrow keys went here.
    readonly property bool focusShown: visualFocus || (activeFocus && ListView.isCurrentItem)
    readonly property bool loading: current && App.models.state === ModelPicker.Loading
    // Fixed, not made by a Repeater: a list that changes while its page is closed leaves a layout with what is gone.
    component Line: Text {
        visible: text !== ""
        Layout.fillWidth: true
        textFormat: Text.PlainText
        wrapMode: Text.Wrap
        color: Theme.text
        font.pixelSize: Theme.smallSize
        font.family: Theme.fontFamily
    }

    padding: Theme.margin
    enabled: problem === ""
    Accessible.role: Accessible.ListItem
    Accessible.name: [title, facts, memory, problem, current && !loading ? qsTr("In use") : ""].filter(part => part !== "").join(", ")
    Accessible.selectable: true
    Accessible.selected: current
    onClicked: App.models.choose(file)
    Keys.onReturnPressed: clicked()

    background: Rectangle {
        radius: Theme.radius
        color: row.current ? Theme.selected : row.hovered ? Theme.hover : Theme.surface
        border.width: row.focusShown ? 2 : 1
        border.color: row.focusShown ? Theme.accent : Theme.border
    }
    contentItem: RowLayout {
        spacing: Theme.margin
        ColumnLayout {
            Layout.fillWidth: true
            spacing: Theme.unit
            Line {
                text: row.title
                font.bold: true
                font.pixelSize: Theme.fontSize
            }
            Line { text: row.facts }
            Line {
                text: row.memory
                color: row.fits ? Theme.muted : Theme.danger
            }
            Line {
                text: row.fits ? "" : qsTr("Needs more memory than the %1 free now.").arg(App.models.freeMemory)
                color: Theme.danger
            }
            Line {
                text: row.problem !== "" ? qsTr("Cannot be used: %1").arg(row.problem) : ""
                color: Theme.danger
            }
            Line {
                text: row.file
                color: Theme.muted
            }
            ProgressBar {
                visible: row.loading
                Layout.fillWidth: true
                value: App.models.progress
                Accessible.name: qsTr("Loading the model…")
                palette.dark: Theme.accent
                palette.midlight: Theme.border
            }
        }
        TextButton {
            visible: row.loading
            text: qsTr("Cancel")
            onClicked: App.models.cancel()
        }
        Text {
            visible: row.current && !row.loading
            text: qsTr("In use")
            color: Theme.accent
            font.pixelSize: Theme.smallSize
            font.family: Theme.fontFamily
            font.bold: true
        }
    }
}
