// SPDX-License-Identifier: Apache-2.0
// A number with a name, an explanation and a slider.
import QtQuick
import QtQuick.Controls.Basic
import QtQuick.Layouts

ColumnLayout {
    id: setting

    required property string title
    required property string explanation
    property real value
    property real from: 0
    property real to: 1
    property real step: 0.05
    property int decimals: 2
    property bool percent: false
    property string special  // words for the lowest value
    signal moved(real value)

    function inWords(number: real): string {
        if (percent) return qsTr("%1%").arg(Math.round(number * 100));
        return special !== "" && number <= from ? special : Number(number).toLocaleString(Qt.locale(), "f", decimals);
    }

    spacing: 0

    RowLayout {
        Layout.fillWidth: true
        Text {
            Layout.fillWidth: true
            text: setting.title
            color: Theme.text
            font.pixelSize: Theme.fontSize
            font.family: Theme.fontFamily
        }
        Text {
            text: setting.inWords(setting.value)
            color: Theme.accent
            font.pixelSize: Theme.fontSize
            font.family: Theme.fontFamily
            font.bold: true
        }
    }
    Slider {
        id: slider
        Layout.fillWidth: true
        implicitHeight: Theme.touch ? Theme.control : Theme.fontSize * 1.9
        leftPadding: 0
        rightPadding: 0
        from: setting.from
        to: setting.to
        stepSize: setting.step
        value: setting.value
        Accessible.role: Accessible.Slider
        Accessible.name: setting.title
        Accessible.description: setting.explanation
        onMoved: setting.moved(value)
        background: Rectangle {
            x: slider.leftPadding
            y: slider.topPadding + slider.availableHeight / 2 - height / 2
            width: slider.availableWidth
            height: 4
            radius: 2
            color: Theme.border
            Rectangle {
                width: slider.visualPosition * parent.width
                height: parent.height
                radius: 2
                color: Theme.accent
            }
        }
        handle: Rectangle {
            x: slider.leftPadding + slider.visualPosition * (slider.availableWidth - width)
            y: slider.topPadding + slider.availableHeight / 2 - height / 2
            width: Theme.fontSize * (Theme.touch ? 1.8 : 1.2)
            height: width
            radius: width / 2
            color: Theme.surface
            border.width: slider.visualFocus ? 3 : 2
            border.color: Theme.accent
        }
    }
    Text {
        Layout.fillWidth: true
        text: setting.explanation
        wrapMode: Text.Wrap
        color: Theme.muted
        font.pixelSize: Theme.smallSize
        font.family: Theme.fontFamily
    }
}
