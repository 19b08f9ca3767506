// SPDX-License-Identifier: Apache-2.0
// Chats, models, settings, keys: the pages beside the conversation.
import QtQuick
import QtTest
import Runnel.Chat

WindowCase {
    id: test
    name: "Pages"

    property Item library: null

    function init() {
        if (!library) library = findChild(window.contentItem, "library");
        activate();
    }
    function slider(name) {
        const found = itemsOf(window.settingsSheet.contentItem, item => item.handle !== undefined && item.Accessible.name === name);
        compare(found.length, 1, name);
        found[0].forceActiveFocus();
        return found[0];
    }
    function modelRow(file) {
        const list = findChild(window.modelSheet.contentItem, "models");
        for (let i = 0; i < list.count; ++i) {
            if (list.itemAtIndex(i) && list.itemAtIndex(i).file === file) return list.itemAtIndex(i);
        }
        return null;
    }

    function test_aChatIsRenamedByKeys() {
        const id = script.addConversation("old", ["hi", "there"]);
        App.library.refresh();
        tryVerify(() => library.itemAtIndex(0) && library.itemAtIndex(0).conversation === id);
        library.forceActiveFocus();
        library.currentIndex = 0;
        keyClick(Qt.Key_F2);
        keyClick("n");
        keyClick(Qt.Key_Return);
        tryVerify(() => library.itemAtIndex(0) && library.itemAtIndex(0).name === "n");
    }
    function test_aChatIsPinnedAndDeletedFromItsMenuAndComesBack() {
        const id = script.addConversation("some", ["hi", "there"]);
        script.addConversation("other", ["hi", "there"]);
        App.library.refresh();
        const row = () => library.itemAtIndex(0);
        const rowOf = id => {
            for (let i = 0; i < library.count; ++i) if (library.itemAtIndex(i) && library.itemAtIndex(i).conversation === id) return library.itemAtIndex(i);
            return null;
        };
        tryVerify(() => rowOf(id));
        const choose = words => {
            mouseClick(settled(rowOf(id)), 30, 10, Qt.RightButton);
            mouseClick(entry(rowOf(id).rowMenu, words));
        };
        choose("Pin to the top");
        tryVerify(() => row() && row().conversation === id && row().pinned);
        const count = library.count;
        choose("Delete");
        tryCompare(library, "count", count - 1);
        verify(App.canUndo);
        keyClick(Qt.Key_Z, Qt.ControlModifier);
        tryCompare(library, "count", count);
        compare(App.chat.conversation, id);
        tryVerify(() => rowOf(id));
        library.forceActiveFocus();
        keyClick(Qt.Key_Home);
        while (library.currentItem !== rowOf(id)) keyClick(Qt.Key_Down);
        keyClick(Qt.Key_Menu);
        mouseClick(entry(rowOf(id).rowMenu, "Unpin"));
        tryVerify(() => rowOf(id) && !rowOf(id).pinned);
    }
    function test_aSearchFindsAMessageAndOpensItThere() {
        const id = script.addConversation("sea", ["where are the whales", "north"]);
        keyClick(Qt.Key_F, Qt.ControlModifier);
        for (const letter of "whales") keyClick(letter);
        tryVerify(() => library.count === 1 && library.itemAtIndex(0).message > 0);
        keyClick(Qt.Key_Down);
        keyClick(Qt.Key_Down);
        keyClick(Qt.Key_Return);
        compare(App.chat.conversation, id);
        App.library.query = "";
    }
    function test_aHitOnAnotherBranchIsShownWithoutMoving() {
        const id = script.addTree("fork", ["begin", "left", "walrus", "right"], [-1, 0, 1, 0]);
        App.chat.open(id);
        App.chat.rewind(id + 4);
        keyClick(Qt.Key_F, Qt.ControlModifier);
        for (const letter of "walrus") keyClick(letter);
        tryVerify(() => library.count === 1 && library.itemAtIndex(0).message > 0);
        keyClick(Qt.Key_Down);
        keyClick(Qt.Key_Down);
        keyClick(Qt.Key_Return);
        const preview = findChild(window, "foundPreview");
        tryCompare(preview, "opened", true);
        compare(App.chat.messages.count, 2);  // it stands where it stood
        keyClick(Qt.Key_Return);  // Continue from here
        tryCompare(preview, "visible", false);
        compare(App.chat.messages.count, 3);
        App.library.query = "";
    }

    function test_aModelShowsItsFactsLoadsAndIsCancelled() {
        const file = desk.folder() + "/one.gguf";
        desk.drop(window, file, Qt.point(300, 300));
        script.finishLoad("cpu");
        desk.drop(window, desk.folder() + "/b sub/three.gguf", Qt.point(300, 300));
        script.finishLoad("cpu");
        show(window.modelSheet);
        tryVerify(() => modelRow(file));
        const row = modelRow(file);
        verify(row.Accessible.name.includes("1.0 M parameters · Q4_0 · 2 layers"), row.Accessible.name);
        verify(row.Accessible.name.includes("Needs 2.0 MB: 2.0 MB for the model, 10.0 kB"), row.Accessible.name);
        verify(row.fits);
        mouseClick(row, 40, 10);
        verify(script.lastLoad().startsWith(file + " "), script.lastLoad());
        script.progress(0.4);
        const bar = itemsOf(row, item => item.indeterminate !== undefined)[0];
        fuzzyCompare(bar.value, 0.4, 0.001);
        const before = script.cancelCount();
        mouseClick(button(row, "Cancel"));
        compare(script.cancelCount(), before + 1);
        script.failCancelled();
        compare(App.models.state, ModelPicker.Loaded);
        compare(App.notice, "");
        verify(modelRow(desk.folder() + "/b sub/three.gguf").current);
    }

    function test_settingsAreChangedByKeysAndReset() {
        show(window.settingsSheet);
        const look = words => mouseClick(button(window.settingsSheet.contentItem, "Show: " + words));
        compare(itemsOf(window.settingsSheet.contentItem, item => item.Accessible.name === "Temperature").length, 0);
        const expert = button(window.settingsSheet.contentItem, "Show: Expert");
        verify(expert.Accessible.checkable && !expert.Accessible.checked);
        look("Expert");
        verify(expert.Accessible.checked);
        const settings = App.settings;
        const model = settings.modelSampling;
        for (const [name, property, by] of [["Temperature", "temperature", 0.05], ["Top-p", "topP", -0.05], ["Top-k", "topK", 1], ["Min-p", "minP", 0.01],
                                            ["Repetition penalty", "repetitionPenalty", 0.01], ["Against loops (DRY)", "dryMultiplier", 0.05]]) {
            const before = settings.sampling[property];
            verify(!slider(name).Accessible.description.includes("The model's default"), name + " is not changed");
            keyClick(by > 0 ? Qt.Key_Right : Qt.Key_Left);
            fuzzyCompare(settings.sampling[property] - before, by, 1e-6, name);
            compare(settings.modelSampling[property], model[property]);
            verify(slider(name).Accessible.description.includes("The model's default is "), name + " is changed");
            verify(slider(name).Accessible.description.length > 20, name + " is not explained");
        }
        slider("Seed");
        keyClick(Qt.Key_Right);
        compare(settings.seed, 1);
        mouseClick(button(window.settingsSheet.contentItem, "Reset to defaults"));
        compare(settings.sampling, model);
        compare(settings.seed, 0);
        compare(slider("Top-p").value, model.topP);
        for (const [name, property] of [["Maximum answer length", "maxTokens"], ["Disk space for instant return (MB)", "budgetMegabytes"],
                                        ["Threads", "threads"]]) {
            const before = settings[property];
            slider(name);
            keyClick(Qt.Key_Right);
            verify(settings[property] > before, name);
            keyClick(Qt.Key_Left);
            fuzzyCompare(settings[property], before, 1e-6, name);
        }
        look("Everyday");
        const size = settings.fontScale;
        slider("Text size");
        keyClick(Qt.Key_Right);
        verify(settings.fontScale > size);
        verify(itemsOf(window.settingsSheet.contentItem, item => item.text === "110%").length === 1);
        keyClick(Qt.Key_Left);
        compare(Theme.fontScale, settings.fontScale);
    }
    function test_aMemoryWindowIsChosenWhereTheModelHasOne() {
        desk.drop(window, desk.folder() + "/one.gguf", Qt.point(300, 300));
        script.finishLoad("cpu");
        show(window.settingsSheet);
        mouseClick(button(window.settingsSheet.contentItem, "Show: Expert"));
        const choice = findChild(window.settingsSheet.contentItem, "windows");
        verify(!choice.visible);
        script.finishWindow(252, 252);
        verify(choice.visible);
        compare(choice.options.map(option => option.words), ["60", "124", "252"]);
        button(window.settingsSheet.contentItem, "Memory window: 124").clicked();
        compare(script.windowOfLastLoad(), 124);
        compare(App.settings.windowSlots, 124);
        script.finishWindow(124, 252);
        compare(choice.chosen, "124");
        button(window.settingsSheet.contentItem, "Memory window: 252").clicked();
        compare(script.windowOfLastLoad(), 0);
        script.finishWindow(60, 60);  // another model: no choice
        verify(!choice.visible);
        mouseClick(button(window.settingsSheet.contentItem, "Show: Everyday"));
    }
    function test_earlierMessagesAreReReadIfTheSettingSaysSo() {
        const before = App.settings.remind;
        show(window.settingsSheet);
        const setting = button(window.settingsSheet.contentItem, "Re-read earlier messages when a question refers to them");
        compare(setting.checked, before);
        setting.forceActiveFocus();
        keyClick(Qt.Key_Space);
        compare(App.settings.remind, !before);
        window.settingsSheet.close();
        tryCompare(window.settingsSheet, "visible", false);
        say("hi", "there");
        compare(script.lastReminds(), !before);
        App.settings.remind = before;
        say("and", "now");
        compare(script.lastReminds(), before);
    }
    function test_theThemeFollowsItsSetting() {
        show(window.settingsSheet);
        for (const [words, dark] of [["Theme: Dark", true], ["Theme: Light", false]]) {
            mouseClick(button(window.settingsSheet.contentItem, words));
            compare(Theme.dark, dark);
        }
    }
    function test_theSystemPromptIsReadByANewChat() {
        show(window.settingsSheet);
        const field = itemsOf(window.settingsSheet.contentItem, item => item.editingFinished !== undefined && item.Accessible.name === "System prompt")[0];
        field.forceActiveFocus();
        for (const letter of "Be brief") keyClick(letter);
        window.settingsSheet.close();
        tryCompare(window.settingsSheet, "visible", false);
        say("hi", "there");
        compare(script.lastSystem(), "Be brief");
        App.settings.systemPrompt = "";
    }
    function test_theStatusLineSaysWhatComputesOneToken_data() {
        return [{tag: "only", program: "ops", words: "50 tokens/s on cpu: ops (the only program there)"},
                {tag: "reason", program: "ops (two to five times slower than one kernel); not grid: heads of 80, expected a power of two", words: "50 tokens/s on cpu: ops (two to five times slower than one kernel); not grid: heads of 80, expected a power of two"}];
    }
    function test_theStatusLineSaysWhatComputesOneToken(data) {
        script.finishLoadWith("cpu", data.program);
        say("hi", "there");
        const words = () => itemsOf(window.pane, item => item.text !== undefined && item.text.includes("tokens/s")).map(item => item.text.split("  ·  ")[0]);
        tryVerify(() => {
            // A setting that another test changed may have the model loaded again only now.
            if (App.models.state === ModelPicker.Loading) script.finishLoadWith("cpu", data.program);
            return words().length === 1;
        });
        compare(words(), [data.words]);
        script.finishLoadWith("cpu", "");
    }
    function test_statisticsStandUnderTheChatAndCanBeHidden() {
        desk.drop(window, desk.folder() + "/one.gguf", Qt.point(300, 300));
        script.finishLoad("cpu", 5900000);
        say("hi", "there");
        const words = () => itemsOf(window.pane, item => item.text !== undefined && item.text.includes("tokens/s")).map(item => item.text);
        tryVerify(() => {
            if (App.models.state === ModelPicker.Loading) script.finishLoad("cpu", 5900000);
            return words().length === 1;
        });
        compare(words(), ["50 tokens/s on cpu  ·  first word in 12 ms  ·  model memory 5.9 MB"]);
        App.settings.showStatistics = false;
        compare(words(), []);
        App.settings.showStatistics = true;
    }
    // Where an item is in the window.
    function frame(item) {
        const at = item.mapToItem(null, 0, 0);
        return Qt.rect(at.x, at.y, item.width, item.height);
    }
    function overlap(a, b) {
        return a.x < b.x + b.width - 1 && b.x < a.x + a.width - 1 && a.y < b.y + b.height - 1 && b.y < a.y + a.height - 1;
    }
    function test_aNoticeCoversNoButtonAndNoTitle_data() {
        return [{tag: "window, wide", w: 1180}, {tag: "window, narrow", w: 400}, {tag: "page, wide", w: 1180, page: true}, {tag: "page, narrow", w: 400, page: true}];
    }
    function test_aNoticeCoversNoButtonAndNoTitle(data) {
        window.width = data.w;
        say("hi", "there\n\n".repeat(30));
        script.refuseLibrary("/x/chats.db");  // it stays
        if (data.page) show(window.modelSheet);
        const under = data.page ? window.modelSheet.contentItem : window.contentItem;
        let bars = [];
        tryVerify(() => (bars = itemsOf(under, item => item.unfolded !== undefined)).length === 1);
        settled(bars[0]);
        const inside = itemsOf(bars[0], () => true);
        const others = itemsOf(under, item => !inside.includes(item) && ((item.clicked !== undefined && item.selectAll === undefined)
                                              || item.Accessible.role === Accessible.Heading || item.objectName === "composer"));
        verify(others.length > 4, others.length);
        for (const other of others) {
            if (other.opacity === 0 || other.parent.opacity === 0 || window.pane.list.contentItem === other.parent) continue;
            let clipped = false;
            for (let at = other; at !== null; at = at.parent) clipped = clipped || at === window.pane.list;
            if (clipped) continue;
            verify(!overlap(frame(bars[0]), frame(other)), other.Accessible.name + " " + frame(other) + " " + frame(bars[0]));
        }
        if (!data.page) return;
        mouseClick(button(window.modelSheet.contentItem, "Open a file…"));
        tryCompare(window.modelOpening, "opened", true);
    }
    function test_dialogsHaveNames() {
        say("hi", "there");
        const file = desk.folder();
        const of = p => p.openIn(file);
        App.chat.regenerate(message(1, MessageModel.IdRole));
        script.answerWith("you");
        tryCompare(App.chat, "state", ChatModel.Idle);
        const preview = findChild(window.timelinePane, "placePreview");
        for (const [page, opening] of [[window.settingsSheet, p => p.open()], [window.modelSheet, p => p.open()], [window.keysSheet, p => p.open()], [window.trashSheet, p => p.open()],
                                       [window.nameDialog, p => p.openFor(message(1, MessageModel.IdRole), "")], [window.deleteDialog, p => p.openFor(message(1, MessageModel.IdRole))],
                                       [window.exportDialog, p => p.openFor(App.chat.conversation)], [window.linkDialog, p => p.openFor("https://example.org")],
                                       [window.chatSheet, p => p.open()], [window.folderDialog, p => p.openFor(App.chat.conversation)], [window.folderDialog, p => p.openFor(0)],
                                       [window.compareSheet, p => p.openFor(message(1, MessageModel.IdRole))], [window.askSheet, p => p.open()],
                                       [window.readDialog, () => desk.drop(window, file + "/notes.txt", Qt.point(500, 300))],
                                       [preview, p => p.openFor(message(0, MessageModel.IdRole), findChild(window.timelinePane, "timeline").itemAtIndex(0))],
                                       [window.trySheet, p => p.openFor(message(1, MessageModel.IdRole))],
                                       [window.modelOpening, of], [window.chatImporting, of], [window.exportPicker, of], [window.documentPicker, of], [window.sourcePicker, of],
                                       [window.schemaPicker, of], [window.placePicker, of]]) {
            opening(page);
            tryCompare(page, "opened", true);
            if (App.chat.trying) {
                script.tryWith(["a", "b", "c"]);
                tryCompare(App.chat, "state", ChatModel.Idle);
            }
            const named = itemsOf(page.contentItem, item => item.Accessible.role === Accessible.Dialog);
            compare(named.length, 1, page);
            verify(named[0].Accessible.name !== "", page);
            for (const heading of itemsOf(page.contentItem, item => item.Accessible.role === Accessible.Heading)) verify(heading.Accessible.name !== "", page);
            for (const pressable of itemsOf(page.contentItem, item => item.clicked !== undefined && item.selectAll === undefined)) verify(pressable.Accessible.name !== "", page + " " + pressable);
            page.close();
            tryCompare(page, "visible", false);
        }
    }
    function test_choicesSayWhichIsChosen() {
        const page = window.settingsSheet.contentItem;
        const options = title => itemsOf(page, item => item.Accessible.role === Accessible.RadioButton && item.Accessible.name.startsWith(title + ": "));
        const checked = title => options(title).filter(item => item.Accessible.checkable && item.Accessible.checked).map(item => item.text);
        const state = name => itemsOf(page, item => item.Accessible.role === Accessible.CheckBox && item.Accessible.name === name)[0].Accessible.checked;
        const theme = App.settings.theme, language = App.settings.language;
        show(window.settingsSheet);
        for (const [title, words] of [["Show", ["Expert", "Everyday"]], ["Theme", ["Dark", "Light", "System"]], ["Language (after a restart)", ["Deutsch", "English", "System"]]]) {
            for (const word of words) {
                button(page, title + ": " + word).forceActiveFocus();
                keyClick(Qt.Key_Space);
                compare(checked(title), [word]);
            }
        }
        App.settings.theme = theme;
        App.settings.language = language;
        for (const [name, mode] of [["Re-read earlier messages when a question refers to them", "Everyday"], ["Show speed and token count below the chat", "Expert"]]) {
            button(page, "Show: " + mode).clicked();
            const before = state(name);
            button(page, name).forceActiveFocus();
            keyClick(Qt.Key_Space);
            compare(state(name), !before);
            keyClick(Qt.Key_Space);
            compare(state(name), before);
        }
        // The memory window of a model that has one.
        script.finishWindow(252, 252);
        compare(checked("Memory window"), ["252"]);
        script.finishWindow(124, 252);
        compare(checked("Memory window"), ["124"]);
        button(page, "Show: Everyday").clicked();
        const fonts = itemsOf(page, item => item.Accessible.role === Accessible.ComboBox)[0];
        compare(fonts.Accessible.name, "Font: System");
        window.settingsSheet.close();
        tryCompare(window.settingsSheet, "visible", false);
        // The device: what is chosen, and in the list that unfolds.
        show(window.modelSheet);
        const devices = window.modelSheet.deviceSelector;
        devices.forceActiveFocus();
        compare(devices.Accessible.name, "Device: " + devices.textAt(devices.currentIndex));
        keyClick(Qt.Key_Space);
        tryCompare(devices.popup, "opened", true);
        const rows = itemsOf(devices.popup.contentItem, item => item.Accessible.role === Accessible.ListItem);
        compare(rows.map(row => row.Accessible.selected), rows.map((row, i) => i === devices.currentIndex));
        compare(rows.map(row => row.Accessible.name.endsWith(", selected")), rows.map((row, i) => i === devices.currentIndex));
        keyClick(Qt.Key_Escape);
        tryCompare(devices.popup, "visible", false);
        window.modelSheet.close();
        // The chat in the list, the folder of a chat, the form of an answer.
        say("hi", "there");
        tryVerify(() => itemsOf(library, item => item.conversation === App.chat.conversation).length === 1);
        const row = itemsOf(library, item => item.conversation === App.chat.conversation)[0];
        verify(row.Accessible.selected);
        verify(row.Accessible.name.endsWith(", selected"), row.Accessible.name);
        App.library.addFolder("Work", 0);
        window.folderDialog.openFor(App.chat.conversation);
        tryCompare(window.folderDialog, "opened", true);
        compare(itemsOf(window.folderDialog.contentItem, item => item.Accessible.role === Accessible.RadioButton && item.Accessible.checked).map(item => item.text), ["No folder"]);
        mouseClick(button(window.folderDialog.contentItem, "Work"));
        tryCompare(window.folderDialog, "visible", false);
        window.folderDialog.openFor(App.chat.conversation);
        tryCompare(window.folderDialog, "opened", true);
        compare(itemsOf(window.folderDialog.contentItem, item => item.Accessible.role === Accessible.RadioButton && item.Accessible.checked).map(item => item.text), ["Work"]);
        window.folderDialog.close();
        App.library.removeFolder(App.library.folders[0].id);
        window.exportDialog.openFor(App.chat.conversation);
        tryCompare(window.exportDialog, "opened", true);
        for (const word of ["JSON", "Markdown"]) {
            mouseClick(button(window.exportDialog.contentItem, word));
            compare(itemsOf(window.exportDialog.contentItem, item => item.Accessible.role === Accessible.RadioButton && item.Accessible.checked).map(item => item.text), [word]);
        }
    }
    function test_theMarkOfTheChosenChatDoesNotGlide() {
        for (let i = 0; i < 200; ++i) script.addConversation("chat " + i, ["hi", "there"]);
        App.library.refresh();
        tryVerify(() => library.count >= 200);
        library.forceActiveFocus();
        library.currentIndex = 0;
        keyClick(Qt.Key_Down);
        library.currentIndex = library.count - 1;
        tryVerify(() => library.currentItem !== null && library.highlightItem.y === library.currentItem.y, 1000);
        script.forgetChats();
        library.currentIndex = -1;
    }
    function test_theListOfKeysOpens() {
        keyClick(Qt.Key_F1);
        tryCompare(window.keysSheet, "opened", true);
        verify(itemsOf(window.keysSheet.contentItem, item => item.text === "Shift+Return").length === 1);
    }

    function test_everythingOnAPageHasANameAndTabGoesAround_data() {
        return [{tag: "models"}, {tag: "settings"}, {tag: "compare"}, {tag: "export"}, {tag: "name"}, {tag: "link"}];
    }
    function test_everythingOnAPageHasANameAndTabGoesAround(data) {
        say("hi", "there");
        const page = ({models: window.modelSheet, settings: window.settingsSheet, compare: window.compareSheet, export: window.exportDialog,
                       name: window.nameDialog, link: window.linkDialog})[data.tag];
        if (data.tag === "compare") {
            App.chat.answerLastAgain();
            script.answerWith("you");
            window.compareLast();
        } else if (data.tag === "export") page.openFor(App.chat.conversation);
        else if (data.tag === "name") page.openFor(message(1, MessageModel.IdRole), "");
        else if (data.tag === "link") page.openFor("https://example.org");
        else page.open();
        tryCompare(page, "opened", true);
        const pressable = itemsOf(page.contentItem, item => ((item.clicked !== undefined && item.selectAll === undefined) || item.handle !== undefined || item.textEdited !== undefined) && item.enabled);
        const stops = [];
        for (let i = 0; i < 60; ++i) {
            keyClick(Qt.Key_Tab);
            const at = window.activeFocusItem;
            verify(at && at.visible, stops.map(item => item.Accessible.name).join());
            if (stops.includes(at)) break;
            verify(at.Accessible.name !== "" && at.Accessible.role !== Accessible.NoRole, at + " after " + stops.map(item => item.Accessible.name).join());
            stops.push(at);
        }
        for (const item of pressable) {
            verify(item.Accessible.name !== "", item);
            // The rows of a list are reached by its arrow keys.
            verify(stops.includes(item) || item.ListView.view !== null, item.Accessible.name + " is not reached by Tab");
        }
    }
}
