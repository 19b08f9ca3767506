// SPDX-License-Identifier: Apache-2.0
// Over the blocks of a message: selects across them by mouse, opens links, shows a menu. Blocks are items of `column`
// with `editor`, a TextEdit, or `wholeText`, which is selected whole or not at all. Takes no keyboard focus.
import QtQuick
import QtQuick.Controls.Basic
import Runnel.Chat

MouseArea {
    id: area

    required property Item column
    readonly property alias menu: textMenu
    property int anchorBlock: -1
    property int anchorAt: 0
    property bool dragged: false
    property int clicks: 0
    property bool selecting: false
    signal linkWanted(string link)

    function blocks() {
        const found = [];
        for (let i = 0; i < column.children.length; ++i) {
            const item = column.children[i];
            const block = item.item !== undefined ? item.item : item;
            if (block && (block.editor !== undefined || block.wholeText !== undefined)) found.push(block);
        }
        return found;
    }
    // The block at a place of this area, and the position in it.
    function placeAt(x, y) {
        const all = blocks();
        let nearest = all.length - 1;
        for (let i = 0; i < all.length; ++i) {
            if (y <= all[i].mapToItem(area, 0, all[i].height).y) {
                nearest = i;
                break;
            }
        }
        if (nearest < 0) return null;
        const editor = all[nearest].editor;
        if (!editor) return {block: nearest, at: 0};
        const p = area.mapToItem(editor, x, y);
        return {block: nearest, at: p.y < 0 ? 0 : p.y > editor.height ? editor.length : editor.positionAt(p.x, p.y)};
    }
    function selectBetween(from, to) {
        if (from.block > to.block || (from.block === to.block && from.at > to.at)) [from, to] = [to, from];
        blocks().forEach((block, i) => {
            const inside = i >= from.block && i <= to.block;
            if (!block.editor) {
                block.wholeSelected = inside && from.block !== to.block;
                return;
            }
            const begin = i === from.block ? from.at : 0;
            const end = i === to.block ? to.at : block.editor.length;
            if (inside && end > begin) block.editor.select(begin, end);
            else block.editor.deselect();
        });
    }
    function selectAll() {
        const all = blocks();
        if (all.length === 0) return;
        Selection.take(area);
        const last = all[all.length - 1];
        selectBetween({block: 0, at: 0}, {block: all.length - 1, at: last.editor ? last.editor.length : 0});
        if (all.length === 1 && !last.editor) last.wholeSelected = true;
    }
    function selectedText() {
        const selected = editor => editor.sourceOf !== undefined ? editor.sourceOf(editor.selectionStart, editor.selectionEnd) : editor.selectedText;
        return blocks().map(block => block.editor ? selected(block.editor) : block.wholeSelected ? block.wholeText : "")
                       .map(text => text.replace(/\u2029|\u2028/g, "\n"))
                       .filter(text => text !== "").join("\n\n");
    }
    function clear() {
        for (const block of blocks()) {
            if (block.editor) block.editor.deselect();
            else block.wholeSelected = false;
        }
        Selection.drop(area);
    }
    function linkAt(x, y) {
        const place = placeAt(x, y);
        const editor = place ? blocks()[place.block].editor : null;
        if (!editor) return "";
        const p = area.mapToItem(editor, x, y);
        return editor.contains(p) ? editor.linkAt(p.x, p.y) : "";
    }
    // Buttons and bars among the text stay what they are.
    function onText(x, y) {
        const place = placeAt(x, y);
        if (!place) return false;
        const block = blocks()[place.block];
        if (!block.editor) return true;
        const frame = block.frame !== undefined ? block.frame : block.editor;
        const p = area.mapToItem(frame, x, y);
        return p.y >= 0 && (block.frame === undefined || frame.contains(p));
    }

    acceptedButtons: Qt.LeftButton | Qt.RightButton
    visible: !Theme.touch
    preventStealing: true
    cursorShape: Qt.IBeamCursor
    Component.onDestruction: Selection.drop(area)

    onPressed: mouse => {
        // A finger scrolls; links take its taps themselves.
        if (mouse.source !== Qt.MouseEventNotSynthesized || !onText(mouse.x, mouse.y)) {
            mouse.accepted = false;
            return;
        }
        if (mouse.button === Qt.RightButton) {
            textMenu.link = linkAt(mouse.x, mouse.y);
            textMenu.popup(area, mouse.x, mouse.y);
            return;
        }
        const place = placeAt(mouse.x, mouse.y);
        if ((mouse.modifiers & Qt.ShiftModifier) && Selection.owner === area && anchorBlock >= 0) {
            selectBetween({block: anchorBlock, at: anchorAt}, place);
            selecting = true;
            return;
        }
        Selection.clear();
        anchorBlock = place.block;
        anchorAt = place.at;
        dragged = false;
        selecting = true;
    }
    onPositionChanged: mouse => {
        if (!selecting || !(mouse.buttons & Qt.LeftButton)) return;
        const place = placeAt(mouse.x, mouse.y);
        if (!place || (!dragged && place.block === anchorBlock && place.at === anchorAt)) return;
        dragged = true;
        Selection.take(area);
        selectBetween({block: anchorBlock, at: anchorAt}, place);
    }
    onReleased: selecting = false
    onClicked: mouse => {
        if (dragged || mouse.button !== Qt.LeftButton) return;
        const link = linkAt(mouse.x, mouse.y);
        if (link !== "") linkWanted(link);
    }
    onDoubleClicked: mouse => {
        const place = placeAt(mouse.x, mouse.y);
        const editor = place ? blocks()[place.block].editor : null;
        if (!editor || mouse.button !== Qt.LeftButton) return;
        Selection.take(area);
        editor.cursorPosition = place.at;
        editor.selectWord();
    }

    StyledMenu {
        id: textMenu
        property string link: ""
        width: Theme.fontSize * 14
        Action {
            text: qsTr("Copy")
            enabled: Selection.owner === area
            onTriggered: Selection.copy()
        }
        Action {
            text: qsTr("Select all")
            onTriggered: area.selectAll()
        }
        MenuItem {
            text: qsTr("Copy link")
            visible: textMenu.link !== ""
            height: textMenu.link !== "" ? implicitHeight : 0
            onTriggered: App.copy(textMenu.link)
        }
    }
}
