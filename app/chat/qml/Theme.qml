// SPDX-License-Identifier: Apache-2.0
// Colours, sizes and fonts of the whole app. Text on its ground keeps a contrast of 4.5 and more.
pragma Singleton
import QtQuick

QtObject {
    id: theme

    // Main.qml sets these from the settings.
    property string mode: "system"
    property real fontScale: 1
    property string family: ""
    property bool touch: false

    readonly property SystemPalette system: SystemPalette {}
    readonly property bool dark: mode === "dark" || (mode === "system" && system.window.hslLightness < 0.5)

    readonly property color window: dark ? "#171a1e" : "#fbfaf7"
    readonly property color side: dark ? "#111417" : "#f1efe9"
    readonly property color surface: dark ? "#1f242a" : "#ffffff"
    readonly property color code: dark ? "#101316" : "#f4f2ec"
    readonly property color bubble: dark ? "#1d3a42" : "#dcedf0"
    readonly property color hover: dark ? "#262c33" : "#e6e3da"
    readonly property color selected: dark ? "#20363d" : "#d9e9ec"
    readonly property color border: dark ? "#333a42" : "#dcd8ce"
    readonly property color strongBorder: dark ? "#77808a" : "#858076"
    readonly property color text: dark ? "#e8eaed" : "#1c1f23"
    readonly property color muted: dark ? "#a5adb6" : "#5a5f66"
    readonly property color accent: dark ? "#62c9de" : "#0b6376"
    readonly property color accentText: dark ? "#05252c" : "#ffffff"
    readonly property color danger: dark ? "#ff8f85" : "#b3261e"
    readonly property color warm: dark ? "#e8b86b" : "#8a5a00"

    readonly property color codeKeyword: dark ? "#8ab4f8" : "#7a2fa0"
    readonly property color codeString: dark ? "#9ad29a" : "#1f6b2c"
    readonly property color codeNumber: dark ? "#e8b86b" : "#9a4a00"
    readonly property color codeComment: dark ? "#98a1ab" : "#656a70"

    readonly property real basePixels: Math.round(Qt.application.font.pixelSize > 0 ? Qt.application.font.pixelSize : 14) * (touch ? 1.2 : 1)
    readonly property int fontSize: Math.round(Math.max(15, basePixels) * fontScale)
    readonly property int smallSize: Math.round(fontSize * 0.86)
    readonly property int largeSize: Math.round(fontSize * 1.25)
    readonly property string fontFamily: family !== "" ? family : Qt.application.font.family
    readonly property string monospace: "monospace"

    readonly property int unit: Math.round(fontSize * 0.3)  // a small gap
    readonly property int gap: unit * 2
    readonly property int margin: unit * 4
    readonly property int radius: unit * 2
    readonly property int control: Math.round(touch ? Math.max(46, fontSize * 2.7) : fontSize * 2.2)  // a thing to press
    readonly property int icon: Math.round(fontSize * 1.3)
    readonly property int textWidth: Math.round(fontSize * 46)  // about 80 characters
    readonly property int duration: 120
}
