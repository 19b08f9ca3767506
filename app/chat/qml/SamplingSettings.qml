// SPDX-License-Identifier: Apache-2.0
// How an answer's words are drawn: numbers with what they do, and what they usually are where they differ from it.
import QtQuick
import QtQuick.Layouts
import Runnel.Chat

ColumnLayout {
    id: settings

    required property var values  // by name, as App.settings.sampling
    required property var usual
    required property string usualWords  // with %1
    signal chosen(string name, real value)

    component Sampling: NumberSetting {
        required property string name
        required property string words
        readonly property real own: settings.usual[name]
        Layout.fillWidth: true
        explanation: inWords(value) === inWords(own) ? words : words + " " + settings.usualWords.arg(inWords(own))
        value: settings.values[name]
        onMoved: value => settings.chosen(name, value)
    }

    spacing: Theme.margin

    Sampling {
        name: "temperature"
        title: qsTr("Temperature")
        words: qsTr("0 always picks the likeliest word. Higher values are livelier and make more mistakes.")
        to: 2
        special: qsTr("0 (always the likeliest)")
    }
    Sampling {
        name: "topP"
        title: "Top-p"
        words: qsTr("Considers only the likeliest words whose probabilities add up to this share. 1 considers all.")
        from: 0.05
    }
    Sampling {
        name: "topK"
        title: "Top-k"
        words: qsTr("Considers at most this many words.")
        to: 200
        step: 1
        decimals: 0
        special: qsTr("all")
    }
    Sampling {
        name: "minP"
        title: "Min-p"
        words: qsTr("Ignores words less likely than this share of the likeliest one.")
        to: 0.5
        step: 0.01
        special: qsTr("off")
    }
    Sampling {
        name: "repetitionPenalty"
        title: qsTr("Repetition penalty")
        words: qsTr("Above 1, recently used words become less likely. Small models need a little.")
        from: 1
        to: 1.5
        step: 0.01
        special: qsTr("off")
    }
    Sampling {
        name: "dryMultiplier"
        title: qsTr("Against loops (DRY)")
        words: qsTr("Makes it unlikely that an answer repeats a passage; start with %1.").arg((0.8).toLocaleString(Qt.locale(), "f", 1))
        to: 2
        special: qsTr("off")
    }
}
