# SPDX-License-Identifier: Apache-2.0
# What every target of the project shares: language level, warnings, sanitizers, visibility.

set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(PROJECT_IS_TOP_LEVEL)
  set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
endif()

add_library(runnel_flags INTERFACE)
target_compile_features(runnel_flags INTERFACE cxx_std_20)
# No implicit fused multiply-add: the same source gives the same floats on every CPU; kernels fuse by name.
target_compile_options(runnel_flags INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-ffp-contract=off>
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor -Wno-missing-field-initializers>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 reports "literal" + std::string as an overlapping copy (GCC bug 105651).
  target_compile_options(runnel_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
if(RUNNEL_WERROR)
  target_compile_options(runnel_flags INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-Werror>)
endif()
if(RUNNEL_SANITIZE)
  target_compile_options(runnel_flags INTERFACE -fsanitize=${RUNNEL_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  target_link_options(runnel_flags INTERFACE -fsanitize=${RUNNEL_SANITIZE})
endif()
if(RUNNEL_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "RUNNEL_FUZZ needs clang (libFuzzer): cmake --preset fuzz")
  endif()
  # Coverage for the fuzzer in all of our code; libFuzzer's main() is linked by runnel_fuzz() alone.
  target_compile_options(runnel_flags INTERFACE -fsanitize=fuzzer-no-link,address,undefined
    -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(runnel_flags INTERFACE -fsanitize=address,undefined)
endif()

# runnel_target_defaults(TARGET): call for every target that compiles our code.
function(runnel_target_defaults target)
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:runnel_flags>)
  set_target_properties(${target} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
endfunction()
