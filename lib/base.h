/* SPDX-License-Identifier: Apache-2.0 */
/* base.h: attributes and the few macros that every module uses. */
#ifndef MINT_BASE_H
#define MINT_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MINT_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define MINT_NORETURN     __attribute__((noreturn))
#define MINT_MUST_USE     __attribute__((warn_unused_result))
#define MINT_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define MINT_MIN(a, b)    ((a) < (b) ? (a) : (b))
#define MINT_MAX(a, b)    ((a) > (b) ? (a) : (b))

#endif
