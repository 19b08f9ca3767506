/* SPDX-License-Identifier: Apache-2.0 */
/* The examples in C, compiled as C99. Files and folders are those of the current directory. */
#ifndef RUNNEL_TESTS_EXAMPLE_C99_H
#define RUNNEL_TESTS_EXAMPLE_C99_H

#include <runnel/runnel.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The example of runnel.h: loads model.gguf from the current directory and frees it. */
void runnel_example_c99(void);

/* The example of runnel_store.h: a conversation "plans" in chats.db. */
void runnel_example_store(runnel_model* model);

/* Examples of the README and of docs/library.md, on a session that has read something. */
void runnel_example_readme(runnel_session* session);
void runnel_example_loading(void);
void runnel_example_steps(runnel_session* session);

/* The example of docs/tools.md. */
void runnel_example_tools(runnel_model* model);

#ifdef __cplusplus
}
#endif

#endif
