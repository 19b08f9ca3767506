// SPDX-License-Identifier: Apache-2.0
// A test of the whole window: makes it, and puts it back into its usual state after every test.
import QtQuick
import QtTest
import Runnel.Chat

TestCase {
    id: test

    property Main window: null
    property var maker: Component {
        Main {}
    }

    when: windowShown

    function initTestCase() {
        window = maker.createObject(null);
        reset();
        activate();
    }
    function cleanupTestCase() {
        window.destroy();
    }
    function cleanup() {
        desk.speak("");
        for (const page of [window.modelOpening, window.chatImporting, window.exportPicker, window.exportDialog, window.modelSheet,
                            window.settingsSheet, window.chatSheet, window.folderDialog, window.keysSheet, window.compareSheet, window.linkDialog, window.nameDialog,
                            window.deleteDialog, window.trashSheet, window.trySheet, window.askSheet, window.placePicker, window.schemaPicker, window.sourcePicker, window.documentPicker, window.readDialog]) {
            page.close();
            tryCompare(page, "visible", false);
        }
        reset();
        while (App.notice !== "") App.dismissNotice();
    }
    function reset() {
        window.width = 1180;
        window.height = 760;
    }

    function activate() {
        window.requestActivate();
        tryVerify(() => window.active);
        App.chat.startNew();
        window.pane.composer.focusField();
    }
    function show(page) {
        page.open();
        tryCompare(page, "opened", true);
    }
    function say(text, answer) {
        App.chat.draft = text;
        App.chat.send();
        script.answerWith(answer);
        tryCompare(App.chat, "state", ChatModel.Idle);
        wait(30);
    }
    // Until layouts have put everything where it belongs, however long a busy machine takes for it.
    function calm() {
        let quiet = 0;  // looks at which nothing was to be laid out, one after the other
        tryVerify(() => {
            const waiting = isPolishScheduled(window.contentItem) || itemsOf(window.contentItem, item => isPolishScheduled(item)).length > 0;
            quiet = waiting ? 0 : quiet + 1;
            return quiet >= 2;
        });
    }
    // What the message in this row has for this role.
    function message(row, role) {
        return App.chat.messages.data(App.chat.messages.index(row, 0), role);
    }
    // All visible items below `item` that satisfy `fits`.
    function itemsOf(item, fits, found = []) {
        for (let i = 0; i < item.children.length; ++i) {
            const child = item.children[i];
            if (!child.visible) continue;
            if (fits(child)) found.push(child);
            itemsOf(child, fits, found);
        }
        return found;
    }
    // The one thing below `item` that can be pressed and has this name.
    function button(item, name) {
        const found = itemsOf(item, child => child.clicked !== undefined && child.Accessible.name === name);
        verify(found.length === 1, found.length + " things below " + item + " are called " + name);
        return settled(found[0]);
    }
    // An item, as soon as layouts have put it where it belongs.
    function settled(item) {
        for (let at = item; at !== null; at = at.parent) tryVerify(() => !isPolishScheduled(at));
        return item;
    }
    // An entry of an open menu, by its words.
    function entry(menu, words) {
        tryCompare(menu, "opened", true);
        for (let i = 0; i < menu.count; ++i) {
            if (menu.itemAt(i).text === words) return settled(menu.itemAt(i));
        }
        fail("the menu has no entry " + words);
    }
}
