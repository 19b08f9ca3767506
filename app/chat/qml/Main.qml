// SPDX-License-Identifier: Apache-2.0
// The window: chats on the left, the conversation, its timeline on the right; on a narrow screen the
// sides are drawers.
import QtQuick
import QtQuick.Controls.Basic
import QtQuick.Layouts
import QtQuick.Templates as T
import Runnel.Chat

ApplicationWindow {
    id: window

    readonly property alias linkDialog: linking
    readonly property alias compareSheet: compare
    readonly property alias settingsSheet: settings
    readonly property alias chatSheet: ofChat
    readonly property alias folderDialog: foldering
    readonly property alias modelSheet: models
    readonly property alias keysSheet: keys
    readonly property alias nameDialog: naming
    readonly property alias deleteDialog: deleting
    readonly property alias trashSheet: deleted
    readonly property alias trySheet: three
    readonly property alias askSheet: asking
    readonly property alias readDialog: reading
    readonly property alias placePicker: placeFolder
    readonly property alias schemaPicker: schemas
    readonly property alias sourcePicker: sources
    readonly property alias documentPicker: documents
    readonly property alias libraryPane: library
    readonly property alias timelinePane: timeline
    readonly property alias drawer: libraryDrawer
    readonly property alias modelOpening: opening
    readonly property alias chatImporting: importing
    readonly property alias exportDialog: saving
    readonly property alias exportPicker: exportFolder
    readonly property alias dropArea: dropping
    readonly property alias pane: conversation
    readonly property alias timelineMenu: timeline.messageMenu

    readonly property bool narrow: width < Theme.fontSize * 58
    readonly property bool roomForTimeline: width >= Theme.fontSize * 76
    readonly property bool showLibrary: !narrow && App.settings.showLibrary
    readonly property bool showTimeline: roomForTimeline && App.settings.showTimeline
    readonly property bool pageOpen: models.visible || deleted.visible || settings.visible || ofChat.visible || keys.visible || compare.visible || three.visible || asking.visible || placeFolder.visible || documents.visible || sources.visible || schemas.visible || opening.visible || importing.visible || exportFolder.visible || saving.visible

    function widthOf(pane) {
        const kept = Number(App.settings.recall(pane, 0));
        return kept > 0 ? kept : Theme.fontSize * 19;
    }
    function toggleLibrary() {
        if (narrow) libraryDrawer.visible = !libraryDrawer.visible;
        else App.settings.showLibrary = !App.settings.showLibrary;
    }
    function toggleTimeline() {
        if (!roomForTimeline) timelineDrawer.visible = !timelineDrawer.visible;
        else App.settings.showTimeline = !App.settings.showTimeline;
    }
    function search() {
        if (!showLibrary) toggleLibrary();
        Qt.callLater(() => (narrow ? libraryDrawer.pane : library).focusSearch());
    }
    function beginTour() {
        App.tour.begin();
        conversation.composer.focusField();
    }
    function exportChat(conversation) {
        if (conversation <= 0) return;
        saving.openFor(conversation);
    }
    function savePlace(messageId) {
        placeFolder.messageId = messageId;
        placeFolder.openIn("");
    }
    function compareLast() {
        const id = App.chat.lastWithAlternatives();
        if (id > 0) compare.openFor(id);
    }
    function nameOf(messageId) {
        const row = App.chat.messages.rowOf(messageId);
        return row < 0 ? "" : App.chat.messages.data(App.chat.messages.index(row, 0), MessageModel.NameRole);
    }

    title: App.chat.title !== "" ? App.chat.title + " – Runnel Chat" : "Runnel Chat"
    // The size of the screen also where there is no window manager to give it.
    width: App.kiosk ? Screen.width : App.settings.recall("width", 1180)
    height: App.kiosk ? Screen.height : App.settings.recall("height", 760)
    minimumWidth: 360
    minimumHeight: 320
    visible: true
    visibility: App.kiosk ? Window.FullScreen : App.settings.recall("maximized", "false").toString() === "true" ? Window.Maximized : Window.Windowed
    color: Theme.window
    font.family: Theme.fontFamily
    font.pixelSize: Theme.fontSize
    palette.window: Theme.window
    palette.windowText: Theme.text
    palette.base: Theme.surface
    palette.text: Theme.text
    palette.button: Theme.surface
    palette.buttonText: Theme.text
    palette.highlight: Theme.accent
    palette.highlightedText: Theme.accentText
    palette.link: Theme.accent
    palette.light: Theme.surface
    palette.midlight: Theme.hover
    palette.mid: Theme.border
    palette.dark: Theme.strongBorder
    palette.toolTipBase: Theme.surface
    palette.toolTipText: Theme.text

    Component.onCompleted: conversation.composer.focusField()
    // What fits is decided at every resize; a drawer that is no longer needed goes.
    onNarrowChanged: if (!narrow) libraryDrawer.close()
    onRoomForTimelineChanged: if (roomForTimeline) timelineDrawer.close()
    onClosing: {
        App.settings.remember("maximized", visibility === Window.Maximized);
        if (visibility === Window.Windowed) {
            App.settings.remember("width", width);
            App.settings.remember("height", height);
        }
    }

    Binding { target: App; property: "linkColour"; value: Theme.accent }
    Binding { target: Theme; property: "mode"; value: App.settings.theme }
    Binding { target: Theme; property: "fontScale"; value: App.settings.fontScale }
    Binding { target: Theme; property: "family"; value: App.settings.fontFamily }
    Binding { target: Theme; property: "touch"; value: App.kiosk }

    Shortcut { sequences: ["Ctrl+N"]; onActivated: { App.chat.startNew(); conversation.composer.focusField(); } }
    Shortcut { sequences: [StandardKey.Copy]; enabled: Selection.owner !== null; onActivated: Selection.copy() }
    Shortcut { sequences: ["Ctrl+L"]; onActivated: conversation.composer.focusField() }
    Shortcut { sequences: ["Ctrl+F", "Ctrl+K"]; onActivated: window.search() }
    Shortcut { sequences: ["Ctrl+R"]; enabled: App.chat.messages.count > 0; onActivated: App.chat.answerLastAgain() }
    Shortcut { sequences: ["Ctrl+D"]; enabled: App.chat.messages.count > 0; onActivated: window.compareLast() }
    Shortcut { sequences: ["Ctrl+Z"]; enabled: App.canUndo; onActivated: App.undo() }
    Shortcut { sequences: ["Alt+Left"]; onActivated: App.chat.goBack() }
    Shortcut { sequences: ["Alt+Right"]; onActivated: App.chat.goForward() }
    Shortcut { sequences: ["Ctrl+B"]; onActivated: window.toggleLibrary() }
    Shortcut { sequences: ["Ctrl+T"]; onActivated: window.toggleTimeline() }
    Shortcut { sequences: ["Ctrl+M"]; onActivated: models.open() }
    Shortcut { sequences: ["Ctrl+E"]; onActivated: window.exportChat(App.chat.conversation) }
    Shortcut { sequences: ["Ctrl+,"]; onActivated: settings.open() }
    Shortcut { sequences: ["Ctrl+I"]; onActivated: ofChat.open() }
    Shortcut { sequences: ["F1"]; onActivated: keys.open() }
    Shortcut { sequences: ["PgUp"]; onActivated: conversation.page(-1) }
    Shortcut { sequences: ["PgDown"]; onActivated: conversation.page(1) }
    Shortcut { sequences: ["Ctrl++", "Ctrl+="]; onActivated: App.settings.fontScale = Math.min(2, App.settings.fontScale + 0.1) }
    Shortcut { sequences: ["Ctrl+-"]; onActivated: App.settings.fontScale = Math.max(0.8, App.settings.fontScale - 0.1) }
    Shortcut { sequences: ["Ctrl+0"]; onActivated: App.settings.fontScale = 1 }
    Shortcut { sequences: ["Ctrl+Q"]; onActivated: window.close() }
    Shortcut {
        sequences: ["Esc"]
        enabled: App.chat.state !== ChatModel.Idle || App.tour.active
        onActivated: {
            if (App.tour.active) App.tour.leave();
            else App.chat.stop();
        }
    }

    SplitView {
        id: panes
        anchors.fill: parent
        onResizingChanged: if (!resizing) {
            if (library.visible) App.settings.remember("libraryWidth", library.width);
            if (timeline.visible) App.settings.remember("timelineWidth", timeline.width);
        }
        handle: Item {
            id: grip
            readonly property bool pressed: T.SplitHandle.pressed
            readonly property bool hovered: T.SplitHandle.hovered
            implicitWidth: Theme.unit
            implicitHeight: Theme.unit
            // Wider to the mouse than to the eye.
            containmentMask: Item {
                x: -Theme.unit
                width: grip.width + Theme.unit * 2
                height: grip.height
            }
            Rectangle {
                anchors.fill: parent
                color: grip.pressed ? Theme.accent : grip.hovered ? Theme.strongBorder : "transparent"
            }
        }

        LibraryPane {
            id: library
            visible: window.showLibrary
            SplitView.preferredWidth: window.widthOf("libraryWidth")
            SplitView.minimumWidth: Theme.fontSize * 12
            SplitView.maximumWidth: window.width * 0.4
            onHideWanted: window.toggleLibrary()
            onChosen: conversation.composer.focusField()
            onModelsWanted: models.open()
            onSettingsWanted: settings.open()
            onImportWanted: importing.openIn("")
            onDocumentWanted: documents.openIn("")
            onSourcesWanted: sources.openIn("")
            onTrashWanted: deleted.open()
            onExportWanted: id => window.exportChat(id)
            onFolderWanted: id => foldering.openFor(id)
        }
        ConversationPane {
            id: conversation
            objectName: "conversation"
            SplitView.fillWidth: true
            SplitView.minimumWidth: Theme.fontSize * 20
            announces: !window.pageOpen
            libraryHidden: !window.showLibrary
            timelineHidden: !window.showTimeline
            onLibraryWanted: window.toggleLibrary()
            onTimelineWanted: window.toggleTimeline()
            onModelsWanted: models.open()
            onNameWanted: id => naming.openFor(id, window.nameOf(id))
            onDeleteWanted: id => deleting.openFor(id)
            onCompareWanted: id => compare.openFor(id)
            onTryWanted: id => three.openFor(id)
            onSaveWanted: id => window.savePlace(id)
            onLinkWanted: link => linking.openFor(link)
            onSchemaWanted: schemas.openIn("")
            onChatSettingsWanted: ofChat.open()
            onTourWanted: window.beginTour()
        }
        TimelinePane {
            id: timeline
            visible: window.showTimeline
            SplitView.preferredWidth: window.widthOf("timelineWidth")
            SplitView.minimumWidth: Theme.fontSize * 12
            SplitView.maximumWidth: window.width * 0.4
            onHideWanted: window.toggleTimeline()
            onNameWanted: id => naming.openFor(id, window.nameOf(id))
            onDeleteWanted: id => deleting.openFor(id)
            onCompareWanted: id => compare.openFor(id)
            onTryWanted: id => three.openFor(id)
            onSaveWanted: id => window.savePlace(id)
            onAskWanted: asking.open()
        }
    }

    Drawer {
        id: libraryDrawer
        readonly property alias pane: drawerLibrary
        width: Math.min(window.width * 0.85, Theme.fontSize * 22)
        height: window.height
        interactive: window.narrow
        padding: 0
        onAboutToShow: App.dismissGoodNews()
        NoticeBar {
            id: drawerNotices
            shown: libraryDrawer.opened
            anchors.bottom: parent.bottom
            width: parent.width
        }
        LibraryPane {
            id: drawerLibrary
            width: parent.width
            height: parent.height - (drawerNotices.visible ? drawerNotices.height : 0)
            onHideWanted: libraryDrawer.close()
            onChosen: libraryDrawer.close()
            onModelsWanted: { libraryDrawer.close(); models.open(); }
            onSettingsWanted: { libraryDrawer.close(); settings.open(); }
            onImportWanted: { libraryDrawer.close(); importing.openIn(""); }
            onDocumentWanted: { libraryDrawer.close(); documents.openIn(""); }
            onSourcesWanted: { libraryDrawer.close(); sources.openIn(""); }
            onTrashWanted: { libraryDrawer.close(); deleted.open(); }
            onExportWanted: id => { libraryDrawer.close(); window.exportChat(id); }
            onFolderWanted: id => foldering.openFor(id)
        }
    }
    Drawer {
        id: timelineDrawer
        edge: Qt.RightEdge
        width: Math.min(window.width * 0.85, Theme.fontSize * 22)
        height: window.height
        interactive: !window.roomForTimeline
        padding: 0
        TimelinePane {
            anchors.fill: parent
            inDrawer: true
            onHideWanted: timelineDrawer.close()
            onNameWanted: id => naming.openFor(id, window.nameOf(id))
            onDeleteWanted: id => deleting.openFor(id)
            onCompareWanted: id => { timelineDrawer.close(); compare.openFor(id); }
            onTryWanted: id => { timelineDrawer.close(); three.openFor(id); }
            onSaveWanted: id => { timelineDrawer.close(); window.savePlace(id); }
            onAskWanted: { timelineDrawer.close(); asking.open(); }
        }
    }

    ModelSheet {
        id: models
        onFileWanted: opening.openIn("")
    }
    SettingsSheet {
        id: settings
        onKeysWanted: keys.open()
    }
    ChatSheet { id: ofChat }
    PlacePreview {
        id: found
        objectName: "foundPreview"
    }
    Connections {
        target: App.chat
        function onFoundBeside(message) { Qt.callLater(found.openFor, message, null); }  // when a drawer has closed
    }
    FolderDialog { id: foldering }
    KeysSheet {
        id: keys
        onTourWanted: window.beginTour()
    }
    CompareSheet { id: compare }
    NameDialog { id: naming }
    DeleteDialog { id: deleting }
    TrashSheet { id: deleted }
    LinkDialog { id: linking }
    TrySheet { id: three }
    AskSheet { id: asking }
    ReadDialog { id: reading }

    FilePicker {
        id: opening
        dim: false  // the page under it does
        title: qsTr("Open a model")
        patterns: ["*.gguf"]
        remembers: "modelFolder"
        nothingHere: qsTr("No folders or models (.gguf) here.")
        onAccepted: path => App.models.add(Files.toUrl(path))
    }
    FilePicker {
        id: importing
        title: qsTr("Import chats")
        patterns: ["*.json", "*.rnlpack", "*.snap"]
        remembers: "chatFolder"
        nothingHere: qsTr("No chats to import in this folder.")
        onAccepted: path => App.library.importFrom(Files.toUrl(path))
    }
    FilePicker {
        id: exportFolder
        dim: false
        title: qsTr("Export to a folder")
        folders: true
        onAccepted: path => saving.moveTo(path)
    }
    FilePicker {
        id: documents
        title: qsTr("Read a document")
        patterns: ["*.txt", "*.text", "*.md", "*.markdown", "*.pdf", "*.docx", "*.odt"]
        remembers: "documentFolder"
        onAccepted: path => App.drop(Files.toUrl(path))
    }
    FilePicker {
        id: sources
        title: qsTr("Read a folder")
        folders: true
        remembers: "sourceFolder"
        onAccepted: path => App.drop(Files.toUrl(path))
    }
    FilePicker {
        id: schemas
        title: qsTr("Choose a JSON schema")
        patterns: ["*.json"]
        remembers: "schemaFolder"
        onAccepted: path => {
            App.chat.answerBySchema(path);
            conversation.composer.focusField();
        }
    }
    FilePicker {
        id: placeFolder
        property double messageId: 0
        title: qsTr("Save this place in a folder")
        folders: true
        remembers: "placeFolder"
        onAccepted: path => App.library.savePlace(App.chat.conversation, messageId, path)
    }
    ExportDialog {
        id: saving
        onFolderWanted: path => exportFolder.openIn(path)
    }

    DropArea {
        id: dropping
        anchors.fill: parent
        keys: ["text/uri-list"]
        onDropped: drop => {
            if (drop.urls.length === 0) return;
            drop.accept(Qt.CopyAction);
            App.drop(drop.urls[0]);
        }
    }
    Rectangle {
        parent: T.Overlay.overlay
        z: 20
        anchors.fill: parent
        visible: dropping.containsDrag
        color: "transparent"
        border.color: Theme.accent
        border.width: 3
    }
}
