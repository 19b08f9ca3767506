// SPDX-License-Identifier: Apache-2.0
// A paragraph, heading or list of an answer: selectable, links are asked about.
import QtQuick

TextEdit {
    id: prose

    required property string markdown
    signal linkWanted(string link)

    text: markdown
    textFormat: TextEdit.MarkdownText
    readOnly: true
    selectByMouse: !Theme.touch
    wrapMode: TextEdit.Wrap
    color: Theme.text
    selectionColor: Theme.accent
    selectedTextColor: Theme.accentText
    font.family: Theme.fontFamily
    font.pixelSize: Theme.fontSize
    palette.link: Theme.accent
    activeFocusOnPress: !Theme.touch
    onLinkActivated: link => linkWanted(link)
    Accessible.role: Accessible.Paragraph
    Accessible.name: getText(0, length)

    HoverHandler {
        cursorShape: prose.hoveredLink !== "" ? Qt.PointingHandCursor : Qt.IBeamCursor
    }
}
