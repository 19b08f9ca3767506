// SPDX-License-Identifier: Apache-2.0
import QtQuick
import QtTest
import Runnel.Chat

TestCase {
    id: test
    name: "Conversation"
    when: windowShown
    width: 900
    height: 600
    visible: true

    ConversationPane {
        id: pane
        anchors.fill: parent
        libraryHidden: false
        timelineHidden: false
    }

    function init() {
        App.chat.startNew();
        App.chat.draft = "";
        pane.composer.focusField();
    }
    function settle() {
        tryCompare(App.chat, "state", ChatModel.Idle);
        wait(30);
    }
    function type(text) {
        for (const letter of text) keyClick(letter);
    }

    function test_enterSendsAndShiftEnterBreaksTheLine() {
        const before = script.requestCount();
        type("ab");
        keyClick(Qt.Key_Return, Qt.ShiftModifier);
        type("c");
        compare(script.requestCount(), before);
        keyClick(Qt.Key_Return);
        compare(script.requestCount(), before + 1);
        compare(script.lastText(), "ab\nc");
        compare(pane.composer.field.text, "");
        script.answerWith("fine");
        settle();
        compare(pane.list.count, 2);
    }

    function test_stopStandsInThePlaceOfSend() {
        type("hi");
        const button = findChild(pane, "sendButton");
        compare(button.Accessible.name, "Send");
        mouseClick(button);
        compare(button.Accessible.name, "Stop");
        const before = script.stopCount();
        mouseClick(button);
        compare(script.stopCount(), before + 1);
        script.answerWith("x");
        settle();
        compare(button.Accessible.name, "Send");
    }

    function test_theViewStaysAtTheEndBelowAnAnswerHigherThanWhatIsMadeAhead() {
        for (const [words, answer] of [["high", "Line\n\n".repeat(150)], ["short", "yes"], ["shorter", "no"]]) {
            App.chat.draft = words;
            App.chat.send();
            script.answerWith(answer);
            settle();
        }
        tryVerify(() => pane.list.itemAtIndex(5) !== null && pane.list.itemAtIndex(4) !== null);
        let moves = 0;
        const count = () => ++moves;
        wait(300);
        pane.list.contentYChanged.connect(count);
        wait(500);
        pane.list.contentYChanged.disconnect(count);
        compare(moves, 0);
        verify(pane.list.nearEnd);
        verify(pane.list.itemAtIndex(5) !== null);
    }
    function test_theViewFollowsTheAnswerUntilTheUserScrollsUp() {
        type("long");
        keyClick(Qt.Key_Return);
        script.saveUser();
        for (let i = 0; i < 60; ++i) {
            script.write("Line " + i + "\n\n");
            wait(2);
        }
        tryVerify(() => pane.list.nearEnd);
        verify(pane.list.contentHeight > pane.list.height);
        mouseWheel(pane.list, 400, 200, 0, 600);
        tryVerify(() => !pane.list.moving);
        verify(!pane.list.following);
        const at = pane.list.contentY - pane.list.originY;
        for (let i = 0; i < 20; ++i) {
            script.write("More " + i + "\n\n");
            wait(2);
        }
        fuzzyCompare(pane.list.contentY - pane.list.originY, at, 2);
        pane.list.goToEnd();
        script.write("End");
        tryVerify(() => pane.list.nearEnd);
        script.finishAnswer();
        settle();
    }

    function test_aChatIsOpenedWhereItWasScrolledTo() {
        type("long");
        keyClick(Qt.Key_Return);
        let answer = "";
        for (let i = 0; i < 80; ++i) answer += "Line " + i + "\n\n";
        script.answerWith(answer);
        settle();
        const chat = App.chat.conversation;
        verify(pane.list.contentHeight > 2 * pane.list.height, pane.list.contentHeight);
        tryVerify(() => pane.list.nearEnd);
        pane.list.scrollBy(-700);
        verify(!pane.list.following);
        // Within the message: where the list begins is an estimate while not all of it was laid out.
        const place = () => pane.list.itemAtIndex(1) ? pane.list.contentY - pane.list.itemAtIndex(1).y : -1;
        const at = place();
        wait(400);
        App.chat.startNew();
        compare(pane.list.count, 0);
        App.chat.open(chat);
        tryCompare(pane.list, "count", 2);
        tryVerify(() => Math.abs(place() - at) < 2);
        verify(!pane.list.following);
        pane.list.goToEnd();
        wait(400);
        App.chat.startNew();
        App.chat.open(chat);
        tryVerify(() => pane.list.count === 2 && pane.list.nearEnd);
    }

    function test_everyButtonHasANameAndCanBeReachedByKeyboard() {
        type("hi");
        keyClick(Qt.Key_Return);
        script.answerWith("One\n\n```py\nprint(1)\n```\n\n|a|b|\n|-|-|\n|1|2|");
        settle();
        const found = [];
        function look(item) {
            if (item.clicked !== undefined && item.selectAll === undefined && item.visible) found.push(item);
            for (let i = 0; i < (item.children ? item.children.length : 0); ++i) look(item.children[i]);
        }
        look(pane);
        verify(found.length >= 8, found.length);
        for (const button of found) {
            verify(button.Accessible.name !== "", button);
            verify(button.focusPolicy & Qt.TabFocus, button.Accessible.name);
        }
    }
}
