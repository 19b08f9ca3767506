// SPDX-License-Identifier: Apache-2.0
import QtQuick
import QtTest
import Runnel.Chat

TestCase {
    id: test
    name: "Window"
    when: windowShown

    Component {
        id: maker
        Main {}
    }
    property Main window: null

    function initTestCase() {
        window = maker.createObject(null);
        window.width = 1180;
        window.height = 760;
        tryVerify(() => window.active || window.visible);
    }
    function cleanupTestCase() {
        window.destroy();
    }
    function contrast(a, b) {
        function luminance(c) {
            const linear = v => v <= 0.03928 ? v / 12.92 : Math.pow((v + 0.055) / 1.055, 2.4);
            return 0.2126 * linear(c.r) + 0.7152 * linear(c.g) + 0.0722 * linear(c.b);
        }
        const la = luminance(a), lb = luminance(b);
        return (Math.max(la, lb) + 0.05) / (Math.min(la, lb) + 0.05);
    }

    function test_textKeepsItsContrastInBothThemes_data() {
        return [{tag: "light"}, {tag: "dark"}];
    }
    function test_textKeepsItsContrastInBothThemes(data) {
        App.settings.theme = data.tag;
        compare(Theme.dark, data.tag === "dark");
        for (const ground of ["window", "side", "surface", "hover", "selected", "bubble", "code"]) {
            verify(contrast(Theme.text, Theme[ground]) >= 7, "text on " + ground);
            if (ground === "bubble") continue;
            verify(contrast(Theme.muted, Theme[ground]) >= 4.5, "muted on " + ground + " " + contrast(Theme.muted, Theme[ground]));
            verify(contrast(Theme.accent, Theme[ground]) >= 4.5, "accent on " + ground + " " + contrast(Theme.accent, Theme[ground]));
        }
        for (const colour of ["warm", "danger"]) verify(contrast(Theme[colour], Theme.window) >= 4.5, colour);
        for (const colour of ["codeKeyword", "codeString", "codeNumber", "codeComment"])
            verify(contrast(Theme[colour], Theme.code) >= 4.5, colour);
        verify(contrast(Theme.accentText, Theme.accent) >= 4.5);
        verify(contrast(Theme.strongBorder, Theme.window) >= 3);
    }

    function test_sidesBecomeDrawersOnANarrowScreen() {
        App.settings.theme = "light";
        verify(window.showLibrary);
        verify(window.showTimeline);
        window.width = 480;
        tryCompare(window, "narrow", true);
        verify(!window.showLibrary);
        verify(!window.showTimeline);
        window.width = 1180;
    }

    function activate() {
        window.requestActivate();
        tryVerify(() => window.active);
        App.chat.startNew();
        window.pane.composer.focusField();
    }
    function say(text, answer) {
        App.chat.draft = text;
        App.chat.send();
        script.answerWith(answer);
        tryCompare(App.chat, "state", ChatModel.Idle);
        wait(30);
    }
    // All items below `item` that satisfy `test`.
    function itemsOf(item, test, found = []) {
        for (let i = 0; i < item.children.length; ++i) {
            const child = item.children[i];
            if (!child.visible) continue;
            if (test(child)) found.push(child);
            itemsOf(child, test, found);
        }
        return found;
    }

    function test_escapeStopsTheAnswer() {
        activate();
        App.chat.draft = "hi";
        keyClick(Qt.Key_Return);
        compare(App.chat.state, ChatModel.Waiting);
        const before = script.stopCount();
        keyClick(Qt.Key_Escape);
        compare(script.stopCount(), before + 1);
        script.answerWith("x");
        tryCompare(App.chat, "state", ChatModel.Idle);
    }

    function test_aDeletionIsUndoneFromTheEmptyComposer() {
        activate();
        say("hi", "there");
        const chat = App.chat.conversation;
        App.library.remove(chat);
        compare(App.chat.conversation, 0);
        window.pane.composer.focusField();
        keyClick(Qt.Key_Z, Qt.ControlModifier);
        compare(App.chat.conversation, chat);
    }

    function test_aLinkIsOpenedOnlyAfterAsking() {
        activate();
        say("link", "See [there](https://example.org/x).");
        const prose = itemsOf(window.contentItem, item => item.markdown !== undefined);
        verify(prose.length > 0);
        verify(!window.linkDialog.opened);
        prose[prose.length - 1].linkActivated("https://example.org/x");
        tryCompare(window.linkDialog, "opened", true);
        compare(window.linkDialog.link, "https://example.org/x");
        keyClick(Qt.Key_Escape);
        tryCompare(window.linkDialog, "opened", false);
    }

    function test_versionsAreComparedSideBySide() {
        activate();
        say("colour?", "red");
        App.chat.regenerate(App.chat.messages.data(App.chat.messages.index(1, 0), MessageModel.IdRole));
        script.answerWith("blue");
        keyClick(Qt.Key_D, Qt.ControlModifier);
        tryCompare(window.compareSheet, "opened", true);
        compare(window.compareSheet.versions.map(version => version.text), ["red", "blue"]);
        const shown = itemsOf(window.compareSheet.contentItem, item => item.markdown !== undefined);
        compare(shown.map(item => item.markdown), ["red", "blue"]);
        keyClick(Qt.Key_Escape);
        tryCompare(window.compareSheet, "opened", false);
    }

    function test_tabReachesEverythingAndComesBack() {
        activate();
        say("hi", "there");
        window.pane.composer.focusField();
        const stops = [];
        for (let i = 0; i < 60; ++i) {
            keyClick(Qt.Key_Tab);
            const at = window.activeFocusItem;
            verify(at && at.visible && at.width > 0, stops.join());
            if (at === window.pane.composer.field) break;
            stops.push(at.Accessible.name);
        }
        verify(stops.length < 50, stops.join());
        for (const name of ["New chat", "Search all messages", "Chats", "Settings", "Hide the timeline", "Copy", "Answer again"])
            verify(stops.includes(name), name + " is not among " + stops.join());
        verify(stops.every(name => name !== ""), stops.join());
    }

    function test_keysOpenWhatTheySay() {
        window.requestActivate();
        tryVerify(() => window.active);
        keyClick(Qt.Key_N, Qt.ControlModifier);
        compare(App.chat.conversation, 0);
        const before = App.settings.showTimeline;
        keyClick(Qt.Key_T, Qt.ControlModifier);
        compare(App.settings.showTimeline, !before);
        keyClick(Qt.Key_T, Qt.ControlModifier);
    }
}
