// SPDX-License-Identifier: Apache-2.0
// A conversation not begun: says what this is and offers first steps.
import QtQuick
import QtQuick.Layouts
import Runnel.Chat

ColumnLayout {
    id: page

    signal suggested(string text)
    signal modelsWanted
    signal tourWanted

    // A low window has room for the tour or for these.
    readonly property bool suggests: App.models.state !== ModelPicker.None && !App.tour.active
                                     && !(App.tour.offered && parent.height < Theme.fontSize * 28)

    spacing: Theme.margin

    Text {
        Layout.fillWidth: true
        horizontalAlignment: Text.AlignHCenter
        text: qsTr("What shall we talk about?")
        color: Theme.text
        font.pixelSize: Theme.fontSize * (Theme.touch ? 1.3 : 1.7)
        font.family: Theme.fontFamily
        wrapMode: Text.Wrap
        Accessible.role: Accessible.Heading
        Accessible.name: text
    }
    Text {
        Layout.fillWidth: true
        Layout.maximumWidth: Theme.fontSize * 34
        Layout.alignment: Qt.AlignHCenter
        horizontalAlignment: Text.AlignHCenter
        text: App.models.state === ModelPicker.None
              ? qsTr("Choose a model to start.")
              : qsTr("Everything stays on this device. You can come back to any message and continue from there.")
        color: Theme.muted
        font.pixelSize: Theme.fontSize
        font.family: Theme.fontFamily
        wrapMode: Text.Wrap
    }
    TextButton {
        visible: App.models.state === ModelPicker.None
        Layout.alignment: Qt.AlignHCenter
        primary: true
        text: qsTr("Choose a model…")
        onClicked: page.modelsWanted()
    }
    RowLayout {
        visible: App.tour.offered && App.models.state !== ModelPicker.None
        Layout.alignment: Qt.AlignHCenter
        TextButton {
            primary: true
            text: qsTr("Take a tour in three steps")
            onClicked: page.tourWanted()
        }
        TextButton {
            flatter: true
            text: qsTr("No, thanks")
            Accessible.name: qsTr("Take a tour in three steps") + ": " + text
            onClicked: App.tour.refuse()
        }
    }
    Repeater {
        model: [qsTr("How do I make a good cup of tea?"), qsTr("Write a short poem about a river."), qsTr("Explain what a queue is, with a code example.")]
        TextButton {
            required property string modelData
            // Heights change while this column is laid out: then its buttons may hide, but neither come nor go.
            visible: page.suggests
            Layout.alignment: Qt.AlignHCenter
            text: modelData
            onClicked: page.suggested(modelData)
        }
    }
}
