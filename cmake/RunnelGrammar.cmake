# SPDX-License-Identifier: Apache-2.0
# XGrammar (Apache-2.0), which constrains output: its source distribution, fetched once, checked and built without its
# bindings to Python. Result: the object library runnel_xgrammar.
#
# Without it, as on a machine without a network, the build goes on and refuses constraints by name.
# RUNNEL_GRAMMAR_SOURCE=FILE.tar.gz takes a file that is there; RUNNEL_DOWNLOADS is where a fetched one is kept.
set(RUNNEL_GRAMMAR_SOURCE "" CACHE FILEPATH "XGrammar's source distribution (xgrammar-0.2.8.tar.gz); empty: fetched")
set(RUNNEL_DOWNLOADS ${PROJECT_SOURCE_DIR}/build/_downloads CACHE PATH "Where fetched source distributions are kept")

set(xgrammar_name xgrammar-0.2.8)
set(xgrammar_sha256 8305646fd2b319d6c3003f51a1665e54cbbe9cba1fb636bc41d0b46434ccbb80)
set(xgrammar_url https://files.pythonhosted.org/packages/03/0f/29f521535729be740779c2c98b630ef6607cf28be9b669895dd2b821ff63/${xgrammar_name}.tar.gz)

set(xgrammar_archive ${RUNNEL_GRAMMAR_SOURCE})
if(NOT xgrammar_archive)
  set(xgrammar_archive ${RUNNEL_DOWNLOADS}/${xgrammar_name}.tar.gz)
  set(xgrammar_found "")
  if(EXISTS ${xgrammar_archive})
    file(SHA256 ${xgrammar_archive} xgrammar_found)
  endif()
  if(NOT xgrammar_found STREQUAL xgrammar_sha256)
    # Under another name first: two configurations may fetch at once.
    string(RANDOM LENGTH 8 suffix)
    set(part ${xgrammar_archive}.${suffix})
    file(DOWNLOAD ${xgrammar_url} ${part} STATUS status TIMEOUT 120)
    list(GET status 0 code)
    if(code EQUAL 0)
      file(RENAME ${part} ${xgrammar_archive})
    else()
      file(REMOVE ${part})
      message(WARNING "${xgrammar_name}.tar.gz could not be fetched (${status}): this build has no constraints. Give it "
        "with -DRUNNEL_GRAMMAR_SOURCE=FILE, or ask for none: -DRUNNEL_GRAMMAR=OFF")
      set(RUNNEL_GRAMMAR OFF)
      return()
    endif()
  endif()
endif()
if(NOT EXISTS ${xgrammar_archive})
  message(FATAL_ERROR "RUNNEL_GRAMMAR_SOURCE: there is no file ${xgrammar_archive}")
endif()
file(SHA256 ${xgrammar_archive} xgrammar_found)
if(NOT xgrammar_found STREQUAL xgrammar_sha256)
  message(FATAL_ERROR "${xgrammar_archive}: SHA-256 is ${xgrammar_found}, expected ${xgrammar_sha256}")
endif()

# Unpacked anew where what is changed in it (below) has changed.
file(SHA256 ${CMAKE_CURRENT_LIST_FILE} xgrammar_changes)
set(xgrammar ${PROJECT_BINARY_DIR}/_deps/${xgrammar_name})
if(NOT EXISTS ${xgrammar}.${xgrammar_changes})
  file(REMOVE_RECURSE ${xgrammar})
  file(ARCHIVE_EXTRACT INPUT ${xgrammar_archive} DESTINATION ${PROJECT_BINARY_DIR}/_deps
    PATTERNS "${xgrammar_name}/cpp/*" "${xgrammar_name}/include/*" "${xgrammar_name}/3rdparty/picojson/*"
             "${xgrammar_name}/3rdparty/dlpack/include/*" "${xgrammar_name}/LICENSE" "${xgrammar_name}/NOTICE")
  function(xgrammar_replace file old new)
    file(READ ${xgrammar}/cpp/${file} source)
    string(FIND "${source}" "${old}" at)
    if(at EQUAL -1)
      message(FATAL_ERROR "${xgrammar_name}: cpp/${file} has no \"${old}\"")
    endif()
    string(REPLACE "${old}" "${new}" source "${source}")
    file(WRITE ${xgrammar}/cpp/${file} "${source}")
  endfunction()
  function(xgrammar_insert file behind text)
    xgrammar_replace(${file} "${behind}" "${behind}\n    ${text}")
  endfunction()
  # A compilation can be given up where it spends its time: between two states of an automaton (checkpoint.h).
  xgrammar_insert(grammar_compiler.cc
    "auto cur_adaptive_token_mask_cache = grammar_matcher.GetAdaptiveTokenMask(is_root_rule);"
    "runnel_xgrammar_checkpoint(MemorySize(cur_adaptive_token_mask_cache) + 256);")
  xgrammar_insert(fsm.cc "while (now_process < static_cast<int>(closures.size())) {"
    "runnel_xgrammar_checkpoint(closures[now_process].size() * 16);")
  # Nor does it take more memory than it may: what it makes of a text, and the places whose sizes multiply.
  xgrammar_insert(grammar_parser.cc "Consume();  // Skip '['" "runnel_xgrammar_takes(4 * sizeof(Token));")
  xgrammar_insert(grammar_parser.cc "while (Peek() && Peek() != ']') {" "runnel_xgrammar_takes(2 * sizeof(Token));")
  xgrammar_insert(grammar_parser.cc "tokens.push_back(*token_value);" "runnel_xgrammar_takes(2 * sizeof(Token));")
  xgrammar_insert(fsm.cc "int AddState() {" "runnel_xgrammar_takes(sizeof(edges_[0]));")
  xgrammar_insert(fsm.cc "void AddEdge(int from, int to, int32_t min, int32_t max) {" "runnel_xgrammar_takes(2 * sizeof(FSMEdge));")
  xgrammar_insert(grammar_functor.cc "if (info.non_last_occurrence_count == 0) {"
    "runnel_xgrammar_takes(4 * (sequence_expr.size() - j));")
  # Texts of a length have no control characters, which are no JSON.
  xgrammar_insert(json_schema_converter.cc "int32_t character =\n          builder_.AddCharacterClass({" "{0, 0x1f},")
  # A pattern that its automata cannot follow would let quotes into a text: refused, as all that is warned of.
  xgrammar_insert(json_schema_converter.cc "return builder_.AddRegex(regex, json_string);\n      }\n    }\n  }"
    "if (json_string) XGRAMMAR_LOG(WARNING) << \"pattern is not supported: \" << regex;")
  # Names that an object's schema does not list are none of those that it lists, written with escapes either, and
  # end in no middle of a character.
  xgrammar_insert(json_schema_converter.cc "for (unsigned char c : prop.name) {"
    "if (c < 0x20 || c == '\"' || c == '\\\\' || c == 0x7f) break;")
  xgrammar_replace(json_schema_converter.cc "excluded.push_back({character, character});"
    "excluded.push_back({character, character < 0x80 ? character : 0x10FFFF});")
  xgrammar_replace(json_schema_converter.cc
    "choices.push_back(Sequence({ByteString(\"\\\\\"), RuleRef(kBasicEscape), RuleRef(kBasicStringSub)}));\n  for (const auto& [character, child] : node.children) {"
    "for (const auto& [character, child] : node.children) {\n    if (character >= 0x80) continue;")
  # Quoted mail addresses would have escapes that JSON has not.
  xgrammar_replace(json_schema_converter.cc "\"^(\" + dot_string + \"|\" + quoted_string + \")@\"" "\"^\" + dot_string + \"@\"")
  # Nor have JSON pointers quotes, backslashes and control characters that stand for themselves.
  xgrammar_replace(json_schema_converter.cc "[\\\\x00-\\\\x2E]|[\\\\x30-\\\\x7D]"
    "[\\\\x20\\\\x21\\\\x23-\\\\x2E]|[\\\\x30-\\\\x5B\\\\x5D-\\\\x7D]")
  file(GLOB xgrammar_older ${xgrammar}.*)
  list(FILTER xgrammar_older EXCLUDE REGEX "tar")
  if(xgrammar_older)
    file(REMOVE ${xgrammar_older})
  endif()
  file(TOUCH ${xgrammar}.${xgrammar_changes})
endif()
file(GLOB xgrammar_sources ${xgrammar}/cpp/*.cc ${xgrammar}/cpp/support/*.cc ${xgrammar}/cpp/converter_ext/*.cc)

add_library(runnel_xgrammar OBJECT ${xgrammar_sources})
target_include_directories(runnel_xgrammar SYSTEM PUBLIC ${xgrammar}/include ${xgrammar}/3rdparty/picojson
  ${xgrammar}/3rdparty/dlpack/include)
target_compile_features(runnel_xgrammar PRIVATE cxx_std_17)
# Its messages come to runtime/grammar/, which prints nothing.
target_compile_definitions(runnel_xgrammar PUBLIC XGRAMMAR_ENABLE_CPPTRACE=0 XGRAMMAR_ENABLE_INTERNAL_CHECK=0
  XGRAMMAR_LOG_CUSTOMIZE=1)
target_compile_options(runnel_xgrammar PRIVATE -w -O2 -g0 -ffp-contract=off
  -include ${PROJECT_SOURCE_DIR}/runtime/grammar/checkpoint.h)
set_target_properties(runnel_xgrammar PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden
  VISIBILITY_INLINES_HIDDEN ON)
# Sanitizers must see all accesses of a program, or none.
if(RUNNEL_FUZZ)
  target_compile_options(runnel_xgrammar PRIVATE -O1 -fsanitize=fuzzer-no-link,address)
elseif(RUNNEL_SANITIZE MATCHES "thread")
  target_compile_options(runnel_xgrammar PRIVATE -O1 -fsanitize=thread)
elseif(RUNNEL_SANITIZE)
  target_compile_options(runnel_xgrammar PRIVATE -O1 -fsanitize=address)
endif()
