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
    required property var day
    required property double cost
    required property int hidden
    required property bool foldable
    signal menuWanted(Item at)
    signal lookWanted

    readonly property string costWords: head ? "" : App.costInWords(cost)
    readonly property real dayHeight: day !== undefined ? Theme.smallSize * 2 : 0
    function toggleFold() {
        if (foldable) App.chat.timeline.toggleFold(messageId);
    }

    // Also when the arrow keys went here.
    readonly property bool focusShown: visualFocus || (activeFocus && ListView.isCurrentItem)
    readonly property real middle: (height + dayHeight) / 2
    readonly property real step: Math.min(Theme.fontSize * 1.1, Theme.fontSize * 7 / Math.max(1, lanes))
    readonly property real dot: Theme.fontSize * (speaker === "user" ? 0.62 : 0.78)
    function centre(of) {
        return Theme.margin + of * step;
    }

    hoverEnabled: !Theme.touch  // whatever the platform's habits: what is hovered is previewed
    implicitHeight: dayHeight + (Theme.touch ? Theme.control : Math.round(Theme.fontSize * 1.9))
    padding: 0
    Accessible.role: Accessible.ListItem
    Accessible.selectable: true
    Accessible.selected: head
    Accessible.name: (speaker === "user" ? qsTr("You") : speaker === "system" ? qsTr("Document") : qsTr("Answer")) + ": " + (pinned ? qsTr("Pinned") + ", " : "") + (name !== "" ? name + ", " : "") + excerpt + (lanes > 1 ? ", " + qsTr("branch %1 of %2").arg(lane + 1).arg(lanes) : "") + (head ? ", " + qsTr("current place") : ", " + costWords) + (hidden > 0 ? ", " + qsTr("%n more messages folded", "", hidden) : "")
    onClicked: lookWanted()
    onPressAndHold: menuWanted(row)
    Keys.onReturnPressed: clicked()
    Keys.onMenuPressed: menuWanted(row)
    Keys.onRightPressed: event => {
        event.accepted = hidden > 0;
        if (hidden > 0) toggleFold();
    }
    Keys.onLeftPressed: event => {
        event.accepted = foldable && hidden === 0;
        if (event.accepted) toggleFold();
    }

    // Not a handler: a button with one takes every mouse button for a click.
    MouseArea {
        z: 1
        anchors.fill: parent
        acceptedButtons: Qt.RightButton
        onClicked: row.menuWanted(row)
    }

    Tip {
        name: "hoverPreview"
        readonly property int most: 400  // characters
        shown: row.hovered
        text: {
            if (!row.hovered) return "";
            const said = App.chat.textOf(row.messageId).trim();
            return (said.length > most ? said.slice(0, most) + "…" : said) + (row.costWords !== "" ? "\n\n" + row.costWords : "");
        }
    }
    topInset: dayHeight
    background: Rectangle {
        radius: Theme.radius
        color: row.head ? Theme.selected : row.hovered ? Theme.hover : "transparent"
        border.width: row.focusShown || row.messageId === App.tour.place ? 2 : 0
        border.color: row.messageId === App.tour.place ? Theme.warm : Theme.accent
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
                    height: row.middle
                    color: modelData.upOnPath ? Theme.accent : Theme.strongBorder
                }
                Rectangle {
                    visible: modelData.down
                    x: row.centre(modelData.lane) - 1
                    y: row.middle
                    width: 2
                    height: row.height - row.middle + 1
                    color: modelData.downOnPath ? Theme.accent : Theme.strongBorder
                }
            }
        }
        Repeater {
            model: row.turns
            Rectangle {
                required property var modelData
                x: row.centre(row.lane)
                y: row.middle - 1
                width: row.centre(modelData.to) - x + 1
                height: 2
                color: modelData.onPath ? Theme.accent : Theme.strongBorder
            }
        }
        Rectangle {
            x: row.centre(row.lane) - width / 2
            y: row.middle - height / 2
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
            y: row.middle - height / 2
            width: row.dot + 7
            height: width
            radius: width / 2
            color: "transparent"
            border.width: 2
            border.color: Theme.accent
        }
        Text {
            visible: row.dayHeight > 0
            x: words.x
            width: words.width
            height: row.dayHeight
            verticalAlignment: Text.AlignVCenter
            text: visible ? row.day.toLocaleDateString(Qt.locale(), Locale.LongFormat) : ""
            elide: Text.ElideRight
            color: Theme.muted
            font.pixelSize: Theme.smallSize
            font.family: Theme.fontFamily
        }
        // What going there costs: a dot for nothing, else the time or the tokens.
        Rectangle {
            objectName: "instant"
            visible: row.cost === 0 && !row.head
            x: parent.width - width - Theme.gap
            y: row.middle - height / 2
            width: Theme.unit
            height: width
            radius: width / 2
            color: Theme.accent
        }
        Text {
            id: price
            objectName: "cost"
            visible: row.cost > 0 && !row.head && row.hidden === 0
            x: parent.width - width - Theme.unit
            y: row.middle - height / 2
            text: App.chat.secondsFor(row.cost) >= 1 ? qsTr("%L1 s").arg(Math.round(App.chat.secondsFor(row.cost))) : qsTr("%L1 tokens").arg(row.cost)
            color: Theme.muted
            font.pixelSize: Theme.smallSize
            font.family: Theme.fontFamily
        }
        AbstractButton {
            id: fold
            objectName: "fold"
            visible: row.foldable
            x: parent.width - width - Theme.gap * 2
            y: row.middle - height / 2
            height: Math.min(Theme.control, row.height - row.dayHeight)
            padding: Theme.unit
            focusPolicy: Qt.NoFocus  // the arrow keys do it
            Accessible.role: Accessible.Button
            Accessible.name: row.hidden > 0 ? qsTr("Unfold this branch") : qsTr("Fold this branch")
            onClicked: row.toggleFold()
            contentItem: Text {
                text: row.hidden > 0 ? qsTr("+%L1").arg(row.hidden) : "−"
                color: Theme.accent
                verticalAlignment: Text.AlignVCenter
                font.pixelSize: Theme.smallSize
                font.family: Theme.fontFamily
                font.bold: true
            }
            background: Rectangle {
                radius: Theme.radius
                color: fold.hovered ? Theme.selected : "transparent"
            }
        }
        ToolButton {
            id: pin
            visible: row.pinned
            x: row.centre(row.lanes - 1) + Theme.gap
            y: row.middle - height / 2
            width: Theme.icon
            height: Theme.icon
            padding: 0
            enabled: false
            focusPolicy: Qt.NoFocus
            Accessible.ignored: true
            icon.source: "qrc:/qt/qml/Runnel/Chat/icons/pin.svg"
            icon.width: Theme.fontSize
            icon.height: Theme.fontSize
            icon.color: Theme.warm
            background: null
        }
        Text {
            id: words
            x: row.centre(row.lanes - 1) + Theme.gap * 2 + (row.pinned ? Theme.icon - Theme.unit : 0)
            y: row.dayHeight
            width: parent.width - x - (row.foldable ? fold.width + Theme.gap * 2 : price.visible ? price.width + Theme.gap : Theme.gap * 2)
            height: parent.height - y
            verticalAlignment: Text.AlignVCenter
            text: row.name !== "" ? row.name : row.excerpt
            textFormat: Text.PlainText
            elide: Text.ElideRight
            color: row.name !== "" || row.pinned ? Theme.warm : row.onPath ? Theme.text : Theme.muted
            font.pixelSize: Theme.smallSize
            font.family: Theme.fontFamily
            font.bold: row.speaker === "user" || row.name !== ""
        }
    }
}
