// SPDX-License-Identifier: Apache-2.0
#include "app/chat/models/chat_settings.h"

#include <algorithm>

namespace runnel::chat {

ChatSettings::ChatSettings(Settings& settings, QObject* parent)
    : QObject(parent), m_settings(settings) {
  connect(&settings, &Settings::changed, this, &ChatSettings::changed);
}

void ChatSettings::show(const OwnSettings& own) {
  if (own == m_own) return;
  m_own = own;
  Q_EMIT changed();
}

void ChatSettings::choose(const OwnSettings& own) {
  if (own == m_own) return;
  show(own);
  Q_EMIT chosen();
}

void ChatSettings::chooseSampling(const QString& name, double value) {
  if (!Settings::inRange(name, value)) return;
  OwnSettings own = m_own;
  own.sampling.insert(name, value);
  choose(own);
}

void ChatSettings::chooseMaxTokens(int tokens) {
  OwnSettings own = m_own;
  own.maxTokens = std::max(1, tokens);
  choose(own);
}

void ChatSettings::chooseSeed(int seed) {
  OwnSettings own = m_own;
  own.seed = std::max(0, seed);
  choose(own);
}

void ChatSettings::resetSampling() {
  OwnSettings own = m_own;
  own.sampling.clear();
  own.maxTokens = 0;
  own.seed = -1;
  choose(own);
}

void ChatSettings::chooseModel(const QString& file) {
  OwnSettings own = m_own;
  own.model = file;
  choose(own);
}

}  // namespace runnel::chat
