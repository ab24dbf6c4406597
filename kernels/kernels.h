/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernels.h: the C interface of the kernels, a section a source. All pointers are device pointers
 * unless named otherwise; sizes and strides are in elements; everything runs on the stream. act:
 * bf16 (f32 false) or float (f32 true). A launcher with nothing to do (T 0) launches nothing. It
 * reports no error: the caller asks cudaGetLastError. Row t of an output depends on row t of the
 * inputs only; no launch choice depends on anything but shapes that all rows share.
 */
#ifndef MINT_KERNELS_H
#define MINT_KERNELS_H

#include <stddef.h>
#include <stdint.h>

typedef struct CUstream_st *cudaStream_t;

#ifdef __cplusplus
extern "C" {
#endif

/* ---- product.cu */

/* ---- norm.cu */

/* ---- qkv.cu */

/* ---- attention.cu */

/* ---- pointwise.cu */

/* ---- head.cu */

/* ---- sample.cu */

/* ---- norm_backward.cu */

/* ---- qkv_backward.cu */

/* ---- attention_backward.cu */

/* ---- pointwise_backward.cu */

/* ---- head_backward.cu */

/* ---- optim.cu */

#ifdef __cplusplus
}
#endif
#endif
