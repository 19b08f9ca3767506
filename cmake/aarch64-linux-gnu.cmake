# SPDX-License-Identifier: Apache-2.0
# Cross build for aarch64 with Debian's compiler. Libraries come from a folder filled by cmake/fetch-aarch64-sysroot;
# tests run under qemu-user.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

set(RUNNEL_AARCH64_SYSROOT ${CMAKE_CURRENT_LIST_DIR}/../build/aarch64-sysroot)
cmake_path(ABSOLUTE_PATH RUNNEL_AARCH64_SYSROOT NORMALIZE)
if(NOT EXISTS ${RUNNEL_AARCH64_SYSROOT}/usr)
  message(FATAL_ERROR "No aarch64 libraries in ${RUNNEL_AARCH64_SYSROOT}. Run cmake/fetch-aarch64-sysroot first.")
endif()
set(ENV{PKG_CONFIG_LIBDIR} ${RUNNEL_AARCH64_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${RUNNEL_AARCH64_SYSROOT})
list(APPEND CMAKE_PREFIX_PATH ${RUNNEL_AARCH64_SYSROOT}/usr)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH ${RUNNEL_AARCH64_SYSROOT} /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE BOTH)
set(CMAKE_EXE_LINKER_FLAGS_INIT "-Wl,-rpath-link,${RUNNEL_AARCH64_SYSROOT}/usr/lib/aarch64-linux-gnu")
set(CMAKE_BUILD_RPATH ${RUNNEL_AARCH64_SYSROOT}/usr/lib/aarch64-linux-gnu)

# One word: test discovery of CMake 3.25 splits an emulator with arguments.
set(CMAKE_CROSSCOMPILING_EMULATOR ${CMAKE_CURRENT_LIST_DIR}/run-aarch64)
