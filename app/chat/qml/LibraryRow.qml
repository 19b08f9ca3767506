// SPDX-License-Identifier: Apache-2.0
// A conversation in the list, or a message that a search found.
import QtQuick
import QtQuick.Controls.Basic
import QtQuick.Layouts
import Runnel.Chat

ItemDelegate {
    id: row

    required property double conversation
    required property double message
    required property string name
    required property string detail
    required property bool pinned
    required property int index
    property bool renaming: false
    readonly property alias rowMenu: menu
    signal chosen
    signal exportWanted

    // Also when the arrow keys went here.
    readonly property bool focusShown: visualFocus || (activeFocus && ListView.isCurrentItem)
    readonly property bool current: conversation === App.chat.conversation && (message === 0)

    implicitHeight: Math.max(Theme.control, column.implicitHeight + Theme.gap * 2)
    padding: 0
    Accessible.role: Accessible.ListItem
    Accessible.name: name + (message > 0 ? ", " + words.text.replace(/<[^>]*>/g, "") : ", " + detail)
    Accessible.selectable: true
    Accessible.selected: current
    onClicked: {
        App.chat.open(conversation, message);
        chosen();
    }
    onPressAndHold: showMenu()
    Keys.onReturnPressed: clicked()
    Keys.onMenuPressed: showMenu()
    Keys.onPressed: event => {
        if (event.key === Qt.Key_F2 && row.message === 0) row.renaming = event.accepted = true;
        if (event.key === Qt.Key_Delete && row.message === 0) {
            App.library.remove(row.conversation);
            event.accepted = true;
        }
    }

    function showMenu() {
        if (message === 0) menu.popup(row, row.width - menu.width, row.height);
    }

    // Not a handler: a button with one takes every mouse button for a click.
    MouseArea {
        z: 1
        anchors.fill: parent
        acceptedButtons: Qt.RightButton
        onClicked: row.showMenu()
    }

    background: Rectangle {
        radius: Theme.radius
        color: row.current ? Theme.selected : row.hovered ? Theme.hover : "transparent"
        border.width: row.focusShown ? 2 : 0
        border.color: Theme.accent
    }
    contentItem: RowLayout {
        spacing: 0
        ColumnLayout {
            id: column
            Layout.fillWidth: true
            Layout.leftMargin: Theme.gap * 2
            spacing: 0

            Text {
                visible: !row.renaming
                Layout.fillWidth: true
                text: row.name
                textFormat: Text.PlainText
                elide: Text.ElideRight
                color: Theme.text
                font.pixelSize: Theme.fontSize
                font.family: Theme.fontFamily
                font.bold: row.current
            }
            TextField {
                id: field
                visible: row.renaming
                Layout.fillWidth: true
                text: row.name
                color: Theme.text
                font.pixelSize: Theme.fontSize
                font.family: Theme.fontFamily
                padding: Theme.unit
                Accessible.role: Accessible.EditableText
                Accessible.name: qsTr("Chat title")
                background: Rectangle {
                    color: Theme.surface
                    border.color: Theme.accent
                    radius: Theme.unit
                }
                onVisibleChanged: if (visible) {
                    forceActiveFocus();
                    selectAll();
                }
                function keep() {
                    if (!row.renaming) return;
                    row.renaming = false;
                    if (text.trim() !== "" && text !== row.name) App.library.rename(row.conversation, text);
                }
                onAccepted: keep()
                // A click elsewhere keeps what was typed; only Esc drops it.
                onActiveFocusChanged: if (!activeFocus) keep()
                Keys.onEscapePressed: row.renaming = false
            }
            Text {
                id: words
                visible: row.message > 0 && row.detail !== ""
                Layout.fillWidth: true
                text: row.detail
                textFormat: Text.StyledText
                elide: Text.ElideRight
                maximumLineCount: 2
                wrapMode: Text.Wrap
                color: Theme.muted
                font.pixelSize: Theme.smallSize
                font.family: Theme.fontFamily
            }
        }
        Rectangle {
            objectName: "answering"
            visible: row.message === 0 && App.chat.answering === row.conversation
            Layout.leftMargin: Theme.gap
            Layout.rightMargin: Theme.gap
            implicitWidth: Theme.gap
            implicitHeight: Theme.gap
            radius: width / 2
            color: Theme.accent
            Accessible.role: Accessible.StaticText
            Accessible.name: qsTr("Answering…")
        }
        Text {
            visible: row.message === 0 && !row.renaming && !more.shown
            Layout.leftMargin: Theme.gap
            Layout.rightMargin: Theme.gap * 2
            text: row.detail
            color: Theme.muted
            font.pixelSize: Theme.smallSize
            font.family: Theme.fontFamily
        }
        IconButton {
            id: more
            readonly property bool shown: row.message === 0 && (row.hovered || row.visualFocus || visualFocus || menu.visible || Theme.touch)
            visible: shown
            name: qsTr("More options for %1").arg(row.name)
            symbol: "more"
            onClicked: row.showMenu()

            Menu {
                id: menu
                palette.window: Theme.surface
                palette.windowText: Theme.text
                palette.text: Theme.text
                palette.light: Theme.hover
                palette.midlight: Theme.hover
                palette.mid: Theme.border
                palette.dark: Theme.border
                font.pixelSize: Theme.fontSize
                font.family: Theme.fontFamily

                Action {
                    text: row.pinned ? qsTr("Unpin") : qsTr("Pin to the top")
                    onTriggered: App.library.pin(row.conversation, !row.pinned)
                }
                Action {
                    text: qsTr("Rename")
                    onTriggered: row.renaming = true
                }
                Action {
                    text: qsTr("Export…")
                    onTriggered: row.exportWanted()
                }
                MenuSeparator {}
                Action {
                    text: qsTr("Delete")
                    onTriggered: App.library.remove(row.conversation)
                }
            }
        }
    }
}
