/* SPDX-License-Identifier: Apache-2.0 */
/* rows_avx512bf16.c: the row code for this instruction set (rows.h). */
#define ROWS_TABLE cpu_rows_avx512bf16
#include "rows_body.h"
