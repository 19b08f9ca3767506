# SPDX-License-Identifier: Apache-2.0
# Finds what Debian packages provide. Missing is an error that names the package, never a silent switch-off.
# Result: RUNNEL_PRIVATE_LIBRARIES, what the library itself links, and RUNNEL_HEADER_LIBRARIES, what it only includes.
# Imported targets are global, so that a project which adds this one as a subdirectory can link a static library.

function(runnel_missing what package)
  message(FATAL_ERROR "${what} was not found. On Debian: apt-get install ${package}")
endfunction()

set(THREADS_PREFER_PTHREAD_FLAG ON)
if(NOT TARGET Threads::Threads)
  set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)
  find_package(Threads REQUIRED)
  unset(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL)
endif()
find_package(PkgConfig QUIET)
if(NOT PKG_CONFIG_FOUND)
  runnel_missing(pkg-config pkg-config)
endif()

find_package(nlohmann_json 3.9 QUIET)
if(NOT nlohmann_json_FOUND)
  runnel_missing(nlohmann-json nlohmann-json3-dev)
endif()
pkg_check_modules(PCRE2 QUIET IMPORTED_TARGET GLOBAL libpcre2-8)
if(NOT PCRE2_FOUND)
  runnel_missing(PCRE2 libpcre2-dev)
endif()
pkg_check_modules(XXHASH QUIET IMPORTED_TARGET GLOBAL libxxhash)
if(NOT XXHASH_FOUND)
  runnel_missing(xxHash libxxhash-dev)
endif()

pkg_check_modules(ZSTD QUIET IMPORTED_TARGET GLOBAL libzstd)
if(NOT ZSTD_FOUND)
  runnel_missing(zstd libzstd-dev)
endif()

set(RUNNEL_HEADER_LIBRARIES nlohmann_json::nlohmann_json)
set(RUNNEL_PRIVATE_LIBRARIES Threads::Threads PkgConfig::PCRE2 PkgConfig::XXHASH PkgConfig::ZSTD)
if(RUNNEL_SENTENCEPIECE)
  pkg_check_modules(SENTENCEPIECE QUIET IMPORTED_TARGET GLOBAL sentencepiece)
  if(NOT SENTENCEPIECE_FOUND)
    runnel_missing(sentencepiece libsentencepiece-dev)
  endif()
  list(APPEND RUNNEL_PRIVATE_LIBRARIES PkgConfig::SENTENCEPIECE)
endif()

if(RUNNEL_VULKAN)
  # Headers only: the loader is opened at run time (runtime/backend/vulkan/driver/functions.h).
  find_path(RUNNEL_VULKAN_HEADERS vulkan/vulkan_core.h)
  if(NOT RUNNEL_VULKAN_HEADERS)
    runnel_missing("The Vulkan headers" libvulkan-dev)
  endif()
  list(APPEND RUNNEL_PRIVATE_LIBRARIES ${CMAKE_DL_LIBS})
endif()
