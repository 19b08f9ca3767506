// SPDX-License-Identifier: Apache-2.0
// What the chat in view has of its own where others go by the settings.
#pragma once

#include <QtQml/qqmlregistration.h>

#include <QObject>
#include <QVariantMap>

#include "app/chat/engine/own_settings.h"
#include "app/chat/models/settings.h"

namespace runnel::chat {

class ChatSettings : public QObject {
  Q_OBJECT
  QML_ELEMENT
  QML_UNCREATABLE("App.chat.own is it")
  Q_PROPERTY(QVariantMap sampling READ sampling NOTIFY changed)            // as Settings::sampling
  Q_PROPERTY(QVariantMap usualSampling READ usualSampling NOTIFY changed)  // without this chat's
  Q_PROPERTY(int maxTokens READ maxTokens NOTIFY changed)
  Q_PROPERTY(int seed READ seed NOTIFY changed)
  Q_PROPERTY(bool samplesAsUsual READ samplesAsUsual NOTIFY changed)
  Q_PROPERTY(QString model READ model NOTIFY changed)  // its file; empty: as in the settings

 public:
  explicit ChatSettings(Settings& settings, QObject* parent = nullptr);

  const OwnSettings& own() const { return m_own; }
  void show(const OwnSettings& own);  // another chat's, or as they were changed elsewhere

  QVariantMap sampling() const { return m_settings.shownSampling(m_own.sampling); }
  QVariantMap usualSampling() const { return m_settings.shownSampling(); }
  int maxTokens() const { return m_own.maxTokens > 0 ? m_own.maxTokens : m_settings.maxTokens; }
  int seed() const { return m_own.seed >= 0 ? m_own.seed : m_settings.seed; }
  bool samplesAsUsual() const { return m_own.samplesAsUsual(); }
  QString model() const { return m_own.model; }

  Q_INVOKABLE void chooseSampling(const QString& name, double value);
  Q_INVOKABLE void chooseMaxTokens(int tokens);
  Q_INVOKABLE void chooseSeed(int seed);
  Q_INVOKABLE void resetSampling();  // with the length and the seed
  Q_INVOKABLE void chooseModel(const QString& file);

 Q_SIGNALS:
  void changed();
  void chosen();  // by the user: to be kept

 private:
  void choose(const OwnSettings& own);

  Settings& m_settings;
  OwnSettings m_own;
};

}  // namespace runnel::chat
