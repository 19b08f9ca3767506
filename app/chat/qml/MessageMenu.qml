// SPDX-License-Identifier: Apache-2.0
// The less frequent things to do with a place in the conversation.
import QtQuick
import QtQuick.Controls.Basic
import Runnel.Chat

StyledMenu {
    id: menu

    property double messageId: 0
    property bool pinned: false
    property int alternatives: 1
    property bool ofAnswer: false
    signal nameWanted(double messageId)
    signal deleteWanted(double messageId)
    signal editWanted(double messageId)
    signal compareWanted(double messageId)
    signal tryWanted(double messageId)
    signal saveWanted(double messageId)

    readonly property bool idle: App.chat.state === ChatModel.Idle

    function openFor(id, isPinned, versions, item, answer) {
        messageId = id;
        ofAnswer = answer === true;
        pinned = isPinned;
        alternatives = versions;
        popup(item, 0, item.height);
    }

    width: Theme.fontSize * 18

    Action {
        text: qsTr("Continue from here")
        enabled: menu.idle
        onTriggered: App.chat.rewind(menu.messageId)
    }
    Action {
        text: qsTr("Begin a new chat here")
        enabled: menu.idle && !App.chat.busyElsewhere
        onTriggered: App.chat.beginFrom(menu.messageId)
    }
    Action {
        text: qsTr("Edit this answer")
        enabled: menu.ofAnswer && menu.idle && !App.chat.busyElsewhere
        onTriggered: Qt.callLater(menu.editWanted, menu.messageId)  // when the menu has given the keyboard back
    }
    Action {
        text: qsTr("Try three answers")
        enabled: menu.idle && !App.chat.busyElsewhere
        onTriggered: Qt.callLater(menu.tryWanted, menu.messageId)
    }
    Action {
        text: menu.pinned ? qsTr("Unpin") : qsTr("Pin (always instant)")
        onTriggered: App.chat.pin(menu.messageId, !menu.pinned)
    }
    Action {
        text: qsTr("Name this place…")
        onTriggered: menu.nameWanted(menu.messageId)
    }
    Action {
        text: qsTr("Compare versions")
        enabled: menu.alternatives > 1
        onTriggered: menu.compareWanted(menu.messageId)
    }
    Action {
        text: qsTr("Save this place as a file…")
        onTriggered: Qt.callLater(menu.saveWanted, menu.messageId)
    }
    MenuSeparator {}
    Action {
        text: qsTr("Delete from here…")
        enabled: menu.idle
        onTriggered: menu.deleteWanted(menu.messageId)
    }
}
