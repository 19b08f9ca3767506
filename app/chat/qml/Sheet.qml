// SPDX-License-Identifier: Apache-2.0
// A page over the window: centred on a large screen, all of a small one.
import QtQuick
import QtQuick.Controls.Basic
import QtQuick.Layouts
import QtQuick.Templates as T
import Runnel.Chat

Popup {
    id: sheet

    property string title
    property real wanted: Theme.fontSize * 44
    default property alias content: holder.data

    readonly property bool small: parent !== null && (parent.width < wanted * 1.1 || parent.height < Theme.fontSize * 36)
    parent: T.Overlay.overlay
    modal: true
    focus: true
    padding: 0
    x: small ? 0 : (parent.width - width) / 2
    y: small ? 0 : (parent.height - height) / 2
    width: small ? parent.width : wanted
    height: small ? parent.height : Math.min(parent.height * 0.86, Theme.fontSize * 52)
    closePolicy: Popup.CloseOnEscape | Popup.CloseOnPressOutside
    onAboutToShow: App.dismissGoodNews()
    T.Overlay.modal: Rectangle { color: "#80000000" }
    background: Rectangle {
        color: Theme.window
        radius: sheet.small ? 0 : Theme.radius * 2
        border.width: sheet.small ? 0 : 1
        border.color: Theme.border
    }

    ColumnLayout {
        anchors.fill: parent
        spacing: 0
        Accessible.role: Accessible.Dialog
        Accessible.name: sheet.title
        RowLayout {
            Layout.fillWidth: true
            Layout.margins: Theme.gap
            Layout.leftMargin: Theme.margin * 1.5
            Text {
                Layout.fillWidth: true
                text: sheet.title
                color: Theme.text
                font.pixelSize: Theme.largeSize
                font.family: Theme.fontFamily
                font.bold: true
                Accessible.role: Accessible.Heading
                Accessible.name: text
            }
            IconButton {
                name: qsTr("Close")
                symbol: "close"
                shortcut: "Esc"
                onClicked: sheet.close()
            }
        }
        Rectangle {
            Layout.fillWidth: true
            height: 1
            color: Theme.border
        }
        Loader {
            active: sheet.opened && App.notice !== ""
            visible: active
            Layout.fillWidth: true
            Layout.margins: Theme.gap
            sourceComponent: NoticeBar {}
        }
        Item {
            id: holder
            Layout.fillWidth: true
            Layout.fillHeight: true
            clip: true
        }
    }
}
