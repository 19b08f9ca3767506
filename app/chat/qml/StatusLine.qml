// SPDX-License-Identifier: Apache-2.0
// One line under the composer: what the engine does now, else what the last answer took.
import QtQuick
import QtQuick.Layouts
import Runnel.Chat

RowLayout {
    id: line

    readonly property int state: App.chat.state
    readonly property bool loading: App.models.state === ModelPicker.Loading
    readonly property bool readingLong: state === ChatModel.Reading && App.chat.readingTotal > 64

    // The device, and the program that computes one token there with the reason why it is that one.
    readonly property string place: App.models.stepProgram === "" ? App.models.device
                                    : App.models.device + ": " + (App.models.stepProgram === "ops" ? qsTr("ops (the only program there)") : App.models.stepProgram)

    spacing: Theme.gap

    Rectangle {
        visible: line.readingLong || line.loading
        implicitWidth: Theme.fontSize * 8
        implicitHeight: Theme.unit
        radius: height / 2
        color: Theme.border
        Accessible.role: Accessible.ProgressBar
        Accessible.name: words.text
        Rectangle {
            height: parent.height
            radius: height / 2
            width: parent.width * (line.readingLong ? App.chat.readingProgress : App.models.progress)
            color: Theme.accent
        }
    }
    Text {
        id: words
        Layout.fillWidth: true
        horizontalAlignment: line.readingLong || line.loading ? Text.AlignLeft : Text.AlignHCenter
        elide: Text.ElideRight
        textFormat: Text.PlainText
        color: Theme.muted
        font.pixelSize: Theme.smallSize
        font.family: Theme.fontFamily
        text: {
            if (line.readingLong)
                return App.chat.secondsLeft < 0
                       ? qsTr("Reading %L1 of %L2 tokens. Esc stops.").arg(App.chat.readingDone).arg(App.chat.readingTotal)
                       : qsTr("Reading %L1 of %L2 tokens, about %3 s left. Esc stops.").arg(App.chat.readingDone).arg(App.chat.readingTotal).arg(App.chat.secondsLeft);
            if (line.loading) return qsTr("Loading the model…");
            if (line.state === ChatModel.Stopping) return qsTr("Stopping…");
            if (App.settings.showStatistics && line.state === ChatModel.Idle && App.chat.tokensWritten > 0)
                return [qsTr("%L1 tokens/s on %2").arg(App.chat.tokensPerSecond < 10 ? App.chat.tokensPerSecond.toFixed(1) : Math.round(App.chat.tokensPerSecond)).arg(line.place)
                            + (App.chat.hostDraws === "" ? "" : qsTr(", not drawn ahead: %1").arg(App.chat.hostDraws)),
                        qsTr("first word in %L1 ms").arg(Math.round(App.chat.firstTokenMs)),
                        qsTr("model memory %1").arg(App.models.stateSize),
                        App.chat.tokensRelaid > 0 ? qsTr("%L1 tokens re-read: the model's template rewrites earlier turns").arg(App.chat.tokensRelaid) : ""].filter(part => part !== "").join("  ·  ");
            if (App.models.memoryNote !== "") return App.models.memoryNote;
            return Theme.touch ? "" : qsTr("Small models make mistakes. Check important facts.");
        }
    }
}
