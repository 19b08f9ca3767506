# SPDX-License-Identifier: Apache-2.0
# What every target of the project shares: language level, warnings, sanitizers, visibility.

include(GNUInstallDirs)
set(CMAKE_CXX_EXTENSIONS OFF)
if(PROJECT_IS_TOP_LEVEL)
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
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
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # The checks get in the way of GCC's flow analysis: it takes its own <regex> for uninitialised.
    target_compile_options(runnel_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized>)
  endif()
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

# runnel_export_only_api(TARGET MAP): a shared library shows its API alone. Instantiations of the standard library are
# visible whatever the compiler is told; the map keeps them in.
function(runnel_export_only_api target map)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "SHARED_LIBRARY")
    target_link_options(${target} PRIVATE LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/${map} LINKER:--no-undefined)
    set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/${map})
  endif()
endfunction()

# runnel_names_engine(TARGET): a shared library that is loaded by itself, as Python does, brings librunnel along from the
# folder that it lies in, though it uses nothing of it: librunnel then finds what it asks for by a weak name.
function(runnel_names_engine target)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "SHARED_LIBRARY")
    target_link_options(${target} PRIVATE LINKER:--no-as-needed)
    set_target_properties(${target} PROPERTIES INSTALL_RPATH $ORIGIN)
  endif()
endfunction()

# Of a static library, one object with nothing but the API's names: none clashes with a program's own, and what templates
# make in many objects is there once. Needs GNU's linker; CUDA's and sanitizers' objects stay as they are.
function(runnel_join_objects target)
  get_target_property(type ${target} TYPE)
  if(NOT type STREQUAL "STATIC_LIBRARY" OR RUNNEL_CUDA OR RUNNEL_SANITIZE OR RUNNEL_FUZZ OR NOT CMAKE_OBJCOPY OR NOT CMAKE_LINKER)
    return()
  endif()
  execute_process(COMMAND ${CMAKE_LINKER} --help OUTPUT_VARIABLE help ERROR_QUIET)
  if(help MATCHES "force-group-allocation")
    add_custom_command(TARGET ${target} POST_BUILD VERBATIM
      COMMAND ${PROJECT_SOURCE_DIR}/cmake/join-objects ${CMAKE_LINKER} ${CMAKE_OBJCOPY} ${CMAKE_AR} ${CMAKE_NM} ${CMAKE_READELF} $<TARGET_FILE:${target}>)
  endif()
endfunction()

# runnel_public_library(TARGET NAME MAP): a library that others link as runnel::NAME, static or shared by BUILD_SHARED_LIBS;
# MAP says what it exports.
# The public headers are in one folder; every public library gives all of them.
function(runnel_public_library target name map)
  add_library(runnel::${name} ALIAS ${target})
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/runtime/include>
                                              $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  # The headers are C++20. An installed library asks for it in runnelConfig.cmake: projects of C alone use it too.
  target_compile_features(${target} INTERFACE $<BUILD_INTERFACE:cxx_std_20>)
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name} LINKER_LANGUAGE CXX
    VERSION ${PROJECT_VERSION} SOVERSION 0)
  runnel_export_only_api(${target} ${map})
endfunction()
