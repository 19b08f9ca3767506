// SPDX-License-Identifier: Apache-2.0
// What can be done with a message, under it: other answers, copy, again or edit, back to here, more.
import QtQuick
import QtQuick.Layouts
import Runnel.Chat

RowLayout {
    id: actions

    required property double messageId
    required property bool fromUser
    required property int alternative
    required property int alternatives
    required property bool pinned
    required property bool last
    property bool shown: true
    property bool withThought: false  // it is seen, so it is copied
    signal editWanted
    signal menuWanted(Item at)
    signal compareWanted

    // Keyboard focus shows them too.
    readonly property bool opaque: shown || copy.activeFocus || again.activeFocus || back.activeFocus || more.activeFocus
    readonly property bool idle: App.chat.state === ChatModel.Idle
    spacing: 0
    // The versions stand at the edge of the text, whichever that is.
    layoutDirection: fromUser ? Qt.RightToLeft : Qt.LeftToRight

    Loader {
        active: actions.alternatives > 1
        visible: active
        sourceComponent: RowLayout {
            spacing: 0
            IconButton {
                name: qsTr("Previous version")
                symbol: "chevron-left"
                enabled: actions.idle && actions.alternative > 0
                onClicked: App.chat.showAlternative(actions.messageId, -1)
            }
            Text {
                text: (actions.alternative + 1) + "/" + actions.alternatives
                color: Theme.muted
                font.pixelSize: Theme.smallSize
                font.family: Theme.fontFamily
                Accessible.role: Accessible.StaticText
                Accessible.name: qsTr("Version %1 of %2").arg(actions.alternative + 1).arg(actions.alternatives)
            }
            IconButton {
                name: qsTr("Next version")
                symbol: "chevron-right"
                enabled: actions.idle && actions.alternative < actions.alternatives - 1
                onClicked: App.chat.showAlternative(actions.messageId, 1)
            }
            IconButton {
                name: qsTr("Compare versions")
                symbol: "columns"
                onClicked: actions.compareWanted()
            }
        }
    }
    RowLayout {
        opacity: actions.opaque ? 1 : 0
        spacing: 0
        Behavior on opacity { NumberAnimation { duration: Theme.duration } }

        IconButton {
            id: copy
            name: qsTr("Copy")
            symbol: "copy"
            onClicked: {
                const thought = actions.withThought ? App.chat.thoughtOf(actions.messageId) : "";
                const quoted = thought !== "" ? thought.split("\n").map(line => ("> " + line).trim()).join("\n") + "\n\n" : "";
                App.copy(quoted + App.chat.textOf(actions.messageId));
            }
        }
        IconButton {
            id: again
            name: actions.fromUser ? qsTr("Edit") : qsTr("Try again")
            symbol: actions.fromUser ? "edit" : "redo"
            enabled: actions.idle && !App.chat.busyElsewhere
            onClicked: actions.fromUser ? actions.editWanted() : App.chat.regenerate(actions.messageId)
        }
        IconButton {
            id: back
            visible: !actions.last
            name: qsTr("Continue from here")
            symbol: "back"
            enabled: actions.idle
            onClicked: App.chat.rewind(actions.messageId)
        }
        IconButton {
            id: more
            name: qsTr("More options")
            symbol: "more"
            onClicked: actions.menuWanted(more)
        }
    }
}
