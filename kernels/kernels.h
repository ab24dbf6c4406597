/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernels.h: the C interface of the kernels, a section per source. All pointers are to device
 * memory; every launcher puts its work on the stream (a cudaStream_t) and returns; the caller asks
 * cudaGetLastError. Sizes and strides are in elements, matrices row-major. "act": bf16, or float
 * where f32 is true. Formulas and roundings are those of
 * ../lib/backend.h.
 */
#ifndef MINT_KERNELS_H
#define MINT_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- shared by the attention kernels. */

#define MINT_K_PAGE 64 /* MINT_KV_PAGE */

/* struct mint_seq in device memory; pages[page0 + p / MINT_K_PAGE] is the page of position p. */
struct mint_k_seq {
    int32_t row0, rows, pos0, page0;
};

/* Keys and values of one layer: position p of kv head h at page * page_stride + h * head_stride +
 * p % MINT_K_PAGE * head_dim of k, v. 16-byte aligned, strides multiples of 8. */
struct mint_k_kv {
    void *k, *v;
    int64_t page_stride, head_stride;
};

struct mint_k_attn {
    int32_t heads, kv_heads, head_dim;
    float scale;
};

/* --- norm_backward.cu */

/* dx f32[T,H] += gradient of rmsnorm by x: r w dy - x r^3 / H sum(w dy x), r = 1 / sqrt(mean(x^2) +
 * eps). */
void mint_k_rmsnorm_backward(float *dx, const float *dy, const float *x, const float *w, float eps,
                             int64_t T, int64_t H, void *stream);

/* --- qkv_backward.cu */

/* dqkv act[T, (heads + 2 kv_heads) head_dim] from dq, dk, dv f32; qkv f32: the forward's input;
 * qnorm, knorm f32[head_dim] or NULL; inv_freq f32[head_dim/2], pos[T]: on the device. */
void mint_k_qkv_backward(void *dqkv, bool f32, const float *dq, const float *dk, const float *dv,
                         const float *qkv, const float *qnorm, const float *knorm, float eps,
                         const float *inv_freq, const int32_t *pos, const struct mint_k_attn *s,
                         int64_t T, void *stream);

/* --- attention_backward.cu */

/* A piece of a sequence: its number, and the first row (dq) or the first position (dk, dv). */
struct mint_k_piece {
    int32_t seq, first;
};

/* How many tokens' rows a piece of dq has: all pieces of a sequence, first = 0, this, 2 * this, ...
 */
int64_t mint_k_attention_backward_rows(bool f32, const struct mint_k_attn *s);
/* delta f32[T, heads] = sum(dout * out) of a head; dact act[T, heads * head_dim] = dout rounded. */
void mint_k_attention_backward_delta(float *delta, void *dact, bool f32, const float *dout,
                                     const void *out, const struct mint_k_attn *s, int64_t T,
                                     void *stream);
/* dq f32[T, heads * head_dim] of npieces pieces. Keys in ascending order. */
void mint_k_attention_backward_dq(float *dq, bool f32, const void *dact, const float *delta,
                                  const float *lse, const void *q, const struct mint_k_kv *kv,
                                  const struct mint_k_seq *seqs, const int32_t *pages,
                                  const struct mint_k_piece *pieces, int64_t npieces,
                                  const struct mint_k_attn *s, void *stream);
/* dk, dv f32[T, kv_heads * head_dim] of npieces pieces: all first = pos0, pos0 + MINT_K_PAGE, ...
 * below pos0 + rows of every sequence. A position's sum takes the rows of its own sequence that see
 * it, ascending (heads of the group inside of tokens), then those of the sequences that go on from
 * it, in order. pos0 is a multiple of MINT_K_PAGE. */
void mint_k_attention_backward_dkv(float *dk, float *dv, bool f32, const void *dact,
                                   const float *delta, const float *lse, const void *q,
                                   const struct mint_k_kv *kv, const struct mint_k_seq *seqs,
                                   int64_t nseqs, const int32_t *pages,
                                   const struct mint_k_piece *pieces, int64_t npieces,
                                   const struct mint_k_attn *s, void *stream);

/* --- pointwise_backward.cu */

/* dgu act[T,2F] from dout f32[T,F], gu f32[T,2F]. */
void mint_k_swiglu_backward(void *dgu, bool f32, const float *dout, const float *gu, int64_t T,
                            int64_t F, void *stream);

/* --- head_backward.cu */

/* dy act[T, cols] (row stride lddy) = dlp[t] (onehot(target[t]) - e^(logit - lse[t])) for the
 * columns v0 .. v0+cols-1 of the vocabulary; logits f32 (row stride ldl). */
void mint_k_dlogits(void *dy, int64_t lddy, bool f32, const float *logits, int64_t ldl,
                    const float *dlp, const float *lse, const int32_t *target, int64_t T,
                    int64_t v0, int64_t cols, void *stream);

/* --- optim.cu */

struct mint_k_adam {
    float lr, beta1, beta2, eps, weight_decay, bias1, bias2, grad_scale; /* struct mint_adam */
};

void mint_k_adam(float *p, float *m, float *v, const float *g, int64_t n,
                 const struct mint_k_adam *a, void *stream);
/* *out = sum of the squares in double; not finite if one is not. parts: room for
 * MINT_K_SUMSQ_PARTS(n) doubles. */
#define MINT_K_SUMSQ_PIECE    16384
#define MINT_K_SUMSQ_PARTS(n) (((n) + MINT_K_SUMSQ_PIECE - 1) / MINT_K_SUMSQ_PIECE)
void mint_k_sumsq(double *out, double *parts, const float *g, int64_t n, void *stream);

#ifdef __cplusplus
}
#endif

#endif
