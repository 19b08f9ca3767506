// SPDX-License-Identifier: Apache-2.0
// Markdown as blocks.
#include <QAbstractItemModelTester>
#include <QSignalSpy>
#include <QTest>
#include <QTextBlock>
#include <QTextDocument>
#include <QTextLayout>
#include <QTextList>

#include "app/chat/models/code_highlighter.h"
#include "app/chat/models/formula.h"
#include "app/chat/models/markdown_blocks.h"
#include "tests/chat/suites.h"

namespace runnel::chat {

class MarkdownTest : public QObject {
  Q_OBJECT

  QHash<QRgb, QString> m_roles;

  // What the highlighter colours of a line: "text colour".
  QStringList coloured(const QString& code, const QString& language, int line) {
    QTextDocument document(code);
    CodeHighlighter highlighter;
    for (const char* role : {"keyword", "string", "number", "comment"}) {
      const int colour = static_cast<int>(m_roles.size());
      m_roles.insert(QColor(10 + colour, 0, 0).rgb(), QLatin1String(role));
      highlighter.setProperty(QByteArray(role) + "Color", QColor(10 + colour, 0, 0));
    }
    highlighter.setProperty("language", language);
    highlighter.setDocument(&document);
    highlighter.rehighlight();
    const QTextBlock block = document.findBlockByNumber(line);
    QStringList found;
    for (const QTextLayout::FormatRange& range : block.layout()->formats()) {
      found.push_back(block.text().mid(range.start, range.length) + u' ' +
                      m_roles.value(range.format.foreground().color().rgb()));
    }
    m_roles.clear();
    return found;
  }

 private Q_SLOTS:
  void singleLineBreaksAreKept() {
    const auto blocks = splitMarkdown(QStringLiteral("one\ntwo\n\nthree"));
    QCOMPARE(blocks.size(), 2);
    QTextDocument document;
    document.setMarkdown(blocks.at(0).text);
    QCOMPARE(document.toPlainText(), QStringLiteral("one\ntwo"));
  }

  void tablesHaveAlignmentsAndMayHaveOneColumn() {
    const auto blocks =
        splitMarkdown(QStringLiteral("|a|b|c|\n|:-|:-:|-:|\n|1|2|3|\n\n|x|\n|-|\n|y|"));
    QCOMPARE(blocks.size(), 2);
    QCOMPARE(blocks.at(0).alignments, QStringList({QStringLiteral("left"), QStringLiteral("center"),
                                                   QStringLiteral("right")}));
    QCOMPARE(blocks.at(1).columns, 1);
    QCOMPARE(blocks.at(1).cells, QStringList({QStringLiteral("x"), QStringLiteral("y")}));
  }

  void codeKeepsItsLinesAndItsLanguage() {
    const auto blocks = splitMarkdown(QStringLiteral("See:\n```cpp\nint a;\n\nint b;\n```\nDone"));
    QCOMPARE(blocks.size(), 3);
    QCOMPARE(blocks[1].kind, MarkdownBlock::Code);
    QCOMPARE(blocks[1].text, QStringLiteral("int a;\n\nint b;"));
    QCOMPARE(blocks[1].language, QStringLiteral("cpp"));
    QCOMPARE(blocks[2].text, QStringLiteral("Done"));
  }
  void anAnswerInJsonIsCode() {
    const auto json = [](const char* text) {
      const QVector<MarkdownBlock> blocks = splitMarkdown(QString::fromUtf8(text));
      return blocks.at(0).kind == MarkdownBlock::Code &&
                     blocks.at(0).language == QStringLiteral("json")
                 ? blocks.at(0).text
                 : QString();
    };
    QCOMPARE(json("{}"), QStringLiteral("{}"));
    QCOMPARE(json("{\"a\": \"_b_ } \\\" *c*\"} *d*"),
             QStringLiteral("{\"a\": \"_b_ } \\\" *c*\"}"));
    QCOMPARE(json("{ \"a\": [1, "), QStringLiteral("{ \"a\": [1,"));  // is being written
    QCOMPARE(json("{a} is a set"), QString());
  }
  void codeThatIsNotClosedYetIsCode() {
    const auto blocks = splitMarkdown(QStringLiteral("```\nfor (;;"));
    QCOMPARE(blocks.size(), 1);
    QCOMPARE(blocks[0].text, QStringLiteral("for (;;"));
  }
  void aLongerFenceHoldsAShorterOne() {
    const auto blocks = splitMarkdown(QStringLiteral("````\n```\nx\n```\n````"));
    QCOMPARE(blocks.size(), 1);
    QCOMPARE(blocks[0].text, QStringLiteral("```\nx\n```"));
  }
  void aListIsOneBlockOverEmptyLines() {
    const auto blocks = splitMarkdown(QStringLiteral("1. one\n\n2. two\n   more\n\nAfter"));
    QCOMPARE(blocks.size(), 2);
    QCOMPARE(blocks[1].text, QStringLiteral("After"));
  }
  void aQuotationIsABlockAndOneInItIsAnother() {
    const auto quoted = [](const char* text) {
      QStringList found;
      for (const MarkdownBlock& block : splitMarkdown(QString::fromUtf8(text)))
        found.push_back(QString::number(block.quotation) + u' ' +
                        QString(block.text).replace(QStringLiteral("  \n"), QStringLiteral("/")));
      return found.join(u'|');
    };
    QCOMPARE(quoted("He said:\n> x\n> y\nThen I."),
             QStringLiteral("0 He said:|1 > x/> y|0 Then I."));
    QCOMPARE(quoted("> a\n>> b\n> > c\n> d"), QStringLiteral("1 > a|2 >> b/> > c|1 > d"));
    QCOMPARE(quoted("> a\n>\n> b\n\n> c"), QStringLiteral("1 > a/>/> b|1 > c"));
    QCOMPARE(quoted("   > a\n\n1 > 0\n\n\\> b"), QStringLiteral("1    > a|0 1 > 0|0 \\> b"));
    // The list is not torn.
    QCOMPARE(quoted("- a\n  > b\n- c"), QStringLiteral("0 - a\n\n  > b/- c"));
    QCOMPARE(quoted("- a\n> b"), QStringLiteral("0 - a|1 > b"));
  }
  void aQuotationInAnItemIsNoItem() {
    const auto shown = [](const char* text) {
      QStringList found;
      for (const MarkdownBlock& block : splitMarkdown(QString::fromUtf8(text))) {
        QTextDocument document;
        document.setMarkdown(block.text);
        for (QTextBlock line = document.begin(); line.isValid(); line = line.next()) {
          const QTextList* list = line.textList();
          found.push_back(
              (list != nullptr ? list->itemText(line) + u' ' : QString()) +
              QString(line.blockFormat().intProperty(QTextFormat::BlockQuoteLevel), u'>') +
              line.text());
        }
      }
      return found.join(u'|');
    };
    QCOMPARE(shown("1. a\n   > b\n2. c"), QStringLiteral("1. a|>b|2. c"));
    QCOMPARE(shown("1. a\n\n   > b\n   > > c\n2. d"), QStringLiteral("1. a|>b|>>c|2. d"));
    QCOMPARE(shown("1. a\n   1. b\n      > c\n2. d"), QStringLiteral("1. a|1. b|>c|2. d"));
    QCOMPARE(shown("> 1. a\n>    > b\n> 2. c"), QStringLiteral("1. >a|>>b|2. >c"));
    QCOMPARE(shown("1. > a\n2. > b"), QStringLiteral("1. >a|2. >b"));
    // No list: words of the quotation.
    QCOMPARE(shown("> a\n>     > b"), QStringLiteral(">a|>> b"));
  }
  void aTableHasCells() {
    const auto blocks =
        splitMarkdown(QStringLiteral("| a | b |\n|---|:-:|\n| 1 | 2 |\n| 3 |\n\nEnd"));
    QCOMPARE(blocks.size(), 2);
    QCOMPARE(blocks[0].kind, MarkdownBlock::Table);
    QCOMPARE(blocks[0].columns, 2);
    QCOMPARE(blocks[0].cells, (QStringList{"a", "b", "1", "2", "3", QString()}));
  }
  void htmlAndImagesBecomePlainText() {
    const auto blocks =
        splitMarkdown(QStringLiteral("<img src='http://x'> ![a](http://x) `<b>` \\<i>"));
    QCOMPARE(blocks[0].text, QStringLiteral("\\<img src='http://x'> \\![a](http://x) `<b>` \\<i>"));
  }
  void onlyTheLastBlockChangesWhileTextArrives() {
    MarkdownBlocks model;
    const QAbstractItemModelTester tester(&model);
    QSignalSpy changed(&model, &QAbstractItemModel::dataChanged);
    QSignalSpy removed(&model, &QAbstractItemModel::rowsRemoved);
    const QString text = QStringLiteral(
        "One\n\nTwo is **longer**\n\n```py\nprint(1)\n```\n\n- a\n- b\n\n|x|y|\n|-|-|\n|1|2|\n");
    for (qsizetype i = 1; i <= text.size(); ++i) model.setText(text.left(i));
    QCOMPARE(model.rowCount(), 5);
    for (const auto& change : changed) {
      QCOMPARE(change.at(0).toModelIndex().row(), change.at(1).toModelIndex().row());
    }
    QVERIFY(removed.count() <= 2);  // "```" and "|x|y|" look like prose at first
    model.setText(QString());
    QCOMPARE(model.rowCount(), 0);
  }
  void codeIsColouredByWhatItIs() {
    QCOMPARE(coloured(QStringLiteral("return \"a // b\" + 0x1f; // why"), QStringLiteral("cpp"), 0),
             (QStringList{"return keyword", "\"a // b\" string", "0x1f number", "// why comment"}));
    QCOMPARE(coloured(QStringLiteral("x = 1 # why"), QStringLiteral("python"), 0),
             (QStringList{"1 number", "# why comment"}));
    QCOMPARE(coloured(QStringLiteral("a /* b\nint c\nd */ if"), QStringLiteral("c"), 1),
             QStringList{"int c comment"});
    QCOMPARE(coloured(QStringLiteral("a /* b\nint c\nd */ if"), QStringLiteral("c"), 2),
             (QStringList{"d */ comment", "if keyword"}));
    QCOMPARE(coloured(QStringLiteral("return 1"), QString(), 0), QStringList());  // often no code
    QCOMPARE(coloured(QStringLiteral("\"never closed \\"), QStringLiteral("c"), 0),
             QStringList{"\"never closed \\ string"});
  }
  void formulasOfTheSubsetFit() {
    for (const char* source :
         {"E = mc^2", "\\alpha_1 + \\Omega^{n+1}_{k}", "\\frac{a+b}{\\sqrt[3]{x}}",
          "\\sum_{i=1}^{n} i = \\frac{n(n+1)}{2}", "\\int_0^\\infty e^{-x^2}\\,dx",
          "\\begin{pmatrix} a & b \\\\ c & d \\end{pmatrix}",
          "f(x) = \\begin{cases} 1 & \\text{if } x > 0 \\\\ 0 & \\text{otherwise} \\end{cases}",
          "\\left( \\frac{1}{2} \\right]", "\\lim_{x \\to 0} \\sin x", "\\mathbb{R}^n",
          "\\hat{x} \\cdot \\vec{v}", "\\begin{aligned} a &= b \\\\ &= c \\end{aligned}",
          "\\binom{n}{k}", "f''(x)", "a \\leq b \\neq c", "\\overline{AB}", "\\{1, 2\\}"})
      QVERIFY2(Formula::fits(QString::fromUtf8(source)), source);
    for (const char* source :
         {"", " ", "\\unknown{x}", "\\frac{1}", "{", "}", "x^", "x^1^2", "\\left(",
          "\\begin{tikzpicture}\\end{tikzpicture}", "a & b", "\\sqrt[", "\\text{$x$}"})
      QVERIFY2(!Formula::fits(QString::fromUtf8(source)), source);
  }
  void aFormulaIsAsLargeAsItsParts() {
    const auto size = [](const char* source, bool display = false) {
      const auto formula = Formula::layOut(QString::fromUtf8(source), 20, display);
      return formula ? QSizeF(formula->width, formula->ascent + formula->descent) : QSizeF();
    };
    QVERIFY(size("xy").width() > size("x").width());
    QVERIFY(size("x^2").height() > size("x").height());
    QVERIFY(size("\\frac{1}{2}").height() > size("1").height());
    QVERIFY(size("\\frac{1}{2}", true).height() > size("\\frac{1}{2}").height());
    QVERIFY(size("\\sum_{i}^{n}", true).height() > size("\\sum", true).height() * 1.3);
    QVERIFY(size("\\left(\\frac{1}{2}\\right)", true).height() >=
            size("\\frac{1}{2}", true).height());
    QVERIFY(size("\\begin{matrix}1\\\\2\\end{matrix}").height() > 2 * size("1").height());
  }
  void formulasArePlacesInProseAndBlocksOfTheirOwn() {
    const auto blocks = splitMarkdown(QStringLiteral(
        "So $x^2$ and \\(y\\) end.\n\n\\[\na = b\n\\]\n\n$$c$$\n\nand `$d$` is code"));
    QCOMPARE(blocks.size(), 4);
    QCOMPARE(blocks.at(0).formulas,
             QStringList({QStringLiteral("$x^2$"), QStringLiteral("\\(y\\)")}));
    QCOMPARE(blocks.at(0).text.count(QChar::ObjectReplacementCharacter), 2);
    QCOMPARE(blocks.at(1).kind, MarkdownBlock::Formula);
    QCOMPARE(blocks.at(1).text, QStringLiteral("\\[\na = b\n\\]"));
    QCOMPARE(blocks.at(2).kind, MarkdownBlock::Formula);
    QCOMPARE(blocks.at(3).text, QStringLiteral("and `$d$` is code"));
  }
  void aStringOfManyLinesIsOneString() {
    const QString code = QStringLiteral("def f():\n  \"\"\"Words in\n  a 'doc'\"\"\"\n  return 1");
    const QString python = QStringLiteral("python");
    QCOMPARE(coloured(code, python, 1), QStringList({QStringLiteral("\"\"\"Words in string")}));
    QCOMPARE(coloured(code, python, 2), QStringList({QStringLiteral("  a 'doc'\"\"\" string")}));
    QCOMPARE(coloured(code, python, 3),
             QStringList({QStringLiteral("return keyword"), QStringLiteral("1 number")}));
  }
  void whatIsNoFormulaStandsAsItIsWritten_data() {
    QTest::addColumn<QString>("text");
    QTest::newRow("money") << QStringLiteral("It is $5 or $6, not $7.");
    QTest::newRow("not in the subset") << QStringLiteral("See \\(\\foo{a}_b*c*\\) there.");
    QTest::newRow("not closed") << QStringLiteral("See \\[ a \\{ b");
    QTest::newRow("dollars") << QStringLiteral("$\\foo*a*b_c_$");
    QTest::newRow("a command in words") << QStringLiteral("Write \\frac{1}{2} there.");
  }
  void whatIsNoFormulaStandsAsItIsWritten() {
    QFETCH(QString, text);
    const auto blocks = splitMarkdown(text);
    QCOMPARE(blocks.size(), 1);
    QVERIFY(blocks.at(0).formulas.isEmpty());
    QTextDocument document;
    document.setMarkdown(blocks.at(0).text);
    QCOMPARE(document.toPlainText(), text);
  }
  void aLineBreakInAnItemIsSeenAndBeginsNoOther() {
    const auto blocks = splitMarkdown(QStringLiteral(
        "1. one\n   more of it\n2. two\nlazily more\n\n   a paragraph\n   goes on\n3. three"));
    QCOMPARE(blocks.size(), 1);
    QTextDocument document;
    document.setMarkdown(blocks[0].text);
    const QTextList* list = document.firstBlock().textList();
    QVERIFY(list != nullptr);
    QStringList items;
    for (int i = 0; i < list->count(); ++i)
      items += list->itemText(list->item(i)) + u' ' + list->item(i).text();
    QCOMPARE(items,
             QStringList({QStringLiteral("1. one\u2028more of it"),
                          QStringLiteral("2. two\u2028lazily more"), QStringLiteral("3. three")}));
    QVERIFY(document.toPlainText().contains(QStringLiteral("a paragraph\ngoes on")));
    // A heading under an item is one.
    QCOMPARE(splitMarkdown(QStringLiteral("- one\n# Two"))[0].text,
             QStringLiteral("- one  \n# Two"));
  }

  void nestedListsStayNested() {
    const auto blocks = splitMarkdown(QStringLiteral("- a\n  - b\n    - c\n- d"));
    QCOMPARE(blocks.size(), 1);
    QTextDocument document;
    document.setMarkdown(blocks.at(0).text);
    QVector<int> indents;
    for (QTextBlock b = document.begin(); b.isValid(); b = b.next())
      if (b.textList() != nullptr) indents.push_back(b.textList()->format().indent());
    QCOMPARE(indents, QVector<int>({1, 2, 3, 1}));
  }
  void tenThousandBracesCostNothing() {
    const QString braces = QString(10000, u'{') + QString(10000, u'}');
    QElapsedTimer clock;
    clock.start();
    for (const QString& text :
         {u'$' + braces + u'$', QStringLiteral("\\[\n") + braces + QStringLiteral("\n\\]")}) {
      splitMarkdown(text);
      QVERIFY(!Formula::fits(text));
    }
    QVERIFY(!Formula::fits(braces));
    QVERIFY2(clock.elapsed() < 50, qPrintable(QString::number(clock.elapsed())));
  }
  void anythingIsSplitInTimeThatGrowsWithItsLength() {
    QString hostile;
    for (int i = 0; i < 20000; ++i) hostile += QStringLiteral("`<![|*_~#> -");
    QElapsedTimer clock;
    clock.start();
    splitMarkdown(hostile);
    QString dollars;
    for (int i = 0; i < 20000; ++i) dollars += QStringLiteral("$a \\(\\[");
    splitMarkdown(dollars);
    QVERIFY2(clock.elapsed() < 3000, qPrintable(QString::number(clock.elapsed())));
  }
};

}  // namespace runnel::chat

int runMarkdownTests(int argc, char** argv) {
  runnel::chat::MarkdownTest test;
  return QTest::qExec(&test, argc, argv);
}

#include "markdown_test.moc"
