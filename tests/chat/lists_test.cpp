// SPDX-License-Identifier: Apache-2.0
// Library, model picker, files, settings, notices.
#include <QAbstractItemModelTester>
#include <QDir>
#include <QGuiApplication>
#include <QKeyEvent>
#include <QSettings>
#include <QSignalSpy>
#include <QStyleHints>
#include <QTemporaryDir>
#include <QTest>
#include <QThreadPool>
#include <cmath>

#include "app/chat/engine/shared_store.h"
#include "app/chat/models/app_controller.h"
#include "app/chat/models/files.h"
#include "app/chat/models/folder_model.h"
#include "app/chat/models/resting_cursor.h"
#include "runtime/model/sampling_keys.h"
#include "tests/chat/scripted_engine.h"
#include "tests/chat/suites.h"

namespace runnel::chat {

class ListsTest : public QObject {
  Q_OBJECT

  std::unique_ptr<QTemporaryDir> m_folder;
  std::unique_ptr<Settings> m_settings;
  std::unique_ptr<ScriptedEngine> m_engine;
  std::unique_ptr<AppController> m_app;

  QString modelFile(const QString& name) {
    QFile file(m_folder->filePath(name));
    if (!file.open(QIODevice::WriteOnly)) return {};
    return file.fileName();
  }
  QVariant book(int row, LibraryModel::Role role) {
    return m_app->library()->data(m_app->library()->index(row), role);
  }

 private Q_SLOTS:
  void init() {
    m_folder = std::make_unique<QTemporaryDir>();
    m_settings = std::make_unique<Settings>(m_folder->filePath("s.ini"));
    m_engine = std::make_unique<ScriptedEngine>();
    m_app = std::make_unique<AppController>(*m_engine, *m_settings,
                                            AppOptions{.modelFolders = {m_folder->path()}});
  }
  void cleanup() {
    m_app.reset();
    m_engine.reset();
    m_settings.reset();
  }

  void listsPinnedChatsFirst() {
    const QAbstractItemModelTester tester(m_app->library());
    const qint64 a = m_engine->addConversation(QStringLiteral("a"), {});
    m_engine->addConversation(QStringLiteral("b"), {});
    m_app->library()->refresh();
    QCOMPARE(book(0, LibraryModel::NameRole).toString(), QStringLiteral("b"));
    m_app->library()->pin(a, true);
    QCOMPARE(book(0, LibraryModel::NameRole).toString(), QStringLiteral("a"));
    QCOMPARE(book(0, LibraryModel::SectionRole).toString(), QStringLiteral("pinned"));
  }

  void searchesNamesAndAllMessagesAfterTypingPaused() {
    const QAbstractItemModelTester tester(m_app->library());
    m_engine->addConversation(QStringLiteral("tea time"),
                              {QStringLiteral("how is tea made"), QStringLiteral("slowly")});
    m_engine->addConversation(QStringLiteral("other"), {QStringLiteral("x")});
    m_app->library()->refresh();
    m_app->library()->setQuery(QStringLiteral("te"));
    m_app->library()->setQuery(QStringLiteral("tea"));
    QTRY_COMPARE(m_engine->searches, QStringList{QStringLiteral("tea")});
    QCOMPARE(m_app->library()->rowCount(), 2);
    QCOMPARE(book(0, LibraryModel::SectionRole).toString(), QStringLiteral("names"));
    QCOMPARE(book(1, LibraryModel::DetailRole).toString(), QStringLiteral("&lt;i&gt; <b>tea</b>"));
    QVERIFY(book(1, LibraryModel::MessageRole).toLongLong() > 0);
    m_app->library()->setQuery({});
    QCOMPARE(m_app->library()->rowCount(), 2);
    QCOMPARE(book(0, LibraryModel::NameRole).toString(), QStringLiteral("other"));
  }

  void foldersStandBetweenPinnedChatsAndTheOthers() {
    const QAbstractItemModelTester tester(m_app->library());
    const qint64 a = m_engine->addConversation(QStringLiteral("a"), {});
    const qint64 b = m_engine->addConversation(QStringLiteral("b"), {});
    m_engine->addConversation(QStringLiteral("c"), {});
    m_app->library()->refresh();
    m_app->library()->pin(a, true);
    QSignalSpy added(m_app->library(), &LibraryModel::folderAdded);
    m_app->library()->addFolder(QStringLiteral(" Work \n"), b);
    const qint64 work = added.last().at(0).toLongLong();
    const auto names = [this] {
      QStringList list;
      for (int row = 0; row < m_app->library()->rowCount(); ++row)
        list.push_back(book(row, LibraryModel::NameRole).toString());
      return list.join(u' ');
    };
    QCOMPARE(names(), QStringLiteral("a Work b c"));
    QCOMPARE(book(1, LibraryModel::ChatsRole).toInt(), 1);
    QCOMPARE(book(2, LibraryModel::SectionRole).toString(), QStringLiteral("folders"));
    QCOMPARE(m_app->library()->folderAt(2), work);
    QCOMPARE(m_app->library()->folderAt(3), 0);
    QCOMPARE(m_app->library()->folderAt(4), -1);
    m_app->library()->putIntoFolder(a, work);  // pinned: the first of its folder
    QCOMPARE(names(), QStringLiteral("Work a b c"));
    m_app->library()->foldFolder(work, true);
    QCOMPARE(names(), QStringLiteral("Work c"));
    QCOMPARE(book(0, LibraryModel::ChatsRole).toInt(), 2);
    m_app->library()->renameFolder(work, QStringLiteral("  "));
    QCOMPARE(names(), QStringLiteral("Work c"));
    m_app->library()->removeFolder(work);
    QCOMPARE(names(), QStringLiteral("a c b"));
  }

  void rowsThatStayAreNotMadeAgain() {
    m_engine->addConversation(QStringLiteral("a"), {});
    const qint64 b = m_engine->addConversation(QStringLiteral("b"), {});
    m_engine->addConversation(QStringLiteral("c"), {});
    m_app->library()->refresh();
    QSignalSpy reset(m_app->library(), &QAbstractItemModel::modelReset);
    QSignalSpy removed(m_app->library(), &QAbstractItemModel::rowsRemoved);
    m_app->library()->remove(b);
    QCOMPARE(reset.count(), 0);
    QCOMPARE(removed.count(), 1);
    QCOMPARE(removed.at(0).at(1).toInt(), 1);
    QCOMPARE(removed.at(0).at(2).toInt(), 1);
  }

  void aChatsOwnSettingsAreWrittenAndReadAndKeepWhatIsNotUnderstood() {
    OwnSettings own = OwnSettings::from(QStringLiteral(
        R"({"answer":"schema","name":"n","schema":"{}","sampling":{"temperature":0.2,"x":"y"},)"
        R"("maxTokens":70,"seed":4,"model":"/m/a.gguf","later":[1]})"));
    QCOMPARE(own.form.kind, ReplyForm::Schema);
    QCOMPARE(own.sampling.value(QStringLiteral("temperature")), 0.2);
    QCOMPARE(own.maxTokens, 70);
    QCOMPARE(own.seed, 4);
    QVERIFY(own == OwnSettings::from(own.toJson()));
    QVERIFY(own.toJson().contains(QStringLiteral("later")));
    const std::string portable = OwnSettings::portable(own.toJson());
    QVERIFY(portable.find("/m/") == std::string::npos);
    QVERIFY(portable.find("a.gguf") != std::string::npos);
    QCOMPARE(OwnSettings::from(QStringLiteral("no json [")).toJson(), QString());
    QCOMPARE(OwnSettings::from(QStringLiteral(R"({"maxTokens":-5,"seed":-9})")).toJson(),
             QString());
  }

  void whatAChatChoosesOutsideOfItsRangeCountsForNothing() {
    const double usual =
        m_settings->shownSampling().value(QStringLiteral("temperature")).toDouble();
    const auto shown = [this](double temperature) {
      return m_settings->shownSampling({{QStringLiteral("temperature"), temperature}})
          .value(QStringLiteral("temperature"))
          .toDouble();
    };
    QCOMPARE(shown(0.25), 0.25);
    QCOMPARE(shown(99), usual);
    QCOMPARE(shown(std::nan("")), usual);
  }

  void aChatOfAnotherMachineFindsItsModelByName() {
    const QString file = modelFile(QStringLiteral("a-00001-of-00001.gguf"));
    QCOMPARE(m_app->models()->find(QStringLiteral("/elsewhere/a-00001-of-00001.gguf")), file);
    QCOMPARE(m_app->models()->find(QStringLiteral("a-00001-of-00001.gguf")), file);
    QCOMPARE(m_app->models()->find(QStringLiteral("/elsewhere/b.gguf")), QString());
    QCOMPARE(m_app->models()->choices().at(0).toMap().value(QStringLiteral("name")).toString(),
             QStringLiteral("a"));
  }

  void aQueuedMessageIsAnsweredByItsChatsModel() {
    const QString usual = modelFile(QStringLiteral("usual.gguf"));
    const QString other = modelFile(QStringLiteral("other.gguf"));
    m_app->models()->choose(usual);
    m_engine->finishLoad(QStringLiteral("cpu"));
    const qint64 a = m_engine->addConversation(QStringLiteral("a"), {QStringLiteral("x")});
    const qint64 b = m_engine->addConversation(QStringLiteral("b"), {QStringLiteral("y")});
    m_engine->setOwn(a, QStringLiteral(R"({"model":"%1"})").arg(other));
    m_app->chat()->open(b);
    m_app->chat()->setDraft(QStringLiteral("long"));
    QVERIFY(m_app->chat()->send());
    QCOMPARE(m_engine->lastLoad().section(u' ', 0, 0), usual);
    m_app->chat()->open(a);
    QCOMPARE(m_engine->lastLoad().section(u' ', 0, 0), usual);  // b is answered
    m_app->chat()->setDraft(QStringLiteral("queued"));
    QVERIFY(m_app->chat()->send());
    m_app->chat()->open(b);
    m_engine->answerWith(QStringLiteral("done"));
    QCOMPARE(m_engine->lastText(), QStringLiteral("queued"));
    QCOMPARE(m_engine->lastLoad().section(u' ', 0, 0), other);
    m_engine->finishLoad(QStringLiteral("cpu"));
    m_engine->answerWith(QStringLiteral("done"));
    QCOMPARE(m_engine->lastLoad().section(u' ', 0, 0), usual);  // for the chat in view
    QCOMPARE(m_settings->modelFile, usual);
  }

  void aChatsModelThatCannotBeLoadedIsTriedOnce() {
    const QString usual = modelFile(QStringLiteral("usual.gguf"));
    const QString broken = modelFile(QStringLiteral("broken.gguf"));
    m_app->models()->choose(usual);
    m_engine->finishLoad(QStringLiteral("cpu"));
    const qint64 a = m_engine->addConversation(QStringLiteral("a"), {QStringLiteral("x")});
    m_engine->setOwn(a, QStringLiteral(R"({"model":"%1"})").arg(broken));
    m_app->chat()->open(a);
    QCOMPARE(m_engine->lastLoad().section(u' ', 0, 0), broken);
    m_engine->failLoad(ErrorCode::malformed);
    const qsizetype loads = m_engine->loads.size();
    m_app->chat()->setDraft(QStringLiteral("go on"));
    QVERIFY(m_app->chat()->send());
    m_engine->answerWith(QStringLiteral("yes"));
    QCOMPARE(m_engine->loads.size(), loads);
    QCOMPARE(m_app->models()->state(), ModelPicker::Loaded);
  }

  void suggestsAFreeNameForAnExport() {
    const qint64 id = m_engine->addConversation(QStringLiteral("How? Über/alles…"), {});
    m_app->library()->refresh();
    const QString file = m_app->library()->exportFile(id, true);
    QVERIFY2(file.endsWith(QStringLiteral("/How-Über-alles.json")), qPrintable(file));
    QVERIFY(!m_app->library()->fileExists(file));
  }

  void aDeletedChatLeavesTheViewAndComesBack() {
    const qint64 id = m_engine->addConversation(QStringLiteral("a"), {QStringLiteral("x")});
    m_app->library()->refresh();
    m_app->chat()->open(id);
    m_app->library()->remove(id);
    QCOMPARE(m_app->chat()->conversation(), 0);
    QCOMPARE(m_app->library()->rowCount(), 0);
    QVERIFY(m_app->canUndo());
    m_app->undo();
    QCOMPARE(m_app->chat()->conversation(), id);
    QCOMPARE(m_app->library()->rowCount(), 1);
    QVERIFY(!m_app->canUndo());
  }

  void deletionsStayUndoableWhateverIsSaid() {
    const qint64 a = m_engine->addConversation(QStringLiteral("a"), {});
    const qint64 b = m_engine->addConversation(QStringLiteral("b"), {});
    m_app->library()->remove(a);
    m_app->library()->remove(b);
    m_app->say(QStringLiteral("Copied."));
    m_app->dismissNotice();
    m_app->dismissNotice();
    QVERIFY(m_engine->forgotten.isEmpty());
    m_app->undo();
    m_app->undo();
    QVERIFY(!m_app->canUndo());
    QCOMPARE(m_app->library()->rowCount(), 2);
  }

  void aMachineWithoutRenderNodesHasNoGpu() {
    const QTemporaryDir devices;
    QVERIFY(!hasGpu(devices.path()));
    QDir(devices.path()).mkpath(QStringLiteral("dri"));
    QVERIFY(!hasGpu(devices.path()));
    QFile node(devices.filePath(QStringLiteral("dri/renderD128")));
    QVERIFY(node.open(QIODevice::WriteOnly));
    QVERIFY(hasGpu(devices.path()));
  }

  void whatIsOldIsForgottenAtTheStart() {
    m_app->start();
    QCOMPARE(m_engine->forgotten, QVector<qint64>{0});
  }

  void failuresAreSaidInWordsWithTheDetailsBeside() {
    Q_EMIT m_engine->libraryFailed({.code = ErrorCode::io,
                                    .message = QStringLiteral("chats.db: the disk is full"),
                                    .about = About::Library,
                                    .file = QStringLiteral("/x/chats.db"),
                                    .refusal = Refusal::Full});
    QVERIFY(m_app->noticeIsProblem());
    QCOMPARE(m_app->notice(), QStringLiteral("Couldn't save to /x/chats.db: the disk is full."));
    QCOMPARE(m_app->noticeDetails(), QStringLiteral("chats.db: the disk is full"));
    // Nobody knows here whether it was read or written.
    QCOMPARE(inWords({.code = ErrorCode::io,
                      .message = QStringLiteral("why"),
                      .about = About::Library,
                      .file = QStringLiteral("/x/chats.db")}),
             QStringLiteral("Couldn't read or save your chat library /x/chats.db: why."));
    for (int code = 1; code <= static_cast<int>(ErrorCode::internal); ++code) {
      for (const About about :
           {About::Nothing, About::Model, About::Library, About::Import, About::Export})
        QVERIFY(inWords({static_cast<ErrorCode>(code), {}, about}).size() > 5);
    }
  }

  void aProblemIsNotReplacedByWhatIsSaidLater() {
    Q_EMIT m_engine->libraryFailed({.code = ErrorCode::malformed,
                                    .about = About::Library,
                                    .file = QStringLiteral("/x/chats.db")});
    m_app->say(QStringLiteral("Copied."));
    QCOMPARE(m_app->notices().size(), 2);
    QCOMPARE(m_app->notices().first().toMap().value("actions").toList().size(), 3);
    m_app->dismissNotice();
    QVERIFY(m_app->noticeIsProblem());
  }

  void severalProblemsStayUntilEachIsDismissed() {
    for (int i = 0; i < 4; ++i) {
      Q_EMIT m_engine->libraryFailed({.code = ErrorCode::malformed,
                                      .about = About::Library,
                                      .file = QStringLiteral("/x/%1.db").arg(i)});
    }
    m_app->say(QStringLiteral("Copied."));
    for (int i = 0; i < 4; ++i) {
      m_app->dismissGoodNews();
      QVERIFY(m_app->notices().size() <= 3);  // as many have room
      QVERIFY(m_app->notice().contains(QStringLiteral("/x/%1.db").arg(3 - i)));
      m_app->dismissNotice();
    }
    QVERIFY(m_app->notices().isEmpty());
  }

  void anotherLibraryTakesTheProblemsOfTheOldOneAlone() {
    Q_EMIT m_engine->libraryFailed({.code = ErrorCode::device, .file = QStringLiteral("cuda:0")});
    Q_EMIT m_engine->libraryFailed({.code = ErrorCode::malformed,
                                    .about = About::Library,
                                    .file = QStringLiteral("/x/chats.db")});
    Q_EMIT m_engine->libraryReplaced({.old = QStringLiteral("/x/old.db")});
    const QVariantList notices = m_app->notices();
    QCOMPARE(notices.size(), 2);
    QVERIFY(notices.first().toMap().value("text").toString().contains(QStringLiteral("cuda:0")));
    QVERIFY(m_app->notice().contains(QStringLiteral("/x/old.db")));
  }

  void whereALibraryCannotBeMadeItIsMadeElsewhere() {
    SharedStore store("/proc/no/such.db", 1'000'000);
    QVERIFY(!store.get());
    const std::filesystem::path place =
        m_folder->filePath(QStringLiteral("other/chats.db")).toStdString();
    const auto old =
        store.begin_anew("kept-1", {"/proc/nor/there.db", place},
                         [](ConversationStore&, const std::filesystem::path&) { return Status(); });
    QVERIFY(old);
    QCOMPARE(old->string(), std::string("/proc/no/such.db"));
    QCOMPARE(store.file().string(), place.string());
    QVERIFY(store.get()->add({.text = "a chat can always be begun"}));
  }

  void whatIsWrongIsNamed() {
    Q_EMIT m_engine->libraryFailed(
        {.code = ErrorCode::invalid_argument,
         .message = QStringLiteral("temperature is 9, expected 0 to 5")});
    QCOMPARE(m_app->notice(), QStringLiteral("temperature is out of range."));
    m_settings->chooseSampling(QStringLiteral("temperature"), 1.5);
    m_app->act(QStringLiteral("sampling"));
    // No model is loaded that recommends another.
    QCOMPARE(m_settings->sampling().temperature, default_sampling().temperature);
    QVERIFY(m_app->notices().isEmpty());
    QCOMPARE(inWords({.code = ErrorCode::device, .file = QStringLiteral("vulkan:0")}),
             QStringLiteral("vulkan:0 stopped working. Try again, or choose another device under "
                            "Models."));
  }

  void theCursorRestsAWhileAfterTheLastKey() {
    const QStyleHints* hints = QGuiApplication::styleHints();
    const int before = hints->cursorFlashTime();
    QVERIFY(before > 0);
    {
      const RestingCursor resting(std::chrono::milliseconds(50));
      QCOMPARE(hints->cursorFlashTime(), before);
      QTRY_COMPARE(hints->cursorFlashTime(), 0);  // it is seen, and does not blink
      QObject someone;
      QKeyEvent key(QEvent::KeyPress, Qt::Key_A, Qt::NoModifier);
      QCoreApplication::sendEvent(&someone, &key);
      QCOMPARE(hints->cursorFlashTime(), before);
      QTRY_COMPARE(hints->cursorFlashTime(), 0);
    }
    QCOMPARE(hints->cursorFlashTime(), before);
  }

  void keysAreWrittenAsTheSystemDoes() {
    QCOMPARE(m_app->keys(QStringLiteral("Ctrl+N, Shift+Return")),
             QStringLiteral("Ctrl+N, Shift+Return"));
  }

  void aModelThatIsNotThereIsSaid() {
    AppController app(*m_engine, *m_settings,
                      AppOptions{.wantedModel = QStringLiteral("/x/none.gguf")});
    app.start();
    const QVariantList notices = app.notices();
    QVERIFY(std::any_of(notices.cbegin(), notices.cend(), [](const QVariant& notice) {
      return notice.toMap().value("text").toString().contains(QStringLiteral("/x/none.gguf"));
    }));
  }

  void draftsMoveFromTheSettingsIntoTheLibrary() {
    {
      QSettings file(m_folder->filePath("s.ini"), QSettings::IniFormat);
      file.setValue(QStringLiteral("drafts/0"), QStringLiteral("old"));
      file.sync();
    }
    Settings settings(m_folder->filePath("s.ini"));
    AppController app(*m_engine, settings, AppOptions{});
    app.start();
    QCOMPARE(m_engine->drafts.value(0), QStringLiteral("old"));
    QCOMPARE(app.chat()->draft(), QStringLiteral("old"));
    settings.save();
    QFile file(m_folder->filePath("s.ini"));
    QVERIFY(file.open(QIODevice::ReadOnly));
    QVERIFY(!file.readAll().contains("drafts"));
    QCOMPARE(file.permissions() & (QFile::ReadGroup | QFile::ReadOther), QFile::Permissions());
  }

  void loadsTheModelUsedLastOrTheFirstFound() {
    const QString a = modelFile(QStringLiteral("a.gguf"));
    const QString b = modelFile(QStringLiteral("b.gguf"));
    QVERIFY(m_app->models()->loadInitial());
    QVERIFY(m_engine->loads.last().startsWith(a));
    m_settings->modelFile = b;
    QVERIFY(m_app->models()->loadInitial());
    QVERIFY(m_engine->loads.last().startsWith(b));
    QFile::remove(b);
    QFile::remove(a);
    QVERIFY(!m_app->models()->loadInitial());
  }

  void showsWhatAFileSaysAndWhatItNeeds() {
    const QAbstractItemModelTester tester(m_app->models());
    modelFile(QStringLiteral("a.gguf"));
    m_app->models()->refresh();
    const QModelIndex row = m_app->models()->index(0);
    QCOMPARE(row.data(ModelPicker::TitleRole).toString(), QStringLiteral("tiny"));
    QVERIFY(row.data(ModelPicker::FactsRole).toString().contains(QStringLiteral("Q4_0")));
    QVERIFY(row.data(ModelPicker::MemoryRole).toString().contains(QStringLiteral("2.0 MB")));
    QVERIFY(row.data(ModelPicker::FitsRole).toBool());
    Q_EMIT m_engine->inspected(
        {.file = row.data(ModelPicker::FileRole).toString(), .weightBytes = quint64{1} << 50});
    QVERIFY(!row.data(ModelPicker::FitsRole).toBool());  // a petabyte
    QCOMPARE(m_app->models()->devices().size(), 3);      // the best, the processor, the GPU
  }

  void aLoadThatFailsOrIsCancelledKeepsTheModelBefore() {
    const QString a = modelFile(QStringLiteral("a.gguf"));
    const QString b = modelFile(QStringLiteral("b.gguf"));
    ModelPicker* models = m_app->models();
    models->refresh();
    models->choose(a);
    Q_EMIT m_engine->loadProgress(0.5);
    QCOMPARE(models->progress(), 0.5);
    Q_EMIT m_engine->modelLoaded({.file = a, .name = QStringLiteral("A")});
    QCOMPARE(models->state(), ModelPicker::Loaded);
    models->choose(b);
    QCOMPARE(models->state(), ModelPicker::Loading);
    models->cancel();
    Q_EMIT m_engine->modelFailed({ErrorCode::cancelled, {}});
    QCOMPARE(models->state(), ModelPicker::Loaded);
    QCOMPARE(models->name(), QStringLiteral("A"));
    QCOMPARE(m_app->notice(), QString());
    models->choose(b);
    Q_EMIT m_engine->modelFailed({ErrorCode::malformed, QStringLiteral("b.gguf: bad magic")});
    QCOMPARE(m_app->noticeDetails(), QStringLiteral("b.gguf: bad magic"));
    QCOMPARE(m_settings->modelFile, a);
  }

  void aFolderShowsFoldersThenFilesOfItsKind() {
    QDir(m_folder->path()).mkpath(QStringLiteral("Sub"));
    for (const char* name : {"b.GGUF", "A.gguf", "notes.txt", ".hidden.gguf"})
      modelFile(QLatin1String(name));
    FolderModel model;
    const QAbstractItemModelTester tester(&model);
    model.setProperty("patterns", QStringList{QStringLiteral("*.gguf")});
    QSignalSpy listed(&model, &FolderModel::listed);
    model.open(m_folder->path());
    QVERIFY(!model.ready());
    QVERIFY(listed.wait());
    QVERIFY(model.ready());
    const QStringList all = {QStringLiteral("Sub"), QStringLiteral("A.gguf"),
                             QStringLiteral("b.GGUF")};
    QCOMPARE(model.names(), all);
    QVERIFY(model.index(0).data(FolderModel::FolderRole).toBool());
    QCOMPARE(model.rowOf(m_folder->filePath(QStringLiteral("b.GGUF"))), 2);
    QCOMPARE(model.rowOf(QStringLiteral("/elsewhere")), -1);
    QCOMPARE(model.find(QStringLiteral("B"), 0), 2);
    QCOMPARE(model.find(QStringLiteral("s"), 2), 0);  // around the end
    QCOMPARE(model.find(QStringLiteral("x"), 0), -1);
    model.setProperty("foldersOnly", true);
    model.open(m_folder->path());
    QVERIFY(listed.wait());
    QCOMPARE(model.names(), QStringList{QStringLiteral("Sub")});
  }

  void ofFoldersOpenedInAHurryTheLastIsShown() {
    QDir(m_folder->path()).mkpath(QStringLiteral("many"));
    for (int i = 0; i < 2000; ++i) modelFile(QStringLiteral("many/%1").arg(i));
    QDir(m_folder->path()).mkpath(QStringLiteral("few/one"));
    FolderModel model;
    QSignalSpy listed(&model, &FolderModel::listed);
    model.open(m_folder->filePath(QStringLiteral("many")));
    QCOMPARE(model.rowCount(), 0);
    model.open(m_folder->filePath(QStringLiteral("few")));
    QVERIFY(listed.wait());
    QCOMPARE(model.names(), QStringList{QStringLiteral("one")});
    QThreadPool::globalInstance()->waitForDone();
    QCoreApplication::processEvents();
    QCOMPARE(listed.count(), 1);
    QCOMPARE(model.names(), QStringList{QStringLiteral("one")});
    model.open(m_folder->filePath(QStringLiteral("gone")));  // and what is not there is empty
    QVERIFY(listed.wait());
    QCOMPARE(model.rowCount(), 0);
  }

  void aWrittenPathIsMeantFromHomeOrTheFolderShown() {
    const Files files;
    QCOMPARE(files.absolute(QStringLiteral(" ~/x "), QStringLiteral("/a")),
             QDir::homePath() + QStringLiteral("/x"));
    QCOMPARE(files.absolute(QStringLiteral("../x"), QStringLiteral("/a/b")),
             QStringLiteral("/a/x"));
    QCOMPARE(files.absolute(QStringLiteral("/x//y/"), QStringLiteral("/a")),
             QStringLiteral("/x/y"));
    QCOMPARE(files.folderOf(QStringLiteral("/")), QStringLiteral("/"));
    QCOMPARE(files.toUrl(QStringLiteral("/a#1 100%/b?")).toLocalFile(),
             QStringLiteral("/a#1 100%/b?"));
    QVERIFY(files.isFolder(m_folder->path()));
    QVERIFY(!files.isFolder(modelFile(QStringLiteral("x"))));
    QVERIFY(files.isFolder(files.downloads()));
  }

  void aDeviceThatCannotBeUsedGivesWayToTheCpuInWords() {
    const QString a = modelFile(QStringLiteral("a.gguf"));
    ModelPicker* models = m_app->models();
    models->choose(a);
    m_engine->finishLoad(QStringLiteral("cpu"));
    for (const ErrorCode code : {ErrorCode::device, ErrorCode::out_of_memory,
                                 ErrorCode::unsupported, ErrorCode::not_found}) {
      m_app->dismissNotice();
      models->chooseDevice(QStringLiteral("vulkan:0"));
      QCOMPARE(m_engine->loads.last(), a + QStringLiteral(" vulkan:0 0"));
      m_engine->failLoad(code);
      QCOMPARE(m_engine->loads.last(), a + QStringLiteral(" cpu 0"));
      QCOMPARE(models->state(), ModelPicker::Loading);
      QCOMPARE(m_app->notice(), QString());  // not before it is true
      m_engine->finishLoad(QStringLiteral("cpu"));
      QCOMPARE(models->state(), ModelPicker::Loaded);
      QCOMPARE(models->device(), QStringLiteral("cpu"));
      QCOMPARE(m_settings->device, QStringLiteral("cpu"));
      QVERIFY(m_app->noticeIsProblem());
      QVERIFY2(m_app->notice().startsWith(QStringLiteral("vulkan:0 ")),
               qPrintable(m_app->notice()));
      QVERIFY(m_app->notice().contains(QStringLiteral("CPU")));
      QCOMPARE(m_app->noticeDetails(), QStringLiteral("why"));
    }
  }

  void aWindowIsChosenAmongThoseThatTheModelHas() {
    const QString a = modelFile(QStringLiteral("a.gguf"));
    ModelPicker* models = m_app->models();
    models->choose(a);
    m_engine->finishLoad(QStringLiteral("cpu"));
    QVERIFY(models->windows().isEmpty());
    m_engine->finishWindow(60, 60);
    QCOMPARE(models->windows(), QVariantList({60}));
    m_engine->finishWindow(252, 252);
    QCOMPARE(models->windows(), QVariantList({60, 124, 252}));
    QCOMPARE(models->window(), 252);
    const qsizetype before = m_engine->loads.size();
    models->chooseWindow(252);  // in use
    QCOMPARE(m_engine->loads.size(), before);
    models->chooseWindow(60);
    QCOMPARE(m_engine->loads.size(), before + 1);
    QVERIFY(m_engine->loads.last().startsWith(a));
    QCOMPARE(m_engine->windows.last(), 60);
    QCOMPARE(m_settings->windowSlots, 60);
    m_engine->finishWindow(60, 252);
    QCOMPARE(models->window(), 60);
    models->chooseWindow(252);
    QCOMPARE(m_engine->windows.last(), 0);  // the file's, whichever model comes next
  }

  void aFileThatFailsOnTheCpuTooIsNoReasonToLeaveTheDevice() {
    const QString a = modelFile(QStringLiteral("a.gguf"));
    m_settings->device = QStringLiteral("vulkan:0");
    m_app->models()->choose(a);
    m_engine->failLoad(ErrorCode::unsupported);
    m_engine->failLoad(ErrorCode::unsupported);
    QCOMPARE(m_engine->loads.size(), 2);
    QCOMPARE(m_settings->device, QStringLiteral("vulkan:0"));
    QCOMPARE(m_app->notice(), inWords({ErrorCode::unsupported, QStringLiteral("why")}));
    m_app->models()->choose(a);
    m_engine->failLoad(ErrorCode::malformed);  // never the device's
    QCOMPARE(m_engine->loads.size(), 3);
  }

  void aDeviceThatFailsWhileItAnswersGivesWayToo() {
    m_settings->device = QStringLiteral("vulkan:0");
    m_app->models()->choose(modelFile(QStringLiteral("a.gguf")));
    m_engine->finishLoad(QStringLiteral("vulkan:0"));
    m_app->chat()->setDraft(QStringLiteral("hi"));
    QVERIFY(m_app->chat()->send());
    m_engine->failAnswer(ErrorCode::device);
    QVERIFY(m_engine->loads.last().endsWith(QStringLiteral(" cpu 0")));
    m_engine->finishLoad(QStringLiteral("cpu"));
    QVERIFY(m_app->notice().contains(QStringLiteral("CPU")));
  }

  void takesDroppedModelsAndChatsAndNothingElse() {
    const QString model = modelFile(QStringLiteral("dropped.GGUF"));
    m_app->drop(QUrl::fromLocalFile(model));
    QVERIFY(m_engine->loads.last().startsWith(model));
    m_app->drop(QUrl::fromLocalFile(QStringLiteral("/x/talk.json")));
    QCOMPARE(m_app->chat()->title(), QStringLiteral("/x/talk.json"));
    m_app->drop(QUrl(QStringLiteral("https://example.org/model.gguf")));
    QVERIFY(m_app->noticeIsProblem());
    QCOMPARE(m_engine->loads.size(), 1);
  }

  void opensNoLinkButOfTheWeb() {
    QVERIFY(m_app->isWebLink(QStringLiteral("https://example.org")));
    QVERIFY(!m_app->isWebLink(QStringLiteral("file:///etc/passwd")));
    QVERIFY(!m_app->isWebLink(QStringLiteral("javascript:alert(1)")));
  }

  void settingsAreKeptAndBroughtIntoTheirRange() {
    m_settings->chooseSampling(QStringLiteral("temperature"), 0.3);
    m_settings->theme = QStringLiteral("dark");
    m_settings->save();
    {
      const Settings again(m_folder->filePath("s.ini"));
      QCOMPARE(again.shownSampling().value("temperature").toDouble(), 0.3);
      QCOMPARE(again.sampling().temperature, 0.3F);
      QCOMPARE(again.theme, QStringLiteral("dark"));
    }
    QFile file(m_folder->filePath("bad.ini"));
    QVERIFY(file.open(QIODevice::WriteOnly));
    file.write("[settings]\nthreads=99999\ntheme=pink\nfontScale=1e9\n");
    file.write("[sampling]\ntemperature=nan\ntopP=-4\ntopK=x\nwhat=1\n");
    file.close();
    const Settings bad(file.fileName());
    QCOMPARE(bad.shownSampling(), bad.modelSampling());
    QCOMPARE(bad.threads, 1024);
    QCOMPARE(bad.theme, QStringLiteral("system"));
    QCOMPARE(bad.fontScale, 1.0);
  }

  void samplingIsResetToItsStandard() {
    m_settings->chooseSampling(QStringLiteral("temperature"), 1.9);
    m_settings->chooseSampling(QStringLiteral("topK"), 3);
    m_settings->seed = 4;
    QCOMPARE(m_settings->sampling().seed, 4U);
    QCOMPARE(m_settings->sampling().top_k, 3);
    m_settings->resetSampling();
    QCOMPARE(m_settings->shownSampling(), m_settings->modelSampling());
    QVERIFY(m_settings->sampling().seed != m_settings->sampling().seed);
  }

  void samplingIsTheModelsWhereTheUserChoseNothing() {
    SamplingOptions recommended;
    recommended.temperature = 0.25F;
    recommended.presence_penalty = 0.5F;  // not shown, and used all the same
    recommended.dry_multiplier = 0.75F;
    recommended.dry_breakers = {"\n"};
    m_settings->chooseSampling(QStringLiteral("minP"), 0.125);
    m_settings->seed = 4;
    Q_EMIT m_engine->modelLoaded({.file = modelFile(QStringLiteral("a.gguf")),
                                  .name = QStringLiteral("A"),
                                  .sampling = recommended});
    SamplingOptions expected = recommended;
    expected.min_p = 0.125F;
    expected.seed = 4;
    QVERIFY(m_settings->sampling() == expected);
    QCOMPARE(m_settings->shownSampling().value("dryMultiplier").toDouble(), 0.75);
    m_settings->save();
    {
      Settings again(m_folder->filePath("s.ini"));
      recommended.temperature = 0.5F;  // another model
      again.recommend(recommended);
      expected.temperature = 0.5F;
      QVERIFY(again.sampling() == expected);
    }
    m_settings->resetSampling();
    QCOMPARE(m_settings->sampling().min_p, 0.0F);
    QCOMPARE(m_settings->sampling().dry_multiplier, 0.75F);
  }

  void anAnswerIsDrawnAsTheSettingsSay() {
    m_settings->chooseSampling(QStringLiteral("dryMultiplier"), 0.5);
    m_settings->seed = 7;
    m_settings->maxTokens = 33;
    Q_EMIT m_engine->modelLoaded({.file = modelFile(QStringLiteral("a.gguf"))});
    m_app->chat()->setDraft(QStringLiteral("hi"));
    QVERIFY(m_app->chat()->send());
    QVERIFY(m_engine->requests.last().sampling == m_settings->sampling());
    QCOMPARE(m_engine->requests.last().sampling.dry_multiplier, 0.5F);
    QCOMPARE(m_engine->requests.last().maxTokens, 33);
  }

  void theBudgetIsHandedOnWhenItChanges() {
    m_settings->setProperty("budgetMegabytes", 250);
    QVERIFY(m_engine->calls.contains(QStringLiteral("budget 250000000")));
  }
};

}  // namespace runnel::chat

int runListTests(int argc, char** argv) {
  runnel::chat::ListsTest test;
  return QTest::qExec(&test, argc, argv);
}

#include "lists_test.moc"
