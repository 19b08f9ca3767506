// SPDX-License-Identifier: Apache-2.0
#include "app/chat/engine/own_settings.h"

#include <QFileInfo>
#include <QJsonDocument>
#include <algorithm>

namespace runnel::chat {
namespace {

constexpr int kMostTokens = 1'000'000;

QString written(const QJsonObject& object) {
  if (object.isEmpty()) return {};
  return QString::fromUtf8(QJsonDocument(object).toJson(QJsonDocument::Compact));
}

QJsonObject read(const QString& json) { return QJsonDocument::fromJson(json.toUtf8()).object(); }

}  // namespace

OwnSettings OwnSettings::from(const QString& json) {
  OwnSettings own;
  own.others = read(json);
  const auto take = [&own](const char* key) { return own.others.take(QLatin1String(key)); };
  const QString answer = take("answer").toString();
  const QString name = take("name").toString();
  const QString schema = take("schema").toString();
  if (answer == QStringLiteral("json")) own.form.kind = ReplyForm::Json;
  if (answer == QStringLiteral("schema"))
    own.form = {.kind = ReplyForm::Schema, .name = name, .schema = schema};
  const QJsonObject sampling = take("sampling").toObject();
  for (auto number = sampling.begin(); number != sampling.end(); ++number) {
    if (number->isDouble()) own.sampling.insert(number.key(), number->toDouble());
  }
  own.maxTokens = std::clamp(take("maxTokens").toInt(), 0, kMostTokens);
  own.seed = std::max(-1, take("seed").toInt(-1));
  own.model = take("model").toString();
  return own;
}

QString OwnSettings::toJson() const {
  QJsonObject object = others;
  if (form.kind != ReplyForm::Free) {
    const bool schema = form.kind == ReplyForm::Schema;
    object.insert(QStringLiteral("answer"),
                  schema ? QStringLiteral("schema") : QStringLiteral("json"));
    if (schema) {
      object.insert(QStringLiteral("name"), form.name);
      object.insert(QStringLiteral("schema"), form.schema);
    }
  }
  if (!sampling.isEmpty()) {
    QJsonObject numbers;
    for (auto number = sampling.begin(); number != sampling.end(); ++number)
      numbers.insert(number.key(), *number);
    object.insert(QStringLiteral("sampling"), numbers);
  }
  if (maxTokens > 0) object.insert(QStringLiteral("maxTokens"), maxTokens);
  if (seed >= 0) object.insert(QStringLiteral("seed"), seed);
  if (!model.isEmpty()) object.insert(QStringLiteral("model"), model);
  return written(object);
}

std::string OwnSettings::portable(const QString& json) {
  OwnSettings own = from(json);
  own.model = QFileInfo(own.model).fileName();
  return own.toJson().toStdString();
}

}  // namespace runnel::chat
