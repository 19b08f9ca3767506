// SPDX-License-Identifier: Apache-2.0
// Choosing a model file and the device it runs on.
import QtQuick
import QtQuick.Controls.Basic
import QtQuick.Layouts
import Runnel.Chat

Sheet {
    id: sheet

    signal fileWanted

    readonly property alias deviceSelector: devices
    title: qsTr("Models")
    onAboutToShow: App.models.refresh()

    ColumnLayout {
        anchors.fill: parent
        anchors.margins: Theme.margin * 1.5
        spacing: Theme.margin

        RowLayout {
            Layout.fillWidth: true
            spacing: Theme.gap
            Text {
                text: qsTr("Run on")
                color: Theme.text
                font.pixelSize: Theme.fontSize
                font.family: Theme.fontFamily
            }
            Selector {
                id: devices
                Layout.fillWidth: true
                model: App.models.devices
                textRole: "name"
                valueRole: "id"
                title: qsTr("Device")
                function showSetting() {
                    currentIndex = Math.max(0, indexOfValue(App.settings.device));
                }
                onModelChanged: showSetting()
                onActivated: App.models.chooseDevice(currentValue)
                Connections {  // a device that cannot be used gives way to the CPU
                    target: App.settings
                    function onChanged() { devices.showSetting(); }
                }
            }
            Text {
                visible: text !== ""
                Layout.maximumWidth: sheet.width * 0.35
                elide: Text.ElideRight
                text: (App.models.devices[devices.currentIndex] ?? {detail: ""}).detail
                color: Theme.muted
                font.pixelSize: Theme.smallSize
                font.family: Theme.fontFamily
            }
        }
        ListView {
            objectName: "models"
            Layout.fillWidth: true
            Layout.fillHeight: true
            model: App.models
            spacing: Theme.gap
            clip: true
            highlightMoveDuration: 0
            boundsBehavior: Flickable.StopAtBounds
            activeFocusOnTab: true
            ScrollBar.vertical: ScrollBar {}
            Accessible.role: Accessible.List
            Accessible.name: qsTr("Models")
            delegate: ModelRow {
                width: ListView.view.width
            }
        }
        RowLayout {
            Layout.fillWidth: true
            Text {
                Layout.fillWidth: true
                text: qsTr("You can also drop a model file (.gguf) onto this window.")
                wrapMode: Text.Wrap
                color: Theme.muted
                font.pixelSize: Theme.smallSize
                font.family: Theme.fontFamily
            }
            TextButton {
                primary: true
                text: qsTr("Open a file…")
                onClicked: sheet.fileWanted()
            }
        }
    }
}
