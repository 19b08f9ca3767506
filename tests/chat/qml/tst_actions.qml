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
        mouseClick(button(item, "More"));
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
        mouseClick(button(messageAt(1), "Answer again"));
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
        const chosen = itemsOf(window.compareSheet.contentItem, item => item.clicked !== undefined && item.text === "Go on with this one")[0];
        verify(chosen.enabled);
        mouseClick(settled(chosen));
        tryCompare(window.compareSheet, "opened", false);
        compare(message(1, MessageModel.TextRole), "red");
    }
    function test_sayingItDifferentlyIsABranch() {
        say("one", "1");
        mouseClick(button(messageAt(0), "Say it differently"));
        tryVerify(() => window.activeFocusItem.Accessible.name === "Your message");
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
        if (data.tag === "button") mouseClick(button(messageAt(1), "Go back to here"));
        else choose(1, "Branch: go on from here");
        compare(App.chat.messages.count, 2);
        verify(App.chat.wentBack);
        say("three", "3");
        compare(App.chat.messages.count, 4);
        compare(timeline.count, 6);
        compare(App.chat.timeline.lanes, 2);
    }
    function test_placesArePinnedAndNamed() {
        say("one", "1");
        choose(1, "Pin: keep its snapshot");
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
    function test_deletingFromHereIsUndoneFromTheNotice() {
        say("one", "1");
        say("two", "2");
        choose(2, "Delete from here on");
        tryCompare(App.chat.messages, "count", 2);
        const undo = itemsOf(window.contentItem.parent, item => item.clicked !== undefined && item.text === "Undo");
        compare(undo.length, 1);
        mouseClick(undo[0]);
        tryCompare(App.chat.messages, "count", 4);
        verify(!App.canUndo);
    }

    function test_aClickOnTheTimelineGoesBack() {
        say("one", "1");
        say("two", "2");
        tryCompare(timeline, "count", 4);
        mouseClick(timeline.itemAtIndex(1));
        compare(App.chat.messages.count, 2);
        verify(timeline.itemAtIndex(1).head);
        compare(timeline.count, 4);  // nothing is lost
        mouseClick(timeline.itemAtIndex(3));
        compare(App.chat.messages.count, 4);
    }
    function test_theTimelineIsUsedByKeysAndByTouch() {
        say("one", "1");
        say("two", "2");
        timeline.forceActiveFocus();
        timeline.currentIndex = 0;
        keyClick(Qt.Key_Down);
        keyClick(Qt.Key_Return);
        compare(App.chat.messages.count, 2);
        const row = timeline.itemAtIndex(3);
        touchEvent(row).press(1, row).commit();
        touchEvent(row).release(1, row).commit();
        compare(App.chat.messages.count, 4);
    }
    function test_theMenuOfAPlaceOpensFromTheTimeline() {
        say("one", "1");
        mouseClick(timeline.itemAtIndex(1), 40, 10, Qt.RightButton);
        mouseClick(entry(window.timelineMenu, "Pin: keep its snapshot"));
        verify(message(1, MessageModel.PinnedRole));
    }
    function test_theMemoryMeterStaysWhileTheTalkGrows() {
        script.finishLoad("cpu", 5900000);
        const meter = itemsOf(window.contentItem, item => item.share !== undefined)[0];
        const sizes = () => itemsOf(meter, item => item.text !== undefined && item.text.endsWith(", always")).map(item => item.text);
        say("one", "1");
        const before = [meter.share, sizes()];
        compare(before[1], ["5.9 MB, always"]);
        App.chat.draft = "more";
        App.chat.send();
        script.answerWith("1", 100000);
        tryVerify(() => meter.share > before[0]);
        compare(App.chat.length, 100000);
        compare(sizes(), before[1]);
        verify(meter.share < 1);
        verify(itemsOf(meter, item => item.text === "Details from long ago fade.").length === 1);
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
