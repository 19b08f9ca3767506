// SPDX-License-Identifier: Apache-2.0
// The tiny model that chats, a token for every byte, with a session that has read a prompt.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "runnel/constraint.h"
#include "runnel/session.h"
#include "tests/support/chat_model.h"
#include "tests/support/temporary_directory.h"

namespace runnel::test {

class ByteModelTest : public ::testing::Test {
 protected:
  ByteModelTest() {
    const TemporaryDirectory folder;
    write_chat_model(folder / "m.gguf");
    auto model = Model::load(folder / "m.gguf", {.device = "cpu", .threads = 1});
    if (!model) throw std::runtime_error(model.error().message);
    model_ = *std::move(model);
    auto made = Session::create(model_);
    if (!made) throw std::runtime_error(made.error().message);
    session_.emplace(*std::move(made));
    const auto tokens = model_->encode("Once upon a time");
    if (!tokens || !session_->prefill(*tokens)) throw std::runtime_error("prompt");
  }

  std::shared_ptr<const Constraint> compile(const ConstraintSource& source) const {
    auto made = Constraint::compile(*model_, source);
    if (!made) throw std::runtime_error(made.error().message);
    return *made;
  }

  std::shared_ptr<const Model> model_;
  std::optional<Session> session_;
};

}  // namespace runnel::test
