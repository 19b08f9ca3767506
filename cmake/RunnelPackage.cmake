# SPDX-License-Identifier: Apache-2.0
# Debian packages: cmake --preset package && cmake --build --preset package && (cd build/package && cpack)
#   librunnel0 (shared libraries), librunnel-dev, runnel (program), runnel-model (the default model), runnel-model-small,
#   runnel-chat (RUNNEL_APP)
set(packages runtime:librunnel0 development:librunnel-dev)
if(RUNNEL_CLI)
  list(APPEND packages program:runnel model:runnel-model model_small:runnel-model-small)
  set(models ${PROJECT_SOURCE_DIR}/models)
  set(large runnel-gsa-0.5b-coder-instruct)
  foreach(part 1 2 3)
    install(FILES ${models}/${large}-0000${part}-of-00003.gguf DESTINATION ${CMAKE_INSTALL_DATADIR}/runnel COMPONENT model EXCLUDE_FROM_ALL)
  endforeach()
  install(FILES ${models}/${large}.md ${models}/${large}.notice ${models}/${large}.sources.md
    DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/runnel-model COMPONENT model EXCLUDE_FROM_ALL)
  install(FILES ${models}/runnel-gsa-135m-instruct.gguf DESTINATION ${CMAKE_INSTALL_DATADIR}/runnel COMPONENT model_small EXCLUDE_FROM_ALL)
  install(FILES ${models}/README.md DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/runnel-model-small COMPONENT model_small EXCLUDE_FROM_ALL)
  if(RUNNEL_SERVE)
    install(FILES ${PROJECT_SOURCE_DIR}/packaging/runnel.service DESTINATION lib/systemd/system COMPONENT program)
  endif()
endif()
if(TARGET runnel_chat)
  list(APPEND packages chat:runnel-chat)
  install(FILES ${PROJECT_SOURCE_DIR}/packaging/runnel-chat.desktop DESTINATION ${CMAKE_INSTALL_DATADIR}/applications
    COMPONENT chat)
  install(FILES ${PROJECT_SOURCE_DIR}/packaging/runnel-chat.svg
    DESTINATION ${CMAKE_INSTALL_DATADIR}/icons/hicolor/scalable/apps COMPONENT chat)
endif()

# What Debian wants of every package: its licence and what changed, and manual pages of programs.
find_program(GZIP gzip)
function(runnel_gzip source name out)
  set(${out} ${PROJECT_BINARY_DIR}/packaging/${name}.gz PARENT_SCOPE)
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/packaging)
  execute_process(COMMAND ${GZIP} -9nc ${source} OUTPUT_FILE ${PROJECT_BINARY_DIR}/packaging/${name}.gz
    COMMAND_ERROR_IS_FATAL ANY)
endfunction()
if(GZIP)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/packaging/changelog)
  foreach(entry IN LISTS packages)
    string(REPLACE ":" ";" entry ${entry})
    list(GET entry 0 component)
    list(GET entry 1 package)
    # The changelog of each package bears its name.
    file(READ ${PROJECT_SOURCE_DIR}/packaging/changelog changelog)
    string(REGEX REPLACE "(^|\n)runnel \\(" "\\1${package} (" changelog "${changelog}")
    file(WRITE ${PROJECT_BINARY_DIR}/packaging/changelog.${package} "${changelog}")
    runnel_gzip(${PROJECT_BINARY_DIR}/packaging/changelog.${package} changelog.${package} changelog_gz)
    set(doc ${CMAKE_INSTALL_DATADIR}/doc/${package})
    install(FILES ${changelog_gz} RENAME changelog.Debian.gz DESTINATION ${doc} COMPONENT ${component} EXCLUDE_FROM_ALL)
    install(FILES ${PROJECT_SOURCE_DIR}/packaging/copyright DESTINATION ${doc} COMPONENT ${component} EXCLUDE_FROM_ALL)
  endforeach()
  if(RUNNEL_CLI)
    runnel_gzip(${PROJECT_SOURCE_DIR}/packaging/runnel.1 runnel.1 manual_gz)
    install(FILES ${manual_gz} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program)
  endif()
  if(TARGET runnel_chat)
    runnel_gzip(${PROJECT_SOURCE_DIR}/packaging/runnel-chat.1 runnel-chat.1 manual_gz)
    install(FILES ${manual_gz} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT chat)
  endif()
  install(FILES ${PROJECT_SOURCE_DIR}/packaging/librunnel0.lintian RENAME librunnel0
    DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides COMPONENT runtime EXCLUDE_FROM_ALL)
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VENDOR "Runnel")
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(RUNNEL_PACKAGE_MAINTAINER "Runnel developers <runnel@localhost.localdomain>" CACHE STRING "Who made the packages: Name <address>")
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "${RUNNEL_PACKAGE_MAINTAINER}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # each package has its own
set(CPACK_DEBIAN_COMPRESSION_TYPE gzip)  # weights do not get smaller, only slower to pack
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_COMPONENTS_ALL "")
foreach(entry IN LISTS packages)
  string(REPLACE ":" ";" entry ${entry})
  list(GET entry 0 component)
  list(GET entry 1 package)
  list(APPEND CPACK_COMPONENTS_ALL ${component})
  string(TOUPPER ${component} C)
  set(CPACK_DEBIAN_${C}_PACKAGE_NAME ${package})
endforeach()

# Shared libraries that the packages need are found by dpkg-shlibdeps, which knows only this machine's architecture.
if(CMAKE_CROSSCOMPILING)
  set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)
  set(base "libc6 (>= 2.36), libgcc-s1 (>= 4.2), libstdc++6 (>= 12), libpcre2-8-0 (>= 10.22), libsqlite3-0 (>= 3.5.9), libxxhash0 (>= 0.8.0), libzstd1 (>= 1.5.2)")
  if(RUNNEL_SENTENCEPIECE)
    string(APPEND base ", libsentencepiece0 (>= 0.1.97)")
  endif()
  set(CPACK_DEBIAN_RUNTIME_PACKAGE_DEPENDS "${base}")
  set(CPACK_DEBIAN_PROGRAM_PACKAGE_DEPENDS "${base}")
else()
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR} ${PROJECT_BINARY_DIR}/runtime/store)
endif()

# CPack indents lines and marks empty ones as Debian wants it.
set(about "Runnel runs quantised recurrent language models, Gated Slot Attention first,
on the machine in front of you. The memory of a conversation has one constant
size, so it can be saved, reopened at once, forked and rewound.")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/packaging/triggers)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_MULTIARCH same)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SUGGESTS libvulkan1)
set(CPACK_DEBIAN_RUNTIME_DESCRIPTION "streaming generation with recurrent language models
${about}

This package has the shared libraries.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_MULTIARCH same)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "librunnel0 (= ${PROJECT_VERSION}-1)")
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION "streaming generation with recurrent language models (development)
${about}

This package has headers for C++20 and C99, a CMake package and pkg-config
files.")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION misc)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS libvulkan1)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS "runnel-model | runnel-model-small")
set(CPACK_DEBIAN_PROGRAM_DESCRIPTION "chat with a language model on this machine
${about}

This package has the command line program, which also serves an
OpenAI-compatible HTTP interface.")
foreach(model MODEL MODEL_SMALL)
  set(CPACK_DEBIAN_${model}_PACKAGE_SECTION misc)
  set(CPACK_DEBIAN_${model}_PACKAGE_ARCHITECTURE all)
  set(CPACK_DEBIAN_${model}_PACKAGE_SHLIBDEPS OFF)
endforeach()
set(CPACK_DEBIAN_MODEL_DESCRIPTION "language model for runnel, 422 million parameters
${about}

This package has the default model, which chats and writes code: 246 MB.")
set(CPACK_DEBIAN_MODEL_SMALL_DESCRIPTION "language model for runnel, 138 million parameters
${about}

This package has the model for devices with less than 1 GB of memory: 98 MB.
It is called by its name: runnel chat -m small.")
set(CPACK_DEBIAN_CHAT_PACKAGE_SECTION misc)
# QML modules are loaded by name: no shared library tells of them.
set(CPACK_DEBIAN_CHAT_PACKAGE_DEPENDS "runnel (= ${PROJECT_VERSION}-1), qml6-module-qtqml, qml6-module-qtqml-workerscript, \
qml6-module-qtquick, qml6-module-qtquick-controls, qml6-module-qtquick-layouts, \
qml6-module-qtquick-templates, qml6-module-qtquick-window, libqt6svg6")
# Answers may be in any script and hold signs and formulas.
set(CPACK_DEBIAN_CHAT_PACKAGE_RECOMMENDS "fonts-noto-core, fonts-noto-cjk, fonts-noto-color-emoji")
set(CPACK_DEBIAN_CHAT_DESCRIPTION "chat window for language models on this machine
${about}

This package has the chat window.")
include(CPack)
