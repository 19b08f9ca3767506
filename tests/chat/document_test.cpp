// SPDX-License-Identifier: Apache-2.0
// Documents on their way from a file to text: by the real program, by programs that misbehave, and of folders.
#include <QDir>
#include <QElapsedTimer>
#include <QFile>
#include <QSignalSpy>
#include <QTemporaryDir>
#include <QTest>

#include "app/chat/engine/document_reader.h"
#include "tests/chat/reader/sample_pdf.h"
#include "tests/chat/suites.h"

namespace runnel::chat {

namespace {
constexpr int kTimeoutMs = 120'000;  // busy machines
}

class DocumentTest : public QObject {
  Q_OBJECT

  QTemporaryDir m_folder;

  QString write(const QString& name, const QByteArray& bytes) const {
    const QString path = m_folder.filePath(name);
    QDir().mkpath(QFileInfo(path).absolutePath());
    QFile file(path);
    if (!file.open(QIODevice::WriteOnly) || file.write(bytes) != bytes.size()) return {};
    return path;
  }
  QString program(const QString& name, const QByteArray& script) const {
    const QString path = write(name, "#!/bin/sh\n" + script);
    QFile::setPermissions(path, QFile::ReadOwner | QFile::WriteOwner | QFile::ExeOwner);
    return path;
  }

  /// What became of it: one of the two.
  struct Ended {
    Document document;
    NoDocument no;
    bool done = false;
  };
  static Ended wait(DocumentReader& reader, const QString& file) {
    Ended ended;
    QSignalSpy done(&reader, &DocumentReader::done);
    QSignalSpy failed(&reader, &DocumentReader::failed);
    const auto keep = connect(&reader, &DocumentReader::done, &reader,
                              [&](const Document& document) { ended.document = document; });
    const auto note = connect(&reader, &DocumentReader::failed, &reader,
                              [&](const NoDocument& no) { ended.no = no; });
    reader.read(file);
    if (!QTest::qWaitFor([&] { return done.count() + failed.count() > 0; }, kTimeoutMs))
      qWarning("neither done nor failed");
    QTest::qWait(50);
    if (done.count() + failed.count() != 1) qWarning("told more than once");
    disconnect(keep);
    disconnect(note);
    ended.done = done.count() == 1;
    return ended;
  }

  Document folder(const QString& name, const FolderLimits& limits = {}) const {
    Document document;
    const reader::Outcome outcome = readFolder(
        m_folder.filePath(name), limits, [](double) {}, {}, document);
    if (!outcome.ok()) document.text = QString::fromStdString(outcome.reason);
    return document;
  }

 private Q_SLOTS:
  void kindsAreToldByName() {
    QCOMPARE(documentKind(QStringLiteral("a.PDF")), DocumentKind::Office);
    QCOMPARE(documentKind(QStringLiteral("a.docx")), DocumentKind::Office);
    QCOMPARE(documentKind(QStringLiteral("a.odt")), DocumentKind::Office);
    QCOMPARE(documentKind(QStringLiteral("a.md")), DocumentKind::Text);
    QCOMPARE(documentKind(QStringLiteral("a.gguf")), DocumentKind::None);
    QCOMPARE(documentKind(QString()), DocumentKind::None);
    QCOMPARE(documentKind(m_folder.path()), DocumentKind::Folder);
  }

  void aPdfFileIsReadByTheProgramBesideThisOne() {
    QVERIFY(!DocumentReader::findProgram().isEmpty());
    DocumentReader reader;
    QSignalSpy progressed(&reader, &DocumentReader::progressed);
    const QString file =
        write(QStringLiteral("a#1 %2.pdf"),
              QByteArray::fromStdString(test::pdfOfLines({"The tower has 199 steps."}, 3)));
    const Ended ended = wait(reader, file);
    QVERIFY2(ended.done, qPrintable(ended.no.reason));
    QCOMPARE(ended.document.file, file);
    QVERIFY(
        ended.document.text.startsWith(QStringLiteral("The tower has 199 steps.\n\nThe tower")));
    QVERIFY(progressed.count() > 0);
    QCOMPARE(progressed.last().at(0).toDouble(), 1.0);
  }

  void whyThereIsNoTextIsTold() {
    DocumentReader reader;
    const auto why = [&](const char* name, const std::string& bytes) {
      const Ended ended =
          wait(reader, write(QLatin1String(name), QByteArray::fromStdString(bytes)));
      return ended.done ? reader::Why::Read : ended.no.why;
    };
    QCOMPARE(why("secret.pdf", test::encryptedPdf()), reader::Why::Encrypted);
    QCOMPARE(why("scan.pdf", test::pdfOf(test::pagesOf(test::streamOf("0 0 9 9 re f")))),
             reader::Why::NoText);
    QCOMPARE(why("noise.docx", "noise"), reader::Why::Damaged);
    QCOMPARE(why("empty.md", "  \n"), reader::Why::NoText);
    QCOMPARE(why("latin.txt", "\xE4\xF6\xFC"), reader::Why::Damaged);
    QCOMPARE(wait(reader, m_folder.filePath(QStringLiteral("gone.pdf"))).no.why, reader::Why::Io);
    QCOMPARE(wait(reader, m_folder.filePath(QStringLiteral("gone.txt"))).no.why, reader::Why::Io);
    QCOMPARE(why("good.md", "# A tower\n"), reader::Why::Read);  // and it goes on working
  }

  void aReaderThatMisbehavesHarmsNobody() {
    const QString file = write(QStringLiteral("b.pdf"), "%PDF-");
    const auto why = [&](const char* name, const QByteArray& script, int seconds = 60) {
      DocumentReader reader(program(QLatin1String(name), script), {.seconds = seconds});
      const Ended ended = wait(reader, file);
      return ended.done ? reader::Why::Read : ended.no.why;
    };
    QCOMPARE(why("crashes", "kill -SEGV $$\n"), reader::Why::Damaged);
    QCOMPARE(why("hangs", "exec sleep 1000\n", 0), reader::Why::Time);
    QCOMPARE(why("babbles", "exec yes\n"), reader::Why::TooLarge);
    QCOMPARE(why("complains",
                 "yes $(head -c 5000 /dev/zero | tr '\\0' x) | head -c 3000000 >&2; exit 10\n"),
             reader::Why::NoText);
    QCOMPARE(why("strange", "exit 99\n"), static_cast<reader::Why>(99));
    DocumentReader none(QString{}, {});
    QCOMPARE(wait(none, file).no.why, reader::Why::NotSupported);
    DocumentReader gone(m_folder.filePath(QStringLiteral("nowhere")), {});
    QCOMPARE(wait(gone, file).no.why, reader::Why::Io);
  }

  void theReaderLearnsNothingOfTheUser() {
    qputenv("RUNNEL_SECRET", "a word");
    DocumentReader reader(program(QStringLiteral("env"), "exec env\n"), {});
    const Ended ended = wait(reader, write(QStringLiteral("c.pdf"), "x"));
    qunsetenv("RUNNEL_SECRET");
    QVERIFY(ended.done);
    QVERIFY2(!ended.document.text.contains(QStringLiteral("RUNNEL_SECRET")),
             qPrintable(ended.document.text));
    QVERIFY(!ended.document.text.contains(QStringLiteral("HOME=")));
  }

  void whatIsStoppedIsOverAndTellsNothing() {
    const QString mark = m_folder.filePath(QStringLiteral("pid"));
    DocumentReader reader(program(QStringLiteral("waits"),
                                  "echo $$ > " + mark.toUtf8() + ".new; mv " + mark.toUtf8() +
                                      ".new " + mark.toUtf8() + "; exec sleep 1000\n"),
                          {});
    QSignalSpy done(&reader, &DocumentReader::done);
    QSignalSpy failed(&reader, &DocumentReader::failed);
    reader.read(write(QStringLiteral("d.pdf"), "x"));
    QTRY_VERIFY_WITH_TIMEOUT(QFile::exists(mark), kTimeoutMs);
    QFile file(mark);
    QVERIFY(file.open(QIODevice::ReadOnly));
    const QString process =
        QStringLiteral("/proc/") + QString::fromLatin1(file.readAll().trimmed());
    QVERIFY(QFile::exists(process));
    reader.stop();
    QTRY_VERIFY_WITH_TIMEOUT(!QFile::exists(process), kTimeoutMs);
    QTest::qWait(50);
    QCOMPARE(done.count() + failed.count(), 0);
  }

  void aFolderIsItsSourcesInAStableOrder() {
    write(QStringLiteral("src/b.cpp"), "int b;\n");
    write(QStringLiteral("src/README.md"), "Use ```make```.\n");
    write(QStringLiteral("src/a dir/z.py"), "z = 1");
    write(QStringLiteral("src/a dir/Makefile"), "all:\n");
    write(QStringLiteral("src/empty.c"), "\n");
    // None of these:
    write(QStringLiteral("src/.git/config.txt"), "no");
    write(QStringLiteral("src/.env"), "no");
    write(QStringLiteral("src/node_modules/x.js"), "no");
    write(QStringLiteral("src/build/x.c"), "no");
    write(QStringLiteral("src/release/CMakeCache.txt"), "no");
    write(QStringLiteral("src/release/x.c"), "no");
    write(QStringLiteral("src/photo.jpg"), "no");
    write(QStringLiteral("outside.c"), "no");
    QFile::link(m_folder.filePath(QStringLiteral("outside.c")),
                m_folder.filePath(QStringLiteral("src/link.c")));
    QFile::link(m_folder.filePath(QStringLiteral("src")),
                m_folder.filePath(QStringLiteral("src/loop")));
    // And these are said to be left out:
    write(QStringLiteral("src/binary.c"), QByteArray("a\0b", 3));
    write(QStringLiteral("src/huge.json"), QByteArray((1 << 20) + 1, 'x'));
    DocumentReader reader;
    const Ended ended = wait(reader, m_folder.filePath(QStringLiteral("src")));
    QVERIFY(ended.done);
    QCOMPARE(ended.document.text,
             QStringLiteral(
                 "# README.md\n\n````\nUse ```make```.\n````\n\n# b.cpp\n\n```\nint b;\n```\n\n"
                 "# a dir/Makefile\n\n```\nall:\n```\n\n# a dir/z.py\n\n```\nz = 1\n```\n\n"));
    QCOMPARE(ended.document.files, 4);
    QCOMPARE(ended.document.leftOut, 2);
  }

  void aFolderHasBounds() {
    for (int i = 0; i < 5; ++i)
      write(QStringLiteral("many/%1.txt").arg(i), QByteArray(1000, static_cast<char>('a' + i)));
    QCOMPARE(folder(QStringLiteral("many")).files, 5);
    QVERIFY(folder(QStringLiteral("many"), {.files = 4})
                .text.contains(QStringLiteral("more than 4 sources")));
    QVERIFY(folder(QStringLiteral("many"), {.looked = 4})
                .text.contains(QStringLiteral("more than 4 files")));
    QVERIFY(folder(QStringLiteral("many"), {.textBytes = 4500})
                .text.contains(QStringLiteral("of sources")));
    QCOMPARE(folder(QStringLiteral("many"), {.fileBytes = 999}).text,
             QStringLiteral("holds no text and no sources"));
    write(QStringLiteral("deep/1/2/3/x.txt"), "x");
    QCOMPARE(folder(QStringLiteral("deep"), {.depth = 3}).files, 1);
    QCOMPARE(folder(QStringLiteral("deep"), {.depth = 2}).files, 0);
  }

  void aFolderThatIsStoppedHasNoText() {
    write(QStringLiteral("stopped/x.txt"), "x");
    std::stop_source stop;
    stop.request_stop();
    Document document;
    const reader::Outcome outcome = readFolder(
        m_folder.filePath(QStringLiteral("stopped")), {}, [](double) {}, stop.get_token(),
        document);
    QVERIFY(outcome.ok() || outcome.why == reader::Why::NoText);
    QVERIFY(document.text.isEmpty());
  }
};

}  // namespace runnel::chat

int runDocumentTests(int argc, char** argv) {
  runnel::chat::DocumentTest test;
  return QTest::qExec(&test, argc, argv);
}

#include "document_test.moc"
