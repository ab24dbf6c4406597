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

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct CUstream_st *cudaStream_t;

#ifdef __cplusplus
extern "C" {
#endif

/* ---- shared by the attention kernels */

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

/* ---- product.cu */

enum mint_k_store {
    MINT_K_F32, /* c f32 = v */
    MINT_K_ADD, /* c f32 += v */
    MINT_K_ACT  /* c act = v rounded */
};
enum mint_k_tile { MINT_K_ANY, MINT_K_WIDE, MINT_K_SLIM, MINT_K_THIN }; /* speed only */

/* c[M,N] from v = scale * (sum over k of a(m,k) b(n,k)) + bias[n]. a(m,k) = a[m * lda + k], or with
 * a_krows a[k * lda + m]; b likewise. a_krows only together with
 * b_krows. */
struct mint_k_product {
    const void *a, *b; /* act */
    int64_t lda, ldb;
    bool a_krows, b_krows;
    int64_t M, N, K;
    void *c;
    int64_t ldc;
    enum mint_k_store store;
    float scale;
    const float *bias; /* f32[N] or NULL */
    enum mint_k_tile tile;
    const struct mint_k_leaf *leaf; /* on the device; NULL: one product */
    int64_t leaves;
};
/* With a_krows and b_krows, several products in one launch: of a stretch of the inner dimension
 * each, k0 .. k0+K-1. K and c of struct mint_k_product do not count then; M is at most
 * MINT_K_LEAF_ROWS. */
#define MINT_K_LEAF_ROWS (16 * 65528)
struct mint_k_leaf {
    void *c;
    int64_t k0, K;
};
void mint_k_product(const struct mint_k_product *p, bool f32, cudaStream_t stream);
/* counts[t]: how many words of a[t, 0..N) and b[t, 0..N) differ; how many of b are not 0. */
void mint_k_differ(uint32_t (*counts)[2], const float *a, int64_t lda, const float *b, int64_t ldb,
                   int64_t T, int64_t N, cudaStream_t stream);

/* ---- norm.cu */

/* out act[T,H] = x / sqrt(mean(x^2) + eps) * w, row by row; x f32[T,H], w f32[H]. */
void mint_k_rmsnorm(void *out, bool f32, const float *x, const float *w, float eps, int64_t T,
                    int64_t H, cudaStream_t stream);

/* ---- qkv.cu */

/* Per head: RMS norm by qnorm, knorm f32[head_dim] (NULL: none), rotation by the float angles
 * pos[t] * inv_freq[i]; q act[T, heads * head_dim]; k and v into page pages[t], slot pos[t] %
 * MINT_K_PAGE of kv. qkv f32[T, (heads + 2 kv_heads) head_dim]; inv_freq f32[head_dim/2], pos[T],
 * pages[T]: on the device. */
void mint_k_qkv(void *q, const struct mint_k_kv *kv, bool f32, const float *qkv, const float *qnorm,
                const float *knorm, float eps, const float *inv_freq, const int32_t *pos,
                const int32_t *pages, const struct mint_k_attn *s, int64_t T, cudaStream_t stream);

/* ---- attention.cu */

#define MINT_K_ATTENTION_DIM_MAX 256 /* the greatest head_dim */

/* Who computes which rows, for one or more calls with the same sequences. Only speed depends on it.
 */
struct mint_k_forward_plan {
    int32_t tiles, splits, merges, plain; /* jobs of each kind */
    int64_t words;                        /* of the table, int32 */
    int64_t part_floats;                  /* of the scratch for partial results */
};
/* On the host, all pointers too. table NULL: only counts. The caller brings seqs, pages and table
 * (16-byte aligned) to the device. */
void mint_k_attention_plan(struct mint_k_forward_plan *plan, int32_t *table, bool f32,
                           const struct mint_k_attn *s, const struct mint_k_seq *seqs,
                           int64_t nseqs, const int32_t *pages);
/* out act[T, heads * head_dim] = softmax(q k^T scale) v, causal; lse f32[T, heads] (NULL: not
 * wanted), the natural logarithm of the sum of e^(scaled score). parts: plan->part_floats floats,
 * 16-byte aligned. */
void mint_k_attention(void *out, float *lse, bool f32, const void *q, const struct mint_k_kv *kv,
                      const struct mint_k_seq *seqs, const int32_t *pages,
                      const struct mint_k_forward_plan *plan, const int32_t *table, float *parts,
                      const struct mint_k_attn *s, cudaStream_t stream);

/* ---- pointwise.cu */

/* x f32[T,K] = rows ids[t] of the table act[*,K]; ids on the device. */
void mint_k_embed(float *x, const void *table, bool f32, const int32_t *ids, int64_t T, int64_t K,
                  cudaStream_t stream);
/* out act[T,F] = silu(g) u, g = gu[t, 0..F), u = gu[t, F..2F). */
void mint_k_swiglu(void *out, bool f32, const float *gu, int64_t T, int64_t F, cudaStream_t stream);
/* x += y; out act = x. */
void mint_k_add(float *x, const float *y, int64_t n, cudaStream_t stream);
void mint_k_cast(void *out, bool f32, const float *x, int64_t n, cudaStream_t stream);
/* out[i] = x[rows[i]]; out[rows[i]] = x[i]. rows on the device; row_bytes a multiple of 2. */
void mint_k_gather(void *out, const void *x, const int32_t *rows, int64_t n, int64_t row_bytes,
                   cudaStream_t stream);
void mint_k_scatter(void *out, const void *x, const int32_t *rows, int64_t n, int64_t row_bytes,
                    cudaStream_t stream);

/* ---- head.cu */

/* Log-softmax of rows of logits, gathered from pieces of MINT_K_CHUNK columns: a piece is 4 floats:
 * the greatest logit m, sum of e^(x - m), sum of e^(x - m) (x - m), the greatest logit that may be
 * drawn. */
#define MINT_K_CHUNK     4096
#define MINT_K_CHUNKS(V) (((V) + MINT_K_CHUNK - 1) / MINT_K_CHUNK)

/* Pieces v0 / MINT_K_CHUNK and following of chunks f32[T][MINT_K_CHUNKS(V)][4] from the logits
 * f32[T, cols] (row stride ldl) of the columns v0 .. v0+cols-1 of V; v0 is a multiple of
 * MINT_K_CHUNK, and so is cols but at the end. lp[t] = the logit of target[t] if it is among them.
 */
void mint_k_logprob_chunks(float *chunks, float *lp, const float *logits, int64_t ldl,
                           const int32_t *target, int64_t T, int64_t v0, int64_t cols, int64_t V,
                           cudaStream_t stream);
/* lp: the targets' logits become their log-probabilities; entropy, lse f32[T] or NULL. */
void mint_k_logprob_final(float *lp, float *entropy, float *lse, const float *chunks, int64_t T,
                          int64_t V, cudaStream_t stream);

/* ---- sample.cu */

struct mint_k_draw {
    float temperature, top_p;
    int32_t top_k;
    float u;
    int32_t vocab; /* struct mint_draw */
};

enum mint_k_flaw { MINT_K_FINE, MINT_K_NOT_FINITE, MINT_K_NOTHING_TO_DRAW };

struct mint_k_drawn {
    int32_t id;
    float logprob, behavior; /* struct mint_drawn */
    int32_t flaw;            /* not MINT_K_FINE: the rest is unset */
};

#define MINT_K_VOCAB_MAX (1 << 20)

/* out[S] on the device, one draw a row of logits f32[S, V] (row stride ldl, which may be 0).
 * chunks: room for S * MINT_K_CHUNKS(V) * 4 floats. The logprobs have the bits of
 * mint_k_logprob_final. */
void mint_k_sample(struct mint_k_drawn *out, float *chunks, const float *logits, int64_t ldl,
                   const struct mint_k_draw *draws, int64_t S, int64_t V, cudaStream_t stream);

/* ---- norm_backward.cu */

/* dx f32[T,H] += gradient of rmsnorm by x: r w dy - x r^3 / H sum(w dy x), r = 1 / sqrt(mean(x^2) +
 * eps). */
void mint_k_rmsnorm_backward(float *dx, const float *dy, const float *x, const float *w, float eps,
                             int64_t T, int64_t H, cudaStream_t stream);

/* ---- qkv_backward.cu */

/* dqkv act[T, (heads + 2 kv_heads) head_dim] from dq, dk, dv f32; qkv f32: the forward's input;
 * qnorm, knorm f32[head_dim] or NULL; inv_freq f32[head_dim/2], pos[T]: on the device. */
void mint_k_qkv_backward(void *dqkv, bool f32, const float *dq, const float *dk, const float *dv,
                         const float *qkv, const float *qnorm, const float *knorm, float eps,
                         const float *inv_freq, const int32_t *pos, const struct mint_k_attn *s,
                         int64_t T, cudaStream_t stream);

/* ---- attention_backward.cu */

/* Who computes what of dq, dk, dv, for one or more calls with the same sequences. Only speed
 * depends on it. */
struct mint_k_backward_plan {
    int32_t rows, slices, wholes; /* jobs of dq; of dk and dv by slices of pages and whole ones */
    int64_t words;                /* of the table, int32 */
};
/* On the host, all pointers too. table NULL: only counts. The caller brings seqs, pages and table
 * to the device. pos0 of every sequence is a multiple of MINT_K_PAGE. */
void mint_k_attention_backward_plan(struct mint_k_backward_plan *plan, int32_t *table,
                                    const struct mint_k_attn *s, const struct mint_k_seq *seqs,
                                    int64_t nseqs);
/* dq f32[T, heads * head_dim], dk, dv f32[T, kv_heads * head_dim] from dout f32[T, heads *
 * head_dim] and the forward's out, lse, q and kv. Sequences that follow one at position 0 with pos0
 * > 0 go on from its first pos0 rows. dq sums over keys, ascending; dk and dv over the rows of
 * their own sequence that see the key, ascending (heads of a group inside of tokens), then over
 * those of the sequences that go on from it, in order. Scratch: delta f32[T, heads], g act[T, heads
 * * head_dim]. The order of the sums depends on the sequence (dq) or the family (dk, dv) only. */
void mint_k_attention_backward(float *dq, float *dk, float *dv, bool f32, const float *dout,
                               const void *out, const float *lse, const void *q,
                               const struct mint_k_kv *kv, const struct mint_k_seq *seqs,
                               int64_t nseqs, const int32_t *pages,
                               const struct mint_k_backward_plan *plan, const int32_t *table,
                               float *delta, void *g, const struct mint_k_attn *s, int64_t T,
                               cudaStream_t stream);

/* ---- pointwise_backward.cu */

/* dgu act[T,2F] from dout f32[T,F] and gu f32[T,2F]: g, then u. */
void mint_k_swiglu_backward(void *dgu, bool f32, const float *dout, const float *gu, int64_t T,
                            int64_t F, cudaStream_t stream);

/* ---- head_backward.cu */

/* struct mint_head_grad; entropy and dentropy NULL: no entropy term. */
struct mint_k_head_grad {
    const int32_t *target;
    const float *lse, *dlp, *entropy, *dentropy;
};
/* dy act[T, cols] (row stride lddy) = dlp (onehot(target) - p) - dentropy p (log p + entropy), log
 * p = logit - lse, of the columns v0 .. v0+cols-1 of the vocabulary; logits f32[T, cols] (row
 * stride ldl). */
void mint_k_dlogits(void *dy, int64_t lddy, bool f32, const float *logits, int64_t ldl,
                    const struct mint_k_head_grad *g, int64_t T, int64_t v0, int64_t cols,
                    cudaStream_t stream);

/* ---- optim.cu: lists of tensors, each list in one launch. Lists are on the device. A tensor of n
 * elements is the work of (n + step - 1) / step blocks, of which the first is number `block`: the
 * sum of those of the tensors before it. blocks: of all. */

#define MINT_K_LIST_STEP   1024
#define MINT_K_SUMSQ_PIECE 16384 /* the step of sumsq */

/* Additions add0 .. add0+count-1 in order, element by element: x += y. */
struct mint_k_addition {
    float *x;
    const float *y;
};
struct mint_k_sum {
    int64_t n, block, add0, count;
};
void mint_k_fold(const struct mint_k_sum *list, int64_t count, int64_t blocks,
                 const struct mint_k_addition *add, cudaStream_t stream);

/* struct mint_adam: element by element, p (1 - lr weight_decay) - lr / bias1 m / (sqrt(v / bias2) +
 * eps). */
struct mint_k_adam_step {
    float lr, beta1, beta2, eps, weight_decay, bias1, bias2, grad_scale;
};
struct mint_k_adam_tensor {
    float *p, *m, *v;
    const float *g;
    int64_t n, block;
};
void mint_k_adam(const struct mint_k_adam_tensor *list, int64_t count, int64_t blocks,
                 const struct mint_k_adam_step *a, cudaStream_t stream);

/* out[i] = sum of squares of tensor i in double, in the order that its n decides; not finite if one
 * of x is not. parts: blocks doubles. mint_k_cast_all: out act = x. */
struct mint_k_tensor {
    const float *x;
    void *out; /* mint_k_cast_all: act */
    int64_t n, block;
};
void mint_k_sumsq(double *out, double *parts, const struct mint_k_tensor *list, int64_t count,
                  int64_t blocks, cudaStream_t stream);
void mint_k_cast_all(const struct mint_k_tensor *list, int64_t count, int64_t blocks, bool f32,
                     cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
