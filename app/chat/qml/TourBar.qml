// SPDX-License-Identifier: Apache-2.0
// A step of the tour: what to do now, and the way out.
import QtQuick
import QtQuick.Layouts
import Runnel.Chat

Rectangle {
    id: bar

    property bool timelineHidden: false
    readonly property Tour tour: App.tour
    readonly property bool working: App.chat.state !== ChatModel.Idle
    signal timelineWanted

    // What this step shows, and what is to be done for it.
    readonly property string point: tour.stage === Tour.Done ? qsTr("That was all: nothing you write is ever overwritten.")
                                    : [qsTr("Every message is a place."), qsTr("Go back here and ask something else."), qsTr("Both answers are kept, side by side.")][tour.step - 1]
    readonly property string task: {
        if (working) return qsTr("The model is answering…");
        switch (tour.stage) {
        case Tour.Ask: return qsTr("Press %1 to send this question, or write one of your own.").arg(App.keys("Return"));
        case Tour.AskMore: return qsTr("Now ask a second question.");
        case Tour.GoBack: return qsTr("Right-click the marked place in the timeline (or hold it) and choose “Continue from here”.");
        case Tour.AskOther: return qsTr("You are back at the first answer. Ask something else: it becomes a branch.");
        case Tour.Return: return qsTr("Click the marked place in the timeline, then “Continue from here”. %1 goes back, too.").arg(App.keys("Alt+Left"));
        default: return qsTr("Is this chat to be kept?");
        }
    }

    objectName: "tourBar"
    visible: tour.active
    implicitHeight: column.implicitHeight + Theme.gap * 3
    radius: Theme.radius
    color: Theme.selected
    border.color: Theme.accent
    Accessible.role: Accessible.AlertMessage
    Accessible.name: qsTr("Step %1 of %2").arg(tour.step).arg(3) + ": " + point + " " + task
    onTaskChanged: if (visible) Qt.callLater(App.announce, bar)

    ColumnLayout {
        id: column
        x: Theme.margin
        y: Theme.gap * 1.5
        width: bar.width - x * 2
        spacing: Theme.unit

        RowLayout {
            spacing: Theme.gap
            Text {
                Layout.fillWidth: true
                text: qsTr("Step %1 of %2").arg(bar.tour.step).arg(3) + " · " + bar.point
                wrapMode: Text.Wrap
                color: Theme.text
                font.pixelSize: Theme.fontSize
                font.family: Theme.fontFamily
                font.bold: true
            }
            IconButton {
                name: qsTr("Skip")
                symbol: "close"
                shortcut: "Esc"
                onClicked: bar.tour.leave()
            }
        }
        RowLayout {
            spacing: Theme.gap
            Text {
                Layout.fillWidth: true
                text: bar.task
                wrapMode: Text.Wrap
                color: Theme.text
                font.pixelSize: Theme.fontSize
                font.family: Theme.fontFamily
            }
            TextButton {
                visible: bar.timelineHidden && bar.tour.place > 0 && !bar.working
                text: qsTr("Show the timeline")
                onClicked: bar.timelineWanted()
            }
            TextButton {
                visible: bar.tour.stage === Tour.Done
                text: qsTr("Delete this chat")
                onClicked: bar.tour.removeChat()
            }
            TextButton {
                visible: bar.tour.stage === Tour.Done
                primary: true
                text: qsTr("Keep it")
                onClicked: bar.tour.leave()
            }
        }
    }
}
