// SPDX-License-Identifier: Apache-2.0
// How long the talk is; that what the model keeps of it stays one size is told to who asks.
import QtQuick
import QtQuick.Controls.Basic
import Runnel.Chat

Text {
    id: meter
    objectName: "memoryMeter"

    readonly property string whole: qsTr("%L1 tokens so far, no limit. The model's memory of this chat always takes %2.").arg(App.chat.length).arg(App.models.stateSize)

    visible: App.chat.length > 0
    text: (App.chat.lengthKnown ? qsTr("%L1 tokens so far. No limit; old details fade.")
                                : qsTr("About %L1 tokens so far. No limit; old details fade.")).arg(App.chat.length)
    wrapMode: Text.Wrap
    color: Theme.muted
    font.pixelSize: Theme.smallSize
    font.family: Theme.fontFamily
    Accessible.role: Accessible.StaticText
    Accessible.name: whole

    HoverHandler { id: hover }
    Tip {
        shown: hover.hovered && App.models.stateSize !== ""
        text: meter.whole
    }
}
