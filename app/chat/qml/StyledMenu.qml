// SPDX-License-Identifier: Apache-2.0
// A menu in the colours and the letters of the app.
import QtQuick
import QtQuick.Controls.Basic

Menu {
    palette.window: Theme.surface
    palette.windowText: Theme.text
    palette.text: Theme.text
    palette.light: Theme.hover
    palette.midlight: Theme.hover
    palette.mid: Theme.border
    palette.dark: Theme.border
    font.pixelSize: Theme.fontSize
    font.family: Theme.fontFamily
}
