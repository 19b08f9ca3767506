// SPDX-License-Identifier: Apache-2.0
// Two facts side by side: how long the talk is, and that what the model keeps of it stays one size.
import QtQuick
import QtQuick.Layouts
import Runnel.Chat

ColumnLayout {
    id: meter

    // Grows with the talk, but never reaches the end: there is none.
    readonly property real share: 1 - Math.exp(-App.chat.length / 20000)

    spacing: Theme.unit
    Accessible.role: Accessible.StaticText
    Accessible.name: qsTr("This chat is %L1 tokens long. What the model keeps of it takes %2, whatever its length.").arg(App.chat.length).arg(App.models.stateSize)

    RowLayout {
        Layout.fillWidth: true
        Text {
            Layout.fillWidth: true
            text: qsTr("Length of this chat")
            elide: Text.ElideRight
            color: Theme.muted
            font.pixelSize: Theme.smallSize
            font.family: Theme.fontFamily
        }
        Text {
            text: App.chat.length === 0 ? "–"
                  : App.chat.lengthKnown ? qsTr("%L1 tokens").arg(App.chat.length)
                  : qsTr("about %L1 tokens").arg(App.chat.length)
            color: Theme.text
            font.pixelSize: Theme.smallSize
            font.family: Theme.fontFamily
        }
    }
    Rectangle {
        Layout.fillWidth: true
        implicitHeight: Theme.unit
        radius: height / 2
        color: Theme.border
        Rectangle {
            width: parent.width * meter.share
            height: parent.height
            radius: height / 2
            color: Theme.warm
        }
    }
    RowLayout {
        Layout.fillWidth: true
        Text {
            Layout.fillWidth: true
            text: qsTr("Memory of it")
            elide: Text.ElideRight
            color: Theme.muted
            font.pixelSize: Theme.smallSize
            font.family: Theme.fontFamily
        }
        Text {
            text: App.models.state === ModelPicker.None ? "–" : qsTr("%1, always").arg(App.models.stateSize)
            color: Theme.text
            font.pixelSize: Theme.smallSize
            font.family: Theme.fontFamily
        }
    }
    Rectangle {
        Layout.fillWidth: true
        implicitHeight: Theme.unit
        radius: height / 2
        color: Theme.border
        Rectangle {
            width: parent.width * 0.25
            height: parent.height
            radius: height / 2
            color: Theme.accent
        }
    }
    Text {
        Layout.fillWidth: true
        text: qsTr("Details from long ago fade.")
        wrapMode: Text.Wrap
        color: Theme.muted
        font.pixelSize: Theme.smallSize
        font.family: Theme.fontFamily
    }
}
