// SPDX-License-Identifier: Apache-2.0
#include "app/chat/models/settings.h"

#include <QMetaProperty>
#include <QRandomGenerator>
#include <algorithm>

namespace runnel::chat {
namespace {

constexpr int kSaveAfterMs = 400;

// The properties of this class, not of QObject.
template <class Use>
void eachProperty(const QMetaObject& meta, const Use& use) {
  for (int i = meta.propertyOffset(); i < meta.propertyCount(); ++i) use(meta.property(i));
}

}  // namespace

Settings::Settings(const QString& file, QObject* parent)
    : QObject(parent), m_file(file, QSettings::IniFormat) {
  load();
  m_saving.setSingleShot(true);
  m_saving.setInterval(kSaveAfterMs);
  connect(&m_saving, &QTimer::timeout, this, &Settings::save);
  connect(this, &Settings::changed, &m_saving, qOverload<>(&QTimer::start));
}

Settings::~Settings() { save(); }

void Settings::load() {
  const QSignalBlocker quiet(this);
  eachProperty(staticMetaObject, [this](const QMetaProperty& property) {
    const QVariant stored =
        m_file.value(QStringLiteral("settings/") + QLatin1String(property.name()));
    if (stored.isValid()) property.write(this, stored);
  });
  bound();
}

void Settings::bound() {
  const auto number = [](double value, double low, double high, double otherwise) {
    return value >= low && value <= high ? value : otherwise;  // also of what is no number
  };
  fontScale = number(fontScale, 0.8, 2.0, 1.0);
  temperature = number(temperature, 0.0, 2.0, 0.7);
  topP = number(topP, 0.01, 1.0, 0.95);
  minP = number(minP, 0.0, 0.99, 0.0);
  repetitionPenalty = number(repetitionPenalty, 0.5, 2.0, 1.15);
  topK = std::clamp(topK, 0, 1000);
  maxTokens = std::clamp(maxTokens, 1, 1'000'000);
  threads = std::clamp(threads, 0, 1024);
  windowSlots = std::clamp(windowSlots, 0, 1 << 14);
  budgetMegabytes = std::clamp(budgetMegabytes, 0, 1'000'000);
  if (theme != QStringLiteral("light") && theme != QStringLiteral("dark"))
    theme = QStringLiteral("system");
}

void Settings::save() {
  m_saving.stop();
  eachProperty(staticMetaObject, [this](const QMetaProperty& property) {
    m_file.setValue(QStringLiteral("settings/") + QLatin1String(property.name()),
                    property.read(this));
  });
  m_file.sync();
}

Sampling Settings::sampling() const {
  return {.temperature = temperature,
          .topK = topK,
          .topP = topP,
          .minP = minP,
          .repetitionPenalty = repetitionPenalty,
          .maxTokens = maxTokens,
          .seed = seed > 0 ? static_cast<quint64>(seed) : QRandomGenerator::global()->generate64()};
}

void Settings::resetSampling() {
  const Sampling standard;
  temperature = standard.temperature;
  topK = standard.topK;
  topP = standard.topP;
  minP = standard.minP;
  repetitionPenalty = standard.repetitionPenalty;
  maxTokens = standard.maxTokens;
  seed = 0;
  Q_EMIT changed();
}

QString Settings::draft(qint64 conversation) const {
  return m_file.value(QStringLiteral("drafts/%1").arg(conversation)).toString();
}

void Settings::setDraft(qint64 conversation, const QString& text) {
  const QString key = QStringLiteral("drafts/%1").arg(conversation);
  if (text.isEmpty()) {
    m_file.remove(key);
  } else {
    m_file.setValue(key, text);
  }
  m_saving.start();
}

QVariant Settings::recall(const QString& key, const QVariant& otherwise) const {
  return m_file.value(QStringLiteral("window/") + key, otherwise);
}

void Settings::remember(const QString& key, const QVariant& value) {
  const QString name = QStringLiteral("window/") + key;
  if (value.isValid()) {
    m_file.setValue(name, value);
  } else {
    m_file.remove(name);
  }
  m_saving.start();
}

}  // namespace runnel::chat
