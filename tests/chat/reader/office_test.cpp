// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "app/chat/reader/word_text.h"
#include "tests/chat/reader/sample_office.h"

namespace runnel::reader {
namespace {

using test::docxOf;
using test::odtOf;

std::string textOf(const std::string& file) {
  std::string text;
  const Outcome outcome = officeText(file, {}, text);
  EXPECT_TRUE(outcome.ok()) << outcome.reason;
  return text;
}

Outcome outcomeOf(const std::string& file) {
  std::string text;
  return officeText(file, {}, text);
}

std::string paragraph(const std::string& words, const std::string& looks = {}) {
  return "<w:p><w:pPr>" + looks + "</w:pPr><w:r><w:t>" + words + "</w:t></w:r></w:p>";
}

TEST(ReaderDocx, JoinsTheRunsOfAParagraph) {
  EXPECT_EQ(textOf(docxOf(
                "<w:p><w:r><w:t xml:space=\"preserve\">It has</w:t></w:r><w:r><w:t> </w:t></w:r>"
                "<w:r><w:rPr><w:b/></w:rPr><w:t>199</w:t></w:r><w:r><w:tab/><w:t>steps</w:t>"
                "<w:br/><w:t>&amp; a lamp</w:t></w:r></w:p>" +
                paragraph("Zürich"))),
            "It has 199\tsteps\n& a lamp\n\nZürich\n\n");
}

TEST(ReaderDocx, MarksHeadingsInEveryLanguage) {
  const std::string styles =
      "<w:styles><w:style w:styleId=\"berschrift2\"><w:name w:val=\"heading 2\"/></w:style>"
      "<w:style w:styleId=\"mine\"><w:name w:val=\"Mine\"/><w:basedOn "
      "w:val=\"berschrift2\"/></w:style>"
      "<w:style w:styleId=\"loop\"><w:name w:val=\"Loop\"/><w:basedOn "
      "w:val=\"loop\"/></w:style></w:styles>";
  EXPECT_EQ(textOf(docxOf(paragraph("Treppe", "<w:pStyle w:val=\"berschrift2\"/>") +
                              paragraph("Lampe", "<w:pStyle w:val=\"mine\"/>") +
                              paragraph("Turm", "<w:outlineLvl w:val=\"0\"/>") +
                              paragraph("Text", "<w:pStyle w:val=\"loop\"/>"),
                          {{"word/styles.xml", styles}})),
            "## Treppe\n\n## Lampe\n\n# Turm\n\nText\n\n");
}

TEST(ReaderDocx, MarksItemsByTheirLevel) {
  const auto item = [](const std::string& level) {
    return "<w:numPr><w:ilvl w:val=\"" + level + "\"/><w:numId w:val=\"1\"/></w:numPr>";
  };
  EXPECT_EQ(
      textOf(docxOf(paragraph("a", item("0")) + paragraph("b", item("1")) + paragraph("end"))),
      "- a\n  - b\n\nend\n\n");
}

/// The part of a docx file that says how lists are numbered; list N looks as look N.
std::string numbering(const std::vector<std::string>& looks, const std::string& lists) {
  std::string out = "<w:numbering>";
  for (std::size_t i = 0; i < looks.size(); ++i) {
    out += "<w:abstractNum w:abstractNumId=\"" + std::to_string(i) + "\">" + looks[i] +
           "</w:abstractNum>";
  }
  return out + lists + "</w:numbering>";
}
std::string level(int at, const std::string& format, const std::string& label, int start = 1) {
  return "<w:lvl w:ilvl=\"" + std::to_string(at) + "\"><w:start w:val=\"" + std::to_string(start) +
         "\"/><w:numFmt w:val=\"" + format + "\"/><w:lvlText w:val=\"" + label + "\"/></w:lvl>";
}
std::string list(int id, int looks, const std::string& more = {}) {
  return "<w:num w:numId=\"" + std::to_string(id) + "\"><w:abstractNumId w:val=\"" +
         std::to_string(looks) + "\"/>" + more + "</w:num>";
}
std::string item(const std::string& words, int list, int level = 0) {
  return paragraph(words, "<w:numPr><w:ilvl w:val=\"" + std::to_string(level) +
                              "\"/><w:numId w:val=\"" + std::to_string(list) + "\"/></w:numPr>");
}

TEST(ReaderDocx, NumbersItemsAsTheDocumentDoes) {
  const std::string part = numbering(
      {level(0, "decimal", "%1.") + level(1, "lowerLetter", "%2)") + level(2, "bullet", "\uF0B7"),
       level(0, "upperRoman", "§ %1", 4) + level(1, "decimal", "%1.%2.")},
      list(1, 0) + list(2, 1));
  EXPECT_EQ(textOf(docxOf(item("a", 1) + item("b", 1, 1) + item("c", 1, 1) + item("d", 1, 2) +
                              item("e", 1) + item("f", 1, 1) + paragraph("between") + item("g", 1) +
                              item("h", 2) + item("i", 2, 1) + item("k", 2, 1) + item("l", 3),
                          {{"word/numbering.xml", part}})),
            "1. a\n  a) b\n  b) c\n    - d\n2. e\n  a) f\n\nbetween\n\n3. g\n"
            "§ IV h\n  IV.1. i\n  IV.2. k\n- l\n");
}

TEST(ReaderDocx, GoesOnOrBeginsAnewAsTheListsSay) {
  const std::string anew =
      "<w:lvlOverride w:ilvl=\"0\"><w:startOverride w:val=\"7\"/></w:lvlOverride>";
  EXPECT_EQ(textOf(docxOf(
                item("a", 1) + item("b", 2) + item("c", 3) + item("d", 3) + item("e", 1),
                {{"word/numbering.xml", numbering({level(0, "decimal", "%1.")},
                                                  list(1, 0) + list(2, 0) + list(3, 0, anew))}})),
            "1. a\n2. b\n7. c\n8. d\n9. e\n");
}

TEST(ReaderDocx, NumbersByStylesToo) {
  const std::string styles =
      "<w:styles><w:style w:styleId=\"step\"><w:name w:val=\"List Number\"/><w:pPr><w:numPr>"
      "<w:ilvl w:val=\"1\"/><w:numId w:val=\"1\"/></w:numPr></w:pPr></w:style>"
      "<w:style w:styleId=\"mine\"><w:name w:val=\"Mine\"/><w:basedOn w:val=\"step\"/></w:style>"
      "<w:style w:styleId=\"legal\"><w:name w:val=\"Legal\"/><w:pPr><w:numPr>"
      "<w:numId w:val=\"2\"/></w:numPr></w:pPr></w:style></w:styles>";
  const std::string part =
      numbering({level(0, "decimal", "%1.") + level(1, "lowerRoman", "%1%2."),
                 level(0, "decimal", "(%1)"), "<w:numStyleLink w:val=\"legal\"/>"},
                list(1, 0) + list(2, 1) + list(3, 2));
  EXPECT_EQ(textOf(docxOf(paragraph("a", "<w:pStyle w:val=\"step\"/>") +
                              paragraph("b", "<w:pStyle w:val=\"mine\"/>") +
                              paragraph("no",
                                        "<w:pStyle w:val=\"mine\"/><w:numPr><w:numId "
                                        "w:val=\"0\"/></w:numPr>") +
                              item("c", 3),
                          {{"word/styles.xml", styles}, {"word/numbering.xml", part}})),
            "  1i. a\n  1ii. b\n\nno\n\n(1) c\n");
}

TEST(ReaderDocx, NumbersThatNobodyWritesAreShort) {
  const std::string part = numbering(
      {level(0, "lowerLetter", "%1.", 2'000'000'000), level(0, "upperRoman", "%1.", 999'999'999),
       level(0, "decimal", std::string(100'000, 'x') + "%1") + level(8, "decimal", "%9%0%")},
      list(1, 0) + list(2, 1) + list(3, 2));
  EXPECT_EQ(
      textOf(docxOf(item("a", 1) + item("b", 1) + item("c", 2) + item("d", 3) + item("e", 3, 99),
                    {{"word/numbering.xml", part}})),
      "1000000000. a\n1000000001. b\n999999999. c\n1. d\n                1%0% e\n");
}

TEST(ReaderDocx, WritesTablesAsRowsAndTablesInCellsAsOneLine) {
  const auto cell = [](const std::string& inside) { return "<w:tc>" + inside + "</w:tc>"; };
  const std::string inner =
      "<w:tbl><w:tr>" + cell(paragraph("x")) + cell(paragraph("y")) + "</w:tr></w:tbl>";
  EXPECT_EQ(textOf(docxOf("<w:tbl><w:tr>" + cell(paragraph("Year")) +
                          cell(paragraph("Steps") + paragraph("in all")) + "</w:tr><w:tr>" +
                          cell(paragraph("1931")) + cell(inner) + "</w:tr><w:tr>" + cell("<w:p/>") +
                          cell("<w:p/>") + "</w:tr></w:tbl>" + paragraph("after"))),
            "| Year | Steps in all |\n| 1931 | | x | y | |\n\nafter\n\n");
}

TEST(ReaderDocx, PutsNotesAtTheEnd) {
  const auto reference = [](const std::string& kind, const std::string& id) {
    return "<w:p><w:r><w:t>" + kind + "</w:t><w:" + kind + "Reference w:id=\"" + id +
           "\"/></w:r></w:p>";
  };
  EXPECT_EQ(textOf(docxOf(reference("footnote", "7") + reference("endnote", "2"),
                          {{"word/footnotes.xml",
                            "<w:footnotes><w:footnote w:id=\"1\">" + paragraph("unused") +
                                "</w:footnote><w:footnote w:id=\"7\">" + paragraph("Counted") +
                                paragraph("twice.") + "</w:footnote></w:footnotes>"},
                           {"word/endnotes.xml", "<w:endnotes><w:endnote w:id=\"2\">" +
                                                     paragraph("See above.") +
                                                     "</w:endnote></w:endnotes>"}})),
            "footnote[1]\n\nendnote[2]\n\n[1] Counted twice.\n[2] See above.\n");
}

TEST(ReaderDocx, LeavesOutWhatWasDeletedAndWhatIsThereTwice) {
  EXPECT_EQ(textOf(docxOf(
                "<w:p><w:del><w:r><w:delText>old</w:delText><w:t>old</w:t></w:r></w:del>"
                "<w:ins><w:r><w:t>new</w:t></w:r></w:ins><w:r><w:instrText>PAGE</w:instrText></w:r>"
                "<mc:AlternateContent><mc:Choice><w:t>!</w:t></mc:Choice><mc:Fallback><w:t>!</w:t>"
                "</mc:Fallback></mc:AlternateContent></w:p>")),
            "new!\n\n");
}

TEST(ReaderDocx, FindsItsMainPartByTheRelations) {
  EXPECT_EQ(textOf(test::zipOf(
                {{"[Content_Types].xml", "<Types/>"},
                 {"_rels/.rels",
                  "<Relationships><Relationship Type=\"http://purl.oclc.org/ooxml/officeDocument/"
                  "relationships/officeDocument\" Target=\"/text/main.xml\"/></Relationships>"},
                 {"text/main.xml",
                  "<w:document><w:body>" + paragraph("here") + "</w:body></w:document>"}})),
            "here\n\n");
}

TEST(ReaderDocx, RefusesOtherOfficeFiles) {
  EXPECT_EQ(outcomeOf(test::zipOf({{"[Content_Types].xml", "<Types/>"},
                                   {"_rels/.rels",
                                    "<Relationships><Relationship Type=\"x/officeDocument\" "
                                    "Target=\"xl/workbook.xml\"/></Relationships>"},
                                   {"xl/workbook.xml", "<workbook/>"}}))
                .why,
            Why::NotSupported);
  EXPECT_EQ(outcomeOf(test::zipOf({{"[Content_Types].xml", "<Types/>"}})).why, Why::Damaged);
  EXPECT_EQ(outcomeOf(test::zipOf({{"photo.jpg", "…"}})).why, Why::NotSupported);
}

TEST(ReaderDocx, RefusesElementsThatLieTooDeep) {
  std::string open, close;
  for (int i = 0; i < 100'000; ++i) {
    open += "<w:p>";
    close += "</w:p>";
  }
  EXPECT_EQ(outcomeOf(docxOf(open + close)).why, Why::Damaged);
  EXPECT_EQ(outcomeOf(odtOf(open + close)).why, Why::Damaged);
  EXPECT_EQ(outcomeOf(docxOf(open)).why, Why::Damaged);  // never closed
}

TEST(ReaderOdt, WritesWhatDocxHas) {
  EXPECT_EQ(
      textOf(odtOf(
          "\n <text:h text:outline-level=\"2\">The tower</text:h>\n"
          "<text:p>It  has\n<text:span>199</text:span> <text:span>steps</text:span><text:s "
          "text:c=\"2\"/>"
          "and<text:tab/>a "
          "lamp<text:note><text:note-citation>1</text:note-citation><text:note-body>"
          "<text:p>Counted</text:p><text:p>twice.</text:p></text:note-body></text:note>.</text:p>"
          "<text:list><text:list-item><text:p>a</text:p><text:list><text:list-item><text:p>b</"
          "text:p>"
          "</text:list-item></text:list></text:list-item></text:list>"
          "<table:table><table:table-row><table:table-cell><text:p>x</text:p></table:table-cell>"
          "<table:table-cell "
          "table:number-columns-repeated=\"16000\"/></table:table-row></table:table>")),
      "## The tower\n\nIt has 199 steps  and\ta lamp[1].\n\n- a\n  - b\n\n| x |  |\n\n[1] Counted "
      "twice.\n");
}

TEST(ReaderOdt, NumbersItemsAsTheDocumentDoes) {
  const std::string styles =
      "<office:document-styles><office:styles><text:list-style style:name=\"Steps\">"
      "<text:list-level-style-number text:level=\"1\" style:num-format=\"1\" "
      "style:num-suffix=\".\"/>"
      "<text:list-level-style-number text:level=\"2\" style:num-format=\"a\" "
      "style:num-prefix=\"(\" style:num-suffix=\")\" text:display-levels=\"2\"/>"
      "<text:list-level-style-bullet text:level=\"3\" text:bullet-char=\"•\"/>"
      "</text:list-style></office:styles></office:document-styles>";
  const auto item = [](const std::string& inside, const std::string& more = {}) {
    return "<text:list-item" + more + ">" + inside + "</text:list-item>";
  };
  const auto list = [](const std::string& inside, const std::string& more = {}) {
    return "<text:list" + more + ">" + inside + "</text:list>";
  };
  const auto words = [](const std::string& text) { return "<text:p>" + text + "</text:p>"; };
  const std::string steps = " text:style-name=\"Steps\"";
  const std::string text =
      list(item(words("a") + words("more of a") +
                list(item(words("b")) + item(words("c") + list(item(words("d")))))) +
               item(words("e") + list(item(words("f")))),
           steps + " xml:id=\"first\"") +
      words("between") + list(item(words("g")), steps + " text:continue-numbering=\"true\"") +
      words("anew") +
      list(item(words("h")) + "<text:list-header>" + words("none") + "</text:list-header>" +
               item(words("i"), " text:start-value=\"9\""),
           steps) +
      words("again") +
      list(item(list(item(words("k")))) + item(words("l")),
           steps + " text:continue-list=\"first\"") +
      list(item(words("m")), " text:style-name=\"unknown\"");
  EXPECT_EQ(textOf(odtOf(text, {{"styles.xml", styles}})),
            "1. a\n  more of a\n  (1.a) b\n  (1.b) c\n    - d\n2. e\n  (2.a) f\n\nbetween\n\n"
            "3. g\n\nanew\n\n1. h\n  none\n9. i\n\nagain\n\n  (3.a) k\n4. l\n- m\n");
}

TEST(ReaderOdt, LeavesOutWhatWasDeletedAndRemarks) {
  EXPECT_EQ(
      textOf(odtOf(
          "<text:tracked-changes><text:p>old</text:p></text:tracked-changes>"
          "<text:p>new<office:annotation><text:p>why?</text:p></office:annotation></text:p>")),
      "new\n\n");
}

TEST(ReaderOdt, RefusesSpreadsheets) {
  EXPECT_EQ(outcomeOf(test::zipOf({{"mimetype", "application/vnd.oasis.opendocument.spreadsheet"},
                                   {"content.xml", "<office:document-content/>"}}))
                .why,
            Why::NotSupported);
}

TEST(ReaderOffice, SaysWhatAPasswordProtects) {
  EXPECT_EQ(
      outcomeOf(test::zipOf({{"[Content_Types].xml", "<Types/>"}, {"word/document.xml", "<x/>"}},
                            "secret"))
          .why,
      Why::Encrypted);
  const std::string manifest =
      "<manifest:manifest><manifest:file-entry manifest:full-path=\"content.xml\">"
      "<manifest:encryption-data/></manifest:file-entry></manifest:manifest>";
  EXPECT_EQ(outcomeOf(odtOf("noise", {{"META-INF/manifest.xml", manifest}})).why, Why::Encrypted);
  EXPECT_EQ(outcomeOf(test::zipOf({{"mimetype", "application/vnd.oasis.opendocument.text"},
                                   {"META-INF/manifest.xml", manifest},
                                   {"encrypted-package", "noise"}}))
                .why,
            Why::Encrypted);
}

TEST(ReaderOffice, CountsAllPartsTogetherWhileItUnpacks) {
  Limits limits;
  limits.unpackedBytes = 1000;
  std::string text;
  const std::string styles = "<w:styles>" + std::string(600, ' ') + "</w:styles>";
  EXPECT_EQ(officeText(docxOf(paragraph(std::string(600, 'a')), {{"word/styles.xml", styles}}),
                       limits, text)
                .why,
            Why::TooLarge);
  EXPECT_EQ(officeText(docxOf(paragraph(std::string(600, 'a'))), limits, text).why, Why::Read);
}

TEST(ReaderOffice, NoTruncationIsMoreThanRefused) {
  const std::string file = docxOf(paragraph("The tower"), {{"word/styles.xml", "<w:styles/>"}});
  for (std::size_t size = 1; size < file.size(); ++size)
    EXPECT_EQ(outcomeOf(file.substr(0, size)).why, Why::Damaged) << size;
}

}  // namespace
}  // namespace runnel::reader
