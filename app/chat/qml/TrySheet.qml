// SPDX-License-Identifier: Apache-2.0
// Three answers from one state, side by side, below each other where there is no room; one of them is kept.
import QtQuick
import QtQuick.Controls.Basic
import QtQuick.Layouts
import Runnel.Chat

Sheet {
    id: sheet

    readonly property bool running: App.chat.trying
    readonly property bool beside: width > Theme.fontSize * 50

    function openFor(messageId) {
        if (App.chat.tryThree(messageId)) open();
    }

    title: qsTr("Three answers")
    wanted: Theme.fontSize * 84
    onClosed: if (running) App.chat.stop()

    ColumnLayout {
        anchors.fill: parent
        anchors.margins: Theme.margin
        spacing: Theme.gap

        Text {
            Layout.fillWidth: true
            text: sheet.running ? qsTr("Answering…") : qsTr("Words that only one answer has are marked. Nothing is stored until you keep one.")
            wrapMode: Text.Wrap
            color: Theme.muted
            font.pixelSize: Theme.smallSize
            font.family: Theme.fontFamily
        }
        Flickable {
            id: scroller
            Layout.fillWidth: true
            Layout.fillHeight: true
            contentHeight: sheet.beside ? height : grid.implicitHeight
            interactive: !sheet.beside
            clip: true
            boundsBehavior: Flickable.StopAtBounds
            ScrollBar.vertical: ScrollBar {}

            GridLayout {
                id: grid
                width: scroller.width
                height: sheet.beside ? scroller.height : implicitHeight
                columns: sheet.beside ? 3 : 1
                columnSpacing: Theme.margin
                rowSpacing: Theme.margin

                Repeater {
                    model: 3
                    ColumnLayout {
                        id: one
                        required property int index
                        readonly property string text: App.chat.tries[index] ?? ""
                        Layout.fillWidth: true
                        Layout.fillHeight: true
                        Layout.preferredWidth: 1
                        spacing: Theme.gap
                        Text {
                            text: qsTr("Answer %1").arg(one.index + 1)
                            color: Theme.accent
                            font.pixelSize: Theme.fontSize
                            font.family: Theme.fontFamily
                            font.bold: true
                            Accessible.role: Accessible.Heading
                            Accessible.name: text
                        }
                        Flickable {
                            Layout.fillWidth: true
                            Layout.fillHeight: true
                            Layout.preferredHeight: answer.implicitHeight
                            contentHeight: answer.implicitHeight
                            interactive: sheet.beside
                            clip: true
                            boundsBehavior: Flickable.StopAtBounds
                            ScrollBar.vertical: ScrollBar {}
                            MarkdownView {
                                id: answer
                                width: parent.width - Theme.gap
                                text: one.text
                                others: sheet.running ? [] : App.chat.tries.filter((text, i) => i !== one.index)
                            }
                        }
                        TextButton {
                            text: qsTr("Keep this one")
                            primary: true
                            enabled: !sheet.running && one.text.trim() !== ""
                            Accessible.name: qsTr("Answer %1").arg(one.index + 1) + ": " + text
                            onClicked: {
                                App.chat.keepTry(one.index);
                                sheet.close();
                            }
                        }
                    }
                }
            }
        }
    }
}
