// SPDX-License-Identifier: Apache-2.0
// Code of an answer: monospaced, coloured, scrolls sideways, copied with one press.
import QtQuick
import QtQuick.Controls.Basic
import QtQuick.Layouts
import Runnel.Chat

Rectangle {
    id: block

    required property string code
    required property string language
    readonly property Item editor: edit
    readonly property Item frame: scroller

    color: Theme.code
    radius: Theme.radius
    border.color: Theme.border
    border.width: 1
    implicitHeight: column.implicitHeight
    Accessible.role: Accessible.Grouping
    Accessible.name: qsTr("Code block, %1").arg(language)

    ColumnLayout {
        id: column
        anchors.fill: parent
        spacing: 0

        RowLayout {
            Layout.fillWidth: true
            Layout.leftMargin: Theme.gap * 2
            Layout.rightMargin: Theme.unit
            Layout.topMargin: Theme.unit

            Text {
                Layout.fillWidth: true
                text: block.language
                textFormat: Text.PlainText
                elide: Text.ElideRight
                color: Theme.muted
                font.pixelSize: Theme.smallSize
                font.family: Theme.fontFamily
            }
            TextButton {
                flatter: true
                symbol: "copy"
                text: qsTr("Copy")
                font.pixelSize: Theme.smallSize
                icon.width: Theme.fontSize
                icon.height: Theme.fontSize
                implicitHeight: Theme.touch ? Theme.control : Theme.fontSize * 1.9
                leftPadding: Theme.gap
                rightPadding: Theme.gap
                Accessible.name: qsTr("Copy code")
                onClicked: App.copy(block.code)
            }
        }
        Flickable {
            id: scroller
            Layout.fillWidth: true
            Layout.leftMargin: Theme.gap * 2
            Layout.rightMargin: Theme.gap * 2
            Layout.bottomMargin: Theme.gap * 2
            Layout.preferredHeight: edit.implicitHeight + (bar.visible ? bar.height + Theme.unit : 0)
            contentWidth: edit.implicitWidth
            contentHeight: edit.implicitHeight
            boundsBehavior: Flickable.StopAtBounds
            flickableDirection: Flickable.HorizontalFlick
            clip: true
            interactive: contentWidth > width

            TextEdit {
                id: edit
                // Empty lines at the end of code that is not closed yet show nothing.
                text: block.code.replace(/\s+$/, "")
                textFormat: TextEdit.PlainText
                readOnly: true
                selectByMouse: false
                persistentSelection: true
                activeFocusOnPress: false
                color: Theme.text
                selectionColor: Theme.accent
                selectedTextColor: Theme.accentText
                font.family: Theme.monospace
                font.pixelSize: Theme.fontSize * 0.95
                Accessible.name: block.code
            }
            CodeHighlighter {
                target: edit.textDocument
                language: block.language
                keywordColor: Theme.codeKeyword
                stringColor: Theme.codeString
                numberColor: Theme.codeNumber
                commentColor: Theme.codeComment
            }
            ScrollBar.horizontal: ScrollBar {
                id: bar
                visible: scroller.interactive
                palette.mid: Theme.strongBorder
                policy: ScrollBar.AlwaysOn  // the only sign of what is hidden
            }
        }
    }
}
