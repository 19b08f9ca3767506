// SPDX-License-Identifier: Apache-2.0
#include "app/chat/models/app_controller.h"

#include <QAccessible>
#include <QClipboard>
#include <QCoreApplication>
#include <QDateTime>
#include <QDesktopServices>
#include <QFileInfo>
#include <QGuiApplication>
#include <QKeySequence>
#include <QLocale>
#include <QPalette>
#include <QUrl>
#include <algorithm>
#include <utility>

#include "app/chat/engine/convert.h"
#include "app/chat/engine/document.h"

namespace runnel::chat {
namespace {

constexpr const char* kInstance = "runnelApp";  // a dynamic property of the QML engine

}  // namespace

namespace {

QString libraryInWords(const Problem& p) {
  if (p.refusal == Refusal::Full)
    return QCoreApplication::translate("Runnel", "Couldn't save to %1: the disk is full.")
        .arg(p.file);
  if (p.refusal == Refusal::Forbidden) {
    return QCoreApplication::translate("Runnel",
                                       "Couldn't save to %1: no permission to write there.")
        .arg(p.file);
  }
  switch (p.code) {
    case ErrorCode::malformed:
      return QCoreApplication::translate("Runnel", "Your chat library %1 is damaged.").arg(p.file);
    case ErrorCode::unsupported:
      return QCoreApplication::translate("Runnel",
                                         "%1 was made with another model or a newer version.")
          .arg(p.file);
    default:
      return QCoreApplication::translate("Runnel",
                                         "Couldn't read or save your chat library %1: %2.")
          .arg(p.file, p.message);
  }
}

QString modelInWords(const Problem& p) {
  switch (p.code) {
    case ErrorCode::not_found:
      return QCoreApplication::translate("Runnel", "Can't find %1. Was it moved or deleted?")
          .arg(p.file);
    case ErrorCode::malformed:
      return QCoreApplication::translate("Runnel",
                                         "Can't read %1: it is damaged or not a model file. "
                                         "Download it again.")
          .arg(p.file);
    case ErrorCode::unsupported:
      return QCoreApplication::translate("Runnel",
                                         "This version can't run %1 (%2). Choose another model.")
          .arg(p.file, p.message);
    case ErrorCode::io:
      return QCoreApplication::translate("Runnel", "Couldn't read %1: %2.").arg(p.file, p.message);
    default:
      return {};
  }
}

QString fileInWords(const Problem& p) {
  if (p.about == About::Library) return libraryInWords(p);
  if (p.about == About::Model) return modelInWords(p);
  if (p.about == About::Form) {
    return p.file.isEmpty()
               ? QCoreApplication::translate("Runnel", "Can't answer as JSON: %1.").arg(p.message)
               : QCoreApplication::translate("Runnel", "Can't answer by %1: %2.")
                     .arg(p.file, p.message);
  }
  if (p.about == About::Export)
    return p.refusal == Refusal::Unknown
               ? QCoreApplication::translate("Runnel", "Couldn't save to %1: %2.")
                     .arg(p.file, p.message)
               : libraryInWords(p);
  if (p.about != About::Import) return {};
  if (p.flaw == Flaw::TooLarge) {
    const auto megabytes = [](qint64 bytes) {
      return QLocale().toString((bytes + (qint64{1} << 20) - 1) >> 20);
    };
    return QCoreApplication::translate("Runnel",
                                       "Can't import %1: it is too large (%2 MB, at most %3 MB).")
        .arg(p.file, megabytes(p.bytes), megabytes(p.mostBytes));
  }
  if (p.flaw == Flaw::Damaged) {
    return QCoreApplication::translate("Runnel",
                                       "Can't import %1: the file is damaged or incomplete. "
                                       "Export or copy it again.")
        .arg(p.file);
  }
  if (p.code == ErrorCode::unsupported || p.code == ErrorCode::mismatch) {
    return QCoreApplication::translate("Runnel",
                                       "%1 was made with another model or a newer version.")
        .arg(p.file);
  }
  if (p.code == ErrorCode::malformed) {
    return QCoreApplication::translate(
               "Runnel",
               "Can't import %1: this is not a chat export of Runnel, ChatGPT or Open WebUI.")
        .arg(p.file);
  }
  return QCoreApplication::translate("Runnel", "Couldn't read %1: %2.").arg(p.file, p.message);
}

}  // namespace

QString inWords(const Problem& problem) {
  if (QString words = fileInWords(problem); !words.isEmpty()) return words;
  switch (problem.code) {
    case ErrorCode::not_found:
      return QCoreApplication::translate("Runnel", "No model selected. Choose one under Models.");
    case ErrorCode::io:
      return QCoreApplication::translate("Runnel", "Couldn't read or write a file: %1.")
          .arg(problem.message);
    case ErrorCode::malformed:
      return QCoreApplication::translate("Runnel", "A file is damaged: %1.").arg(problem.message);
    case ErrorCode::unsupported:
      return QCoreApplication::translate("Runnel",
                                         "This version can't run %1 (%2). Choose another model.")
          .arg(problem.file.isEmpty() ? QCoreApplication::translate("Runnel", "this model")
                                      : problem.file,
               problem.message);
    case ErrorCode::mismatch:
      return QCoreApplication::translate("Runnel",
                                         "%1 was made with another model or a newer version.")
          .arg(problem.file.isEmpty() ? QCoreApplication::translate("Runnel", "This")
                                      : problem.file);
    case ErrorCode::out_of_memory:
      return QCoreApplication::translate(
          "Runnel", "Not enough memory. Close other programs or choose a smaller model.");
    case ErrorCode::device:
      return QCoreApplication::translate(
                 "Runnel", "%1 stopped working. Try again, or choose another device under Models.")
          .arg(problem.file.isEmpty() ? QCoreApplication::translate("Runnel", "The device")
                                      : problem.file);
    case ErrorCode::cancelled:
      return QCoreApplication::translate("Runnel", "Stopped.");
    case ErrorCode::invalid_argument:
      // The library says "temperature is 3, expected …".
      if (!problem.message.contains(QStringLiteral(" is "))) break;
      return QCoreApplication::translate("Runnel", "%1 is out of range.")
          .arg(problem.message.section(QStringLiteral(" is "), 0, 0));
    case ErrorCode::internal:
      break;
  }
  return QCoreApplication::translate("Runnel",
                                     "Internal error. Please report it with the details below.");
}

AppController::AppController(ChatEngine& engine, Settings& settings, AppOptions options,
                             QObject* parent)
    : QObject(parent),
      m_engine(engine),
      m_settings(settings),
      m_options(std::move(options)),
      m_chat(engine, settings),
      m_library(engine),
      m_models(engine, settings, m_options.modelFolders),
      m_tour(m_chat, m_library, settings),
      m_documents(m_chat) {
  connect(&m_chat, &ChatModel::libraryChanged, &m_library, &LibraryModel::refresh);
  connect(&m_chat, &ChatModel::failed, this, [this](const Problem& p) {
    if (p.code != ErrorCode::device || !m_models.fallBack(p)) show(p);
  });
  connect(&m_chat, &ChatModel::warned, this, [this](const QString& warning) {
    put({.text = QCoreApplication::translate("Runnel",
                                             "Saved. Coming back here will take a moment: its "
                                             "state couldn't be written to %1 (%2).")
                     .arg(m_options.library + QStringLiteral(".snapshots"), warning)});
  });
  connect(&m_chat, &ChatModel::modelWanted, this, &AppController::useWantedModel);
  connect(&m_models, &ModelPicker::chosen, this, [this] {
    // Who chooses a model while a chat is in view means that chat, too.
    if (!m_chat.own()->model().isEmpty()) m_chat.own()->chooseModel({});
  });
  connect(&m_documents, &DocumentModel::failed, this, [this](const NoDocument& no) {
    show({ErrorCode::malformed, no.reason, About::Nothing, no.file}, inWords(no));
  });
  connect(&m_models, &ModelPicker::failed, this, [this](const Problem& p) { show(p); });
  connect(&m_models, &ModelPicker::fellBack, this, [this](const QString& device, const Problem& p) {
    show(p,
         (p.code == ErrorCode::out_of_memory
              ? QCoreApplication::translate("Runnel",
                                            "%1 has too little memory for this model, so it runs "
                                            "on the CPU. Choose a smaller model, or another "
                                            "device under Models.")
              : QCoreApplication::translate("Runnel",
                                            "%1 can't be used, so the model runs on the CPU. "
                                            "Check its driver, or choose another device under "
                                            "Models."))
             .arg(device));
  });
  connectEngine();
  int budget = settings.budgetMegabytes;
  connect(&settings, &Settings::changed, this, [this, budget]() mutable {
    if (budget == m_settings.budgetMegabytes) return;
    budget = m_settings.budgetMegabytes;
    m_engine.setBudget(static_cast<quint64>(budget) * 1'000'000);
  });
}

void AppController::connectEngine() {
  connect(&m_engine, &ChatEngine::libraryFailed, this, [this](const Problem& p) { show(p); });
  connect(&m_engine, &ChatEngine::deleted, this,
          [this](qint64 conversation, qint64 message, qint64 trash) {
            const bool whole = message == 0;
            if (whole && conversation == m_chat.conversation()) m_chat.forget();
            put({.text = whole ? QCoreApplication::translate("Runnel",
                                                             "Chat moved to Recently deleted.")
                               : QCoreApplication::translate("Runnel", "Messages deleted."),
                 .trash = trash});
          });
  connect(&m_engine, &ChatEngine::trashListed, this, [this](const QVector<DeletedRow>& rows) {
    m_deleted = rows;
    const auto there = [&rows](qint64 trash) {
      return std::any_of(rows.cbegin(), rows.cend(),
                         [trash](const DeletedRow& row) { return row.trash == trash; });
    };
    for (Notice& notice : m_notices) {
      for (const DeletedRow& row : rows) {
        const int count = static_cast<int>(row.messages);
        if (row.trash == notice.trash && !row.whole)
          notice.text =
              QCoreApplication::translate("Runnel", "%n messages deleted.", nullptr, count);
      }
    }
    m_notices.removeIf([&](const Notice& n) { return n.trash != 0 && !there(n.trash); });
    Q_EMIT trashChanged();
    Q_EMIT noticeChanged();
  });
  connect(&m_engine, &ChatEngine::undone, this, [this](qint64 conversation) {
    if (conversation == m_chat.conversation()) {
      m_chat.reload();
    } else {
      m_chat.open(conversation);
    }
  });
  connect(&m_engine, &ChatEngine::draftsRead, &m_settings, &Settings::forgetOlderDrafts);
  connect(&m_engine, &ChatEngine::changedElsewhere, &m_chat, &ChatModel::reloadInPlace);
  connect(&m_engine, &ChatEngine::libraryReplaced, this, [this](const Replaced& replaced) {
    m_notices.removeIf([](const Notice& n) { return n.library || n.trash != 0; });
    Q_EMIT noticeChanged();
    m_engine.listTrash();
    if (replaced.elsewhere && replaced.how != Replace::Anew) return;  // all goes on
    QString words;
    if (replaced.how != Replace::Anew) {
      const int chats = static_cast<int>(replaced.conversations);
      const int lost = static_cast<int>(replaced.unreadable);
      words = replaced.how == Replace::Look
                  ? QCoreApplication::translate("Runnel", "%n chats can be read.", nullptr, chats)
                  : QCoreApplication::translate("Runnel", "%n chats saved into a new library.",
                                                nullptr, chats);
      if (lost > 0)
        words += u' ' + QCoreApplication::translate("Runnel", "%n messages could not be read.",
                                                    nullptr, lost);
    } else {
      words = QCoreApplication::translate("Runnel", "A new library was begun.");
    }
    if (!replaced.old.isEmpty())
      words += u' ' +
               QCoreApplication::translate("Runnel", "The old file is kept: %1").arg(replaced.old);
    if (!replaced.old.isEmpty() &&
        QFileInfo(replaced.file).absolutePath() != QFileInfo(replaced.old).absolutePath())
      words +=
          u' ' +
          QCoreApplication::translate("Runnel", "New messages are kept in %1.").arg(replaced.file);
    put({.text = words, .problem = true});  // it stays until it was read
  });
  connect(&m_engine, &ChatEngine::exported, this, [this](const QString& file) {
    say(QCoreApplication::translate("Runnel", "Exported to %1").arg(file));
  });
  connect(&m_engine, &ChatEngine::placeOpened, this, &AppController::onPlaceOpened);
  connect(&m_engine, &ChatEngine::imported, this, [this](qint64 conversation, int chats) {
    m_chat.open(conversation);
    say(QCoreApplication::translate("Runnel", "%n chats imported.", nullptr, chats));
  });
}

void AppController::useWantedModel() {
  if (!m_chat.modelKnown()) return;
  const QString own = m_chat.wantedModel();
  const bool opened = m_chat.conversation() != m_modelFor;
  m_modelFor = m_chat.conversation();
  const QString file = own.isEmpty() ? m_models.usual() : m_models.find(own);
  if (!file.isEmpty()) {
    m_models.use(file, opened);
    return;
  }
  if (own.isEmpty() || (!opened && own == m_missing)) return;
  m_missing = own;
  const QString name = QFileInfo(own).fileName();
  const QString present =
      m_models.name().isEmpty() ? m_models.titleOf(m_models.usual()) : m_models.name();
  put({.text = present.isEmpty()
                   ? QCoreApplication::translate("Runnel",
                                                 "Can't find %1, the model of this chat. "
                                                 "Choose another one under Models.")
                         .arg(name)
                   : QCoreApplication::translate("Runnel",
                                                 "Can't find %1, the model of this chat. "
                                                 "It goes on with %2, which reads its "
                                                 "text again.")
                         .arg(name, present),
       .details = own,
       .problem = true});
}

void AppController::onPlaceOpened(qint64 conversation, qint64 toRead) {
  m_chat.open(conversation);
  m_library.refresh();
  if (toRead == 0) return;
  const double seconds = m_chat.secondsFor(toRead);
  say(seconds > 0 ? QCoreApplication::translate(
                        "Runnel", "Made with another model: its text will be read, about %1 s.")
                        .arg(QLocale().toString(seconds, 'f', seconds < 9.5 ? 1 : 0))
                  : QCoreApplication::translate("Runnel",
                                                "Made with another model: its text will be read."));
}

AppController::~AppController() = default;

void AppController::attach(QQmlEngine& engine) {
  engine.setProperty(kInstance, QVariant::fromValue<QObject*>(this));
}

AppController* AppController::create(QQmlEngine* engine, QJSEngine*) {
  auto* instance = qobject_cast<AppController*>(engine->property(kInstance).value<QObject*>());
  QQmlEngine::setObjectOwnership(instance, QQmlEngine::CppOwnership);
  return instance;
}

void AppController::start() {
  m_library.refresh();
  if (!m_options.wantedModel.isEmpty() && !QFileInfo::exists(m_options.wantedModel)) {
    show({ErrorCode::not_found, m_options.wantedModel, About::Model, m_options.wantedModel});
  }
  if (!m_models.loadInitial()) {
    show({ErrorCode::not_found, {}},
         QCoreApplication::translate("Runnel",
                                     "No model found. Choose a model file (.gguf) under Models."));
  }
  m_engine.readDrafts(m_settings.olderDrafts());
  const qint64 last = m_settings.recall(QStringLiteral("conversation"), 0).toLongLong();
  if (last != 0) m_chat.open(last);
  m_engine.forgetTrash(0);  // what was deleted 30 days ago
}

QVariantList AppController::notices() const {
  QVariantList list;
  constexpr qsizetype kShown = 3;  // the others when these are dismissed
  for (const Notice& n : m_notices.mid(std::max<qsizetype>(0, m_notices.size() - kShown))) {
    QVariantList acts;
    for (const QString& act : n.acts) {
      const QString words =
          act == QStringLiteral("look")
              ? QCoreApplication::translate("Runnel", "Open what can be read")
          : act == QStringLiteral("salvage")
              ? QCoreApplication::translate("Runnel", "Save into a new library")
          : act == QStringLiteral("sampling")
              ? QCoreApplication::translate("Runnel", "Reset sampling")
              : QCoreApplication::translate("Runnel", "Begin a new library (the old file is kept)");
      acts.push_back(QVariantMap{{QStringLiteral("act"), act}, {QStringLiteral("text"), words}});
    }
    list.push_back(QVariantMap{{QStringLiteral("id"), n.id},
                               {QStringLiteral("text"), n.text},
                               {QStringLiteral("details"), n.details},
                               {QStringLiteral("problem"), n.problem},
                               {QStringLiteral("undo"), n.trash},
                               {QStringLiteral("actions"), acts}});
  }
  return list;
}

QVariantList AppController::trash() const {
  QVariantList list;
  const QLocale locale;
  for (const DeletedRow& row : m_deleted) {
    list.push_back(QVariantMap{
        {QStringLiteral("id"), row.trash},
        {QStringLiteral("name"), row.name},
        {QStringLiteral("whole"), row.whole},
        {QStringLiteral("messages"), row.messages},
        {QStringLiteral("excerpt"), row.excerpt.simplified()},
        {QStringLiteral("when"),
         locale.toString(QDateTime::fromMSecsSinceEpoch(row.at), QLocale::ShortFormat)}});
  }
  return list;
}

// A problem stays until it is dismissed and a deletion until its time is over, whatever is said meanwhile.
void AppController::put(Notice notice) {
  m_notices.removeIf([&](const Notice& old) {
    if (old.text == notice.text) return true;
    if (old.problem) return false;
    return old.trash == 0 || notice.trash != 0;
  });
  notice.id = ++m_lastNotice;
  m_notices.push_back(std::move(notice));
  Q_EMIT noticeChanged();
}

void AppController::show(const Problem& problem, const QString& words) {
  const bool library = problem.about == About::Library;
  QStringList acts;
  if (library && problem.code == ErrorCode::malformed)
    acts << QStringLiteral("look") << QStringLiteral("salvage");
  // Whatever happened to the file, a chat can be begun. Where the disk is full, deleting makes room.
  if (library && problem.refusal != Refusal::Full &&
      (problem.code == ErrorCode::malformed || problem.code == ErrorCode::unsupported ||
       problem.refusal == Refusal::Forbidden))
    acts.push_back(QStringLiteral("fresh"));
  Problem told = problem;
  if (problem.code == ErrorCode::device && problem.file.isEmpty()) told.file = m_models.device();
  if (problem.code == ErrorCode::invalid_argument && words.isEmpty() &&
      problem.message.contains(QStringLiteral(" is ")))
    acts.push_back(QStringLiteral("sampling"));
  put({.text = words.isEmpty() ? inWords(told) : words,
       .details = problem.message,
       .problem = true,
       .library = library,
       .acts = acts});
}

void AppController::say(const QString& notice) { put({.text = notice}); }

void AppController::undo() {
  if (!m_deleted.isEmpty()) restore(m_deleted.first().trash);
}

void AppController::restore(qint64 trash) {
  for (const DeletedRow& row : std::as_const(m_deleted)) {
    if (row.trash != trash) continue;
    m_engine.undoDelete(row.conversation, trash);
    return;
  }
}

void AppController::forgetDeleted(qint64 trash) { m_engine.forgetTrash(trash); }

void AppController::dismissNotice(int id) {
  if (m_notices.isEmpty()) return;
  if (id == 0) id = m_notices.last().id;
  m_notices.removeIf([id](const Notice& n) { return n.id == id; });
  Q_EMIT noticeChanged();
}

void AppController::dismissGoodNews() {
  if (m_notices.removeIf([](const Notice& n) { return !n.problem && n.trash == 0; }) > 0)
    Q_EMIT noticeChanged();
}

void AppController::act(const QString& what) {
  if (what == QStringLiteral("sampling")) {
    m_settings.resetSampling();
    dismissNotice();
    return;
  }
  m_engine.replaceLibrary(what == QStringLiteral("look")      ? Replace::Look
                          : what == QStringLiteral("salvage") ? Replace::Salvage
                                                              : Replace::Anew);
}

QColor AppController::linkColour() const {
  return QGuiApplication::palette().color(QPalette::Link);
}

void AppController::setLinkColour(const QColor& colour) {
  if (colour == linkColour()) return;
  QPalette palette = QGuiApplication::palette();
  palette.setColor(QPalette::Link, colour);
  QGuiApplication::setPalette(palette);
  Q_EMIT linkColourChanged();
}

void AppController::copy(const QString& text) {
  QGuiApplication::clipboard()->setText(text);
  say(QCoreApplication::translate("Runnel", "Copied."));
}

QString AppController::keys(const QString& portable) const {
  // Qt looks these up by itself, but only its own translations, which need not be installed, have them.
  static constexpr const char* kNames[] = {
      QT_TRANSLATE_NOOP("QShortcut", "Ctrl"),   QT_TRANSLATE_NOOP("QShortcut", "Shift"),
      QT_TRANSLATE_NOOP("QShortcut", "Alt"),    QT_TRANSLATE_NOOP("QShortcut", "Esc"),
      QT_TRANSLATE_NOOP("QShortcut", "Return"), QT_TRANSLATE_NOOP("QShortcut", "Del"),
      QT_TRANSLATE_NOOP("QShortcut", "PgUp"),   QT_TRANSLATE_NOOP("QShortcut", "PgDown"),
      QT_TRANSLATE_NOOP("QShortcut", "Up"),     QT_TRANSLATE_NOOP("QShortcut", "Left"),
      QT_TRANSLATE_NOOP("QShortcut", "Right"),  QT_TRANSLATE_NOOP("QShortcut", "Backspace")};
  static_cast<void>(kNames);
  QStringList words;
  for (const QString& key : portable.split(QStringLiteral(", ")))
    words.push_back(
        QKeySequence(key, QKeySequence::PortableText).toString(QKeySequence::NativeText));
  return words.join(QStringLiteral(", "));
}

QString AppController::costInWords(qint64 tokens) const {
  if (tokens == 0) return QCoreApplication::translate("Runnel", "Instant");
  const QLocale locale;
  const double seconds = m_chat.secondsFor(tokens);
  if (seconds <= 0)
    return QCoreApplication::translate("Runnel", "Reads %1 tokens").arg(locale.toString(tokens));
  return QCoreApplication::translate("Runnel", "Reads %1 tokens, about %2 s")
      .arg(locale.toString(tokens), locale.toString(seconds, 'f', seconds < 9.5 ? 1 : 0));
}

void AppController::announce(QObject* item) const {
  QAccessibleEvent renamed(item, QAccessible::NameChanged);
  QAccessible::updateAccessibility(&renamed);
  QAccessibleEvent alert(item, QAccessible::Alert);
  QAccessible::updateAccessibility(&alert);
}

bool AppController::isWebLink(const QString& link) const {
  const QString scheme = QUrl(link).scheme();
  return scheme == QStringLiteral("http") || scheme == QStringLiteral("https") ||
         scheme == QStringLiteral("mailto");
}

void AppController::openLink(const QString& link) {
  if (isWebLink(link)) QDesktopServices::openUrl(QUrl(link));
}

void AppController::drop(const QUrl& file) {
  const QString path = file.toLocalFile();
  if (documentKind(path) != DocumentKind::None) {
    m_documents.open(path);
  } else if (path.endsWith(QStringLiteral(".json"), Qt::CaseInsensitive) ||
             LibraryModel::isPlace(path)) {
    m_library.importFrom(file);
  } else if (!m_models.add(file)) {
    show({ErrorCode::unsupported, file.toString()},
         QCoreApplication::translate(
             "Runnel", "Can't open %1. Drop a model (.gguf), a chat export (.json) or a document.")
             .arg(file.isLocalFile() ? file.toLocalFile() : file.toString()));
  }
}

}  // namespace runnel::chat
