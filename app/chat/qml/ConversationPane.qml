// SPDX-License-Identifier: Apache-2.0
// The conversation: head, messages, composer.
import QtQuick
import QtQuick.Controls.Basic
import QtQuick.Layouts
import Runnel.Chat

Item {
    id: pane

    required property bool libraryHidden
    required property bool timelineHidden
    property bool announces: true  // what happened is said here, not on a page over it
    signal libraryWanted
    signal timelineWanted
    signal modelsWanted
    signal nameWanted(double messageId)
    signal deleteWanted(double messageId)
    signal compareWanted(double messageId)
    signal tryWanted(double messageId)
    signal saveWanted(double messageId)
    signal linkWanted(string link)
    signal schemaWanted
    signal chatSettingsWanted
    signal tourWanted

    readonly property alias composer: writing
    readonly property alias list: messages
    readonly property alias messageMenu: menu

    function page(direction) {
        messages.scrollBy(direction * messages.height * 0.85);
    }

    ColumnLayout {
        anchors.fill: parent
        spacing: 0

        // Not a layout: those of Qt 6.4 can miss that something is shown while the window is resized.
        Item {
            id: head
            // What the buttons and a bit of the title leave to the model's name; where it is too little, the list's menu
            // leads there.
            readonly property real roomForModel: width - (Theme.control + Theme.unit) * (1 + (pane.libraryHidden ? 1 : 0) + (pane.timelineHidden ? 1 : 0))
                                                 - Theme.gap - Theme.fontSize * 5
            Layout.fillWidth: true
            Layout.leftMargin: Theme.gap
            Layout.rightMargin: Theme.gap
            Layout.topMargin: Theme.unit
            Layout.bottomMargin: Theme.unit
            implicitHeight: Theme.control

            IconButton {
                id: libraryButton
                visible: pane.libraryHidden
                name: qsTr("Show the chat list")
                symbol: "menu"
                shortcut: "Ctrl+B"
                onClicked: pane.libraryWanted()
            }
            Text {
                anchors.left: pane.libraryHidden ? libraryButton.right : parent.left
                anchors.leftMargin: Theme.gap
                anchors.right: tools.left
                anchors.rightMargin: Theme.unit
                anchors.verticalCenter: parent.verticalCenter
                text: App.chat.title !== "" ? App.chat.title : qsTr("New chat")
                textFormat: Text.PlainText
                elide: Text.ElideRight
                color: Theme.text
                font.pixelSize: Theme.fontSize
                font.family: Theme.fontFamily
                font.bold: true
                Accessible.role: Accessible.Heading
                Accessible.name: text
            }
            Row {
                id: tools
                anchors.right: parent.right
                spacing: Theme.unit

                IconButton {
                    objectName: "chatSettings"
                    readonly property bool own: App.chat.own.model !== "" || !App.chat.own.samplesAsUsual
                    name: qsTr("This chat")
                    symbol: "sliders"
                    shortcut: "Ctrl+I"
                    color: own ? Theme.accent : Theme.muted
                    onClicked: pane.chatSettingsWanted()
                }
                TextButton {
                    objectName: "modelButton"
                    visible: head.roomForModel >= Theme.control * 2
                    flatter: true
                    symbol: "model"
                    width: Math.min(implicitWidth, pane.width * 0.4, head.roomForModel)
                    text: App.models.state === ModelPicker.Loaded ? App.models.name
                          : App.models.state === ModelPicker.Loading ? qsTr("Loading… %1%").arg(Math.round(App.models.progress * 100))
                          : qsTr("Choose a model…")
                    font.pixelSize: Theme.smallSize
                    leftPadding: Theme.gap
                    rightPadding: Theme.gap
                    Accessible.name: qsTr("Model: %1").arg(text)
                    onClicked: pane.modelsWanted()
                }
                IconButton {
                    visible: pane.timelineHidden
                    name: qsTr("Show the timeline")
                    symbol: "tree"
                    shortcut: "Ctrl+T"
                    onClicked: pane.timelineWanted()
                }
            }
        }
        Rectangle {
            Layout.fillWidth: true
            height: 1
            color: Theme.border
        }

        Item {
            Layout.fillWidth: true
            Layout.fillHeight: true

            ListView {
                id: messages
                objectName: "messages"

                // Following the answer as it grows, until the user scrolls up.
                property bool following: true
                property var place: null  // {row, below}: being returned to
                property var edits: ({})  // what stands in the editors of messages being edited
                property var thoughtsShown: ({})  // messages whose thoughts are seen
                property var quotedShown: ({})  // messages of which what was re-read is seen
                // Heights at this width and font of messages that were laid out once: one that is made again begins with
                // its own, or it would push the end, while it grows, out of the view that follows it.
                property var heights: ({})
                property bool arrived: true
                readonly property real end: originY + Math.max(0, contentHeight - height)
                readonly property bool nearEnd: contentY >= end - Theme.margin

                function scrollBy(pixels) {
                    place = null;
                    following = false;
                    contentY = Math.max(originY, Math.min(end, contentY + pixels));
                    following = pixels > 0 && nearEnd;  // where the end is, is a guess while what is below was not laid out
                }
                function goToEnd() {
                    place = null;
                    following = true;
                    positionViewAtEnd();
                }
                // Where it is scrolled to, kept for the next time this chat is opened.
                function keepPlace() {
                    if (App.chat.conversation === 0 || count === 0) return;
                    if (place !== null && !arrived) return;  // its messages are still being laid out
                    place = null;
                    const row = following ? -1 : indexAt(width / 2, contentY);
                    const item = itemAtIndex(row);
                    App.settings.remember("scroll/" + App.chat.conversation, item ? row + " " + Math.round(contentY - item.y) : undefined);
                }
                function returnToPlace() {
                    const [row, below] = App.settings.recall("scroll/" + App.chat.conversation, "").toString().split(" ").map(Number);
                    if (below !== undefined && row >= 0 && row < count) {
                        following = false;
                        place = {row: row, below: below};
                        settle();
                    } else {
                        goToEnd();
                        Qt.callLater(goToEnd);
                    }
                }
                // Heights are known only once the messages are laid out, so this is called for every change of them. It stays
                // where it is there already: positioning drops the messages made ahead, and making them again would be the
                // next change of heights.
                function settle() {
                    if (place === null) return follow();
                    const target = item => Math.max(originY, Math.min(end, item.y + place.below));
                    let item = itemAtIndex(place.row);
                    if (!item || Math.abs(contentY - target(item)) >= 1) {
                        positionViewAtIndex(place.row, ListView.Beginning);
                        item = itemAtIndex(place.row);
                        if (item) contentY = target(item);
                    }
                    arrived = item !== null && Math.abs(contentY - item.y - place.below) < 1;
                }
                function follow() {
                    if (!following || (itemAtIndex(count - 1) && Math.abs(contentY - end) <= bottomMargin + 1)) return;
                    positionViewAtEnd();
                }

                anchors.fill: parent
                model: App.chat.messages
                clip: true
                topMargin: Theme.margin
                bottomMargin: Theme.gap
                boundsBehavior: Flickable.StopAtBounds
                cacheBuffer: 400
                // No message is the current one, and nothing is to glide to it for minutes, a frame at a time.
                currentIndex: -1
                highlightFollowsCurrentItem: false
                reuseItems: false
                activeFocusOnTab: false
                onContentYChanged: keeping.restart()
                onFollowingChanged: keeping.restart()
                onContentHeightChanged: Qt.callLater(settle)
                onHeightChanged: Qt.callLater(settle)
                onWidthChanged: heights = ({})
                onMovementStarted: {
                    place = null;
                    following = false;
                }
                onMovementEnded: following = nearEnd
                Timer {
                    id: keeping
                    interval: 250
                    onTriggered: messages.keepPlace()
                }
                ScrollBar.vertical: ScrollBar {
                    id: bar
                    onPressedChanged: {
                        messages.place = null;
                        messages.following = !pressed && messages.nearEnd;
                    }
                }
                Accessible.role: Accessible.List
                Accessible.name: qsTr("Messages")

                delegate: MessageDelegate {
                    id: delegate
                    width: ListView.view.width
                    lastHeight: messages.heights[messageId] ?? 0
                    onNaturalHeightChanged: if (messageId > 0 && (!growing || naturalHeight >= lastHeight * 0.9)) messages.heights[messageId] = naturalHeight
                    editing: messages.edits[messageId] !== undefined || App.chat.editOf(messageId) !== ""
                    edited: messages.edits[messageId] ?? App.chat.editOf(messageId)
                    onEditedChanged: if (editing) messages.edits[messageId] = edited
                    onEditingChanged: if (editing) messages.edits[messageId] = edited; else delete messages.edits[messageId]
                    thoughtShown: messages.thoughtsShown[messageId] === true
                    onThoughtShownChanged: if (messageId > 0) messages.thoughtsShown[messageId] = thoughtShown
                    onMessageIdChanged: if (thoughtShown) messages.thoughtsShown[messageId] = true
                    quotedShown: messages.quotedShown[messageId] === true
                    onQuotedShownChanged: if (messageId > 0) messages.quotedShown[messageId] = quotedShown
                    onPlaceWanted: id => App.chat.showMessage(id)
                    onMenuWanted: at => menu.openFor(messageId, pinned, alternatives, at, speaker === "assistant")
                    onCompareWanted: pane.compareWanted(messageId)
                    onLinkWanted: link => pane.linkWanted(link)
                    onEditEnded: pane.composer.focusField()
                }

                Connections {
                    target: Theme
                    function onFontSizeChanged() { messages.heights = ({}); }
                }
                Connections {
                    target: App.chat
                    function onConversationChanged() {
                        messages.heights = ({});
                        messages.place = null;
                        keeping.stop();
                    }
                    function onOpened() {
                        messages.returnToPlace();
                    }
                    function onBringIntoView(row) {
                        if (row >= messages.count - 1) {
                            messages.goToEnd();
                            Qt.callLater(messages.goToEnd);
                        } else if (row >= 0) {
                            messages.place = null;
                            messages.following = false;
                            messages.positionViewAtIndex(row, ListView.Beginning);
                        }
                    }
                }
            }

            EmptyPage {
                anchors.centerIn: parent
                width: Math.min(parent.width - Theme.margin * 2, Theme.fontSize * 44)
                visible: messages.count === 0
                onSuggested: text => {
                    App.chat.draft = text;
                    writing.focusField();
                }
                onModelsWanted: pane.modelsWanted()
                onTourWanted: pane.tourWanted()
            }

            IconButton {
                anchors.horizontalCenter: parent.horizontalCenter
                anchors.bottom: parent.bottom
                anchors.bottomMargin: Theme.gap
                visible: messages.count > 0 && !messages.following && !messages.nearEnd
                name: qsTr("Jump to latest")
                symbol: "down"
                onClicked: messages.goToEnd()
                background: Rectangle {
                    radius: width / 2
                    color: Theme.surface
                    border.color: Theme.strongBorder
                }
            }
        }

        NoticeBar {
            shown: pane.announces
            Layout.alignment: Qt.AlignHCenter
            Layout.fillWidth: true
            Layout.maximumWidth: Theme.textWidth + Theme.margin * 2
            Layout.leftMargin: Theme.gap
            Layout.rightMargin: Theme.gap
            Layout.bottomMargin: Theme.gap
        }
        TourBar {
            timelineHidden: pane.timelineHidden
            Layout.alignment: Qt.AlignHCenter
            Layout.fillWidth: true
            Layout.maximumWidth: Theme.textWidth + Theme.margin * 2
            Layout.leftMargin: Theme.gap
            Layout.rightMargin: Theme.gap
            Layout.bottomMargin: Theme.gap
            onTimelineWanted: pane.timelineWanted()
        }
        // What is said next becomes a branch here.
        RowLayout {
            visible: App.chat.wentBack || App.chat.unanswered
            Layout.alignment: Qt.AlignHCenter
            Layout.maximumWidth: Math.min(Theme.textWidth, pane.width - Theme.margin * 2)
            Layout.bottomMargin: Theme.gap
            spacing: Theme.gap

            Text {
                visible: App.chat.wentBack
                Layout.fillWidth: true
                text: qsTr("You went back. Your next message starts a new branch.")
                wrapMode: Text.Wrap
                color: Theme.warm
                font.pixelSize: Theme.smallSize
                font.family: Theme.fontFamily
            }
            TextButton {
                visible: App.chat.unanswered
                text: qsTr("Get an answer")
                symbol: "redo"
                enabled: !App.chat.busyElsewhere
                onClicked: App.chat.answerAgain()
            }
            TextButton {
                visible: App.chat.wentBack
                text: qsTr("Back to where I was")
                onClicked: App.chat.returnToEnd()
            }
        }

        Composer {
            id: writing
            onSchemaWanted: pane.schemaWanted()
            onEditLastWanted: {
                for (let row = messages.count - 1; row >= 0; --row) {
                    const item = messages.itemAtIndex(row);
                    if (item === null || !item.fromUser) continue;
                    item.edit();
                    return;
                }
            }
            Layout.alignment: Qt.AlignHCenter
            Layout.fillWidth: true
            Layout.maximumWidth: Theme.textWidth + Theme.margin * 2
            Layout.leftMargin: Theme.gap
            Layout.rightMargin: Theme.gap
        }
        StatusLine {
            Layout.alignment: Qt.AlignHCenter
            Layout.fillWidth: true
            Layout.maximumWidth: Theme.textWidth
            Layout.margins: Theme.unit
        }
    }

    // What a screen reader says when an answer has come.
    Item {
        id: spoken
        objectName: "spoken"
        width: 1
        height: 1
        Accessible.role: Accessible.AlertMessage
        Accessible.name: App.chat.state === ChatModel.Idle ? qsTr("Answer finished.") : qsTr("Answering…")
        Connections {
            target: App.chat
            function onAnswered() { App.announce(spoken); }
        }
    }
    MessageMenu {
        id: menu
        onNameWanted: id => pane.nameWanted(id)
        onCompareWanted: id => pane.compareWanted(id)
        onDeleteWanted: id => pane.deleteWanted(id)
        onTryWanted: id => pane.tryWanted(id)
        onSaveWanted: id => pane.saveWanted(id)
        onEditWanted: id => {
            const item = messages.itemAtIndex(App.chat.messages.rowOf(id));
            if (item) item.edit();
        }
    }
}
