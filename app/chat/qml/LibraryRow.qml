// SPDX-License-Identifier: Apache-2.0
// A conversation in the list, a folder of them, or a message that a search found.
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
    required property double folder
    required property string folderName
    required property bool folded
    required property int chats
    required property int index
    property bool renaming: false
    property double dropFolder: -1  // where a chat that is dragged would go
    readonly property bool ofFolder: chats >= 0
    readonly property bool ofChat: !ofFolder && message === 0
    readonly property alias rowMenu: menu
    signal chosen
    signal exportWanted
    signal moveWanted
    signal dragged(point at)  // in the coordinates of this row
    signal dropped(bool taken)

    // Also when the arrow keys went here.
    readonly property bool focusShown: visualFocus || (activeFocus && ListView.isCurrentItem)
    readonly property bool current: conversation === App.chat.conversation && (message === 0) && !ofFolder

    implicitHeight: Math.max(Theme.control, column.implicitHeight + Theme.gap * 2)
    padding: 0
    Accessible.role: Accessible.ListItem
    Accessible.name: ofFolder ? qsTr("Folder %1").arg(name) + ", " + qsTr("%n chats", "", chats) + ", " + (folded ? qsTr("folded") : qsTr("unfolded"))
                     : name + (message > 0 ? ", " + words.text.replace(/<[^>]*>/g, "") : ", " + detail) + (folderName !== "" ? ", " + qsTr("Folder %1").arg(folderName) : "") + (current ? ", " + qsTr("selected") : "")
    Accessible.selectable: true
    Accessible.selected: current
    onClicked: {
        if (ofFolder) return fold(!folded);
        App.chat.open(conversation, message);
        chosen();
    }
    onPressAndHold: showMenu()
    Keys.onReturnPressed: clicked()
    Keys.onMenuPressed: showMenu()
    Keys.onRightPressed: event => {
        event.accepted = ofFolder && folded;
        if (event.accepted) fold(false);
    }
    Keys.onLeftPressed: event => {
        event.accepted = folder > 0 && message === 0 && !folded;
        if (!event.accepted) return;
        if (ofFolder) fold(true);
        else ListView.view.currentIndex = App.library.rowOfFolder(folder);
    }
    Keys.onPressed: event => {
        if (event.key === Qt.Key_F2 && row.message === 0) row.renaming = event.accepted = true;
        if (event.key === Qt.Key_Delete && row.message === 0) {
            remove();
            event.accepted = true;
        }
    }

    function fold(shut) {
        ListView.view.currentIndex = index;
        App.library.foldFolder(folder, shut);
    }
    function remove() {
        if (ofFolder) {
            App.library.removeFolder(folder);
            App.say(qsTr("Folder deleted. Its chats are kept."));
        } else App.library.remove(conversation);
    }
    function showMenu() {
        if (message === 0) menu.popup(row, row.width - menu.width, row.height);
    }

    // Not a handler: a button with one takes every mouse button for a click.
    MouseArea {
        z: 2
        anchors.fill: parent
        enabled: !row.renaming  // the field has a menu of its own
        acceptedButtons: Qt.RightButton
        onClicked: row.showMenu()
    }

    // Drags a chat with the mouse, which a list would take for scrolling; below what else can be pressed. Touch scrolls.
    MouseArea {
        id: carrier
        property bool carrying: false
        property point from
        anchors.fill: parent
        enabled: row.ofChat && !row.renaming
        acceptedButtons: Qt.LeftButton
        preventStealing: true
        onPressed: mouse => {
            mouse.accepted = mouse.source === Qt.MouseEventNotSynthesized;
            carrying = false;
            from = Qt.point(mouse.x, mouse.y);
        }
        onPositionChanged: mouse => {
            if (Math.abs(mouse.x - from.x) + Math.abs(mouse.y - from.y) > Theme.gap) carrying = true;
            if (carrying) row.dragged(Qt.point(mouse.x, mouse.y));
        }
        onReleased: if (carrying) row.dropped(true)
        onCanceled: if (carrying) row.dropped(false)
        onClicked: if (!carrying) row.clicked()
        onPressAndHold: if (!carrying) row.showMenu()
    }

    background: Rectangle {
        radius: Theme.radius
        color: row.current || (row.dropFolder > 0 && row.dropFolder === row.folder) ? Theme.selected : row.hovered ? Theme.hover : "transparent"
        border.width: row.focusShown || (row.ofFolder && row.dropFolder === row.folder) ? 2 : 0
        border.color: Theme.accent
    }
    contentItem: RowLayout {
        z: 1
        spacing: 0
        ToolButton {
            visible: row.ofFolder
            Layout.leftMargin: Theme.unit
            implicitWidth: Theme.icon
            implicitHeight: Theme.icon
            padding: 0
            enabled: false
            focusPolicy: Qt.NoFocus
            Accessible.ignored: true
            rotation: row.folded ? 0 : 90
            icon.source: "qrc:/qt/qml/Runnel/Chat/icons/chevron-right.svg"
            icon.width: Theme.fontSize
            icon.height: Theme.fontSize
            icon.color: Theme.muted
            background: null
        }
        ColumnLayout {
            id: column
            Layout.fillWidth: true
            Layout.leftMargin: row.ofFolder ? Theme.unit : row.folder > 0 && row.message === 0 && !App.library.searching ? Theme.gap * 2 + Theme.icon : Theme.gap * 2
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
                font.bold: row.current || row.ofFolder
            }
            Field {
                id: field
                visible: row.renaming
                Layout.fillWidth: true
                text: row.name
                padding: Theme.unit
                implicitHeight: contentHeight + padding * 2
                Accessible.name: row.ofFolder ? qsTr("Name of the folder") : qsTr("Chat title")
                background: Rectangle {
                    color: Theme.surface
                    border.color: Theme.accent
                    radius: Theme.unit
                }
                onVisibleChanged: {
                    if (visible) {
                        forceActiveFocus();
                        selectAll();
                    } else if (focus) row.focus = true;  // what is hidden shall not be a stop of Tab
                }
                function keep() {
                    if (!row.renaming) return;
                    row.renaming = false;
                    if (text.trim() === "" || text === row.name) return;
                    if (row.ofFolder) App.library.renameFolder(row.folder, text);
                    else App.library.rename(row.conversation, text);
                }
                onAccepted: keep()
                // A click elsewhere keeps what was typed; only Esc drops it.
                onActiveFocusChanged: if (!activeFocus && !menuShown) keep()
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
            visible: row.ofChat && App.chat.answering === row.conversation
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
            text: row.ofFolder ? row.chats.toLocaleString(Qt.locale(), "f", 0) : row.detail
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

            LibraryRowMenu {
                id: menu
                ofFolder: row.ofFolder
                pinned: row.pinned
                onPinWanted: App.library.pin(row.conversation, !row.pinned)
                onRenameWanted: row.renaming = true
                onMoveWanted: row.moveWanted()
                onExportWanted: row.exportWanted()
                onDeleteWanted: row.remove()
            }
        }
    }
}
