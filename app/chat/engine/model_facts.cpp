// SPDX-License-Identifier: Apache-2.0
#include "app/chat/engine/model_facts.h"

#include <map>

#include "app/chat/engine/convert.h"
#include "quant/formats.h"
#include "runtime/base/try.h"
#include "runtime/model/model_file.h"
#include "runtime/model/state_layout.h"
#include "runtime/model/window.h"
#include "runtime/text/chat_template.h"
#include "runtime/text/tokenizer.h"

namespace runnel::chat {
namespace {

quint64 stateBytes(const ModelFile& model) {
  return static_cast<quint64>(StateLayout::of(model.config).total_floats()) * sizeof(float);
}

Status read(ModelFacts& facts) {
  RUNNEL_TRY(const auto file, GgufFile::open(facts.file.toStdString()));
  RUNNEL_TRY(ModelFile model, ModelFile::from_gguf(file));
  std::map<std::string, std::uint64_t> bytes;  // by type
  for (const GgufTensor& tensor : file->tensors()) {
    qint64 elements = 1;
    for (const std::int64_t d : tensor.shape) elements *= d;
    facts.parameters += elements;
    facts.weightBytes += tensor.data.size();
    bytes[std::string(quant::format_of(tensor.type).name)] += tensor.data.size();
  }
  std::uint64_t most = 0;
  for (const auto& [type, sum] : bytes) {
    if (sum > most) facts.quantisation = text(type).toUpper();
    most = std::max(most, sum);
  }
  facts.name = text(model.config.name);
  facts.layers = model.config.num_layers();
  facts.width = model.config.hidden_size;
  facts.vocabulary = model.config.vocab_size;
  facts.stateBytes = stateBytes(model);
  facts.windowSlots = model.window.file_slots;
  if (facts.windowSlots > 0) {
    RUNNEL_CHECK_OK(choose_window(model, 0));
    facts.windowSlotBytes =
        (facts.stateBytes - stateBytes(model)) / static_cast<quint64>(facts.windowSlots);
  }
  RUNNEL_TRY(const auto tokenizer, Tokenizer::from_gguf(*file, model.config.vocab_size));
  if (tokenizer == nullptr)
    return fail(ErrorCode::unsupported, "the file has no tokenizer, so it cannot chat");
  RUNNEL_TRY(const ChatFormat format, chat_format_from_gguf(*file));
  if (format.style == ChatStyle::none)
    return fail(ErrorCode::unsupported,
                "its chat template is not one this app runs: ", format.reason);
  facts.canChat = true;
  return {};
}

}  // namespace

ModelFacts readModelFacts(const QString& file) {
  ModelFacts facts{.file = file};
  const Status done = read(facts);
  if (!done) facts.problem = text(done.error().message);
  return facts;
}

int fileWindowSlots(const QString& file) {
  const auto gguf = GgufFile::open(file.toStdString());
  if (!gguf) return 0;
  const auto model = ModelFile::from_gguf(*gguf);
  return model ? model->window.file_slots : 0;
}

}  // namespace runnel::chat
