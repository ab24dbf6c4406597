/* SPDX-License-Identifier: Apache-2.0 */
/* rows_portable.c: the row code for this instruction set (rows.h). */
#define ROWS_TABLE cpu_rows_portable
#include "rows_body.h"
