// SPDX-License-Identifier: Apache-2.0
// Two versions of a message side by side.
import QtQuick
import QtQuick.Controls.Basic
import QtQuick.Layouts
import Runnel.Chat

Sheet {
    id: sheet

    property var versions: []
    property int left: 0
    property int right: 1

    function openFor(messageId) {
        versions = App.chat.alternativesOf(messageId);
        right = Math.max(0, versions.findIndex(version => version.shown));
        left = right > 0 ? right - 1 : Math.min(1, versions.length - 1);
        if (left > right) [left, right] = [right, left];
        open();
    }

    title: qsTr("Compare versions")
    wanted: Theme.fontSize * 72

    RowLayout {
        anchors.fill: parent
        spacing: 0
        Repeater {
            model: 2
            Rectangle {
                id: half
                required property int index
                readonly property int which: index === 0 ? sheet.left : sheet.right
                readonly property var version: sheet.versions[which] ?? null

                Layout.fillWidth: true
                Layout.fillHeight: true
                Layout.preferredWidth: 1
                color: "transparent"

                Rectangle {
                    visible: half.index === 1
                    width: 1
                    height: parent.height
                    color: Theme.border
                }

                ColumnLayout {
                    anchors.fill: parent
                    anchors.margins: Theme.margin
                    RowLayout {
                        Layout.fillWidth: true
                        IconButton {
                            name: qsTr("Previous version")
                            symbol: "chevron-left"
                            enabled: half.which > 0
                            onClicked: half.index === 0 ? --sheet.left : --sheet.right
                        }
                        Text {
                            Layout.fillWidth: true
                            Layout.maximumWidth: implicitWidth
                            elide: Text.ElideRight
                            text: qsTr("Version %1 of %2").arg(half.which + 1).arg(sheet.versions.length)
                            color: Theme.muted
                            font.pixelSize: Theme.smallSize
                            font.family: Theme.fontFamily
                        }
                        IconButton {
                            name: qsTr("Next version")
                            symbol: "chevron-right"
                            enabled: half.which < sheet.versions.length - 1
                            onClicked: half.index === 0 ? ++sheet.left : ++sheet.right
                        }
                        Item { Layout.fillWidth: true }
                    }
                    TextButton {
                        Layout.fillWidth: true
                        Layout.maximumWidth: implicitWidth
                        text: qsTr("Continue with this version")
                        enabled: half.version !== null && App.chat.state === ChatModel.Idle
                        onClicked: {
                            App.chat.showMessage(half.version.id);
                            sheet.close();
                        }
                    }
                    Flickable {
                        Layout.fillWidth: true
                        Layout.fillHeight: true
                        contentHeight: answer.height
                        clip: true
                        boundsBehavior: Flickable.StopAtBounds
                        ScrollBar.vertical: ScrollBar {}
                        MarkdownView {
                            id: answer
                            width: parent.width - Theme.margin
                            text: half.version ? half.version.text : ""
                        }
                    }
                }
            }
        }
    }
}
