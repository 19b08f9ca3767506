// SPDX-License-Identifier: Apache-2.0
// Choosing files: by keys, mouse, touch and written paths.
import QtQuick
import QtTest
import Runnel.Chat

WindowCase {
    name: "Files"

    function names(picker) {
        return picker.list.model.names();
    }
    function showFolder(picker, folder) {
        picker.enteredAt = 0;
        picker.openIn(folder);
        tryCompare(picker, "opened", true);
        tryCompare(picker, "folder", folder);
        tryVerify(() => picker.list.model.ready && picker.list.itemAtIndex(0));
    }

    function test_foldersComeFirstThenFilesOfTheKind() {
        showFolder(window.modelOpening, desk.folder());
        compare(names(window.modelOpening), ["a#1 100%", "b sub", "one.gguf", "Two & 2.GGUF"]);
        window.modelOpening.close();
        showFolder(window.chatImporting, desk.folder());
        compare(names(window.chatImporting), ["a#1 100%", "b sub", "other.rnlpack", "recipe.json", "talk.json", "there.rnlpack", "wrong.json"]);
        window.chatImporting.close();
        showFolder(window.exportPicker, desk.folder());
        compare(names(window.exportPicker), ["a#1 100%", "b sub"]);
    }
    function test_keysGoIntoFoldersAndBackAndOpen() {
        const picker = window.modelOpening;
        showFolder(picker, desk.folder());
        keyClick(Qt.Key_Down);
        keyClick(Qt.Key_Return);
        tryCompare(picker, "folder", desk.folder() + "/b sub");
        tryCompare(picker.list.model, "ready", true);
        compare(names(picker), ["deep", "three.gguf"]);
        keyClick(Qt.Key_Backspace);
        tryCompare(picker, "folder", desk.folder());
        tryCompare(picker.list, "currentIndex", 1);  // where it came from
        keyClick(Qt.Key_T);
        compare(picker.list.currentItem.fileName, "Two & 2.GGUF");
        keyClick(Qt.Key_Home);
        compare(picker.list.currentIndex, 0);
        keyClick(Qt.Key_End);
        compare(picker.list.currentIndex, 3);
        keyClick(Qt.Key_Return);
        tryCompare(picker, "opened", false);
        verify(script.lastLoad().startsWith(desk.folder() + "/Two & 2.GGUF "), script.lastLoad());
    }
    function test_escapeOpensNothing() {
        const before = script.lastLoad();
        showFolder(window.modelOpening, desk.folder());
        keyClick(Qt.Key_Escape);
        tryCompare(window.modelOpening, "opened", false);
        compare(script.lastLoad(), before);
    }
    function test_theMouseChoosesThenOpens() {
        const picker = window.modelOpening;
        showFolder(picker, desk.folder());
        verify(!picker.openButton.enabled);
        mouseClick(picker.list.itemAtIndex(0));
        tryCompare(picker, "folder", desk.folder() + "/a#1 100%");
        tryVerify(() => picker.list.itemAtIndex(0));
        compare(names(picker), ["four?.gguf"]);
        wait(Qt.styleHints.mouseDoubleClickInterval);
        mouseClick(picker.list.itemAtIndex(0));
        verify(picker.openButton.enabled);
        mouseClick(picker.openButton);
        tryCompare(picker, "opened", false);
        verify(script.lastLoad().startsWith(desk.folder() + "/a#1 100%/four?.gguf "), script.lastLoad());
        compare(App.settings.recall("modelFolder"), desk.folder() + "/a#1 100%");
        picker.openIn("");
        compare(picker.folder, desk.folder() + "/a#1 100%");
    }
    function test_aDoubleClickOpensAFile() {
        const picker = window.modelOpening;
        showFolder(picker, desk.folder());
        mouseDoubleClickSequence(picker.list.itemAtIndex(2));
        tryCompare(picker, "opened", false);
        verify(script.lastLoad().startsWith(desk.folder() + "/one.gguf "), script.lastLoad());
    }
    function test_aDoubleClickOnAFolderOpensNothingInIt() {
        const picker = window.modelOpening, before = script.lastLoad();
        showFolder(picker, desk.folder());
        const row = settled(picker.list.itemAtIndex(0)), at = row.mapToItem(window.contentItem, row.width / 2, row.height / 2);
        mouseDoubleClickSequence(window.contentItem, at.x, at.y);  // the row is gone after the first click
        tryCompare(picker, "folder", desk.folder() + "/a#1 100%");
        tryVerify(() => picker.list.itemAtIndex(0));
        verify(picker.opened);
        compare(script.lastLoad(), before);
    }
    function test_touchChoosesThenOpens() {
        const picker = window.modelOpening;
        window.width = 800;
        window.height = 480;
        showFolder(picker, desk.folder());
        const row = picker.list.itemAtIndex(2);
        touchEvent(row).press(1, row).commit();
        touchEvent(row).release(1, row).commit();
        compare(picker.list.currentIndex, 2);
        touchEvent(picker.openButton).press(1, picker.openButton).commit();
        touchEvent(picker.openButton).release(1, picker.openButton).commit();
        tryCompare(picker, "opened", false);
        verify(script.lastLoad().startsWith(desk.folder() + "/one.gguf "), script.lastLoad());
    }
    function test_aWrittenPathIsOpenedOrRefusedInWords() {
        const picker = window.modelOpening;
        showFolder(picker, desk.folder());
        const write = text => {
            picker.field.forceActiveFocus();
            picker.field.text = text;
            keyClick(Qt.Key_Return);
        };
        write("b sub");
        tryCompare(picker, "folder", desk.folder() + "/b sub");
        write(desk.folder() + "/nowhere");
        verify(picker.problem !== "");
        compare(picker.folder, desk.folder() + "/b sub");
        write(desk.folder() + "/notes.txt");
        verify(picker.problem !== "");
        write(desk.folder() + "/one.gguf");
        tryCompare(picker, "opened", false);
        verify(script.lastLoad().startsWith(desk.folder() + "/one.gguf "), script.lastLoad());
    }
    function test_theFolderOfAnExportIsPicked() {
        const dialog = window.exportDialog, picker = window.exportPicker;
        dialog.openFor(script.addConversation("tea", ["hi", "there"]));
        tryCompare(dialog, "opened", true);
        const name = Files.nameOf(dialog.fileField.text);
        dialog.folderWanted(desk.folder());
        tryCompare(picker, "opened", true);
        tryVerify(() => picker.list.itemAtIndex(1));
        mouseClick(picker.list.itemAtIndex(1));
        tryCompare(picker, "folder", desk.folder() + "/b sub");
        mouseClick(picker.openButton);
        tryCompare(picker, "opened", false);
        compare(dialog.fileField.text, desk.folder() + "/b sub/" + name);
        dialog.choose(true);  // the folder stays
        compare(Files.folderOf(dialog.fileField.text), desk.folder() + "/b sub");
    }
    function test_everythingHasANameAndIsReachedByTab() {
        const picker = window.modelOpening;
        showFolder(picker, desk.folder());
        mouseClick(picker.list.itemAtIndex(2));
        const stops = [];
        for (let i = 0; i < 12; ++i) {
            keyClick(Qt.Key_Tab);
            const at = window.activeFocusItem;
            verify(at && at.visible && at.Accessible.name !== "", stops.join());
            if (stops.includes(at.Accessible.name)) break;
            stops.push(at.Accessible.name);
        }
        for (const name of ["Close", "Parent folder", "Folder or file path", "one.gguf, 2.5 kB", "Home", "Open"])
            verify(stops.includes(name), name + " is not among " + stops.join());
        compare(picker.list.itemAtIndex(0).Accessible.name, "Folder a#1 100%");
        compare(picker.list.itemAtIndex(2).Accessible.name, "one.gguf, 2.5 kB");
        compare(picker.list.itemAtIndex(2).Accessible.role, Accessible.ListItem);
    }
}
