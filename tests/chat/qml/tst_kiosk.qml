// SPDX-License-Identifier: Apache-2.0
// The window with everything large, as --kiosk shows it, from the smallest screen to the largest.
import QtQuick
import QtTest
import Runnel.Chat

WindowCase {
    name: "Kiosk"

    function init() {
        Theme.touch = true;
    }
    function cleanupTestCase() {
        Theme.touch = false;
        window.destroy();
    }

    function test_touchTargetsAreLargeAndInsideTheScreen_data() {
        return [{tag: "400x500", w: 400, h: 500}, {tag: "400x700", w: 400, h: 700}, {tag: "800x480", w: 800, h: 480},
                {tag: "1280x720", w: 1280, h: 720}, {tag: "3840x2160", w: 3840, h: 2160}];
    }
    function test_touchTargetsAreLargeAndInsideTheScreen(data) {
        App.chat.startNew();
        say("How do I make a good cup of tea?", "So:\n\n```cpp\nint a;\n```\n\n|a|b|\n|-|-|\n|1|2|");
        App.chat.answerLastAgain();
        script.answerWith("Or so.");
        window.width = data.w;
        window.height = data.h;
        const pages = [null, window.settingsSheet, window.modelSheet, window.compareSheet, window.modelOpening, window.exportPicker];
        for (const page of pages) {
            if (page === window.compareSheet) window.compareLast();
            else if (page && page.openIn) page.openIn(desk.folder());
            else if (page) page.open();
            if (page) tryCompare(page, "opened", true);
            wait(50);
            const targets = itemsOf(page ? page.contentItem : window.contentItem, item => (item.clicked !== undefined && item.selectAll === undefined) || item.handle !== undefined);
            verify(targets.length >= (page ? 1 : 6), targets.length);
            for (const target of targets) {
                const name = (page ? page.title : "window") + ": " + target.Accessible.name;
                tryVerify(() => target.height >= 44, 2000, name + " is " + target.height + " high");  // when it is laid out
                const at = target.mapToItem(null, 0, 0);
                verify(at.x >= 0 && at.x + target.width <= data.w, name + " at " + at.x + " + " + target.width);
            }
            if (page) {
                page.close();
                tryCompare(page, "opened", false);
            }
        }
        const field = window.pane.composer;
        verify(field.mapToItem(null, 0, field.height).y <= data.h);
    }
}
