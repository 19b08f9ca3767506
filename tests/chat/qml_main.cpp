// SPDX-License-Identifier: Apache-2.0
// Runs tests/chat/qml/tst_*.qml on the real views, with an engine that does what a test says.
#include <QClipboard>
#include <QDir>
#include <QDropEvent>
#include <QFile>
#include <QGuiApplication>
#include <QLocale>
#include <QMimeData>
#include <QQmlContext>
#include <QQmlEngine>
#include <QQuickTextDocument>
#include <QSet>
#include <QTemporaryDir>
#include <QTextBlock>
#include <QTextDocument>
#include <QTextFragment>
#include <QTextLayout>
#include <QTranslator>
#include <QtQuickTest>
#include <memory>

#include "app/chat/models/app_controller.h"
#include "tests/chat/reader/sample_pdf.h"
#include "tests/chat/scripted_engine.h"

namespace runnel::chat {

/// A folder with files, and what a desktop does with them: drag them over a window and let go.
class Desk : public QObject {
  Q_OBJECT

  QTemporaryDir m_folder;
  QTemporaryDir m_papers;
  QQmlEngine* m_engine = nullptr;
  QTranslator m_translator;
  QString m_language;
  QLocale m_locale;  // of the system

  static bool send(QObject* window, QDropEvent&& event) {
    event.ignore();
    QCoreApplication::sendEvent(window, &event);
    return event.isAccepted();
  }

 public:
  Desk() {
    const QDir root(folder());
    root.mkpath(QStringLiteral("b sub/deep"));
    root.mkpath(QStringLiteral("a#1 100%"));
    for (const char* name : {"one.gguf", "Two & 2.GGUF", "talk.json", "notes.txt", "empty.md",
                             "picture.xyz", "there.rnlpack", "other.rnlpack", "recipe.json",
                             "wrong.json", "b sub/three.gguf", "a#1 100%/four?.gguf"}) {
      QFile file(root.filePath(QLatin1String(name)));
      if (!file.open(QIODevice::WriteOnly)) continue;
      if (file.fileName().endsWith(QStringLiteral("recipe.json"))) {
        file.write(R"({"type": "object"})");
      } else if (file.fileName().endsWith(QStringLiteral("wrong.json"))) {
        file.write(R"({"type": "nonsense"})");
      } else {
        file.write(
            QByteArray(2500, file.fileName().endsWith(QStringLiteral("notes.txt")) ? 'n' : ' '));
      }
    }
  }

  void setEngine(QQmlEngine* engine) { m_engine = engine; }
  /// As if the app had been started in this language; empty: in the one that stands in the sources.
  Q_INVOKABLE bool speak(const QString& language) {
    if (language == m_language) return true;
    m_language = language;
    QCoreApplication::removeTranslator(&m_translator);
    QLocale::setDefault(language.isEmpty() ? m_locale : QLocale(language));
    const bool found =
        language.isEmpty() || m_translator.load(QLocale(language), QStringLiteral("runnel_chat"),
                                                QStringLiteral("_"), QStringLiteral(":/i18n"));
    if (found && !language.isEmpty()) QCoreApplication::installTranslator(&m_translator);
    m_engine->retranslate();
    return found;
  }

  Q_INVOKABLE QString folder() const { return m_folder.path(); }
  /// A folder of documents: report.pdf, secret.pdf, long.pdf, which takes a while, and sources in src.
  Q_INVOKABLE QString papers() {
    QDir(m_papers.path()).mkpath(QStringLiteral("src/sub"));
    const std::vector<std::string> lines(4000, "The tower has 199 steps");
    const std::pair<const char*, std::string> files[] = {
        {"report.pdf", test::pdfOfLines({"The tower has 199 steps and a lamp."})},
        {"secret.pdf", test::encryptedPdf()},
        {"long.pdf", test::pdfOfLines(lines, 120)},
        {"src/main.c", "int main(void) { return 0; }\n"},
        {"src/sub/note.md", "A note.\n"},
        {"src/large.json", std::string((1 << 20) + 1, '1')}};
    for (const auto& [name, bytes] : files) {
      QFile file(m_papers.filePath(QLatin1String(name)));
      if (!file.exists() && file.open(QIODevice::WriteOnly))
        file.write(bytes.data(), static_cast<qint64>(bytes.size()));
    }
    return m_papers.path();
  }
  /// Events as a platform sends them. Whether the window took the drop.
  Q_INVOKABLE bool drop(QObject* window, const QString& path, const QPoint& at) {
    const std::unique_ptr<QMimeData> data = mime(path);
    send(window, QDragEnterEvent(at, Qt::CopyAction, data.get(), Qt::LeftButton, Qt::NoModifier));
    send(window, QDragMoveEvent(at, Qt::CopyAction, data.get(), Qt::LeftButton, Qt::NoModifier));
    return send(window, QDropEvent(at, Qt::CopyAction, data.get(), Qt::LeftButton, Qt::NoModifier));
  }
  /// Drags over the window, and away again when `leave` is called.
  Q_INVOKABLE void dragOver(QObject* window, const QString& path, const QPoint& at) {
    m_dragged = mime(path);
    send(window,
         QDragEnterEvent(at, Qt::CopyAction, m_dragged.get(), Qt::LeftButton, Qt::NoModifier));
    send(window,
         QDragMoveEvent(at, Qt::CopyAction, m_dragged.get(), Qt::LeftButton, Qt::NoModifier));
  }
  Q_INVOKABLE void leave(QObject* window) {
    QDragLeaveEvent event;
    QCoreApplication::sendEvent(window, &event);
  }

  Q_INVOKABLE QString copied() const { return QGuiApplication::clipboard()->text(); }
  Q_INVOKABLE void copy(const QString& text) { QGuiApplication::clipboard()->setText(text); }
  /// The colour of the first link of a TextEdit.
  Q_INVOKABLE QColor linkColourOf(QObject* document) const {
    const auto* quick = qobject_cast<QQuickTextDocument*>(document);
    for (QTextBlock b = quick->textDocument()->begin(); b.isValid(); b = b.next()) {
      for (auto at = b.begin(); !at.atEnd(); ++at) {
        if (at.fragment().charFormat().isAnchor())
          return at.fragment().charFormat().foreground().color();
      }
    }
    return {};
  }
  /// The words of a TextEdit that are marked.
  Q_INVOKABLE QStringList markedOf(QObject* document) const {
    const auto* quick = qobject_cast<QQuickTextDocument*>(document);
    QStringList words;
    for (QTextBlock b = quick->textDocument()->begin(); b.isValid(); b = b.next()) {
      for (const QTextLayout::FormatRange& range : b.layout()->formats()) {
        if (range.format.hasProperty(QTextFormat::BackgroundBrush))
          words.push_back(b.text().mid(range.start, range.length));
      }
    }
    return words;
  }
  /// How many pictures stand among the text of a TextEdit.
  Q_INVOKABLE int picturesOf(QObject* document) const {
    const auto* quick = qobject_cast<QQuickTextDocument*>(document);
    int pictures = 0;
    for (QTextBlock b = quick->textDocument()->begin(); b.isValid(); b = b.next()) {
      for (auto at = b.begin(); !at.atEnd(); ++at)
        pictures += at.fragment().charFormat().isImageFormat() ? 1 : 0;
    }
    return pictures;
  }
  /// How many colours a highlighter gave to the text of a TextEdit.
  Q_INVOKABLE int coloursOf(QObject* document) const {
    const auto* quick = qobject_cast<QQuickTextDocument*>(document);
    if (quick == nullptr) return -1;
    QSet<QRgb> colours;
    for (QTextBlock b = quick->textDocument()->begin(); b.isValid(); b = b.next()) {
      for (const QTextLayout::FormatRange& range : b.layout()->formats())
        colours.insert(range.format.foreground().color().rgb());
    }
    return static_cast<int>(colours.size());
  }

 private:
  /// A path as a URL, else words.
  static std::unique_ptr<QMimeData> mime(const QString& path) {
    auto data = std::make_unique<QMimeData>();
    if (path.startsWith(u'/')) {
      data->setUrls({QUrl::fromLocalFile(path)});
    } else {
      data->setText(path);
    }
    return data;
  }

  std::unique_ptr<QMimeData> m_dragged;
};

class Setup : public QObject {
  Q_OBJECT

  Desk m_desk;

  QTemporaryDir m_folder;
  ScriptedEngine m_engine;
  Settings m_settings{m_folder.filePath(QStringLiteral("s.ini"))};
  AppController m_app{m_engine, m_settings, AppOptions{}};

 public Q_SLOTS:
  void qmlEngineAvailable(QQmlEngine* engine) {
    engine->addImportPath(QStringLiteral("qrc:/qt/qml"));
    m_app.attach(*engine);
    QQmlEngine::setObjectOwnership(&m_engine, QQmlEngine::CppOwnership);
    engine->rootContext()->setContextProperty(QStringLiteral("script"), &m_engine);
    m_desk.setEngine(engine);
    QQmlEngine::setObjectOwnership(&m_desk, QQmlEngine::CppOwnership);
    engine->rootContext()->setContextProperty(QStringLiteral("desk"), &m_desk);
  }
};

}  // namespace runnel::chat

using RunnelSetup = runnel::chat::Setup;
QUICK_TEST_MAIN_WITH_SETUP(runnel_chat, RunnelSetup)

#include "qml_main.moc"
