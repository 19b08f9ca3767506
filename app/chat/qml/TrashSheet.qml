// SPDX-License-Identifier: Apache-2.0
// What was deleted and can be brought back.
import QtQuick
import QtQuick.Controls.Basic
import QtQuick.Layouts
import Runnel.Chat

Sheet {
    title: qsTr("Recently deleted")

    ColumnLayout {
        anchors.fill: parent
        anchors.margins: Theme.margin
        spacing: Theme.gap
        Text {
            Layout.fillWidth: true
            text: App.trash.length > 0 ? qsTr("Deleted chats are removed after 30 days.") : qsTr("Nothing was deleted.")
            wrapMode: Text.Wrap
            color: Theme.muted
            font.pixelSize: Theme.fontSize
            font.family: Theme.fontFamily
        }
        ListView {
            id: list
            objectName: "trash"
            Layout.fillWidth: true
            Layout.fillHeight: true
            model: App.trash
            clip: true
            spacing: Theme.gap
            highlightMoveDuration: 0
            boundsBehavior: Flickable.StopAtBounds
            ScrollBar.vertical: ScrollBar {}
            Accessible.role: Accessible.List
            Accessible.name: qsTr("Recently deleted")
            delegate: RowLayout {
                id: row
                required property var modelData
                width: ListView.view.width
                spacing: Theme.gap
                Accessible.role: Accessible.ListItem
                Accessible.name: row.modelData.name
                ColumnLayout {
                    Layout.fillWidth: true
                    spacing: 0
                    Text {
                        Layout.fillWidth: true
                        text: row.modelData.whole || row.modelData.excerpt === "" ? row.modelData.name : row.modelData.excerpt
                        textFormat: Text.PlainText
                        elide: Text.ElideRight
                        color: Theme.text
                        font.pixelSize: Theme.fontSize
                        font.family: Theme.fontFamily
                    }
                    Text {
                        Layout.fillWidth: true
                        text: [row.modelData.whole ? qsTr("Chat") : qsTr("From “%1”").arg(row.modelData.name),
                               qsTr("%n messages", "", row.modelData.messages), row.modelData.when].join(" · ")
                        textFormat: Text.PlainText
                        elide: Text.ElideRight
                        color: Theme.muted
                        font.pixelSize: Theme.smallSize
                        font.family: Theme.fontFamily
                    }
                }
                TextButton {
                    text: qsTr("Restore")
                    onClicked: App.restore(row.modelData.id)
                }
                TextButton {
                    text: qsTr("Delete forever")
                    onClicked: App.forgetDeleted(row.modelData.id)
                }
            }
        }
    }
}
