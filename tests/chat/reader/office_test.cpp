// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

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
