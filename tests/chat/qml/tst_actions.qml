// SPDX-License-Identifier: Apache-2.0
// What can be done with a message, in the conversation and on the timeline, by clicks.
import QtQuick
import QtTest
import Runnel.Chat

WindowCase {
    id: test
    name: "Actions"

    readonly property Item timeline: window ? findChild(window.contentItem, "timeline") : null

    function init() {
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
        const undo = itemsOf(window.contentItem.parent, item => item.clicked !== undefined && item.text === "Undo");
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
