# SPDX-License-Identifier: Apache-2.0
# Install rules: libraries, headers, CMake package, pkg-config files, program, documents and models; then packages.
#
# Components: runtime (shared libraries), development, program, chat, docs; and those that a plain `cmake --install` leaves
# out: model and model_small. What Debian wants of every package is left out by it, too.
include(CMakePackageConfigHelpers)

set(targets runnel)
if(RUNNEL_STORE)
  list(APPEND targets runnel_store_public)
endif()
if(RUNNEL_GRAMMAR)
  list(APPEND targets runnel_grammar_public)
endif()
install(TARGETS ${targets} EXPORT runnelTargets
  RUNTIME COMPONENT runtime
  LIBRARY COMPONENT runtime NAMELINK_COMPONENT development
  ARCHIVE COMPONENT development)
get_target_property(type runnel TYPE)
set(is_shared OFF)
if(type STREQUAL "SHARED_LIBRARY")
  set(is_shared ON)
endif()
if(type STREQUAL "STATIC_LIBRARY" AND CMAKE_STRIP)
  # `cmake --install --strip` leaves archives alone.
  install(CODE "
    if(CMAKE_INSTALL_DO_STRIP)
      file(GLOB archives \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/librunnel*.a\")
      execute_process(COMMAND \"${CMAKE_STRIP}\" --strip-unneeded \${archives} COMMAND_ERROR_IS_FATAL ANY)
    endif()" COMPONENT development)
endif()

set(skip "")
if(NOT RUNNEL_STORE)
  set(skip PATTERN store.h EXCLUDE PATTERN conversation.h EXCLUDE PATTERN runnel_store.h EXCLUDE)
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/runtime/include/runnel DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  COMPONENT development FILES_MATCHING PATTERN "*.h" ${skip})

file(GLOB documents CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/*.md)
install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/LICENSE ${documents}
  DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/runnel COMPONENT docs)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/runnel COMPONENT docs)

# ---- CMake package ----
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/runnel)
install(EXPORT runnelTargets NAMESPACE runnel:: DESTINATION ${package_dir} COMPONENT development)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/runnelConfig.cmake.in ${PROJECT_BINARY_DIR}/runnelConfig.cmake
  INSTALL_DESTINATION ${package_dir})
# Before 1.0 a minor version may change the C++ API.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/runnelConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/runnelConfig.cmake ${PROJECT_BINARY_DIR}/runnelConfigVersion.cmake
  DESTINATION ${package_dir} COMPONENT development)

# ---- pkg-config ----
file(RELATIVE_PATH prefix_from_pc /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" prefix_from_pc "${prefix_from_pc}")
function(runnel_pkg_config name description requires)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/${name}.pc @ONLY CONTENT
"prefix=\${pcfiledir}/@prefix_from_pc@
includedir=\${prefix}/@CMAKE_INSTALL_INCLUDEDIR@
libdir=\${prefix}/@CMAKE_INSTALL_LIBDIR@

Name: @name@
Description: @description@
Version: @PROJECT_VERSION@
Requires: @requires@
Cflags: -I\${includedir}
Libs: -L\${libdir} -l@name@ @libs@
")
  install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
endfunction()
# A shared library brings along what it needs, and a machine with it need not have that. Where there is a static one alone,
# every program that links it names all of it, so it is not private: the line is the same with and without --static.
set(needs "")
set(store_needs "")
set(libs "")
if(NOT is_shared)
  set(needs "libpcre2-8 libxxhash libzstd")
  set(store_needs "sqlite3 libxxhash")
  set(libs "-lstdc++ -lm -pthread -ldl")
  if(RUNNEL_SENTENCEPIECE)
    string(APPEND needs " sentencepiece")
  endif()
  if(RUNNEL_CUDA)
    string(APPEND libs " -L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -lrt")
  endif()
endif()
runnel_pkg_config(runnel "${PROJECT_DESCRIPTION}" "${needs}")
if(RUNNEL_STORE)
  runnel_pkg_config(runnel_store "Runnel's conversations on disk" "runnel ${store_needs}")
endif()

if(RUNNEL_GRAMMAR)
  # Named before the engine, which asks for it by a weak name only.
  set(libs "-Wl,-u,runnel_grammar_engine ${libs}")
  runnel_pkg_config(runnel_grammar "Answers of Runnel after a JSON schema or a grammar" "runnel")
endif()

if(PROJECT_IS_TOP_LEVEL)
  include(RunnelPackage)
endif()
