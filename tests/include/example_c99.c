/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/include/example_c99.h"

#include <runnel/runnel.h>
#include <stdio.h>

void runnel_example_c99(void) {
#include "runnel_1.inc"
}
