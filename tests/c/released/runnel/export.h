// SPDX-License-Identifier: Apache-2.0
// Marks what a shared library exports; everything else is hidden.
#pragma once

#if defined(RUNNEL_STATIC)
#define RUNNEL_API
#else
#define RUNNEL_API __attribute__((visibility("default")))
#endif
