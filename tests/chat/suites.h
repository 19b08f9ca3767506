// SPDX-License-Identifier: Apache-2.0
// The suites of runnel_chat_tests.
#pragma once

#include <QObject>

int runChatModelTests(int argc, char** argv);
int runDocumentTests(int argc, char** argv);
int runListTests(int argc, char** argv);
int runMarkdownTests(int argc, char** argv);
int runEngineTests(int argc, char** argv);
int runLibraryFaultsTests(int argc, char** argv);
