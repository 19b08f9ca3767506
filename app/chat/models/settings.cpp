// SPDX-License-Identifier: Apache-2.0
#include "app/chat/models/settings.h"

#include <QFile>
#include <QMetaProperty>
#include <QRandomGenerator>
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "runtime/model/sampling_keys.h"

namespace runnel::chat {
namespace {

constexpr int kSaveAfterMs = 400;

// What of the sampling can be chosen: a number or a whole one, and its range.
struct SamplingChoice {
  const char* name;
  float SamplingOptions::*number;
  std::int32_t SamplingOptions::*whole;
  double least;
  double most;
};
constexpr SamplingChoice kSamplingChoices[] = {
    {"temperature", &SamplingOptions::temperature, nullptr, 0.0, 2.0},
    {"topP", &SamplingOptions::top_p, nullptr, 0.01, 1.0},
    {"topK", nullptr, &SamplingOptions::top_k, 0.0, 1000.0},
    {"minP", &SamplingOptions::min_p, nullptr, 0.0, 0.99},
    {"repetitionPenalty", &SamplingOptions::repetition_penalty, nullptr, 0.5, 2.0},
    {"dryMultiplier", &SamplingOptions::dry_multiplier, nullptr, 0.0, 5.0},
};

void apply(const SamplingChoice& choice, double value, SamplingOptions& sampling) {
  if (choice.number != nullptr) sampling.*choice.number = static_cast<float>(value);
  if (choice.whole != nullptr) sampling.*choice.whole = static_cast<std::int32_t>(value);
}

QVariantMap shown(const SamplingOptions& sampling) {
  QVariantMap numbers;
  for (const SamplingChoice& c : kSamplingChoices) {
    // A float's 0.7 is 0.699999988; what is shown and compared is the number it was written as.
    constexpr double kDigits = 1e6;
    const double value = c.number != nullptr
                             ? std::round(double{sampling.*c.number} * kDigits) / kDigits
                             : static_cast<double>(sampling.*c.whole);
    numbers.insert(QLatin1String(c.name), value);
  }
  return numbers;
}

QString samplingKey(const SamplingChoice& choice) {
  return QStringLiteral("sampling/") + QLatin1String(choice.name);
}

// The properties of this class that are kept, not those of QObject.
template <class Use>
void eachProperty(const QMetaObject& meta, const Use& use) {
  for (int i = meta.propertyOffset(); i < meta.propertyCount(); ++i) {
    if (meta.property(i).isStored()) use(meta.property(i));
  }
}

}  // namespace

Settings::Settings(const QString& file, QObject* parent)
    : QObject(parent), m_recommended(default_sampling()), m_file(file, QSettings::IniFormat) {
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
  for (const SamplingChoice& c : kSamplingChoices) {
    const QVariant stored = m_file.value(samplingKey(c));
    if (stored.isValid()) chooseSampling(QLatin1String(c.name), stored.toDouble());
  }
  bound();
}

void Settings::bound() {
  const auto number = [](double value, double low, double high, double otherwise) {
    return value >= low && value <= high ? value : otherwise;  // also of what is no number
  };
  fontScale = number(fontScale, 0.8, 2.0, 1.0);
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
  for (const SamplingChoice& c : kSamplingChoices) {
    const auto chosen = m_chosen.constFind(QLatin1String(c.name));
    if (chosen != m_chosen.cend()) {
      m_file.setValue(samplingKey(c), *chosen);
    } else {
      m_file.remove(samplingKey(c));
    }
  }
  m_file.sync();
  // A system prompt is nobody else's business.
  QFile::setPermissions(m_file.fileName(), QFile::ReadOwner | QFile::WriteOwner);
}

SamplingOptions Settings::sampling() const { return sampling({}, -1); }

SamplingOptions Settings::sampling(const QMap<QString, double>& own, int ownSeed) const {
  SamplingOptions sampling = m_recommended;
  for (const SamplingChoice& c : kSamplingChoices) {
    const QLatin1String name(c.name);
    const auto chosen = m_chosen.constFind(name);
    if (chosen != m_chosen.cend()) apply(c, *chosen, sampling);
    const auto owned = own.constFind(name);
    if (owned != own.cend() && inRange(name, *owned)) apply(c, *owned, sampling);
  }
  const int fixed = ownSeed >= 0 ? ownSeed : seed;
  sampling.seed =
      fixed > 0 ? static_cast<quint64>(fixed) : QRandomGenerator::global()->generate64();
  return sampling;
}

QVariantMap Settings::shownSampling() const { return shown(sampling()); }

QVariantMap Settings::shownSampling(const QMap<QString, double>& own) const {
  return shown(sampling(own, -1));
}

bool Settings::inRange(const QString& name, double value) {
  return std::any_of(std::begin(kSamplingChoices), std::end(kSamplingChoices),
                     [&](const SamplingChoice& c) {
                       return name == QLatin1String(c.name) && value >= c.least && value <= c.most;
                     });
}

QVariantMap Settings::modelSampling() const { return shown(m_recommended); }

void Settings::recommend(const SamplingOptions& sampling) {
  m_recommended = sampling;
  Q_EMIT changed();
}

void Settings::chooseSampling(const QString& name, double value) {
  if (!inRange(name, value)) return;
  m_chosen.insert(name, value);
  Q_EMIT changed();
}

void Settings::resetSampling() {
  m_chosen.clear();
  maxTokens = kMaxTokens;
  seed = 0;
  Q_EMIT changed();
}

QHash<qint64, QString> Settings::olderDrafts() const {
  QHash<qint64, QString> drafts;
  for (const QString& key : m_file.allKeys()) {
    if (key.startsWith(QStringLiteral("drafts/")))
      drafts.insert(key.section(u'/', 1).toLongLong(), m_file.value(key).toString());
  }
  return drafts;
}

void Settings::forgetOlderDrafts() {
  m_file.remove(QStringLiteral("drafts"));
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
