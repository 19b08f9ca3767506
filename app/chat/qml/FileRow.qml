// SPDX-License-Identifier: Apache-2.0
// A folder or a file in the file picker.
import QtQuick
import QtQuick.Controls.Basic
import QtQuick.Controls.impl
import QtQuick.Layouts
import Runnel.Chat

ItemDelegate {
    id: row

    required property int index
    required property string fileName
    required property string filePath
    required property bool fileIsDir
    required property double fileSize
    readonly property bool chosen: ListView.isCurrentItem
    readonly property string size: fileIsDir ? "" : Files.sizeText(fileSize)

    implicitHeight: Theme.control
    padding: 0
    leftPadding: Theme.margin
    rightPadding: Theme.margin
    hoverEnabled: true
    focusPolicy: Qt.NoFocus  // the list has it
    Accessible.role: Accessible.ListItem
    Accessible.name: fileIsDir ? qsTr("Folder %1").arg(fileName) : fileName + ", " + size
    Accessible.selected: chosen
    Accessible.onPressAction: clicked()

    background: Rectangle {
        radius: Theme.radius
        color: row.chosen ? Theme.selected : row.hovered ? Theme.hover : "transparent"
        border.width: row.chosen && row.ListView.view && row.ListView.view.activeFocus ? 2 : 0
        border.color: Theme.accent
    }
    contentItem: RowLayout {
        spacing: Theme.gap
        ColorImage {
            source: "qrc:/qt/qml/Runnel/Chat/icons/" + (row.fileIsDir ? "folder" : "file") + ".svg"
            sourceSize.width: Theme.icon
            sourceSize.height: Theme.icon
            color: row.fileIsDir ? Theme.accent : Theme.muted
        }
        Text {
            Layout.fillWidth: true
            text: row.fileName
            textFormat: Text.PlainText
            elide: Text.ElideMiddle
            color: Theme.text
            font.pixelSize: Theme.fontSize
            font.family: Theme.fontFamily
        }
        Text {
            visible: text !== ""
            text: row.size
            color: Theme.muted
            font.pixelSize: Theme.smallSize
            font.family: Theme.fontFamily
        }
    }
}
