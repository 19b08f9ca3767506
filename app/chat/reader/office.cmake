# SPDX-License-Identifier: Apache-2.0
# RUNNEL_OFFICE_SOURCES: what turns office files into text, without the process around it. The reader and its fuzzer share them.
set(RUNNEL_OFFICE_SOURCES docx.cpp list_numbers.cpp odt.cpp package.cpp tidy.cpp xml.cpp)
list(TRANSFORM RUNNEL_OFFICE_SOURCES PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
