// SPDX-License-Identifier: Apache-2.0
// What a chat has of its own, folders of chats, and the tour, by keys and clicks.
import QtQuick
import QtTest
import Runnel.Chat

WindowCase {
    id: test
    name: "Chats"

    property Item list: null

    function init() {
        if (!list) list = findChild(window.libraryPane, "library");
        App.settings.systemPrompt = "";
        App.tour.leave();
        while (App.library.folders.length > 0) App.library.removeFolder(App.library.folders[0].id);
        activate();
    }
    // The rows as the model has them now: a list lets go of one only when it is laid out.
    function rows() {
        list.forceLayout();
        return itemsOf(list, item => item.showMenu !== undefined);
    }
    function rowOf(name) {
        let found = [];
        tryVerify(() => (found = rows().filter(row => row.name === name)).length === 1, 1000, name);
        return settled(found[0]);
    }
    function names() {
        return rows().sort((a, b) => a.y - b.y).map(row => row.name);
    }
    function focusRow(name) {
        list.currentIndex = rowOf(name).index;
        list.forceActiveFocus();
        tryCompare(rowOf(name), "focusShown", true);
    }
    function newFolder(name) {
        mouseClick(settled(findChild(window.libraryPane, "libraryMenuButton")));
        mouseClick(entry(window.libraryPane.menu, "New folder…"));
        tryCompare(window.folderDialog, "opened", true);
        for (const letter of name) keyClick(letter);
        keyClick(Qt.Key_Return);
        tryCompare(window.folderDialog, "visible", false);
    }
    function openSheet() {
        keyClick(Qt.Key_I, Qt.ControlModifier);
        tryCompare(window.chatSheet, "opened", true);
        return window.chatSheet.contentItem;
    }
    function closeSheet() {
        keyClick(Qt.Key_Escape);
        tryCompare(window.chatSheet, "visible", false);
    }
    function slider(name) {
        const found = itemsOf(window.chatSheet.contentItem, item => item.stepSize !== undefined && item.Accessible.name === name);
        compare(found.length, 1, name);
        return found[0];
    }

    // A chat's own settings

    function test_aChatsSamplingIsItsOwnUntilItIsAsInSettings() {
        say("one", "1");
        const chat = App.chat.conversation;
        mouseClick(settled(findChild(window.pane, "chatSettings")));
        tryCompare(window.chatSheet, "opened", true);
        const reset = findChild(window.chatSheet.contentItem, "samplingAsUsual");
        verify(!reset.enabled);
        const usual = App.settings.sampling.temperature;
        slider("Temperature").forceActiveFocus();
        keyClick(Qt.Key_Right);
        const own = App.chat.own.sampling.temperature;
        verify(own > usual);
        verify(slider("Temperature").Accessible.description.includes("In Settings it is"), slider("Temperature").Accessible.description);
        compare(App.settings.sampling.temperature, usual);
        slider("Seed").forceActiveFocus();
        for (let i = 0; i < 7; ++i) keyClick(Qt.Key_Right);
        tryVerify(() => script.settingsOf(chat) !== "");
        tryVerify(() => JSON.parse(script.settingsOf(chat)).seed === 7);
        compare(JSON.parse(script.settingsOf(chat)).sampling, {temperature: own});
        closeSheet();
        say("two", "2");
        fuzzyCompare(script.lastTemperature(), own, 1e-6);
        compare(script.lastSeed(), 7);
        App.chat.startNew();
        compare(App.chat.own.sampling.temperature, usual);
        App.chat.open(chat);
        compare(App.chat.own.sampling.temperature, own);
        openSheet();
        mouseClick(settled(reset));
        tryCompare(reset, "enabled", false);
        tryVerify(() => script.settingsOf(chat) === "");
        closeSheet();
        say("three", "3");
        fuzzyCompare(script.lastTemperature(), usual, 1e-6);
    }
    function test_anotherPromptMakesABranchAndTheOldOneStays() {
        say("one", "1");
        const chat = App.chat.conversation, before = message(1, MessageModel.IdRole);
        openSheet();
        const prompt = findChild(window.chatSheet.contentItem, "chatPrompt");
        tryCompare(prompt, "activeFocus", true);
        for (const letter of "Be brief.") keyClick(letter);
        const again = settled(findChild(window.chatSheet.contentItem, "beginAgain"));
        verify(again.enabled);
        compare(App.chat.messages.count, 2);  // nothing before it is asked for
        mouseClick(again);
        tryCompare(window.chatSheet, "visible", false);
        compare(App.chat.messages.count, 3);
        compare(message(0, MessageModel.SpeakerRole), "system");
        compare(message(0, MessageModel.TextRole), "Be brief.");
        compare(message(2, MessageModel.TextRole), "1");
        verify(message(2, MessageModel.IdRole) !== before);
        App.chat.rewind(before);
        compare(App.chat.messages.count, 2);
        compare(App.chat.systemPrompt, "");
        compare(App.chat.conversation, chat);
    }
    function test_aNewChatBeginsWithItsOwnPromptAndModel() {
        App.settings.systemPrompt = "As usual.";
        desk.drop(window, desk.folder() + "/b sub/three.gguf", Qt.point(300, 300));
        script.finishLoad("cpu");
        desk.drop(window, desk.folder() + "/one.gguf", Qt.point(300, 300));
        script.finishLoad("cpu");
        openSheet();
        const prompt = findChild(window.chatSheet.contentItem, "chatPrompt");
        compare(prompt.text, "As usual.");
        keyClick(Qt.Key_A, Qt.ControlModifier);
        for (const letter of "Mine.") keyClick(letter);
        const models = findChild(window.chatSheet.contentItem, "chatModel");
        compare(models.textAt(0), "As in Settings (one)");
        models.forceActiveFocus();
        keyClick(Qt.Key_Space);
        tryCompare(models.popup, "opened", true);
        const three = models.files.findIndex(file => file.endsWith("/three.gguf"));
        while (models.highlightedIndex < three) keyClick(Qt.Key_Down);
        keyClick(Qt.Key_Return);
        verify(script.lastLoad().startsWith(desk.folder() + "/b sub/three.gguf "), script.lastLoad());
        script.finishLoad("cpu");
        closeSheet();
        verify(App.settings.modelFile.endsWith("/one.gguf"), App.settings.modelFile);
        say("hi", "there");
        compare(script.lastSystem(), "Mine.");
        const chat = App.chat.conversation;
        verify(JSON.parse(script.settingsOf(chat)).model.endsWith("/three.gguf"));

        // Other chats have the usual one, and this one gets its own back.
        App.chat.startNew();
        verify(script.lastLoad().startsWith(desk.folder() + "/one.gguf "), script.lastLoad());
        script.finishLoad("cpu");
        App.chat.open(chat);
        verify(script.lastLoad().startsWith(desk.folder() + "/b sub/three.gguf "), script.lastLoad());
        script.finishLoad("cpu");

        // Who chooses a model under Models while this chat is in view means it, too.
        desk.drop(window, desk.folder() + "/one.gguf", Qt.point(300, 300));
        script.finishLoad("cpu");
        compare(App.chat.own.model, "");
        tryVerify(() => script.settingsOf(chat) === "");
    }
    function test_aMissingModelIsNamedAndTheChatGoesOn() {
        desk.drop(window, desk.folder() + "/one.gguf", Qt.point(300, 300));
        script.finishLoad("cpu");
        const chat = script.addConversation("old", ["a", "b"]);
        script.setOwn(chat, "{\"model\": \"/nowhere/gone.gguf\", \"later\": 1}");
        const before = script.lastLoad();
        App.chat.open(chat);
        compare(script.lastLoad(), before);
        compare(App.notice, "Can't find gone.gguf, the model of this chat. It goes on with tiny, which reads its text again.");
        App.dismissNotice();
        say("go on", "yes");
        compare(App.notice, "");  // said once
        App.chat.own.chooseSeed(3);
        tryVerify(() => JSON.parse(script.settingsOf(chat)).seed === 3);
        compare(JSON.parse(script.settingsOf(chat)).later, 1);
    }

    // Folders

    function test_foldersAreMadeFilledFoldedRenamedAndDeletedByKeys() {
        say("tea", "1");
        const chat = App.chat.conversation;
        newFolder("Work");
        compare(App.library.folders.map(folder => folder.name), ["Work"]);
        verify(rowOf("Work").Accessible.name.startsWith("Folder Work, 0 chats"), rowOf("Work").Accessible.name);
        focusRow("tea");
        keyClick(Qt.Key_Menu);
        mouseClick(entry(rowOf("tea").rowMenu, "Move to a folder…"));
        tryCompare(window.folderDialog, "opened", true);
        tryVerify(() => window.activeFocusItem.Accessible.name === "No folder");
        keyClick(Qt.Key_Down);
        compare(window.activeFocusItem.Accessible.name, "Work");
        keyClick(Qt.Key_Space);
        tryCompare(window.folderDialog, "visible", false);
        compare(App.library.folderOf(chat), App.library.folders[0].id);
        compare(names().slice(0, 2), ["Work", "tea"]);
        verify(rowOf("tea").Accessible.name.includes("Folder Work"), rowOf("tea").Accessible.name);

        focusRow("tea");
        keyClick(Qt.Key_Left);  // to the folder
        tryCompare(rowOf("Work"), "focusShown", true);
        keyClick(Qt.Key_Left);
        verify(!names().includes("tea"), names());
        verify(rowOf("Work").Accessible.name.endsWith("1 chats, folded") || rowOf("Work").Accessible.name.endsWith("1 chat, folded"), rowOf("Work").Accessible.name);
        tryCompare(rowOf("Work"), "focusShown", true);
        keyClick(Qt.Key_Right);
        tryVerify(() => names().includes("tea"));
        keyClick(Qt.Key_Return);
        verify(!names().includes("tea"));
        mouseClick(rowOf("Work"), 60, 8);
        tryVerify(() => names().includes("tea"));

        focusRow("Work");
        keyClick(Qt.Key_F2);
        tryVerify(() => window.activeFocusItem.Accessible.name === "Name of the folder");
        for (const letter of "Home") keyClick(letter);
        keyClick(Qt.Key_Return);
        compare(App.library.folders[0].name, "Home");
        focusRow("Home");
        keyClick(Qt.Key_Delete);
        compare(App.library.folders.length, 0);
        compare(App.library.folderOf(chat), 0);
        verify(names().includes("tea"));
        compare(App.notice, "Folder deleted. Its chats are kept.");
    }
    function test_aChatIsDraggedIntoAFolderAndOut() {
        say("coffee", "1");
        const chat = App.chat.conversation;
        newFolder("Work");
        const work = App.library.folders[0].id;
        function drag(from, to, y) {
            const target = to.mapToItem(from, 40, y);
            mousePress(from, 30, 8);
            for (let i = 1; i <= 10; ++i) mouseMove(from, 30 + (target.x - 30) * i / 10, 8 + (target.y - 8) * i / 10);
            verify(findChild(list, "draggedChat").visible);
            mouseRelease(from, target.x, target.y);
            tryCompare(findChild(list, "draggedChat"), "visible", false);
        }
        App.chat.startNew();
        drag(rowOf("coffee"), rowOf("Work"), 8);
        compare(App.library.folderOf(chat), work);
        compare(App.chat.conversation, 0);  // dragged, not opened
        drag(rowOf("coffee"), list, list.height - 4);
        compare(App.library.folderOf(chat), 0);
        mouseClick(rowOf("coffee"), 30, 8);
        compare(App.chat.conversation, chat);
    }
    function test_searchFindsAndDeletionKeepsWhatIsInAFolder() {
        say("zebra", "1");
        const chat = App.chat.conversation;
        App.library.addFolder("Work", chat);
        App.library.foldFolder(App.library.folders[0].id, true);
        window.libraryPane.focusSearch();
        for (const letter of "zebra") keyClick(letter);
        tryVerify(() => names().includes("zebra"));
        keyClick(Qt.Key_Escape);
        tryVerify(() => !names().includes("zebra"));
        App.library.remove(chat);
        verify(rowOf("Work").Accessible.name.includes("0 chats"));
        window.pane.composer.focusField();
        keyClick(Qt.Key_Z, Qt.ControlModifier);
        compare(App.library.folderOf(chat), App.library.folders[0].id);
    }

    // The tour

    function offer() {
        return itemsOf(window.pane, item => item.clicked !== undefined && item.Accessible.name === "Take a tour in three steps");
    }
    function task() {
        const bar = findChild(window.pane, "tourBar");
        return bar.visible ? bar.Accessible.name : "";
    }
    function beginTour(words = "Take a tour in three steps") {
        desk.drop(window, desk.folder() + "/one.gguf", Qt.point(300, 300));
        script.finishLoad("cpu");
        keyClick(Qt.Key_F1);
        tryCompare(window.keysSheet, "opened", true);
        mouseClick(button(window.keysSheet.contentItem, words));
        tryCompare(window.keysSheet, "visible", false);
        tryCompare(window.pane.composer.field, "activeFocus", true);
    }
    function send(answer) {
        keyClick(Qt.Key_Return);
        compare(App.chat.state, ChatModel.Waiting);
        script.answerWith(answer);
        tryCompare(App.chat, "state", ChatModel.Idle);
    }
    function test_theTourShowsGoingBackAndBranching_data() {
        return [{tag: "English", language: "", offer: "Take a tour in three steps", title: "A short tour", prompt: "Answer in one short sentence.", goBack: "Continue from here",
                 remove: "Delete this chat",
                 drafts: ["Suggest a name for a small boat.", "Which colour suits it?", "What should I take along on it?"],
                 steps: ["Step 1 of 3: Every message is a place.", "Step 2 of 3: Go back here and ask something else.", "Step 3 of 3: Both answers are kept, side by side."]},
                {tag: "German", language: "de", offer: "Kurze Tour in drei Schritten", title: "Kurze Tour", prompt: "Antworte in einem kurzen Satz.", goBack: "Hier weitermachen",
                 remove: "Diesen Chat löschen",
                 drafts: ["Schlage einen Namen für ein kleines Boot vor.", "Welche Farbe passt zu ihm?", "Was soll ich darauf mitnehmen?"],
                 steps: ["Schritt 1 von 3: Jede Nachricht ist eine Stelle.", "Schritt 2 von 3: Gehen Sie hierher zurück und fragen Sie etwas anderes.",
                         "Schritt 3 von 3: Beide Antworten bleiben, nebeneinander."]}];
    }
    function test_theTourShowsGoingBackAndBranching(data) {
        verify(desk.speak(data.language));
        beginTour(data.offer);
        verify(task().startsWith(data.steps[0]), task());
        compare(App.chat.draft, data.drafts[0]);
        send("Dot.");
        compare(script.lastSystem(), data.prompt);
        const chat = App.chat.conversation;
        compare(App.chat.title, data.title);
        compare(App.chat.draft, data.drafts[1]);
        window.pane.composer.focusField();
        send("Blue.");
        verify(task().startsWith(data.steps[1]), task());
        const timeline = findChild(window.contentItem, "timeline");
        const placed = () => itemsOf(timeline, item => item.messageId !== undefined && item.messageId === App.tour.place)[0];
        tryVerify(() => placed() !== undefined);
        compare(App.chat.textOf(App.tour.place), "Dot.");
        mouseClick(settled(placed()), 60, 10, Qt.RightButton);
        mouseClick(entry(window.timelineMenu, data.goBack));
        tryVerify(() => App.chat.wentBack);
        compare(App.chat.draft, data.drafts[2]);
        window.pane.composer.focusField();
        send("Rope.");
        verify(task().startsWith(data.steps[2]), task());
        compare(App.chat.textOf(App.tour.place), "Blue.");
        mouseClick(settled(placed()), 60, 10);
        const preview = findChild(window, "placePreview");
        tryVerify(() => App.tour.stage === Tour.Return);
        keyClick(Qt.Key_Return);  // the preview's button has the focus
        tryVerify(() => App.tour.stage === Tour.Done);
        compare(App.chat.messages.count, 4);
        mouseClick(button(findChild(window.pane, "tourBar"), data.remove));
        compare(App.chat.conversation, 0);
        verify(!App.tour.active);
        verify(App.trash.some(row => row.name === data.title));
    }
    function test_escapeLeavesTheTourAtAnyTimeAndKeepsItsChat() {
        beginTour();
        keyClick(Qt.Key_Escape);
        verify(!App.tour.active);
        compare(task(), "");
        compare(App.chat.draft, "");
        beginTour();
        keyClick(Qt.Key_Return);
        script.saveUser();
        const chat = App.chat.conversation, stops = script.stopCount();
        keyClick(Qt.Key_Escape);  // while it is answered
        verify(!App.tour.active);
        compare(script.stopCount(), stops);
        keyClick(Qt.Key_Escape);
        compare(script.stopCount(), stops + 1);
        script.failStopped();
        tryCompare(App.chat, "state", ChatModel.Idle);
        compare(App.chat.conversation, chat);
    }
    function test_anotherChatEndsTheTour() {
        say("one", "1");
        const other = App.chat.conversation;
        beginTour();
        send("Dot.");
        App.chat.open(other);
        verify(!App.tour.active);
    }
    function test_theTourIsOfferedUntilItWasTakenOrRefused() {
        desk.drop(window, desk.folder() + "/one.gguf", Qt.point(300, 300));
        script.finishLoad("cpu");
        App.settings.remember("tour", undefined);
        script.forgetChats();
        tryVerify(() => offer().length === 1);
        mouseClick(settled(itemsOf(window.pane, item => item.clicked !== undefined && item.Accessible.name.endsWith("No, thanks"))[0]));
        tryVerify(() => offer().length === 0);
        App.settings.remember("tour", undefined);
        App.library.refresh();
        tryVerify(() => offer().length === 1);
        mouseClick(settled(offer()[0]));
        verify(App.tour.active);
    }
}
