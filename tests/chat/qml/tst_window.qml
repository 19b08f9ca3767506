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
