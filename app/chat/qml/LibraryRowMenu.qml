// SPDX-License-Identifier: Apache-2.0
// What can be done with a chat of the list, or with a folder.
import QtQuick
import QtQuick.Controls.Basic
import Runnel.Chat

StyledMenu {
    id: menu

    required property bool ofFolder
    required property bool pinned
    signal pinWanted
    signal renameWanted
    signal moveWanted
    signal exportWanted
    signal deleteWanted

    component Entry: MenuItem {
        height: visible ? implicitHeight : 0
    }

    width: Theme.fontSize * 18

    Entry {
        visible: !menu.ofFolder
        text: menu.pinned ? qsTr("Unpin") : qsTr("Pin to the top")
        onTriggered: menu.pinWanted()
    }
    Entry {
        text: qsTr("Rename")
        onTriggered: menu.renameWanted()
    }
    Entry {
        visible: !menu.ofFolder
        text: qsTr("Move to a folder…")
        onTriggered: Qt.callLater(menu.moveWanted)  // when the menu has given the keyboard back
    }
    Entry {
        visible: !menu.ofFolder
        text: qsTr("Export…")
        onTriggered: menu.exportWanted()
    }
    MenuSeparator {}
    Entry {
        text: menu.ofFolder ? qsTr("Delete folder (chats are kept)") : qsTr("Delete")
        onTriggered: menu.deleteWanted()
    }
}
