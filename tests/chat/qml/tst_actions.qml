// SPDX-License-Identifier: Apache-2.0
// What can be done with a message, in the conversation and on the timeline, by clicks.
import QtQuick
import QtTest
import Runnel.Chat

WindowCase {
    id: test
    name: "Actions"

    // Looked for once: a binding would look again, through everything, at every change of everything.
    property Item timeline: null

    function init() {
        if (!timeline) timeline = findChild(window.contentItem, "timeline");
        activate();
    }
    function messageAt(row) {
        let item = null;
        tryVerify(() => item = window.pane.list.itemAtIndex(row));
        mouseMove(item, item.width / 2, item.height / 2);  // its buttons show
        return item;
    }
    function choose(row, words) {
        const item = messageAt(row);
        mouseClick(button(item, "More options"));
        const menu = window.pane.messageMenu;
        mouseClick(entry(menu, words));
        tryCompare(menu, "visible", false);
    }

    function test_aMessageAndItsCodeAreCopied() {
        say("hi", "One `two`\n\n```py\nprint(1)  # x\n```");
        mouseClick(button(messageAt(0), "Copy"));
        compare(desk.copied(), "hi");
        mouseClick(button(messageAt(1), "Copy"));
        compare(desk.copied(), "One `two`\n\n```py\nprint(1)  # x\n```");
        mouseClick(button(messageAt(1), "Copy code"));
        compare(desk.copied(), "print(1)  # x");
    }
    function test_codeIsMonospacedAndColoured() {
        say("code", "```py\ndef f():  # x\n```");
        const code = itemsOf(messageAt(1), item => item.textDocument !== undefined && item.text.includes("def"))[0];
        compare(code.font.family, Theme.monospace);
        verify(desk.coloursOf(code.textDocument) >= 2, desk.coloursOf(code.textDocument));
    }
    function test_aQuotationHasABarForEachDepth() {
        say("quote", "He said:\n> one\n>> two\n\nEnd");
        const proses = itemsOf(messageAt(1), item => item.markdown !== undefined);
        const bars = proses.map(prose => itemsOf(settled(prose), item => item.objectName === "quotationBar"));
        compare(proses.map(prose => prose.getText(0, prose.length)), ["He said:", "one", "two", "End"]);
        compare(bars.map(found => found.length), [0, 1, 2, 0]);
        for (const [i, found] of bars.entries()) {
            for (const bar of found) compare(bar.height, proses[i].height);
            // Left of the words, and of what is quoted in it.
            if (found.length > 0) verify(found[found.length - 1].x + 3 < proses[i].positionToRectangle(0).x, found.length);
        }
    }
    function test_aQuotationInAnItemHasABarBesideItsLines() {
        say("list", "1. one\n   > quoted, " + "in many words, ".repeat(40) + "\n   > > deep\n\n   after\n2. two\n   - in it\n     > more");
        const prose = itemsOf(messageAt(1), item => item.markdown !== undefined)[0];
        const text = prose.getText(0, prose.length);
        const at = words => prose.positionToRectangle(text.indexOf(words));
        const bars = () => itemsOf(prose, item => item.objectName === "quotationBar");
        const check = () => {
            tryVerify(() => bars().length === 3);
            for (const [i, [first, last, around]] of [["quoted", "deep", "one"], ["deep", "deep", "quoted"], ["more", "more", "in it"]].entries()) {
                // From its first line to its last one, between the words around it and its own.
                tryVerify(() => Math.abs(bars()[i].y - at(first).y) < 3, 1000, first);
                tryVerify(() => Math.abs(bars()[i].y + bars()[i].height - at(last).y - at(last).height) < 3, 1000, first);
                verify(bars()[i].x > at(around).x && bars()[i].x + 3 < at(first).x, first);
            }
        };
        settled(prose);
        check();
        // When the lines break elsewhere.
        const height = prose.height;
        window.width = 420;
        tryVerify(() => prose.height > height);
        check();
        reset();
        tryCompare(prose, "height", height);
    }
    function test_aTablesColumnsStandOnTheirSides() {
        say("table", "|a|b|c|\n|:-|:-:|-:|\n|long words|long words|long words|\n|x|y|z|");
        const cells = itemsOf(messageAt(1), item => item.Accessible.role === Accessible.Cell);
        calm();
        // Where the ink of a letter is in its cell.
        const image = grabImage(window.contentItem);
        const sides = cells.slice(3).map(cell => {
            const at = cell.mapToItem(window.contentItem, 0, cell.height / 2), ground = image.pixel(at.x + 2, at.y);
            const ink = [];
            for (let x = 2; x < cell.width - 2; ++x) {
                for (let dy = -6; dy <= 6; ++dy) if (!Qt.colorEqual(image.pixel(at.x + x, at.y + dy), ground)) ink.push(x);
            }
            verify(ink.length > 0, cell.Accessible.name);
            const middle = (ink[0] + ink[ink.length - 1]) / 2 / cell.width;
            return middle < 0.35 ? "left" : middle > 0.65 ? "right" : "middle";
        });
        compare(sides, ["left", "middle", "right"]);
    }
    function test_aTableHasHeadsAndCells() {
        say("table", "|a|b|\n|-|-|\n|1|2|");
        const cells = itemsOf(messageAt(1), item => item.Accessible.role === Accessible.Cell || item.Accessible.role === Accessible.ColumnHeader);
        compare(cells.map(cell => cell.Accessible.name), ["a", "b", "1", "2"]);
        compare(cells.map(cell => cell.heading), [true, true, false, false]);
    }
    function test_answeringAgainMakesAVersionThatIsPaged() {
        say("colour?", "red");
        mouseClick(button(messageAt(1), "Try again"));
        script.answerWith("blue");
        tryCompare(App.chat, "state", ChatModel.Idle);
        compare(message(1, MessageModel.TextRole), "blue");
        verify(!button(messageAt(1), "Next version").enabled);
        mouseClick(button(messageAt(1), "Previous version"));
        compare(message(1, MessageModel.TextRole), "red");
        mouseClick(button(messageAt(1), "Next version"));
        compare(message(1, MessageModel.TextRole), "blue");
        mouseClick(button(messageAt(1), "Compare versions"));
        tryCompare(window.compareSheet, "opened", true);
        const chosen = itemsOf(window.compareSheet.contentItem, item => item.clicked !== undefined && item.text === "Continue with this version")[0];
        verify(chosen.enabled);
        mouseClick(settled(chosen));
        tryCompare(window.compareSheet, "opened", false);
        compare(message(1, MessageModel.TextRole), "red");
    }
    function test_sayingItDifferentlyIsABranch() {
        say("one", "1");
        mouseClick(button(messageAt(0), "Edit"));
        tryVerify(() => window.activeFocusItem.Accessible.name === "Edit message");
        keyClick(Qt.Key_A, Qt.ControlModifier);
        keyClick("2");
        keyClick(Qt.Key_Return);
        script.answerWith("two");
        tryCompare(App.chat, "state", ChatModel.Idle);
        compare(message(0, MessageModel.TextRole), "2");
        compare(message(0, MessageModel.AlternativesRole), 2);
        compare(timeline.count, 4);
    }
    function test_goingBackThenTalkingIsABranch_data() {
        return [{tag: "button"}, {tag: "menu"}];
    }
    function test_goingBackThenTalkingIsABranch(data) {
        say("one", "1");
        say("two", "2");
        if (data.tag === "button") mouseClick(button(messageAt(1), "Continue from here"));
        else choose(1, "Continue from here");
        compare(App.chat.messages.count, 2);
        verify(App.chat.wentBack);
        say("three", "3");
        compare(App.chat.messages.count, 4);
        compare(timeline.count, 6);
        compare(App.chat.timeline.lanes, 2);
    }
    function test_placesArePinnedAndNamed() {
        say("one", "1");
        choose(1, "Pin (always instant)");
        verify(message(1, MessageModel.PinnedRole));
        choose(1, "Unpin");
        verify(!message(1, MessageModel.PinnedRole));
        choose(1, "Name this place…");
        tryCompare(window.nameDialog, "opened", true);
        keyClick("x");
        keyClick(Qt.Key_Return);
        tryCompare(window.nameDialog, "opened", false);
        compare(message(1, MessageModel.NameRole), "x");
        compare(timeline.itemAtIndex(1).name, "x");
    }
    function test_deletingFromHereSaysWhatGoesAndIsUndoneFromTheNotice() {
        say("one", "1");
        say("two", "2");
        App.chat.regenerate(message(3, MessageModel.IdRole));
        script.answerWith("22");
        tryCompare(App.chat, "state", ChatModel.Idle);
        App.chat.pin(message(3, MessageModel.IdRole), true);
        choose(2, "Delete from here…");
        tryCompare(window.deleteDialog, "opened", true);
        compare([window.deleteDialog.goes.messages, window.deleteDialog.goes.branches, window.deleteDialog.goes.pinned], [3, 2, 1]);
        keyClick(Qt.Key_Return);  // a pinned place goes: the key cancels
        tryCompare(window.deleteDialog, "visible", false);
        compare(App.chat.messages.count, 4);
        choose(2, "Delete from here…");
        tryCompare(window.deleteDialog, "opened", true);
        mouseClick(button(window.deleteDialog.contentItem, "Delete"));
        tryCompare(App.chat.messages, "count", 2);
        const undo = itemsOf(window.contentItem, item => item.clicked !== undefined && item.text === "Undo");
        compare(undo.length, 1);
        mouseClick(undo[0]);
        tryCompare(App.chat.messages, "count", 4);
        verify(!App.canUndo);
    }
    function test_aCutAnswerSaysWhyAndIsContinued_data() {
        return [{tag: "stopped", stopped: true, words: "Stopped"}, {tag: "length", stopped: false, words: "Reached the length limit"}];
    }
    function test_aCutAnswerSaysWhyAndIsContinued(data) {
        App.chat.draft = "count";
        App.chat.send();
        script.saveUser();
        script.write("one two");
        script.finishCut(data.stopped);
        tryCompare(App.chat, "state", ChatModel.Idle);
        verify(itemsOf(messageAt(1), item => item.text === data.words).length === 1);
        mouseClick(button(messageAt(1), "Continue"));
        script.write(" three");
        compare(message(1, MessageModel.TextRole), "one two three");
        script.finishAnswer();
        tryCompare(App.chat, "state", ChatModel.Idle);
        compare(message(1, MessageModel.TextRole), "one two three");
        compare(App.chat.messages.count, 2);
        compare(itemsOf(messageAt(1), item => item.text === "Continue").length, 0);
    }
    function test_aThoughtIsFoldedUntilAClickAndNotCopiedBefore() {
        App.chat.draft = "sum?";
        App.chat.send();
        script.saveUser();
        script.think("Two and\ntwo. ");
        const thoughts = () => itemsOf(messageAt(1), item => item.markdown !== undefined && item.getText(0, item.length).includes("Two"));
        button(messageAt(1), "Thinking…");
        compare(thoughts().length, 0);
        script.write("Four.");
        button(messageAt(1), "Thought for less than a second");
        script.finishAnswer();
        tryCompare(App.chat, "state", ChatModel.Idle);
        compare(message(1, MessageModel.TextRole), "Four.");
        mouseClick(button(messageAt(1), "Copy"));
        compare(desk.copied(), "Four.");
        mouseClick(button(messageAt(1), "Thought for 2 seconds"));
        compare(thoughts().length, 1);
        mouseClick(button(messageAt(1), "Copy"));
        compare(desk.copied(), "> Two and\n> two.\n\nFour.");
        const answer = itemsOf(messageAt(1), item => item.selectAll !== undefined && item.blocks !== undefined).pop();
        answer.selectAll();
        window.pane.composer.focusField();
        keyClick(Qt.Key_C, Qt.ControlModifier);
        compare(desk.copied(), "Four.");
        button(messageAt(1), "Thought for 2 seconds").forceActiveFocus();
        keyClick(Qt.Key_Return);
        compare(thoughts().length, 0);
        // It stays as it is while one scrolls and talks.
        keyClick(Qt.Key_Space);
        compare(thoughts().length, 1);
        say("more", "Line\n\n".repeat(200));
        tryVerify(() => window.pane.list.itemAtIndex(1) === null);
        window.pane.list.positionViewAtBeginning();
        tryVerify(() => window.pane.list.itemAtIndex(1) !== null);
        compare(thoughts().length, 1);
    }
    function test_whatWasReReadIsFoldedAboveItsQuestionAndLeadsThere() {
        say("My sister is Maeve.", "Noted.\n\n".repeat(100));
        say("Her dog is Rex.", "Yes.");
        const first = message(0, MessageModel.IdRole);
        const third = message(2, MessageModel.IdRole);
        App.chat.draft = "Who is my sister?";
        App.chat.send();
        script.saveUser();
        script.remind([first, third], ["My sister is Maeve.", "Her dog is Rex."]);
        const quotations = () => itemsOf(messageAt(4), item => item.objectName === "quotation").map(item => item.text);
        button(messageAt(4), "Re-read 2 earlier messages");  // while it is answered
        script.write("Maeve.");
        script.finishAnswer();
        tryCompare(App.chat, "state", ChatModel.Idle);
        compare(quotations(), []);
        mouseClick(button(messageAt(4), "Re-read 2 earlier messages"));
        compare(quotations(), ["My sister is Maeve.", "Her dog is Rex."]);
        mouseClick(button(messageAt(4), "Copy"));
        compare(desk.copied(), "Who is my sister?");
        button(messageAt(4), "Re-read 2 earlier messages").forceActiveFocus();
        keyClick(Qt.Key_Return);
        compare(quotations(), []);
        keyClick(Qt.Key_Space);
        compare(quotations().length, 2);
        const list = window.pane.list;
        const links = itemsOf(messageAt(4), item => item.clicked !== undefined && item.text === "Show this message");
        compare(links.length, 2);
        mouseClick(settled(links[0]));
        tryVerify(() => list.itemAtIndex(0) !== null && list.itemAtIndex(0).y >= list.contentY - 1);
        compare(App.chat.messages.count, 6);
        // What stands below is the branch as it was, also after it was opened again.
        const chat = App.chat.conversation;
        App.chat.startNew();
        App.chat.open(chat);
        tryCompare(App.chat.messages, "count", 6);
        compare(message(4, MessageModel.QuotedRole).length, 2);
        compare(message(4, MessageModel.TextRole), "Who is my sister?");
    }
    function test_anAnswerIsEditedAsAnotherVersion() {
        say("one", "1");
        const before = script.requestCount();
        choose(1, "Edit this answer");
        tryVerify(() => window.activeFocusItem.Accessible.name === "Edit message");
        keyClick(Qt.Key_A, Qt.ControlModifier);
        keyClick("7");
        keyClick(Qt.Key_Return, Qt.ControlModifier);
        compare(script.requestCount(), before + 1);
        script.finishAnswer();
        tryCompare(App.chat, "state", ChatModel.Idle);
        compare(message(1, MessageModel.TextRole), "7");
        compare(message(1, MessageModel.AlternativesRole), 2);
        compare(App.chat.messages.count, 2);
    }
    function test_anUnfinishedEditIsKeptLikeADraft() {
        const chat = script.addConversation("edited", ["one", "1"]);
        const message = chat + 1;
        App.chat.keepEdit(message, "one and a half");  // of the run before
        App.chat.open(chat);
        tryVerify(() => messageAt(0) !== null && messageAt(0).editing);
        const editor = itemsOf(messageAt(0), item => item.editingFinished !== undefined && !item.readOnly)[0];
        compare(editor.text, "one and a half");
        editor.forceActiveFocus();
        keyClick("!");
        compare(App.chat.editOf(message), "one and a half!");
        keyClick(Qt.Key_Escape);  // given up
        compare(App.chat.editOf(message), "");
        verify(!messageAt(0).editing);
    }
    function test_anUnfinishedEditStaysWhileOneScrollsAndReadsOtherChats() {
        say("one", "Line\n\n".repeat(80));
        const chat = App.chat.conversation;
        const list = window.pane.list;
        const editor = row => itemsOf(list.itemAtIndex(row), item => item.editingFinished !== undefined && !item.readOnly)[0];
        const toBegin = () => {
            list.goToEnd();
            tryVerify(() => list.nearEnd && list.contentHeight > 2 * list.height);
            list.scrollBy(-100000);
            tryVerify(() => list.itemAtIndex(0) !== null);
        };
        toBegin();
        mouseClick(button(messageAt(0), "Edit"));
        tryVerify(() => window.activeFocusItem.Accessible.name === "Edit message");
        for (const letter of " two") keyClick(letter);
        compare(editor(0).text, "one two");
        // Away and back: the words are there, and the keyboard is, which nothing else took.
        list.scrollBy(100000);
        tryVerify(() => list.itemAtIndex(0) === null);
        list.scrollBy(-100000);
        tryVerify(() => list.itemAtIndex(0) !== null);
        compare(editor(0).text, "one two");
        verify(editor(0).activeFocus);
        keyClick("!");
        // In another chat and back, where one writes meanwhile.
        App.chat.startNew();
        window.pane.composer.focusField();
        App.chat.open(chat);
        toBegin();
        compare(editor(0).text, "one two!");
        verify(window.pane.composer.field.activeFocus);
        // Beginning again loses nothing, Esc ends it.
        keyClick(Qt.Key_Up);
        verify(editor(0).activeFocus);
        compare(editor(0).text, "one two!");
        keyClick(Qt.Key_Escape);
        compare(editor(0), undefined);
        App.chat.startNew();
        App.chat.open(chat);
        toBegin();
        compare(editor(0), undefined);
        compare(message(0, MessageModel.TextRole), "one");
    }
    function test_threeAnswersAreTriedAndOneIsKept() {
        say("colour?", "red");
        const head = message(1, MessageModel.IdRole);
        choose(1, "Try three answers");
        tryCompare(window.trySheet, "opened", true);
        compare(App.chat.messages.count, 2);
        script.tryWith(["The sky is **blue**.", "The sky is grey.", "Grey is the sky."]);
        tryCompare(App.chat, "state", ChatModel.Idle);
        compare(App.chat.messages.count, 2);
        compare(message(1, MessageModel.IdRole), head);  // nothing was added or moved
        const shown = itemsOf(window.trySheet.contentItem, item => item.markdown !== undefined);
        compare(shown.map(item => item.getText(0, item.length)), ["The sky is blue.", "The sky is grey.", "Grey is the sky."]);
        compare(shown.map(item => desk.markedOf(item.textDocument).join()), ["blue", "", ""]);
        mouseClick(button(window.trySheet.contentItem, "Answer 2: Keep this one"));
        tryCompare(window.trySheet, "visible", false);
        compare(script.lastText(), "The sky is grey.");
        script.finishAnswer();
        tryCompare(App.chat, "state", ChatModel.Idle);
        compare(message(1, MessageModel.TextRole), "The sky is grey.");
        compare(message(1, MessageModel.AlternativesRole), 2);
    }
    function test_whatItStillKnowsIsAskedAside() {
        say("My cat is called Ada.", "Nice.");
        mouseClick(button(window.timelinePane, "What do you still know?"));
        tryCompare(window.askSheet, "opened", true);
        keyClick(Qt.Key_A, Qt.ControlModifier);
        for (const letter of "cat?") keyClick(letter);
        keyClick(Qt.Key_Return);
        compare(script.lastText(), "cat?");
        script.tellAside("It is called **Ada**.");
        const told = findChild(window.askSheet.contentItem, "told");
        tryCompare(told, "text", "It is called **Ada**.");
        keyClick(Qt.Key_Escape);
        tryCompare(window.askSheet, "visible", false);
        compare(App.chat.messages.count, 2);
        compare(timeline.count, 2);
        compare(App.chat.draft, "");
    }
    function test_aPlaceIsSavedAsAFile() {
        say("one", "1");
        choose(1, "Save this place as a file…");
        tryCompare(window.placePicker, "opened", true);
        window.placePicker.go(desk.folder());
        tryCompare(window.placePicker, "folder", desk.folder());
        mouseClick(settled(window.placePicker.openButton));
        tryCompare(window.placePicker, "visible", false);
        const call = script.lastCall();
        verify(call.startsWith("place " + App.chat.conversation + " " + message(1, MessageModel.IdRole) + " " + desk.folder() + "/"), call);
        verify(call.endsWith(".rnlpack"), call);
        verify(App.notice.includes(".rnlpack"), App.notice);
    }
    function test_anyPlaceBeginsANewChat() {
        say("A", "1");
        say("B", "2");
        const id = App.chat.conversation;
        choose(1, "Begin a new chat here");
        tryVerify(() => App.chat.conversation !== id);
        compare(App.chat.messages.count, 2);
    }
    function test_aDroppedPlaceIsOpened() {
        verify(desk.drop(window, desk.folder() + "/there.rnlpack", Qt.point(500, 300)));
        tryCompare(App.chat.messages, "count", 2);
        compare(App.notice, "");
        verify(desk.drop(window, desk.folder() + "/other.rnlpack", Qt.point(500, 300)));
        verify(App.notice.startsWith("Made with another model: its text will be read"), App.notice);
    }
    function answerAs(words) {
        mouseClick(settled(findChild(window.pane.composer, "answerAs")));
        const menu = findChild(window.pane.composer, "answerAsMenu");
        mouseClick(entry(menu, words));
        tryCompare(menu, "visible", false);
    }
    function pickSchema(name) {
        answerAs("JSON by a schema…");
        tryCompare(window.schemaPicker, "opened", true);
        window.schemaPicker.field.forceActiveFocus();
        window.schemaPicker.field.text = desk.folder() + "/" + name;
        keyClick(Qt.Key_Return);
        tryCompare(window.schemaPicker, "visible", false);
    }
    function formWords() {
        const line = findChild(window.pane.composer, "answerForm");
        return line.visible ? line.children[0].text : "";
    }

    function test_aChatIsAnsweredAsJsonAndKeepsThat() {
        say("one", "1");
        const first = App.chat.conversation;
        compare(formWords(), "");
        answerAs("JSON");
        compare(formWords(), "Answers come as JSON.");
        compare(JSON.parse(script.settingsOf(first)), {answer: "json"});
        say("two", "{\"a\": [1, \"_b_\"]}");
        compare(script.lastForm(), "1 ");
        const code = itemsOf(messageAt(3), item => item.textDocument !== undefined && item.text.includes("_b_"))[0];
        compare(code.font.family, Theme.monospace);
        App.chat.startNew();
        compare(formWords(), "");
        App.chat.open(first);
        compare(formWords(), "Answers come as JSON.");
        mouseClick(button(window.pane.composer, "Answer freely"));
        compare(formWords(), "");
        compare(script.settingsOf(first), "");
        say("three", "3");
        compare(script.lastForm(), "0 ");
    }
    function test_aNewChatIsAnsweredByASchema() {
        pickSchema("recipe.json");
        compare(formWords(), "Answers come as JSON by recipe.json.");
        verify(window.pane.composer.field.activeFocus);
        keyClick("h");
        keyClick(Qt.Key_Return);
        compare(script.lastForm(), "2 recipe.json");
        script.answerWith("{}");
        tryCompare(App.chat, "state", ChatModel.Idle);
        const kept = JSON.parse(script.settingsOf(App.chat.conversation));
        compare(kept, {answer: "schema", name: "recipe.json", schema: "{\"type\": \"object\"}"});
        compare(formWords(), "Answers come as JSON by recipe.json.");
    }
    function test_aSchemaThatIsRefusedIsSaidInTheLibrarysWords() {
        say("one", "1");
        answerAs("JSON");
        pickSchema("wrong.json");
        compare(formWords(), "Answers come as JSON.");
        compare(App.notice, "Can't answer by wrong.json: schema: type is \"nonsense\", expected one of JSON.");
        compare(JSON.parse(script.settingsOf(App.chat.conversation)), {answer: "json"});
    }
    function test_enterInAnotherChatQueues() {
        say("one", "1");
        const first = App.chat.conversation;
        App.chat.startNew();
        App.chat.draft = "long";
        App.chat.send();
        script.saveUser();
        const second = App.chat.conversation;
        App.chat.open(first);
        window.pane.composer.focusField();
        keyClick("q");
        const before = script.requestCount();
        const stops = script.stopCount();
        keyClick(Qt.Key_Escape);  // stops this chat's answer only
        compare(script.stopCount(), stops);
        keyClick(Qt.Key_Return);
        compare(script.requestCount(), before);
        verify(App.chat.queued);
        compare(window.pane.composer.field.text, "q");
        const marks = itemsOf(window.libraryPane, item => item.objectName === "answering");
        compare(marks.length, 1);
        mouseClick(button(window.pane.composer, "Cancel"));
        verify(!App.chat.queued);
        window.pane.composer.focusField();
        keyClick(Qt.Key_Return);
        verify(App.chat.queued);
        script.write("done");
        script.finishAnswer();
        compare(script.requestCount(), before + 1);
        compare(script.lastText(), "q");
        compare(App.chat.conversation, first);
        script.answerWith("2");
        tryCompare(App.chat, "state", ChatModel.Idle);
        compare(App.chat.messages.count, 4);
        verify(second !== first);
    }

    function test_aClickOnTheTimelineLooksAndDoesNotMove() {
        say("one", "1\n\n".repeat(60));
        say("two", "2\n\n".repeat(60));
        tryCompare(timeline, "count", 4);
        tryVerify(() => window.pane.list.nearEnd);
        mouseClick(timeline.itemAtIndex(0));
        tryVerify(() => !window.pane.list.nearEnd);
        compare(App.chat.messages.count, 4);
        verify(timeline.itemAtIndex(3).head);
        verify(!App.chat.wentBack);
    }
    function test_aPlaceOnAnotherBranchIsPreviewedAndContinuedFrom() {
        say("one", "1");
        say("two", "2");
        App.chat.rewind(message(1, MessageModel.IdRole));
        say("three", "3");
        tryCompare(timeline, "count", 6);
        mouseClick(timeline.itemAtIndex(2));
        const preview = findChild(timeline.parent.parent, "placePreview") || window.placePreview;
        tryCompare(preview, "opened", true);
        compare(message(2, MessageModel.TextRole), "three");
        mouseClick(settled(itemsOf(preview.contentItem, item => item.clicked !== undefined && item.text === "Continue from here")[0]));
        tryCompare(preview, "visible", false);
        compare(message(2, MessageModel.TextRole), "two");
        keyClick(Qt.Key_Left, Qt.AltModifier);
        compare(message(2, MessageModel.TextRole), "three");
        keyClick(Qt.Key_Right, Qt.AltModifier);
        compare(message(2, MessageModel.TextRole), "two");
    }
    function test_aRightClickLooksAtNothingAndMovesNothing() {
        say("one", "1\n\n".repeat(60));
        say("two", "2\n\n".repeat(60));
        tryVerify(() => window.pane.list.nearEnd);
        const before = window.pane.list.contentY;
        mouseClick(timeline.itemAtIndex(0), 40, 10, Qt.RightButton);
        tryCompare(window.timelineMenu, "opened", true);
        compare(window.pane.list.contentY, before);
        compare(App.chat.messages.count, 4);
        verify(!App.chat.wentBack);
        keyClick(Qt.Key_Escape);
        tryCompare(window.timelineMenu, "visible", false);
    }
    function test_aRightClickInTheChatListOpensAMenuAndNoChat() {
        say("one", "1");
        const before = App.chat.conversation;
        say("other", "2");
        App.chat.startNew();
        const row = itemsOf(window.libraryPane, item => item.showMenu !== undefined && item.conversation === before)[0];
        mouseClick(settled(row), 20, 10, Qt.RightButton);
        compare(App.chat.conversation, 0);
        keyClick(Qt.Key_Escape);
        wait(300);  // the menu goes
        mouseClick(settled(row), 20, 10);
        compare(App.chat.conversation, before);
    }
    function test_theRailFoldsALongBranchAndUnfoldsIt() {
        // one – 1 – two – 2, and beside "two" a branch of four.
        const id = script.addTree("folded", ["one", "1", "b1", "b2", "b3", "b4", "two", "2"], [-1, 0, 1, 2, 3, 4, 1, 6]);
        App.chat.open(id);
        tryCompare(timeline, "count", 5);
        const row = timeline.itemAtIndex(2);
        compare(row.excerpt, "b1");
        compare(row.hidden, 3);
        verify(row.Accessible.name.includes("3 more messages folded"), row.Accessible.name);
        verify(row.Accessible.name.includes("branch 1 of 2"), row.Accessible.name);  // the first that was begun
        mouseClick(settled(findChild(row, "fold")));
        tryCompare(timeline, "count", 8);
        compare(App.chat.messages.count, 4);  // looking is not moving
        timeline.forceActiveFocus();
        timeline.currentIndex = 2;
        keyClick(Qt.Key_Left);
        tryCompare(timeline, "count", 5);
        keyClick(Qt.Key_Right);
        tryCompare(timeline, "count", 8);
    }
    function test_theRailShowsDaysAndHoldsAThousandMessages() {
        const texts = [];
        for (let i = 0; i < 1000; ++i) texts.push("Message number " + i);
        const id = script.addConversation("long", texts);
        const day = 24 * 3600 * 1000, first = new Date(2026, 2, 3, 12).getTime();
        for (let i = 0; i < 1000; ++i) script.setPlace(id, i, first + Math.floor(i / 400) * day, true);
        App.chat.open(id);
        tryCompare(timeline, "count", 1000);
        const shown = row => {
            timeline.positionViewAtIndex(row, ListView.Center);
            let item = null;
            tryVerify(() => item = timeline.itemAtIndex(row));
            return item;
        };
        const days = row => itemsOf(shown(row), item => item.text !== undefined && String(item.text).includes("2026")).map(item => item.text);
        compare(days(400), [new Date(2026, 2, 4, 12).toLocaleDateString(Qt.locale(), Locale.LongFormat)]);
        compare(days(401), []);
        tryVerify(() => timeline.contentItem.children.length < 120);  // only what is near is there
    }
    function test_aLongChatMakesFewMessagesAndComesToRest() {
        const id = script.addConversation("long", Array.from({length: 400}, (_, i) => "Message " + i + ". " + "Some words. ".repeat(i % 30)));
        App.chat.open(id);
        tryCompare(timeline, "count", 400);
        const messages = findChild(window.pane, "messages");
        tryVerify(() => messages.itemAtIndex(399) !== null);
        tryVerify(() => messages.contentItem.children.length < 60, 5000, "made: " + messages.contentItem.children.length);
        compare(messages.highlightItem, null);  // it would glide along the whole chat, a frame at a time
        let there = NaN;
        tryVerify(() => {
            const before = there;
            there = messages.contentY;
            wait(200);
            return there === before && messages.contentY === there;
        });
    }
    function test_hoveringAPlacePreviewsIt() {
        say("one", "First line of the answer.\n\n" + "More of it. ".repeat(20) + "Its end.");
        tryCompare(timeline, "count", 2);
        const row = timeline.itemAtIndex(1);
        mouseMove(row, row.width / 2, row.height / 2);
        const tip = findChild(row, "hoverPreview");
        tryCompare(tip, "visible", true);
        verify(tip.text.includes("Its end."), tip.text);
        verify(tip.width <= Theme.fontSize * 32);
        compare(App.chat.messages.count, 2);
        mouseMove(window.contentItem, window.width / 2, 3);
    }
    function test_aPlaceSaysWhatGoingThereCosts() {
        const id = script.addConversation("costs", ["w".repeat(4000), "x".repeat(4000), "y", "z"]);
        for (let i = 0; i < 4; ++i) script.setPlace(id, i, 1e12, i !== 1);
        App.chat.open(id);
        tryCompare(timeline, "count", 4);
        const instant = timeline.itemAtIndex(0), costly = timeline.itemAtIndex(1);
        verify(findChild(instant, "instant").visible);
        verify(!findChild(instant, "cost").visible);
        verify(instant.Accessible.name.includes("Instant"), instant.Accessible.name);
        verify(!findChild(costly, "instant").visible);
        compare(findChild(costly, "cost").text, "1,004 tokens");
        verify(costly.Accessible.name.includes("Reads 1,004 tokens"), costly.Accessible.name);
    }
    function test_aScreenReaderIsToldThatAnAnswerIsFinished() {
        const spoken = findChild(window.contentItem, "spoken");
        App.chat.draft = "hi";
        keyClick(Qt.Key_Return);
        compare(spoken.Accessible.name, "Answering…");
        script.answerWith("there");
        tryCompare(spoken.Accessible, "name", "Answer finished.");
        compare(spoken.Accessible.role, Accessible.AlertMessage);
    }
    function test_buttonsUnderAMessageTakeNoRoom() {
        say("one", "1");
        say("two", "2");
        const item = window.pane.list.itemAtIndex(1), prose = itemsOf(item, found => found.markdown !== undefined)[0];
        const below = () => item.height - prose.mapToItem(item, 0, prose.height).y;
        mouseMove(window.contentItem, window.width / 2, 3);
        const apart = below();
        verify(apart <= Theme.margin + 1, apart);
        messageAt(1);
        tryVerify(() => button(item, "Copy").parent.opacity === 1);
        compare(below(), apart);
        mouseClick(button(item, "Copy"));
        compare(desk.copied(), "1");
    }
    function test_theTimelineIsUsedByKeysAndByTouch() {
        say("one", "1\n\n".repeat(60));
        say("two", "2\n\n".repeat(60));
        tryVerify(() => window.pane.list.nearEnd);
        timeline.forceActiveFocus();
        timeline.currentIndex = 0;
        keyClick(Qt.Key_Down);
        keyClick(Qt.Key_Return);
        tryVerify(() => !window.pane.list.nearEnd);
        compare(App.chat.messages.count, 4);
        const row = timeline.itemAtIndex(3);
        const before = window.pane.list.contentY;
        touchEvent(row).press(1, row).commit();
        touchEvent(row).release(1, row).commit();
        tryVerify(() => window.pane.list.contentY !== before);
        compare(App.chat.messages.count, 4);
    }
    function test_theMenuOfAPlaceOpensFromTheTimeline() {
        say("one", "1");
        mouseClick(timeline.itemAtIndex(1), 40, 10, Qt.RightButton);
        mouseClick(entry(window.timelineMenu, "Pin (always instant)"));
        verify(message(1, MessageModel.PinnedRole));
    }
    function test_theMemoryMeterSaysOneSentence() {
        script.finishLoad("cpu", 5900000);
        const meter = findChild(window.contentItem, "memoryMeter");
        say("one", "1");
        compare(meter.text, "10 tokens so far. No limit; old details fade.");
        App.chat.draft = "more";
        App.chat.send();
        script.answerWith("1", 100000);
        tryCompare(App.chat, "length", 100000);
        verify(meter.text.startsWith(Number(100000).toLocaleString(Qt.locale(), "f", 0) + " tokens"), meter.text);
        verify(meter.Accessible.name.includes("5.9 MB"), meter.Accessible.name);
    }

    function test_aFingerScrollsTheConversation() {
        say("long", "Line\n\n".repeat(80));
        const list = window.pane.list;
        tryVerify(() => list.nearEnd);
        const touch = touchEvent(list);
        touch.press(1, list, 400, 100).commit();
        for (let y = 110; y <= 400; y += 10) {
            touch.move(1, list, 400, y).commit();
            wait(5);
        }
        touch.release(1, list, 400, 400).commit();
        tryVerify(() => !list.moving);
        verify(!list.following);
        verify(!list.nearEnd);
    }
    function test_everyChatKeepsItsOwnDraft() {
        say("one", "1");
        const first = App.chat.conversation;
        App.chat.draft = "kept";
        App.chat.startNew();
        compare(window.pane.composer.field.text, "");
        App.chat.open(first);
        compare(window.pane.composer.field.text, "kept");
        App.chat.draft = "";
    }
}
