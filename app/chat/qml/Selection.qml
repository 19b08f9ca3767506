// SPDX-License-Identifier: Apache-2.0
// The text that is selected in the conversation: one message's at a time. The message field keeps the keyboard
// meanwhile, so that every key does what it always does.
pragma Singleton
import QtQuick
import Runnel.Chat

QtObject {
    id: selection

    property Item owner: null  // a SelectableArea

    function take(area) {
        if (owner !== null && owner !== area) owner.clear();
        owner = area;
    }
    function drop(area) {
        if (owner === area) owner = null;
    }
    function copy() {
        if (owner !== null) App.copy(owner.selectedText());
    }
    function clear() {
        if (owner !== null) owner.clear();
    }
}
