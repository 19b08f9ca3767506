// SPDX-License-Identifier: Apache-2.0
// What this chat has of its own: system prompt, model, sampling. Changes hold at once, but another prompt for a chat that
// is begun makes a branch.
import QtQuick
import QtQuick.Controls.Basic
import QtQuick.Layouts
import Runnel.Chat

Sheet {
    id: sheet

    readonly property ChatSettings own: App.chat.own
    readonly property bool begun: App.chat.conversation > 0
    readonly property bool idle: App.chat.state === ChatModel.Idle

    function keepPrompt() {
        if (!begun) App.chat.setSystemPrompt(prompt.text);
    }
    function showPrompt() {
        if (prompt.text !== App.chat.systemPrompt) prompt.text = App.chat.systemPrompt;
    }

    title: qsTr("This chat")
    onAboutToShow: {
        models.fill();
        showPrompt();
    }
    onOpened: {
        prompt.forceActiveFocus();
        prompt.cursorPosition = prompt.length;
    }
    onClosed: keepPrompt()
    Connections {
        target: App.chat
        function onConversationChanged() { sheet.close(); }
    }

    component Heading: Text {
        Layout.fillWidth: true
        Layout.topMargin: Theme.gap
        color: Theme.accent
        font.pixelSize: Theme.fontSize
        font.family: Theme.fontFamily
        font.bold: true
        Accessible.role: Accessible.Heading
        Accessible.name: text
    }
    component Explanation: Text {
        Layout.fillWidth: true
        wrapMode: Text.Wrap
        color: Theme.muted
        font.pixelSize: Theme.smallSize
        font.family: Theme.fontFamily
    }

    Flickable {
        id: scroller
        anchors.fill: parent
        contentHeight: column.implicitHeight + Theme.margin * 3
        boundsBehavior: Flickable.StopAtBounds
        ScrollBar.vertical: ScrollBar {}

        ColumnLayout {
            id: column
            x: Theme.margin * 1.5
            y: Theme.gap
            width: scroller.width - x * 2 - Theme.gap
            spacing: Theme.margin

            RowLayout {
                Heading { text: qsTr("System prompt") }
                TextButton {
                    objectName: "promptAsUsual"
                    text: qsTr("As in Settings")
                    Accessible.name: qsTr("System prompt") + ": " + text
                    enabled: !App.chat.beginsWithDocument && prompt.text !== App.settings.systemPrompt
                    onClicked: {
                        prompt.text = App.settings.systemPrompt;
                        sheet.keepPrompt();
                    }
                }
            }
            Explanation {
                text: App.chat.beginsWithDocument ? qsTr("This chat begins with a document, which takes the place of a system prompt.")
                      : sheet.begun ? qsTr("With another system prompt this chat is read again from the start, as a new branch. The branch you see stays as it is.")
                      : qsTr("Given to the model at the start of this chat. Leave empty to use the model's own.")
            }
            FieldArea {
                id: prompt
                objectName: "chatPrompt"
                Layout.fillWidth: true
                readOnly: App.chat.beginsWithDocument
                placeholderText: qsTr("For example: Answer in one sentence.")
                Accessible.name: qsTr("System prompt")
                onEditingFinished: sheet.keepPrompt()
            }
            RowLayout {
                visible: sheet.begun && !App.chat.beginsWithDocument
                spacing: Theme.margin
                TextButton {
                    objectName: "beginAgain"
                    primary: true
                    text: qsTr("Start a new branch with it")
                    enabled: sheet.idle && prompt.text !== App.chat.systemPrompt
                    onClicked: if (App.chat.setSystemPrompt(prompt.text)) sheet.close()
                }
                Explanation { text: sheet.visible ? App.costInWords(App.chat.length) : "" }
            }

            Heading { text: qsTr("Model") }
            Explanation { text: qsTr("Loaded when this chat is opened. Another model reads the text of the chat again.") }
            Selector {
                id: models
                objectName: "chatModel"
                property var files: []
                function fill() {
                    App.models.refresh();
                    const found = App.models.choices();
                    const own = sheet.own.model;
                    const there = own === "" ? "" : App.models.find(own);
                    const missing = own !== "" && there === "" ? [{file: own, name: qsTr("%1 (missing)").arg(own.split("/").pop())}] : [];
                    const all = [{file: "", name: qsTr("As in Settings (%1)").arg(App.models.usualName())}].concat(found, missing);
                    files = all.map(entry => entry.file);
                    model = all.map(entry => entry.name);
                    currentIndex = Math.max(0, files.indexOf(own === "" ? "" : there !== "" ? there : own));
                }
                Layout.fillWidth: true
                enabled: sheet.idle
                title: qsTr("Model")
                onActivated: index => sheet.own.chooseModel(files[index])
            }

            RowLayout {
                Heading { text: qsTr("Sampling") }
                TextButton {
                    objectName: "samplingAsUsual"
                    text: qsTr("As in Settings")
                    Accessible.name: qsTr("Sampling") + ": " + text
                    enabled: !sheet.own.samplesAsUsual
                    onClicked: sheet.own.resetSampling()
                }
            }
            SamplingSettings {
                Layout.fillWidth: true
                values: sheet.own.sampling
                usual: sheet.own.usualSampling
                usualWords: qsTr("In Settings it is %1.")
                onChosen: (name, value) => sheet.own.chooseSampling(name, value)
            }
            NumberSetting {
                Layout.fillWidth: true
                title: qsTr("Maximum answer length")
                explanation: qsTr("In tokens. A token is about three quarters of a word.")
                from: 64
                to: 8192
                step: 64
                decimals: 0
                value: sheet.own.maxTokens
                onMoved: value => sheet.own.chooseMaxTokens(value)
            }
            NumberSetting {
                Layout.fillWidth: true
                title: qsTr("Seed")
                explanation: qsTr("With the same seed, the same chat gets the same answer.")
                to: 100
                step: 1
                decimals: 0
                special: qsTr("random")
                value: sheet.own.seed
                onMoved: value => sheet.own.chooseSeed(value)
            }
        }
    }
}
