// SPDX-License-Identifier: Apache-2.0
// What a conversation has of its own where others go by the settings; kept with it as a JSON object.
#pragma once

#include <QJsonObject>
#include <QMap>
#include <QString>
#include <string>

#include "app/chat/engine/chat_types.h"

namespace runnel::chat {

struct OwnSettings {
  ReplyForm form = {};
  QMap<QString, double> sampling = {};  // by the names of Settings::sampling
  int maxTokens = 0;                    // 0: as in the settings
  int seed = -1;                        // -1: as in the settings, 0: another one each time
  QString model = {};                   // its file; empty: as in the settings

  /// Reads {"answer": "json" or "schema", "name", "schema", "sampling": {…}, "maxTokens", "seed", "model"}, each only
  /// where it is not as in the settings. What is not understood is kept.
  static OwnSettings from(const QString& json);
  QString toJson() const;  // empty: nothing of its own
  /// What goes into a file for others: of the model its name alone.
  static std::string portable(const QString& json);

  bool samplesAsUsual() const { return sampling.isEmpty() && maxTokens == 0 && seed < 0; }
  bool operator==(const OwnSettings&) const = default;

  QJsonObject others = {};  // members that a later version wrote
};

}  // namespace runnel::chat
