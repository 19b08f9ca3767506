// SPDX-License-Identifier: Apache-2.0
import QtQuick
import QtQuick.Controls.Basic
import QtTest
import Runnel.Chat

WindowCase {
    name: "Window"

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

    function test_textToReadHasFifteenPixelsAndMore() {
        activate();
        say("A question", "An answer\n\n- with a list\n\n|and|a table|\n|-|-|\n|of|cells|");
        compare(App.settings.fontScale, 1);
        const texts = itemsOf(window.pane.list, item => item.text !== undefined && item.font !== undefined && item.clicked === undefined && String(item.text).length > 1);
        for (const words of ["A question", "An answer", "with a list", "cells"]) {
            const found = texts.filter(item => item.text.includes(words));
            compare(found.length, 1, words);
            verify(found[0].font.pixelSize >= 15, words + " has " + found[0].font.pixelSize);
        }
        verify(window.pane.composer.field.font.pixelSize >= 15);
    }
    function test_sidesBecomeDrawersOnANarrowScreen() {
        App.settings.theme = "light";
        verify(window.showLibrary);
        verify(window.showTimeline);
        window.width = 480;
        tryCompare(window, "narrow", true);
        verify(!window.showLibrary);
        verify(!window.showTimeline);
    }

    function test_everythingIsInsideTheWindowAtEverySize() {
        activate();
        say("How do I make a good cup of tea?", "So:\n\n```cpp\nint a;\n```\n\n|a|b|\n|-|-|\n|1|2|");
        App.say("Something happened.");
        for (const [w, h] of [[400, 500], [640, 480], [900, 700], [1180, 760], [1920, 1080], [3840, 2160], [1000, 700], [400, 700], [3840, 500]]) {
            window.width = w;
            window.height = h;
            tryCompare(window.contentItem, "width", w);
            wait(30);
            compare(window.pane.width + (window.showLibrary ? window.libraryPane.width + Theme.unit : 0)
                    + (window.showTimeline ? window.timelinePane.width + Theme.unit : 0), w, "panes at " + w);
            const outside = () => itemsOf(window.contentItem, item => (item.clicked !== undefined && item.selectAll === undefined) || item.objectName === "composer")
                .map(item => [item.Accessible.name, item.mapToItem(null, 0, 0).x, item.width]).filter(([, x, width]) => x < -1 || x + width > w + 1);
            // A window without a screen may draw no frame by itself, and layouts are done before one.
            for (let i = 0; i < 20 && outside().length > 0; ++i) grabImage(window.contentItem), wait(50);
            compare(outside(), [], "of " + w);
            const field = window.pane.composer;
            verify(field.mapToItem(null, 0, field.height).y <= h, "the field at " + w + "x" + h);
            verify(window.pane.list.height > 60, "messages at " + w + "x" + h + ": " + window.pane.list.height);
        }
    }
    function test_panesAreResizedByDraggingAndStaySo() {
        activate();
        const before = window.libraryPane.width, x = before + Theme.unit / 2;
        mousePress(window.contentItem, x, 300);
        for (let step = 1; step <= 6; ++step) mouseMove(window.contentItem, x + step * 10, 300);
        const grip = itemsOf(window.contentItem, item => item.pressed === true && item.hovered !== undefined && item.clicked === undefined)[0];
        compare(grip.children[0].color, Theme.accent);
        mouseRelease(window.contentItem, x + 60, 300);
        tryVerify(() => Math.abs(window.libraryPane.width - before - 60) <= 3, 1000, window.libraryPane.width + " after " + before);
        compare(Number(App.settings.recall("libraryWidth")), window.libraryPane.width);
        const kept = window.libraryPane.width;
        window.width = 600;
        tryCompare(window, "narrow", true);
        window.width = 1180;
        tryCompare(window.libraryPane, "width", kept);
    }
    function test_drawersCloseWhereThereIsRoom() {
        activate();
        window.width = 480;
        tryCompare(window, "narrow", true);
        window.toggleLibrary();
        tryCompare(window.drawer, "opened", true);
        window.width = 1180;
        tryCompare(window.drawer, "visible", false);
        verify(window.showLibrary);
    }
    function test_formulasAreDrawnCopiedAndReadAsTheirSource() {
        activate();
        say("f", "Euler: $e^{i\\pi} + 1 = 0$, for $5 or $6\n\n$$\\int_0^1 x^2\\,dx = \\frac{1}{3}$$\n\nNot drawn: \\(\\unknown{x}\\)");
        const proses = itemsOf(window.pane.list, item => item.markdown !== undefined), first = settled(proses[proses.length - 2]);
        tryVerify(() => desk.picturesOf(first.textDocument) === 1);
        const source = "Euler: $e^{i\\pi} + 1 = 0$, for $5 or $6";
        compare(first.Accessible.name, source);
        compare(desk.picturesOf(proses[proses.length - 1].textDocument), 0);
        compare(proses[proses.length - 1].Accessible.name, "Not drawn: \\(\\unknown{x}\\)");
        const alone = itemsOf(window.pane.list, item => item.source !== undefined && item.wholeText !== undefined);
        compare(alone.length, 1);
        compare(alone[0].Accessible.name, "$$\\int_0^1 x^2\\,dx = \\frac{1}{3}$$");
        verify(alone[0].implicitHeight > Theme.fontSize * 2, alone[0].implicitHeight);
        mouseClick(first, 10, 8, Qt.RightButton);
        const area = itemsOf(window.pane.list, item => item.selectAll !== undefined && item.menu !== undefined && item.menu.visible)[0];
        mouseClick(entry(area.menu, "Select all"));
        tryCompare(area.menu, "visible", false);
        keyClick(Qt.Key_C, Qt.ControlModifier);
        compare(desk.copied(), source + "\n\n$$\\int_0^1 x^2\\,dx = \\frac{1}{3}$$\n\nNot drawn: \\(\\unknown{x}\\)");
    }
    function test_aLibraryThatCannotBeWrittenLetsAChatBegin() {
        activate();
        script.refuseLibrary("/x/chats.db");
        verify(App.notice.includes("/x/chats.db"), App.notice);
        const bar = findChild(window.contentItem, "notices");
        mouseClick(settled(button(bar, "Begin a new library (the old file is kept)")));
        compare(script.callCount("fresh"), 1);
        App.dismissNotice();
        script.failLibrary("/x/chats.db", "/x/chats.db: database disk image is malformed");
        mouseClick(settled(button(bar, "Open what can be read")));
        compare(script.callCount("look"), 1);
        verify(App.notice.includes("2 chats can be read."), App.notice);
        App.dismissNotice();
    }
    function test_tabFollowsTheEye() {
        activate();
        say("hi", "there");
        mouseMove(window.contentItem, window.width / 2, 3);
        calm();
        window.libraryPane.focusSearch();
        const panes = [window.libraryPane, window.pane, window.timelinePane];
        const paneOf = item => panes.findIndex(pane => {
            for (let at = item; at !== null; at = at.parent) if (at === pane) return true;
            return false;
        });
        let before = {pane: 0, y: 0, name: ""}, seen = 0;
        for (let i = 0; i < 60; ++i) {
            keyClick(Qt.Key_Tab);
            tryVerify(() => window.activeFocusItem !== null, 5000, "after " + before.name);
            const at = settled(window.activeFocusItem), pane = paneOf(at), y = at.mapToItem(null, 0, at.height / 2).y;
            if (pane < before.pane) break;  // around
            const words = at.Accessible.name + " after " + before.name;
            verify(pane <= before.pane + 1, words);
            if (pane === before.pane && before.name !== "") verify(y >= before.y - Theme.control, words + ": " + y + " " + before.y);
            before = {pane: pane, y: y, name: at.Accessible.name};
            ++seen;
        }
        compare(before.pane, 2);
        verify(seen > 10, seen);
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

    function test_aDeletionStaysUndoableAfterAnotherAndACopy() {
        activate();
        say("first", "1");
        const first = App.chat.conversation;
        keyClick(Qt.Key_N, Qt.ControlModifier);
        say("second", "2");
        const second = App.chat.conversation;
        App.library.remove(first);
        App.library.remove(second);
        App.copy("text");
        App.dismissNotice();
        window.pane.composer.focusField();
        keyClick(Qt.Key_Z, Qt.ControlModifier);
        compare(App.chat.conversation, second);
        window.pane.composer.focusField();
        keyClick(Qt.Key_Z, Qt.ControlModifier);
        compare(App.chat.conversation, first);
    }
    function test_deletedChatsAreRestoredAndDeletedForever() {
        activate();
        say("first", "1");
        const first = App.chat.conversation, before = App.trash.length, undoable = App.canUndo;
        // Other tests may have left deleted chats: the newest is the one of this.
        const newest = () => {
            tryVerify(() => App.trash.length === before + 1 && App.trash[0].name === "first");
            const list = findChild(window.trashSheet.contentItem, "trash");
            tryVerify(() => list.itemAtIndex(0) !== null);
            return settled(list.itemAtIndex(0));
        };
        App.library.remove(first);
        mouseClick(settled(findChild(window.libraryPane, "libraryMenuButton")));
        mouseClick(entry(window.libraryPane.menu, "Recently deleted"));
        tryCompare(window.trashSheet, "opened", true);
        mouseClick(settled(button(newest(), "Restore")));
        compare(App.chat.conversation, first);
        App.library.remove(first);
        mouseClick(settled(button(newest(), "Delete forever")));
        compare(App.trash.length, before);
        compare(App.canUndo, undoable);
    }
    function test_aProblemStaysUntilItIsDismissed() {
        activate();
        script.failLibrary("/x/chats.db", "/x/chats.db: database disk image is malformed");
        App.copy("text");
        wait(3500);
        compare(App.notices.length, 1);
        verify(App.notice.includes("/x/chats.db"), App.notice);
        verify(App.noticeIsProblem);
        const bar = findChild(window.contentItem, "notices");
        mouseClick(settled(button(bar, "Save into a new library")));
        compare(script.callCount("salvage"), 1);
        verify(App.notice.includes("/x/old.db"), App.notice);
        App.dismissNotice();
    }
    function test_aPageDoesNotShowGoodNewsOfBefore() {
        activate();
        script.failLibrary("/x/chats.db", "/x/chats.db: database disk image is malformed");
        App.say("Exported to /x/talk.md");
        compare(App.notices.length, 2);
        keyClick(Qt.Key_F1);
        tryVerify(() => window.pageOpen);
        compare(App.notices.length, 1);
        verify(App.noticeIsProblem);
        keyClick(Qt.Key_Escape);
        App.dismissNotice();
    }
    function test_theChatListIsAsWideAsItsPane() {
        activate();
        say("hi", "there");
        for (const width of [12, 15, 19, 30]) {
            window.libraryPane.SplitView.preferredWidth = Theme.fontSize * width;
            tryCompare(window.libraryPane, "width", Theme.fontSize * width);
            const outside = () => itemsOf(window.libraryPane, item => item.clicked !== undefined && item.visible)
                .filter(item => item.mapToItem(window.libraryPane, item.width, 0).x > window.libraryPane.width)
                .map(item => item.Accessible.name);
            for (let i = 0; i < 20 && outside().length > 0; ++i) grabImage(window.contentItem), wait(50);
            compare(outside(), [], "at " + width);
        }
    }
    function test_aClickElsewhereKeepsANewName() {
        activate();
        say("hi", "there");
        const list = findChild(window.libraryPane, "library");
        list.forceActiveFocus();
        list.currentIndex = 0;
        keyClick(Qt.Key_F2);
        tryVerify(() => window.activeFocusItem.Accessible.name === "Chat title");
        for (const letter of "kept") keyClick(letter);
        mouseClick(window.pane.composer.field);
        tryCompare(App.library, "ready", true);
        compare(App.library.nameOf(App.chat.conversation), "kept");
        list.currentIndex = -1;
    }
    function lastProse() {
        let found = [];
        tryVerify(() => (found = itemsOf(window.pane.list, item => item.markdown !== undefined)).length > 0);
        return settled(found[found.length - 1]);
    }
    function test_keysWorkAfterTextWasClickedAndSelected() {
        activate();
        say("hi", "Some words of an answer");
        const prose = lastProse();
        mouseDoubleClickSequence(prose, 10, 8);
        compare(prose.selectedText, "Some");
        const shown = App.settings.showTimeline;
        keyClick(Qt.Key_T, Qt.ControlModifier);
        compare(App.settings.showTimeline, !shown);
        keyClick(Qt.Key_T, Qt.ControlModifier);
        keyClick(Qt.Key_C, Qt.ControlModifier);
        compare(desk.copied(), "Some");
        mouseClick(prose, 10, 8);
        compare(prose.selectedText, "");
        keyClick("a");
        compare(window.pane.composer.field.text, "a");
        App.chat.draft = "";
        keyClick(Qt.Key_N, Qt.ControlModifier);
        compare(App.chat.conversation, 0);
    }
    function test_selectionRunsAcrossParagraphsAndCode() {
        activate();
        say("hi", "First words\n\n```py\nx = 1\n```\n\nLast words");
        const proses = itemsOf(window.pane.list, item => item.markdown !== undefined);
        const from = proses[proses.length - 2], to = settled(proses[proses.length - 1]);
        const end = to.mapToItem(from, to.width - 4, to.height - 3);
        mousePress(from, 1, 8);
        mouseMove(from, 20, 12);
        mouseMove(from, end.x, end.y);
        mouseRelease(from, end.x, end.y);
        keyClick(Qt.Key_C, Qt.ControlModifier);
        compare(desk.copied(), "First words\n\nx = 1\n\nLast words");
    }
    function test_textAndFieldHaveMenus() {
        activate();
        say("hi", "Some words");
        const prose = lastProse();
        mouseClick(prose, 10, 8, Qt.RightButton);
        const area = itemsOf(window.pane.list, item => item.selectAll !== undefined && item.menu !== undefined && item.menu.visible)[0];
        mouseClick(entry(area.menu, "Select all"));
        tryCompare(area.menu, "visible", false);
        compare(prose.selectedText, "Some words");
        window.pane.composer.focusField();
        App.chat.draft = "typed";
        mouseClick(window.pane.composer.field, 10, 10, Qt.RightButton);
        const menu = findChild(window.pane.composer.field, "fieldMenu");
        mouseClick(entry(menu, "Select all"));
        tryCompare(menu, "visible", false);
        compare(window.pane.composer.field.selectedText, "typed");
        App.chat.draft = "";
    }
    function test_everyFieldHasAMenu_data() {
        return [{tag: "composer"}, {tag: "message"}, {tag: "search"}, {tag: "rename"}, {tag: "prompt", page: window.settingsSheet}, {tag: "chat's prompt", page: window.chatSheet},
                {tag: "ask", page: window.askSheet}, {tag: "name", page: window.nameDialog}, {tag: "folder", page: window.folderDialog}, {tag: "export", page: window.exportDialog},
                {tag: "picker", page: window.modelOpening}];
    }
    function test_everyFieldHasAMenu(data) {
        activate();
        say("hi", "there");
        const list = findChild(window.contentItem, "library");
        if (data.tag === "message") {
            window.pane.composer.focusField();
            keyClick(Qt.Key_Up);
        } else if (data.tag === "search") keyClick(Qt.Key_F, Qt.ControlModifier);
        else if (data.tag === "rename") {
            tryVerify(() => list.itemAtIndex(0));
            list.forceActiveFocus();
            list.currentIndex = 0;
            keyClick(Qt.Key_F2);
        } else if (data.tag === "name") data.page.openFor(message(1, MessageModel.IdRole), "");
        else if (data.tag === "folder" || data.tag === "export") data.page.openFor(App.chat.conversation);
        else if (data.tag === "picker") data.page.openIn(desk.folder());
        else if (data.page) data.page.open();
        if (data.page) tryCompare(data.page, "opened", true);
        const fields = itemsOf(data.page ? data.page.contentItem : window.contentItem, item => item.selectByMouse !== undefined && !item.readOnly
                               && (data.page || item.activeFocus));
        compare(fields.length, 1);
        const field = settled(fields[0]);
        const before = field.text;
        field.text = "some words";
        const choose = words => {
            mouseClick(field, 12, field.height / 2, Qt.RightButton);
            const menu = findChild(field, "fieldMenu");
            mouseClick(entry(menu, words));
            tryCompare(menu, "visible", false);
            verify(field.visible && field.activeFocus, "after " + words);
        };
        choose("Select all");
        compare(field.selectedText, "some words");
        choose("Cut");
        compare(field.text, "");
        choose("Paste");
        compare(field.text, "some words");
        field.selectAll();
        desk.copy("");
        choose("Copy");
        compare(desk.copied(), "some words");
        // Esc closes the menu alone.
        mouseClick(field, 12, field.height / 2, Qt.RightButton);
        tryCompare(findChild(field, "fieldMenu"), "opened", true);
        keyClick(Qt.Key_Escape);
        tryCompare(findChild(field, "fieldMenu"), "visible", false);
        if (data.page) verify(data.page.opened);
        verify(field.visible && field.activeFocus);
        field.text = before;
        if (!data.page) keyClick(Qt.Key_Escape);
    }
    function test_linksKeepTheirContrastInDark() {
        activate();
        App.settings.theme = "dark";
        say("link", "See [there](https://example.org/x).");
        let prose = lastProse();
        tryVerify(() => contrast(desk.linkColourOf(prose.textDocument), Theme.window) >= 4.5);
        App.settings.theme = "light";
        tryVerify(() => contrast(desk.linkColourOf(prose.textDocument), Theme.window) >= 4.5);
    }
    function test_whatAnotherWindowSaysIsShownAndHereItStays() {
        activate();
        say("one", "1");
        say("two", "2");
        const chat = App.chat.conversation;
        script.writeElsewhere(chat, "from the other window");
        tryCompare(App.chat.messages, "count", 5);
        App.chat.rewind(message(1, MessageModel.IdRole));
        script.writeElsewhere(chat, "again");
        wait(50);
        compare(App.chat.messages.count, 2);
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
        mouseMove(window.contentItem, window.width / 2, 3);  // where nothing shows more than usual
        calm();
        window.pane.composer.focusField();
        const stops = [], chats = findChild(window.libraryPane, "library");
        let chatsReached = false;  // the list, or what of it had the focus last
        for (let i = 0; i < 60; ++i) {
            keyClick(Qt.Key_Tab);
            let at = null;
            tryVerify(() => (at = window.activeFocusItem) && at.visible && at.width > 0, 1000, "after " + stops.join());
            if (at === window.pane.composer.field) break;
            stops.push(at.Accessible.name);
            chatsReached = chatsReached || chats.activeFocus;
        }
        verify(stops.length < 50, stops.join());
        for (const name of ["New chat", "Search all messages", "Settings", "Hide the timeline", "Copy", "Try again"])
            verify(stops.includes(name), name + " is not among " + stops.join());
        verify(chatsReached, stops.join());
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

    function test_aDroppedModelIsLoadedAndADroppedChatOpened() {
        activate();
        const at = Qt.point(window.width / 2, window.height / 2);
        verify(desk.drop(window, desk.folder() + "/one.gguf", at));
        verify(script.lastLoad().startsWith(desk.folder() + "/one.gguf "), script.lastLoad());
        verify(desk.drop(window, desk.folder() + "/a#1 100%/four?.gguf", Qt.point(5, 5)));
        verify(script.lastLoad().startsWith(desk.folder() + "/a#1 100%/four?.gguf "), script.lastLoad());
        verify(desk.drop(window, desk.folder() + "/talk.json", at));
        compare(App.chat.title, desk.folder() + "/talk.json");
        script.finishLoad("cpu");
    }
    function test_aDropReachesTheWindowThroughThePageOfModels() {
        activate();
        show(window.modelSheet);
        verify(desk.drop(window, desk.folder() + "/b sub/three.gguf", Qt.point(window.width / 2, window.height / 2)));
        verify(script.lastLoad().startsWith(desk.folder() + "/b sub/three.gguf "), script.lastLoad());
        script.finishLoad("cpu");
    }
    function test_otherFilesAreRefusedInWordsAndWordsNotAtAll() {
        activate();
        App.dismissNotice();
        const before = script.lastLoad();
        verify(!desk.drop(window, "just words", Qt.point(300, 300)));
        compare(App.notice, "");
        desk.drop(window, desk.folder() + "/picture.xyz", Qt.point(300, 300));
        verify(App.noticeIsProblem);
        compare(script.lastLoad(), before);
    }
    function test_aDroppedDocumentIsReadOnceItsCostWasSaid() {
        activate();
        desk.drop(window, desk.folder() + "/one.gguf", Qt.point(300, 300));
        script.finishLoad("cpu");
        verify(desk.drop(window, desk.folder() + "/notes.txt", Qt.point(300, 300)));
        tryCompare(window.readDialog, "opened", true);
        tryVerify(() => itemsOf(window.readDialog.contentItem, item => item.text === "Read notes.txt? About 626 tokens. Old details fade.").length === 1);
        const before = script.requestCount();
        keyClick(Qt.Key_Return);
        tryCompare(window.readDialog, "visible", false);
        compare(script.requestCount(), before + 1);
        compare(script.lastText(), "n".repeat(2500));
        verify(App.chat.state !== ChatModel.Idle);
        const stops = script.stopCount();
        keyClick(Qt.Key_Escape);
        compare(script.stopCount(), stops + 1);
        script.failStopped();
        tryCompare(App.chat, "state", ChatModel.Idle);
        compare(App.chat.draft, "");
        desk.drop(window, desk.folder() + "/empty.md", Qt.point(300, 300));
        tryVerify(() => App.notice.includes("has no text to read"), 5000, App.notice);
    }
    function dialogSays(words) {
        return itemsOf(window.readDialog.contentItem, item => item.text !== undefined && item.text.includes(words)).length > 0;
    }
    function test_aDroppedPdfIsReadWhenTheUserSaysSo() {
        activate();
        desk.drop(window, desk.folder() + "/one.gguf", Qt.point(300, 300));
        script.finishLoad("cpu");
        verify(desk.drop(window, desk.papers() + "/report.pdf", Qt.point(300, 300)));
        tryCompare(window.readDialog, "opened", true);
        tryVerify(() => dialogSays("Read report.pdf? About 10 tokens."), 60000);
        const before = script.requestCount();
        mouseClick(button(window.readDialog.contentItem, "Read"));
        tryCompare(window.readDialog, "visible", false);
        compare(script.requestCount(), before + 1);
        compare(script.lastText(), "The tower has 199 steps and a lamp.\n");
        script.failStopped();
        tryCompare(App.chat, "state", ChatModel.Idle);
    }
    function test_openingADocumentShowsHowFarItIsAndCanBeStopped() {
        activate();
        const before = script.requestCount();
        verify(desk.drop(window, desk.papers() + "/long.pdf", Qt.point(300, 300)));
        tryCompare(window.readDialog, "opened", true);
        verify(dialogSays("Opening long.pdf…"));
        tryVerify(() => App.documents.progress > 0, 60000);
        verify(!button(window.readDialog.contentItem, "Read").enabled);
        keyClick(Qt.Key_Escape);
        tryCompare(window.readDialog, "visible", false);
        compare(App.documents.name, "");
        wait(200);
        compare(script.requestCount(), before);
        compare(App.notice, "");
    }
    function test_aDocumentThatCannotBeReadIsRefusedInWords() {
        activate();
        verify(desk.drop(window, desk.papers() + "/secret.pdf", Qt.point(300, 300)));
        tryVerify(() => App.noticeIsProblem, 60000);
        compare(App.notice, "Can't read " + desk.papers() + "/secret.pdf: it is protected by a password. Save it without one.");
        tryCompare(window.readDialog, "visible", false);
    }
    function test_aDroppedFolderIsItsSources() {
        activate();
        verify(desk.drop(window, desk.papers() + "/src", Qt.point(300, 300)));
        tryCompare(window.readDialog, "opened", true);
        tryVerify(() => dialogSays("Read src? About 21 tokens."), 60000);
        verify(dialogSays("2 text and source files. 1 left out"));
        keyClick(Qt.Key_Escape);
        tryCompare(window.readDialog, "visible", false);
    }
    function test_theWindowShowsThatAFileCanBeDropped() {
        verify(!window.dropArea.containsDrag);
        desk.dragOver(window, desk.folder() + "/one.gguf", Qt.point(300, 300));
        verify(window.dropArea.containsDrag);
        desk.leave(window);
        verify(!window.dropArea.containsDrag);
    }

    function test_theDeviceIsChosenAndGivesWayToTheCpu() {
        activate();
        desk.drop(window, desk.folder() + "/one.gguf", Qt.point(300, 300));
        script.finishLoad("cpu");
        show(window.modelSheet);
        const selector = window.modelSheet.deviceSelector;
        compare(selector.count, 3);
        verify(selector.textAt(2).startsWith("vulkan:0"));
        selector.forceActiveFocus();
        keyClick(Qt.Key_Space);
        tryCompare(selector.popup, "opened", true);
        while (selector.highlightedIndex < 2) keyClick(Qt.Key_Down);
        keyClick(Qt.Key_Return);
        verify(script.lastLoad().endsWith(" vulkan:0 0"), script.lastLoad());
        script.finishLoad("vulkan:0");
        compare(App.models.device, "vulkan:0");
        App.models.reload();
        script.failDevice();
        script.finishLoad("cpu");
        compare(selector.currentIndex, 1);
        verify(App.noticeIsProblem);
    }
}
