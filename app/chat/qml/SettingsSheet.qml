// SPDX-License-Identifier: Apache-2.0
// What can be chosen. Changes hold at once.
import QtQuick
import QtQuick.Controls.Basic
import QtQuick.Layouts
import Runnel.Chat

Sheet {
    id: sheet

    signal keysWanted
    property bool expert: false  // what few people need
    readonly property Settings settings: App.settings

    title: qsTr("Settings")
    onAboutToShow: App.library.measure()

    component Heading: Text {
        Layout.fillWidth: true
        Layout.topMargin: Theme.margin
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
    component Choice: RowLayout {
        id: choice
        required property string title
        required property var options  // [{id, words}]
        required property string chosen
        signal picked(string id)
        Layout.fillWidth: true
        spacing: Theme.gap
        Text {
            Layout.fillWidth: true
            text: choice.title
            color: Theme.text
            font.pixelSize: Theme.fontSize
            font.family: Theme.fontFamily
        }
        Repeater {
            model: choice.options
            TextButton {
                required property var modelData
                text: modelData.words
                primary: modelData.id === choice.chosen
                Accessible.role: Accessible.RadioButton
                Accessible.name: choice.title + ": " + text
                Accessible.checkable: true
                Accessible.checked: primary
                onClicked: choice.picked(modelData.id)
            }
        }
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

            Choice {
                title: qsTr("Show")
                options: [{id: "everyday", words: qsTr("Everyday")}, {id: "expert", words: qsTr("Expert")}]
                chosen: sheet.expert ? "expert" : "everyday"
                onPicked: id => {
                    sheet.expert = id === "expert";
                    scroller.contentY = 0;
                }
            }
            Heading {
                visible: !sheet.expert
                text: qsTr("Appearance")
            }
            Choice {
                visible: !sheet.expert
                title: qsTr("Theme")
                options: [{id: "system", words: qsTr("System")}, {id: "light", words: qsTr("Light")}, {id: "dark", words: qsTr("Dark")}]
                chosen: sheet.settings.theme
                onPicked: id => sheet.settings.theme = id
            }
            NumberSetting {
                Layout.fillWidth: true
                visible: !sheet.expert
                title: qsTr("Text size")
                explanation: qsTr("Relative to the system size.")
                from: 0.8
                to: 2
                step: 0.1
                percent: true
                value: sheet.settings.fontScale
                onMoved: value => sheet.settings.fontScale = value
            }
            RowLayout {
                visible: !sheet.expert
                Layout.fillWidth: true
                Text {
                    Layout.fillWidth: true
                    text: qsTr("Font")
                    color: Theme.text
                    font.pixelSize: Theme.fontSize
                    font.family: Theme.fontFamily
                }
                Selector {
                    id: fonts
                    Layout.preferredWidth: Theme.fontSize * 18
                    model: [qsTr("System")].concat(Qt.fontFamilies())
                    currentIndex: Math.max(0, model.indexOf(sheet.settings.fontFamily))
                    title: qsTr("Font")
                    onActivated: index => sheet.settings.fontFamily = index === 0 ? "" : textAt(index)
                }
            }
            Choice {
                visible: !sheet.expert
                title: qsTr("Language (after a restart)")
                options: [{id: "", words: qsTr("System")}, {id: "en", words: "English"}, {id: "de", words: "Deutsch"}]
                chosen: sheet.settings.language
                onPicked: id => sheet.settings.language = id
            }
            CheckSetting {
                visible: sheet.expert
                title: qsTr("Show speed and token count below the chat")
                checked: sheet.settings.showStatistics
                onToggled: sheet.settings.showStatistics = checked
            }
            CheckSetting {
                objectName: "remindSetting"
                Layout.fillWidth: true
                visible: !sheet.expert
                title: qsTr("Re-read earlier messages when a question refers to them")
                checked: sheet.settings.remind
                onToggled: sheet.settings.remind = checked
            }

            Heading {
                visible: !sheet.expert
                text: qsTr("System prompt")
            }
            Explanation {
                visible: !sheet.expert
                text: qsTr("Given to the model at the start of every new chat. Leave empty to use the model's own.")
            }
            FieldArea {
                id: prompt
                visible: !sheet.expert
                Layout.fillWidth: true
                text: sheet.settings.systemPrompt
                placeholderText: qsTr("For example: Answer in one sentence.")
                Accessible.name: qsTr("System prompt")
                onEditingFinished: sheet.settings.systemPrompt = text
            }

            RowLayout {
                visible: sheet.expert
                Heading { text: qsTr("Sampling") }
                TextButton {
                    id: reset
                    text: qsTr("Reset to defaults")
                    onClicked: sheet.settings.resetSampling()
                }
            }
            Explanation {
                visible: sheet.expert
                text: qsTr("As the model's file recommends, until you change it.")
            }
            SamplingSettings {
                visible: sheet.expert
                Layout.fillWidth: true
                values: App.settings.sampling
                usual: App.settings.modelSampling
                usualWords: qsTr("The model's default is %1.")
                onChosen: (name, value) => App.settings.chooseSampling(name, value)
            }
            NumberSetting {
                Layout.fillWidth: true
                visible: sheet.expert
                title: qsTr("Maximum answer length")
                explanation: qsTr("In tokens. A token is about three quarters of a word.")
                from: 64
                to: 8192
                step: 64
                decimals: 0
                value: sheet.settings.maxTokens
                onMoved: value => sheet.settings.maxTokens = value
            }
            NumberSetting {
                Layout.fillWidth: true
                visible: sheet.expert
                title: qsTr("Seed")
                explanation: qsTr("With the same seed, the same chat gets the same answer.")
                to: 100
                step: 1
                decimals: 0
                special: qsTr("random")
                value: sheet.settings.seed
                onMoved: value => sheet.settings.seed = value
            }

            Heading {
                visible: sheet.expert
                text: qsTr("Performance")
            }
            NumberSetting {
                Layout.fillWidth: true
                visible: sheet.expert
                title: qsTr("Threads")
                explanation: qsTr("CPU threads to use. Changing this reloads the model.")
                to: 32
                step: 1
                decimals: 0
                special: qsTr("one per core")
                value: sheet.settings.threads
                onMoved: value => {
                    sheet.settings.threads = value;
                    reloading.restart();
                }
                Timer {
                    id: reloading
                    interval: 800
                    onTriggered: App.models.reload()
                }
            }
            Choice {
                id: windows
                objectName: "windows"
                visible: sheet.expert && App.models.windows.length > 1
                title: qsTr("Memory window")
                options: App.models.windows.map(slots => ({id: String(slots), words: slots.toLocaleString(Qt.locale(), "f", 0)}))
                chosen: String(App.models.window)
                onPicked: id => App.models.chooseWindow(Number(id))
            }
            Explanation {
                visible: windows.visible
                text: qsTr("How many of the latest tokens the model sees word for word. Fewer need less memory. Changing it loads the model again, and chats saved with another window are read again.")
            }
            NumberSetting {
                Layout.fillWidth: true
                visible: sheet.expert
                title: qsTr("Disk space for instant return (MB)")
                explanation: qsTr("In use: %1 for %L2 saved states, %3 for text. When it is full, the oldest states are removed; going back there then takes a moment. Pinned places are kept.")
                             .arg(App.library.snapshotBytes).arg(App.library.snapshots).arg(App.library.databaseBytes)
                from: 0
                to: 20000
                step: 250
                decimals: 0
                value: sheet.settings.budgetMegabytes
                onMoved: value => sheet.settings.budgetMegabytes = value
            }
            TextButton {
                visible: !sheet.expert
                text: qsTr("Keyboard shortcuts…")
                symbol: "keyboard"
                onClicked: sheet.keysWanted()
            }
            Explanation { text: qsTr("Runnel Chat never uses the network. Chats, settings and models stay in your own folders.") }
        }
    }
}
