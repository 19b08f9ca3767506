// SPDX-License-Identifier: Apache-2.0
// Says what happened or went wrong, in words, the newest below; details fold out; a deletion can be undone here.
import QtQuick
import QtQuick.Layouts
import Runnel.Chat

Column {
    id: notices

    property bool shown: true  // one bar at a time says it, and takes room where it stands

    objectName: "notices"
    visible: shown && App.notice !== ""
    spacing: Theme.unit

    Repeater {
        model: notices.shown ? App.notices : []

        Rectangle {
            id: bar

            required property var modelData
            property bool unfolded: false

            width: notices.width
            implicitHeight: column.implicitHeight + Theme.gap * 2
            radius: Theme.radius
            color: Theme.dark ? "#2a3037" : "#2b2f35"
            border.color: Theme.dark ? Theme.strongBorder : "transparent"
            Accessible.role: Accessible.AlertMessage
            Accessible.name: modelData.text

            Timer {
                // What went wrong stays until it was read.
                interval: bar.modelData.undo > 0 ? 10000 : 3000
                running: !bar.modelData.problem && !hover.hovered
                onTriggered: App.dismissNotice(bar.modelData.id)
            }
            HoverHandler { id: hover }

            ColumnLayout {
                id: column
                anchors.fill: parent
                anchors.margins: Theme.gap
                anchors.leftMargin: Theme.margin
                spacing: 0

                RowLayout {
                    spacing: Theme.gap
                    Text {
                        Layout.fillWidth: true
                        text: bar.modelData.text
                        textFormat: Text.PlainText
                        wrapMode: Text.Wrap
                        color: "#ffffff"
                        font.pixelSize: Theme.fontSize
                        font.family: Theme.fontFamily
                    }
                    TextButton {
                        visible: bar.modelData.details !== ""
                        flatter: true
                        text: bar.unfolded ? qsTr("Hide details") : qsTr("Details")
                        palette.buttonText: "#8fdcec"
                        background: null
                        onClicked: bar.unfolded = !bar.unfolded
                    }
                    TextButton {
                        visible: bar.modelData.undo > 0
                        flatter: true
                        text: qsTr("Undo")
                        palette.buttonText: "#8fdcec"
                        background: null
                        onClicked: App.restore(bar.modelData.undo)
                    }
                    IconButton {
                        name: qsTr("Dismiss")
                        symbol: "close"
                        icon.color: "#ffffff"
                        background: null
                        onClicked: App.dismissNotice(bar.modelData.id)
                    }
                }
                Flow {
                    visible: bar.modelData.actions.length > 0
                    Layout.fillWidth: true
                    spacing: Theme.gap
                    Repeater {
                        model: bar.modelData.actions
                        TextButton {
                            required property var modelData
                            flatter: true
                            text: modelData.text
                            palette.buttonText: "#8fdcec"
                            background: null
                            onClicked: App.act(modelData.act)
                        }
                    }
                }
                Text {
                    visible: bar.unfolded
                    Layout.fillWidth: true
                    Layout.bottomMargin: Theme.gap
                    text: bar.modelData.details
                    textFormat: Text.PlainText
                    wrapMode: Text.WrapAnywhere
                    color: "#d5dade"
                    font.pixelSize: Theme.smallSize
                    font.family: Theme.monospace
                }
            }
        }
    }
}
