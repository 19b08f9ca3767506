// SPDX-License-Identifier: Apache-2.0
// The model files at hand with what they say about themselves, and the one that is loaded.
#pragma once

#include <QtQml/qqmlregistration.h>

#include <QAbstractListModel>
#include <QUrl>
#include <QVariantList>

#include "app/chat/engine/chat_engine.h"
#include "app/chat/models/settings.h"

namespace runnel::chat {

class ModelPicker : public QAbstractListModel {
  Q_OBJECT
  QML_ELEMENT
  QML_UNCREATABLE("App.models is it")
  Q_PROPERTY(int count READ rowCount NOTIFY countChanged)
  Q_PROPERTY(State state READ state NOTIFY stateChanged)
  Q_PROPERTY(double progress READ progress NOTIFY stateChanged)
  Q_PROPERTY(QString name READ name NOTIFY stateChanged)
  Q_PROPERTY(QString device READ device NOTIFY stateChanged)
  Q_PROPERTY(QString stepProgram READ stepProgram NOTIFY stateChanged)
  Q_PROPERTY(QString memoryNote READ memoryNote NOTIFY stateChanged)
  Q_PROPERTY(QString stateSize READ stateSize NOTIFY stateChanged)
  Q_PROPERTY(QString weightSize READ weightSize NOTIFY stateChanged)
  // Sizes of the window in slots; one or none: no choice.
  Q_PROPERTY(QVariantList windows READ windows NOTIFY stateChanged)
  Q_PROPERTY(int window READ window NOTIFY stateChanged)  // slots in use
  Q_PROPERTY(QVariantList devices READ devices NOTIFY devicesChanged)
  Q_PROPERTY(QString freeMemory READ freeMemory NOTIFY stateChanged)

 public:
  enum State { None, Loading, Loaded };
  Q_ENUM(State)
  enum Role {
    FileRole = Qt::UserRole + 1,
    TitleRole,
    FactsRole,    // "137.8 M parameters · Q4_0 · 30 layers"
    MemoryRole,   // what loading it will take
    ProblemRole,  // not empty: cannot be used
    CurrentRole,  // loaded, or being loaded
    FitsRole      // the machine has that much memory free
  };
  Q_ENUM(Role)

  /// @param folders  where model files are looked for
  ModelPicker(ChatEngine& engine, Settings& settings, QStringList folders,
              QObject* parent = nullptr);

  int rowCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QHash<int, QByteArray> roleNames() const override;

  State state() const { return m_state; }
  double progress() const { return m_progress; }
  QString name() const { return m_loaded.name; }
  QString device() const { return m_loaded.device; }
  QString stepProgram() const { return m_loaded.stepProgram; }
  QString memoryNote() const { return m_loaded.memoryNote; }
  QString stateSize() const;
  QString weightSize() const;
  QVariantList windows() const;
  int window() const { return m_loaded.windowSlots; }
  QVariantList devices() const { return m_devices; }
  static QString freeMemory();

  Q_INVOKABLE void refresh();  // looks for files again
  /// Loads what was used last, or the first file found. False if there is none.
  bool loadInitial();
  Q_INVOKABLE void choose(const QString& file);  // for every chat that has none of its own
  /// What the chats without a model of their own use.
  QString usual() const { return m_chosen.isEmpty() ? m_settings.modelFile : m_chosen; }
  /// Loads a chat's own model unless it is there. One that could not be loaded is not tried again until `again`.
  void use(const QString& file, bool again);
  /// Where a model's file is: there, or under its name among the files at hand; empty: nowhere.
  Q_INVOKABLE QString find(const QString& file) const;
  Q_INVOKABLE QVariantList choices() const;  // {file, name}
  Q_INVOKABLE QString usualName() const { return nameOf(usual()); }
  Q_INVOKABLE QString titleOf(const QString& file) const;  // its name, as far as it is known
  Q_INVOKABLE bool add(const QUrl& file);  // and load it. False if it is no local GGUF file
  Q_INVOKABLE void cancel();
  Q_INVOKABLE void chooseDevice(const QString& id);
  Q_INVOKABLE void chooseWindow(int slots);
  Q_INVOKABLE void reload();  // with the device, threads and window of the settings

  /// The model goes on on the CPU. False if that is where it runs, or where nothing else was
  /// chosen: with "auto" the library itself falls back.
  bool fallBack(const Problem& problem);

 Q_SIGNALS:
  void countChanged();
  void stateChanged();
  void devicesChanged();
  void chosen();
  void failed(const runnel::chat::Problem& problem);
  // The model runs on the CPU.
  void fellBack(const QString& device, const runnel::chat::Problem& problem);

 private:
  QStringList files() const;
  static QString nameOf(const QString& file);  // without what tells its parts apart
  void load(const QString& file);

  ChatEngine& m_engine;
  Settings& m_settings;
  const QStringList m_folders;
  QVector<ModelFacts> m_rows;
  State m_state = None;
  double m_progress = 0;
  QString m_wanted;          // being loaded
  QString m_chosen;          // by the user, for every chat; until it is loaded
  QString m_unusable;        // could not be loaded
  bool m_cancelled = false;  // the load, by the user
  QString m_deviceBefore;    // not empty: it could not be used, the CPU is tried
  Problem m_deviceProblem;
  LoadedModel m_loaded;
  QVariantList m_devices;
};

}  // namespace runnel::chat
