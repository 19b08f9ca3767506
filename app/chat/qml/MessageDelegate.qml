// SPDX-License-Identifier: Apache-2.0
// One message: what a person said in a bubble, what the model said as a page.
import QtQuick
import QtQuick.Controls.Basic
import QtQuick.Layouts
import Runnel.Chat

Item {
    id: message

    required property double messageId
    required property string speaker
    required property string text
    required property string name
    required property bool complete
    required property string cut
    required property bool pinned
    required property int alternative
    required property int alternatives
    required property bool writing
    required property bool last
    required property string thought
    required property double thoughtMs
    required property var quoted
    required property int index

    property bool editing: false
    property string edited             // what stands in its editor
    property real lastHeight: 0        // when it was seen before; 0: it was not
    property bool thoughtShown: false  // what was thought before the answer
    property bool quotedShown: false   // what was read again before the question
    function edit() {
        if (!editing) edited = text;
        editing = true;
        editor.item.focusField();
    }
    signal menuWanted(Item at)
    signal compareWanted
    signal editEnded
    signal linkWanted(string link)
    signal placeWanted(double messageId)

    readonly property bool fromUser: speaker === "user"
    readonly property bool stored: messageId > 0
    readonly property real column: Math.min(Theme.textWidth, width - Theme.margin * 2)

    // Buttons stand in the gap below a message and a little over its end, so they take no room; only where they are
    // always seen they have a line of their own.
    readonly property bool inLine: last || alternatives > 1 || Theme.touch
    readonly property real naturalHeight: content.implicitHeight + (inLine && fromUser && !editing ? 0 : Theme.margin)
    // Blocks are made and laid out bit by bit; until they are, it is as high as it was before.
    readonly property bool growing: growth.running
    implicitHeight: growing ? Math.max(naturalHeight, lastHeight) : naturalHeight
    onNaturalHeightChanged: if (naturalHeight >= lastHeight * 0.9) growth.stop()
    Timer {
        id: growth
        interval: 1000
        running: message.lastHeight > 0
    }
    z: hover.hovered ? 1 : 0
    Accessible.role: Accessible.ListItem
    Accessible.name: (fromUser ? qsTr("You") : speaker === "system" ? qsTr("System prompt") : qsTr("Answer")) + ": " + text

    HoverHandler { id: hover }

    ColumnLayout {
        id: content
        x: (message.width - message.column) / 2
        width: message.column
        spacing: Theme.unit

        Loader {
            active: message.name !== "" || message.pinned || message.speaker === "system"
            visible: active
            Layout.alignment: message.fromUser ? Qt.AlignRight : Qt.AlignLeft
            Layout.maximumWidth: message.column
            sourceComponent: Text {
                text: message.speaker === "system" ? qsTr("System prompt")
                      : [message.pinned ? qsTr("Pinned") : "", message.name].filter(part => part !== "").join(" · ")
                textFormat: Text.PlainText
                color: Theme.warm
                elide: Text.ElideRight
                font.pixelSize: Theme.smallSize
                font.family: Theme.fontFamily
                font.bold: true
            }
        }

        Loader {
            active: message.quoted.length > 0 && !message.editing
            visible: active
            Layout.fillWidth: true
            sourceComponent: RemindBlock {
                quoted: message.quoted
                open: message.quotedShown
                onToggled: message.quotedShown = !message.quotedShown
                onPlaceWanted: id => message.placeWanted(id)
            }
        }
        // The user's words.
        Loader {
            active: message.fromUser && !message.editing
            visible: active
            Layout.alignment: Qt.AlignRight
            sourceComponent: Rectangle {
                implicitWidth: Math.min(said.implicitWidth + Theme.margin * 2, message.column * 0.85)
                implicitHeight: said.implicitHeight + Theme.gap * 3
                radius: Theme.radius * 1.5
                color: Theme.bubble
                opacity: message.stored ? 1 : 0.75
    
                Item {
                    id: bubble
                    anchors.fill: parent
                    anchors.margins: Theme.gap * 1.5
                    anchors.leftMargin: Theme.margin
                    anchors.rightMargin: Theme.margin
                    TextEdit {
                        id: said
                        readonly property Item editor: said
                        width: parent.width
                        text: message.text
                        textFormat: TextEdit.PlainText
                        readOnly: true
                        selectByMouse: false
                        persistentSelection: true
                        activeFocusOnPress: false
                        activeFocusOnTab: false
                        wrapMode: TextEdit.Wrap
                        color: Theme.text
                        selectionColor: Theme.accent
                        selectedTextColor: Theme.accentText
                        font.pixelSize: Theme.fontSize
                        font.family: Theme.fontFamily
                        Accessible.name: message.text
                    }
                }
                SelectableArea {
                    anchors.fill: bubble
                    column: bubble
                }
            }
        }
        Loader {
            id: editor
            active: message.editing
            visible: active
            Layout.fillWidth: true
            sourceComponent: MessageEditor {
                original: message.edited
                ofAnswer: !message.fromUser
                onTyped: text => {
                    message.edited = text;
                    App.chat.keepEdit(message.messageId, text);
                }
                onAccepted: text => {
                    message.editing = false;
                    App.chat.keepEdit(message.messageId, "");
                    message.editEnded();
                    if (message.fromUser) App.chat.edit(message.messageId, text);
                    else App.chat.editAnswer(message.messageId, text);
                }
                onRejected: {
                    message.editing = false;
                    App.chat.keepEdit(message.messageId, "");
                    message.editEnded();
                }
            }
        }

        Loader {
            active: message.thought !== "" && !message.editing
            visible: active
            Layout.fillWidth: true
            sourceComponent: ThoughtBlock {
                thought: message.thought
                milliseconds: message.thoughtMs
                thinking: message.writing && message.text === ""
                open: message.thoughtShown
                onToggled: message.thoughtShown = !message.thoughtShown
                onLinkWanted: link => message.linkWanted(link)
            }
        }
        // The model's words.
        Loader {
            active: !message.fromUser && !message.editing
            visible: active
            Layout.fillWidth: true
            sourceComponent: MarkdownView {
                text: message.text
                opacity: message.speaker === "system" ? 0.8 : 1
                onLinkWanted: link => message.linkWanted(link)
            }
        }
        Loader {
            active: message.writing
            visible: active
            sourceComponent: Row {
                spacing: Theme.unit
                topPadding: Theme.unit
                Accessible.role: Accessible.StaticText
                Accessible.name: qsTr("Answering…")
                Repeater {
                    model: 3
                    Rectangle {
                        required property int index
                        width: Theme.unit * 1.5
                        height: width
                        radius: width / 2
                        color: Theme.accent
                        // A timer, not an animation: three frames a second are enough to show life.
                        opacity: pulse.step === index ? 1 : 0.35
                    }
                }
                Timer {
                    id: pulse
                    property int step: 0
                    interval: 330
                    repeat: true
                    running: message.writing
                    onTriggered: step = (step + 1) % 3
                }
            }
        }
        Loader {
            active: !message.complete && !message.writing
            visible: active
            sourceComponent: RowLayout {
                spacing: Theme.gap
                Text {
                    text: message.cut === "length" ? qsTr("Reached the length limit") : qsTr("Stopped")
                    color: Theme.muted
                    font.pixelSize: Theme.smallSize
                    font.family: Theme.fontFamily
                    font.italic: true
                }
                TextButton {
                    visible: message.last && message.stored
                    text: qsTr("Continue")
                    font.pixelSize: Theme.smallSize
                    enabled: App.chat.state === ChatModel.Idle && !App.chat.busyElsewhere
                    onClicked: App.chat.resume(message.messageId)
                }
            }
        }
        Item {
            visible: actions.visible && message.inLine
            implicitHeight: actions.height
        }
    }
    Rectangle {
        visible: actions.visible && !message.inLine
        anchors.fill: actions
        opacity: actions.opaque ? 1 : 0
        radius: Theme.radius
        color: Theme.surface
        border.color: Theme.border
    }
    MessageActions {
        id: actions
        visible: message.stored && !message.writing && !message.editing && message.speaker !== "system"
        // The icons, not their grounds, stand in line with the text.
        readonly property real inset: message.inLine ? (Theme.icon - Theme.control) / 2 : 0
        x: message.fromUser || !message.inLine ? content.x + content.width - width - inset : content.x + inset
        y: message.inLine ? content.implicitHeight - height : message.implicitHeight - height
        messageId: message.messageId
        fromUser: message.fromUser
        alternative: message.alternative
        alternatives: message.alternatives
        pinned: message.pinned
        last: message.last
        withThought: message.thoughtShown
        shown: message.last || hover.hovered || Theme.touch
        onEditWanted: message.edit()
        onMenuWanted: at => message.menuWanted(at)
        onCompareWanted: message.compareWanted()
    }
}
