/* SPDX-License-Identifier: Apache-2.0 */
/* The example of runnel.h, compiled as C99. */
#ifndef RUNNEL_TESTS_EXAMPLE_C99_H
#define RUNNEL_TESTS_EXAMPLE_C99_H

#ifdef __cplusplus
extern "C" {
#endif

/* Loads model.gguf from the current directory and frees it. */
void runnel_example_c99(void);

#ifdef __cplusplus
}
#endif

#endif
