// SPDX-License-Identifier: Apache-2.0
// What the user chose, kept in one INI file. Every change is written soon after.
#pragma once

#include <QtQml/qqmlregistration.h>

#include <QHash>
#include <QMap>
#include <QObject>
#include <QSettings>
#include <QTimer>
#include <QVariantMap>

#include "app/chat/engine/chat_types.h"

namespace runnel::chat {

class Settings : public QObject {
  Q_OBJECT
  QML_ELEMENT
  QML_UNCREATABLE("App.settings is it")
  // One notification for all: they change seldom, and a page that shows them reads them all.
  Q_PROPERTY(QString theme MEMBER theme NOTIFY changed)            // "system", "light", "dark"
  Q_PROPERTY(double fontScale MEMBER fontScale NOTIFY changed)     // of the system's font, 0.8 to 2
  Q_PROPERTY(QString fontFamily MEMBER fontFamily NOTIFY changed)  // empty: the system's
  Q_PROPERTY(QString language MEMBER language NOTIFY changed)      // empty: the system's
  Q_PROPERTY(QString systemPrompt MEMBER systemPrompt NOTIFY changed)
  // Numbers by name: temperature, topP, topK, minP, repetitionPenalty, dryMultiplier. What answers are drawn with: the
  // user's choice, else the model's.
  Q_PROPERTY(QVariantMap sampling READ shownSampling NOTIFY changed STORED false)
  Q_PROPERTY(QVariantMap modelSampling READ modelSampling NOTIFY changed STORED false)
  Q_PROPERTY(int maxTokens MEMBER maxTokens NOTIFY changed)
  Q_PROPERTY(int seed MEMBER seed NOTIFY changed)                // 0: another one each time
  Q_PROPERTY(int threads MEMBER threads NOTIFY changed)          // 0: one a core
  Q_PROPERTY(int windowSlots MEMBER windowSlots NOTIFY changed)  // 0: all that a model has
  Q_PROPERTY(QString device MEMBER device NOTIFY changed)
  Q_PROPERTY(QString modelFile MEMBER modelFile NOTIFY changed)
  Q_PROPERTY(int budgetMegabytes MEMBER budgetMegabytes NOTIFY changed)
  Q_PROPERTY(bool showTimeline MEMBER showTimeline NOTIFY changed)
  Q_PROPERTY(bool showLibrary MEMBER showLibrary NOTIFY changed)
  Q_PROPERTY(bool showStatistics MEMBER showStatistics NOTIFY changed)
  // Earlier messages that a question refers to are read again before it.
  Q_PROPERTY(bool remind MEMBER remind NOTIFY changed)

 public:
  /// @param file  an INI file, made when first written
  explicit Settings(const QString& file, QObject* parent = nullptr);
  ~Settings() override;

  /// What the model recommends, with what the user chose, and a seed.
  SamplingOptions sampling() const;
  /// The same with a conversation's own choices on top; of those out of range, and of names it does not know, nothing.
  SamplingOptions sampling(const QMap<QString, double>& own, int ownSeed) const;
  QVariantMap shownSampling() const;
  QVariantMap shownSampling(const QMap<QString, double>& own) const;
  /// Whether a number of `sampling` may have this value.
  static bool inRange(const QString& name, double value);
  QVariantMap modelSampling() const;
  /// What holds where the user chose nothing. Before a model is loaded: as of a file that recommends nothing.
  void recommend(const SamplingOptions& sampling);
  /// Keeps the user's choice of one number of `sampling`, for every model. A value outside its range changes nothing.
  Q_INVOKABLE void chooseSampling(const QString& name, double value);
  /// Forgets the user's choices.
  Q_INVOKABLE void resetSampling();

  /// Drafts as earlier versions kept them here, by conversation; 0: of the conversation not begun yet.
  QHash<qint64, QString> olderDrafts() const;
  void forgetOlderDrafts();  // they are in the library

  /// Small things a window remembers: geometry, the conversation in view, where it was scrolled to.
  Q_INVOKABLE QVariant recall(const QString& key, const QVariant& otherwise = {}) const;
  /// Remembering undefined forgets.
  Q_INVOKABLE void remember(const QString& key, const QVariant& value);
  QStringList list(const QString& key) const { return m_file.value(key).toStringList(); }

  void save();

  QString theme = QStringLiteral("system");
  double fontScale = 1.0;
  QString fontFamily;
  QString language;
  QString systemPrompt;
  int maxTokens = kMaxTokens;
  int seed = 0;
  int threads = 0;
  int windowSlots = 0;
  QString device = QStringLiteral("auto");
  QString modelFile;
  int budgetMegabytes = 1000;
  bool showTimeline = true;
  bool showLibrary = true;
  bool showStatistics = true;
  bool remind = true;

 Q_SIGNALS:
  void changed();

 private:
  static constexpr int kMaxTokens = 1024;

  void load();
  void bound();  // brings what a file says into its range

  SamplingOptions m_recommended;
  QMap<QString, double> m_chosen;  // of the sampling, by name
  QSettings m_file;
  QTimer m_saving;
};

}  // namespace runnel::chat
