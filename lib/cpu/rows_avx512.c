/* SPDX-License-Identifier: Apache-2.0 */
/* rows_avx512.c: the row code for this instruction set (rows.h). */
#define ROWS_TABLE cpu_rows_avx512
#include "rows_body.h"
