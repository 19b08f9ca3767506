// SPDX-License-Identifier: Apache-2.0
// A story with two ends: reads a prompt once, keeps the state, and goes on from it twice.
//   example_story_cpp MODEL.gguf "Once upon a time"
#include <runnel/generation.h>
#include <runnel/model.h>
#include <runnel/session.h>

#include <iostream>

static int fail(const runnel::Error& error) {
  std::cerr << runnel::to_string(error.code) << ": " << error.message << '\n';
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: " << argv[0] << " MODEL.gguf PROMPT\n";
    return 2;
  }
  const auto model = runnel::Model::load(argv[1]);
  if (!model) return fail(model.error());
  std::cout << (*model)->info().name << " on " << (*model)->info().device << '\n';

  auto session = runnel::Session::create(*model);
  if (!session) return fail(session.error());
  const auto prompt = (*model)->encode(argv[2]);
  if (!prompt) return fail(prompt.error());
  if (const auto read = session->prefill(*prompt); !read) return fail(read.error());
  const auto after_prompt = session->snapshot();  // 6 MB, however long the prompt was
  if (!after_prompt) return fail(after_prompt.error());

  const auto show = [](std::string_view text) {
    std::cout << text << std::flush;
    return true;  // false would stop here
  };
  for (const unsigned seed : {1U, 2U}) {
    std::cout << "\n--- end " << seed << ": " << argv[2];
    runnel::GenerationOptions options{.sampling = (*model)->sampling(), .max_tokens = 40};
    options.sampling.seed = seed;
    const auto done = runnel::generate(*session, options, show);
    if (!done) return fail(done.error());
    if (const auto back = session->restore(*after_prompt); !back) return fail(back.error());
  }
  std::cout << "\n";
  return 0;
}
