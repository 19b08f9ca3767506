// SPDX-License-Identifier: Apache-2.0
// Chooses a file, or a folder: by touch, with the keys, or by writing its path.
import QtQuick
import QtQuick.Controls.Basic
import QtQuick.Layouts
import Runnel.Chat

Sheet {
    id: picker

    property var patterns: ["*"]
    property bool folders: false      // a folder is wanted
    property string remembers         // under this name the folder is kept for the next time
    property string nothingHere: qsTr("No matching files in this folder.")
    readonly property alias list: rows
    readonly property alias field: pathField
    readonly property alias openButton: opener
    readonly property alias problem: words.text
    property string folder            // shown now; go() changes it
    readonly property string chosen: rows.currentItem && !rows.currentItem.fileIsDir ? rows.currentItem.filePath : ""
    property string cameFrom
    property double enteredAt  // when a click went into a folder, in ms

    signal accepted(string path)

    function openIn(start) {
        const before = remembers !== "" ? App.settings.recall(remembers, "").toString() : "";
        go(start !== "" && Files.isFolder(start) ? start : Files.isFolder(before) ? before : Files.home());
        open();
        rows.forceActiveFocus();
    }
    function go(path) {
        words.text = "";
        if (!Files.isFolder(path)) {
            words.text = Files.isFile(path) ? qsTr("Wrong file type.") : qsTr("Nothing to open at this path.");
            return;
        }
        cameFrom = folder;
        folder = path;
        pathField.text = path;
        entries.open(path);
    }
    function goUp() {
        go(Files.folderOf(folder));
        rows.forceActiveFocus();
    }
    function fits(path) {
        return patterns.some(pattern => pattern === "*" || path.toLowerCase().endsWith(pattern.slice(1).toLowerCase()));
    }
    function accept(path) {
        if (remembers !== "") App.settings.remember(remembers, folders ? path : Files.folderOf(path));
        close();
        accepted(path);
    }
    // What Enter and the button do with the row chosen in the list.
    function openRow() {
        if (rows.currentItem && rows.currentItem.fileIsDir) go(rows.currentItem.filePath);
        else if (chosen !== "") accept(chosen);
    }
    function openTyped() {
        const path = Files.absolute(pathField.text, folder);
        if (!folders && Files.isFile(path) && fits(path)) return accept(path);
        go(path);
        if (words.text === "") rows.forceActiveFocus();
    }
    wanted: Theme.fontSize * 46

    FolderModel {
        id: entries
        patterns: picker.patterns
        foldersOnly: picker.folders
        onListed: {
            rows.currentIndex = Math.max(rowOf(picker.cameFrom), rows.count > 0 ? 0 : -1);
            rows.positionViewAtIndex(Math.max(0, rows.currentIndex), ListView.Contain);
        }
    }
    Timer {
        id: typing
        property string letters
        interval: 1000
        onTriggered: letters = ""
    }

    ColumnLayout {
        anchors.fill: parent
        anchors.margins: Theme.gap
        anchors.leftMargin: Theme.margin
        anchors.rightMargin: Theme.margin
        spacing: Theme.gap

        RowLayout {
            Layout.fillWidth: true
            spacing: Theme.unit
            IconButton {
                name: qsTr("Parent folder")
                symbol: "up"
                shortcut: "Backspace"
                enabled: picker.folder !== "/"
                onClicked: picker.goUp()
            }
            Field {
                id: pathField
                Layout.fillWidth: true
                inputMethodHints: Qt.ImhNoAutoUppercase | Qt.ImhNoPredictiveText
                Accessible.name: picker.folders ? qsTr("Folder path") : qsTr("Folder or file path")
                onTextEdited: words.text = ""
                Keys.onReturnPressed: picker.openTyped()
                Keys.onEnterPressed: picker.openTyped()
                Keys.onDownPressed: rows.forceActiveFocus()
            }
        }
        Text {
            id: words
            visible: text !== ""
            Layout.fillWidth: true
            wrapMode: Text.Wrap
            color: Theme.danger
            font.pixelSize: Theme.smallSize
            font.family: Theme.fontFamily
            Accessible.role: Accessible.AlertMessage
            Accessible.name: text
        }
        Rectangle {
            Layout.fillWidth: true
            Layout.fillHeight: true
            color: Theme.surface
            radius: Theme.radius
            border.color: Theme.border
            ListView {
                id: rows
                anchors.fill: parent
                anchors.margins: Theme.unit
                model: entries
                clip: true
                boundsBehavior: Flickable.StopAtBounds
                activeFocusOnTab: true
                keyNavigationEnabled: true
                highlightMoveDuration: 0
                ScrollBar.vertical: ScrollBar {}
                Accessible.role: Accessible.List
                Accessible.name: picker.folders ? qsTr("Folders") : qsTr("Folders and files")
                Keys.onReturnPressed: picker.openRow()
                Keys.onEnterPressed: picker.openRow()
                Keys.onPressed: event => {
                    const page = Math.max(1, Math.floor(height / Theme.control) - 1);
                    if (event.key === Qt.Key_Backspace) picker.goUp();
                    else if (count === 0) return;
                    else if (event.key === Qt.Key_Home) currentIndex = 0;
                    else if (event.key === Qt.Key_End) currentIndex = count - 1;
                    else if (event.key === Qt.Key_PageUp) currentIndex = Math.max(0, currentIndex - page);
                    else if (event.key === Qt.Key_PageDown) currentIndex = Math.min(count - 1, currentIndex + page);
                    else if (event.text > " " && !(event.modifiers & (Qt.ControlModifier | Qt.AltModifier))) {
                        // The first letter goes on to the next row, more of them within a second narrow it.
                        typing.letters += event.text;
                        typing.restart();
                        const found = entries.find(typing.letters, currentIndex + (typing.letters.length > 1 ? 0 : 1));
                        if (found >= 0) currentIndex = found;
                    } else return;
                    event.accepted = true;
                }
                delegate: FileRow {
                    width: ListView.view.width
                    // The second click of two on a folder is not for what is in it.
                    function tooSoon() {
                        return Date.now() - picker.enteredAt < Qt.styleHints.mouseDoubleClickInterval;
                    }
                    onClicked: {
                        if (tooSoon()) return;
                        rows.forceActiveFocus();
                        rows.currentIndex = index;
                        if (!fileIsDir) return;
                        picker.enteredAt = Date.now();
                        picker.go(filePath);
                    }
                    onDoubleClicked: if (!fileIsDir && !tooSoon()) picker.accept(filePath)
                }
                Text {
                    anchors.centerIn: parent
                    width: parent.width - Theme.margin * 2
                    visible: rows.count === 0 && entries.ready
                    horizontalAlignment: Text.AlignHCenter
                    wrapMode: Text.Wrap
                    text: picker.folders ? qsTr("No folders here.") : picker.nothingHere
                    color: Theme.muted
                    font.pixelSize: Theme.fontSize
                    font.family: Theme.fontFamily
                }
            }
        }
        // No layout: one that was hidden when the size of text changed shows its buttons in the old size.
        Item {
            Layout.fillWidth: true
            implicitHeight: Theme.control
            Row {
                spacing: Theme.gap
                TextButton {
                    text: qsTr("Home")
                    flatter: true
                    onClicked: picker.go(Files.home())
                }
                TextButton {
                    visible: Files.downloads() !== Files.home()
                    text: qsTr("Downloads")
                    flatter: true
                    onClicked: picker.go(Files.downloads())
                }
            }
            TextButton {
                id: opener
                anchors.right: parent.right
                primary: true
                enabled: picker.folders || picker.chosen !== ""
                text: picker.folders ? qsTr("Use this folder") : qsTr("Open")
                onClicked: picker.folders ? picker.accept(picker.folder) : picker.accept(picker.chosen)
            }
        }
    }
}
