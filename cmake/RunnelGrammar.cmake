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

set(xgrammar ${PROJECT_BINARY_DIR}/_deps/${xgrammar_name})
if(NOT EXISTS ${xgrammar}.done)
  file(REMOVE_RECURSE ${xgrammar})
  file(ARCHIVE_EXTRACT INPUT ${xgrammar_archive} DESTINATION ${PROJECT_BINARY_DIR}/_deps
    PATTERNS "${xgrammar_name}/cpp/*" "${xgrammar_name}/include/*" "${xgrammar_name}/3rdparty/picojson/*"
             "${xgrammar_name}/3rdparty/dlpack/include/*" "${xgrammar_name}/LICENSE" "${xgrammar_name}/NOTICE")
  # A compilation can be given up where it spends its time: between two states of an automaton (checkpoint.h).
  function(xgrammar_insert file behind text)
    file(READ ${xgrammar}/cpp/${file} source)
    string(FIND "${source}" "${behind}" at)
    if(at EQUAL -1)
      message(FATAL_ERROR "${xgrammar_name}: cpp/${file} has no \"${behind}\"")
    endif()
    string(REPLACE "${behind}" "${behind}\n    ${text}" source "${source}")
    file(WRITE ${xgrammar}/cpp/${file} "${source}")
  endfunction()
  xgrammar_insert(grammar_compiler.cc
    "auto cur_adaptive_token_mask_cache = grammar_matcher.GetAdaptiveTokenMask(is_root_rule);"
    "runnel_xgrammar_checkpoint(MemorySize(cur_adaptive_token_mask_cache) + 256);")
  xgrammar_insert(fsm.cc "while (now_process < static_cast<int>(closures.size())) {"
    "runnel_xgrammar_checkpoint(closures[now_process].size() * 16);")
  file(TOUCH ${xgrammar}.done)
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
