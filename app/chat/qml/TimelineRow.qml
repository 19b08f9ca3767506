// SPDX-License-Identifier: Apache-2.0
// A message on the rail: its lane, the ways that pass by, the first words.
import QtQuick
import QtQuick.Controls.Basic
import QtQuick.Layouts
import Runnel.Chat

ItemDelegate {
    id: row

    required property double messageId
    required property string speaker
    required property string excerpt
    required property string name
    required property bool pinned
    required property int lane
    required property bool onPath
    required property bool head
    required property var lines
    required property var turns
    required property int lanes
    signal menuWanted(Item at)
    signal lookWanted

    // Also when the arrow keys went here.
    readonly property bool focusShown: visualFocus || (activeFocus && ListView.isCurrentItem)
    readonly property real step: Math.min(Theme.fontSize * 1.1, Theme.fontSize * 7 / Math.max(1, lanes))
    readonly property real dot: Theme.fontSize * (speaker === "user" ? 0.62 : 0.78)
    function centre(of) {
        return Theme.margin + of * step;
    }

    implicitHeight: Theme.touch ? Theme.control : Math.round(Theme.fontSize * 1.9)
    padding: 0
    Accessible.role: Accessible.ListItem
    Accessible.name: (speaker === "user" ? qsTr("You") : qsTr("Answer")) + ": " + (name !== "" ? name + ", " : "") + excerpt + (head ? ", " + qsTr("current place") : "")
    onClicked: lookWanted()
    onPressAndHold: menuWanted(row)
    Keys.onReturnPressed: clicked()
    Keys.onMenuPressed: menuWanted(row)

    TapHandler {
        acceptedButtons: Qt.RightButton
        onTapped: row.menuWanted(row)
    }

    Tip {
        shown: row.hovered
        text: row.excerpt
    }
    background: Rectangle {
        radius: Theme.radius
        color: row.head ? Theme.selected : row.hovered ? Theme.hover : "transparent"
        border.width: row.focusShown ? 2 : 0
        border.color: Theme.accent
    }
    contentItem: Item {
        Repeater {
            model: row.lines
            Item {
                required property var modelData
                Rectangle {
                    visible: modelData.up
                    x: row.centre(modelData.lane) - 1
                    width: 2
                    height: row.height / 2
                    color: modelData.upOnPath ? Theme.accent : Theme.strongBorder
                }
                Rectangle {
                    visible: modelData.down
                    x: row.centre(modelData.lane) - 1
                    y: row.height / 2
                    width: 2
                    height: row.height / 2 + 1
                    color: modelData.downOnPath ? Theme.accent : Theme.strongBorder
                }
            }
        }
        Repeater {
            model: row.turns
            Rectangle {
                required property var modelData
                x: row.centre(row.lane)
                y: row.height / 2 - 1
                width: row.centre(modelData.to) - x + 1
                height: 2
                color: modelData.onPath ? Theme.accent : Theme.strongBorder
            }
        }
        Rectangle {
            x: row.centre(row.lane) - width / 2
            y: (row.height - height) / 2
            width: row.dot
            height: width
            radius: row.speaker === "user" ? 2 : width / 2
            color: row.onPath ? Theme.accent : Theme.side
            border.width: 2
            border.color: row.onPath ? Theme.accent : Theme.strongBorder
        }
        Rectangle {  // where the talk stands
            visible: row.head
            x: row.centre(row.lane) - width / 2
            y: (row.height - height) / 2
            width: row.dot + 7
            height: width
            radius: width / 2
            color: "transparent"
            border.width: 2
            border.color: Theme.accent
        }
        Text {
            x: row.centre(row.lanes - 1) + Theme.gap * 2
            width: parent.width - x - Theme.unit
            height: parent.height
            verticalAlignment: Text.AlignVCenter
            text: (row.pinned ? "◆ " : "") + (row.name !== "" ? row.name : row.excerpt)
            textFormat: Text.PlainText
            elide: Text.ElideRight
            color: row.name !== "" || row.pinned ? Theme.warm : row.onPath ? Theme.text : Theme.muted
            font.pixelSize: Theme.smallSize
            font.family: Theme.fontFamily
            font.bold: row.speaker === "user" || row.name !== ""
        }
    }
}
