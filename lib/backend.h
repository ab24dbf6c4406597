/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backend.h: the op table between the model code and a device.
 *
 * Everything that the model computes goes through struct mint_ops; model code holds no #ifdef of a
 * device and never looks behind a device pointer. The CPU backend (cpu/) is linked in and is the
 * specification: another backend computes the same formulas, with its own fixed order of additions.
 *
 * Conventions
 * - Matrices are row-major. T rows are tokens of a packed batch (no padding). All sizes are in
 * elements.
 * - "f32" buffers hold float. "act" buffers hold the device's activation type: bf16 (2 bytes) with
 * precision bf16, float with precision f32; dev->act_bytes says. Rounding to act is
 * round-to-nearest-even.
 * - Row invariance: row t of every output depends only on row t of the inputs (and on the keys and
 * values that it attends to), never on T, on the other rows, or on the number of threads. Each
 * product has ONE float32 accumulator per output, k in ascending pairs, in a pair the odd k first,
 * then the even one, each by fma; subnormals are zero.
 * - Ops return 0 or -1 with *err (device failures only; wrong arguments are bugs). On a device with
 * a queue, ops are in order and download waits for them. One device handle belongs to one thread.
 */
#ifndef MINT_BACKEND_H
#define MINT_BACKEND_H

#include "base.h"
#include "err.h"
#include "safetensors.h" /* enum mint_dtype */

#define MINT_BACKEND_ABI 5
#define MINT_KV_PAGE                                                            \
    64 /* positions a KV page; also the block in which attention walks the keys \
        */

enum mint_precision { MINT_PRECISION_BF16, MINT_PRECISION_F32 };

struct mint_dev;    /* a device handle; backends put struct mint_dev first in their own */
struct mint_weight; /* a frozen or LoRA matrix [N, K], opaque */
struct mint_kv;     /* a paged key/value store, opaque */

/* LoRA of one linear map: y += scale * B (A x); u = A x is rounded to act before B. NULL a: none.
 */
struct mint_lora {
    const struct mint_weight *a; /* [r, K] */
    const struct mint_weight *b; /* [N, r] */
    int64_t rank;
    float scale; /* alpha / r */
};

/*
 * One sequence of a packed batch, for attention. Rows row0 .. row0+rows-1 of q stand at positions
 * pos0 .. pos0+rows-1; row i attends to positions 0 .. pos0+i. Position p is in page pages[p /
 * MINT_KV_PAGE] at slot p % MINT_KV_PAGE. pages is a HOST array of (pos0+rows-1)/MINT_KV_PAGE + 1
 * page numbers; several sequences may share pages (a common prompt) as long as nobody writes to a
 * shared page afterwards.
 */
struct mint_seq {
    int64_t row0, rows, pos0;
    const int32_t *pages;
};

struct mint_attn_shape {
    int32_t heads, kv_heads, head_dim; /* heads % kv_heads == 0 */
    float scale;                       /* 1 / sqrt(head_dim) */
};

/* Sampling from one row of logits. */
struct mint_draw {
    float temperature; /* 0: the greatest logit, the lowest id among equals */
    float top_p;       /* 1: all. The smallest set of most probable ids (ties: lower id first) whose
                          probability after temperature and top_k reaches top_p */
    int32_t top_k;     /* <= 0: all */
    float u; /* uniform in [0,1): the id whose cumulated probability, in ascending id order over the
                kept set, first exceeds u * total */
    int32_t vocab; /* only ids below this may be drawn (rows behind it are padding without a token);
                      <= 0: all */
};
struct mint_drawn {
    int32_t id;
    float
        logprob; /* log-softmax of the untempered logits over ALL rows of the head: the policy's */
    float behavior; /* of the distribution that was drawn from; temperature 0: 0 */
};

/*
 * Gradients of the B of the head's LoRA, one a leaf: db f32[V,r] = scale * sum over rows first[i]
 * .. first[i+1]-1, ascending, of dlogits^T u, u = act(A h). begin gives the device buffer of leaf i
 * (any contents; NULL: failed), end takes it back complete; each is called for i = 0 .. n-1 in
 * order, and few leaves are open at a time. Where an op fails, some that began do not end.
 */
struct mint_head_leaves {
    int64_t n;
    const int64_t *first; /* host, n + 1, not descending */
    float *(*begin)(void *ctx, int64_t i, struct mint_err *err);
    int (*end)(void *ctx, int64_t i, float *db, struct mint_err *err);
    void *ctx;
};

/*
 * What the loss asks of rows of the head. With p = softmax of the logits z and H its entropy, the
 * gradient by the logits is dlp (onehot(target) - p) - dentropy p (log p + H).
 */
struct mint_head_grad {
    const int32_t *target; /* host */
    const float *lse;      /* f32[T], as the next ones: from logprob */
    const float *dlp;      /* gradient by the target's log-probability */
    const float *entropy;  /* from logprob; NULL, and dentropy too: no entropy term */
    const float *dentropy; /* gradient by the entropy */
    const float *logits;   /* that logprob kept; NULL: made again, with the same bits */
    int64_t ldl;           /* their row stride */
};

/* A gradient of a matrix [M,N]: scale * sum over rows t of a[t,:]^T b[t,:]. */
struct mint_outer {
    float scale;
    const void *a; /* act, row stride lda */
    int64_t lda, M;
    const void *b; /* act, row stride ldb */
    int64_t ldb, N;
};

/* x += y, x != y */
struct mint_addition {
    float *x;
    const float *y;
};
/* Additions add[0..count), in order, of arrays of n floats. */
struct mint_fold {
    int64_t n;
    const struct mint_addition *add; /* host */
    int64_t count;
};

/* A trained tensor of n floats, its moments, its gradient. */
struct mint_adam_tensor {
    float *p, *m, *v;
    const float *g;
    int64_t n;
};

struct mint_adam {
    float lr, beta1, beta2, eps, weight_decay;
    float bias1, bias2; /* 1 - beta^step, computed by the caller in double */
    float grad_scale;   /* gradients are multiplied by this first (clipping); 1 */
};

/*
 * Between the devices of several processes, one each, all of one kind: their buffers go without
 * host memory. Calls are queued as other ops are; each send meets the receive, and each bcast
 * those, that the other processes queue in the same order.
 */
#define MINT_PEERS_ID 128
struct mint_peer_ops {
    /* Finds out whether there is a way. make: id becomes a new one, for all processes to open. */
    int (*prepare)(struct mint_dev *d, bool make, char id[MINT_PEERS_ID], struct mint_err *err);
    /* Returns when all have called it. way: what is used, in words. */
    int (*open)(struct mint_dev *d, const char id[MINT_PEERS_ID], int rank, int size, char *way,
                size_t n, struct mint_err *err);
    /* What is queued between these goes at the same time. */
    int (*begin)(struct mint_dev *d, struct mint_err *err);
    int (*end)(struct mint_dev *d, struct mint_err *err);
    int (*send)(struct mint_dev *d, int to, const void *p, size_t bytes, struct mint_err *err);
    int (*recv)(struct mint_dev *d, int from, void *p, size_t bytes, struct mint_err *err);
    /* p of root becomes p of all. */
    int (*bcast)(struct mint_dev *d, int root, void *p, size_t bytes, struct mint_err *err);
    /* Until all of it is done here, or another process is found to be lost. */
    int (*wait)(struct mint_dev *d, struct mint_err *err);
    /* Waits for nobody: what is still going on fails, here and with the others. */
    void (*close)(struct mint_dev *d);
};

struct mint_ops {
    int abi;
    const char *name; /* "cpu", "cuda" */

    /* --- memory. alloc: zeroed, 64-byte aligned (huge pages when large). */
    void *(*alloc)(struct mint_dev *d, size_t bytes, struct mint_err *err);
    void (*free)(struct mint_dev *d, void *p);
    /* Bytes that could still be allocated, roughly; for choices that change no result. */
    size_t (*available)(struct mint_dev *d);
    int (*upload)(struct mint_dev *d, void *dst, const void *host, size_t bytes,
                  struct mint_err *err);
    int (*download)(struct mint_dev *d, void *host, const void *src, size_t bytes,
                    struct mint_err *err);
    int (*copy)(struct mint_dev *d, void *dst, const void *src, size_t bytes, struct mint_err *err);
    int (*zero)(struct mint_dev *d, void *p, size_t bytes, struct mint_err *err);

    /* --- matrices. */
    /* From host rows w[N][K] of type t. keep: w stays valid and unchanged for the weight's life (an
     * mmap), so rows of the compute type need no copy; packed: pack for small T (sampling),
     * otherwise serve from rows; keep and packed: the backward and embed do not take it, so that no
     * second copy stays in memory. Precision bf16: values are rounded to bf16. Precision f32: BF16
     * rows are widened as they are used, F16 and F32 exactly. */
    int (*weight_new)(struct mint_dev *d, struct mint_weight **w, const void *rows,
                      enum mint_dtype t, int64_t N, int64_t K, bool keep, bool packed,
                      struct mint_err *err);
    void (*weight_free)(struct mint_dev *d, struct mint_weight *w);
    /* New values of w[0..n) from device buffers f32 [N,K] (LoRA after an optimiser step), rounded
     * to act. w, values: host arrays. */
    int (*weight_set)(struct mint_dev *d, struct mint_weight *const *w, const float *const *values,
                      int64_t n, struct mint_err *err);

    /* --- forward. */
    /* x[t,:] = table row ids[t], widened to f32. ids: host. table: a weight made with keep or a
     * copy. */
    int (*embed)(struct mint_dev *d, float *x, const struct mint_weight *table, const int32_t *ids,
                 int64_t T, struct mint_err *err);
    /* out[t,:] = act(x[t,:] * rsqrt(mean(x^2) + eps) * w), Zhang & Sennrich 2019. w f32[H]. */
    int (*rmsnorm)(struct mint_dev *d, void *out, const float *x, const float *w, float eps,
                   int64_t T, int64_t H, struct mint_err *err);
    /* y[t, 0..N) (row stride ldy) = x[t,:] W^T + bias + lora. bias f32[N] or NULL; lora or NULL; u
     * act[T,r]: where A x is kept, or NULL. y NULL: only u, if there is a lora. */
    int (*linear)(struct mint_dev *d, float *y, int64_t ldy, const void *x,
                  const struct mint_weight *w, const float *bias, const struct mint_lora *lora,
                  void *u, int64_t T, struct mint_err *err);
    /* Per head: optional RMS norm over head_dim (qnorm, knorm f32[head_dim] or NULL), rotary
     * embedding (rotate-half form, Su et al. 2021, positions pos[t]), then q -> q act[T,
     * heads*head_dim], k and v -> kv at layer, page pages[t], slot pos[t] % PAGE. qkv f32[T,
     * (heads+2*kv_heads)*head_dim]: q heads, k heads, v heads. pos, pages: host. inv_freq: host
     * f32[head_dim/2]; the angle is the float product pos*inv_freq. */
    int (*qkv)(struct mint_dev *d, void *q, struct mint_kv *kv, int32_t layer, const float *qkv,
               const float *qnorm, const float *knorm, float eps, const float *inv_freq,
               const int32_t *pos, const int32_t *pages, const struct mint_attn_shape *s, int64_t T,
               struct mint_err *err);
    /* out act[T, heads*head_dim] = softmax(q k^T * scale) v, causal. Blocks of MINT_KV_PAGE keys
     * from position 0, online softmax, block by block in order. lse f32[T, heads] or NULL:
     * log-sum-exp of the scaled scores, for the backward. */
    int (*attention)(struct mint_dev *d, void *out, float *lse, const void *q,
                     const struct mint_kv *kv, int32_t layer, const struct mint_attn_shape *s,
                     const struct mint_seq *seqs, int64_t nseqs, int64_t T, struct mint_err *err);
    /* out act[T,F] = silu(g) * u, g = gu[t, 0..F), u = gu[t, F..2F) (Shazeer 2020). gu f32[T, 2F].
     */
    int (*swiglu)(struct mint_dev *d, void *out, const float *gu, int64_t T, int64_t F,
                  struct mint_err *err);
    int (*add)(struct mint_dev *d, float *x, const float *y, int64_t n,
               struct mint_err *err); /* x += y */
    int (*cast)(struct mint_dev *d, void *out, const float *x, int64_t n,
                struct mint_err *err); /* f32 -> act */
    int (*gather)(struct mint_dev *d, void *out, const void *x, const int32_t *rows, int64_t n,
                  size_t row_bytes, struct mint_err *err); /* out[i] = x[rows[i]]; rows: host */
    int (*scatter)(struct mint_dev *d, void *out, const void *x, const int32_t *rows, int64_t n,
                   size_t row_bytes, struct mint_err *err); /* out[rows[i]] = x[i] */

    /* --- head. logits = linear(h). Log-sum-exp walks the vocabulary in fixed chunks, never keeping
     * [T, V]. lp[t] = logit[target[t]] - lse; entropy[t] = lse - sum p*logit (NULL: not wanted);
     * lse[t] kept for the backward (NULL: not wanted). logits f32[T, V] (row stride ldl): where
     * they are kept for the backward; NULL: they are not. */
    int (*logprob)(struct mint_dev *d, float *lp, float *entropy, float *lse, float *logits,
                   int64_t ldl, const void *h, const struct mint_weight *head,
                   const struct mint_lora *lora, const int32_t *target /* host */, int64_t T,
                   struct mint_err *err);
    /* One draw a row of logits f32[S, V] (row stride ldl). draws, out: host. The logprob has the
     * bits that op logprob gives for that target. */
    int (*sample)(struct mint_dev *d, struct mint_drawn *out, const float *logits, int64_t ldl,
                  const struct mint_draw *draws, int64_t S, int64_t V, struct mint_err *err);

    /* --- backward. "dy" inputs that feed products are rounded to act by the caller (cast) or by
     * the op before. */
    /* dh f32[T,H] = dlogits W + lora part, with the dlogits of g rounded to act, chunk by chunk.
     * dlora_u f32[T,r] (NULL: not wanted) = scale * dlogits B. leaves: where the gradients of the
     * LoRA's B go (NULL, or no LoRA: not wanted). */
    int (*head_backward)(struct mint_dev *d, float *dh, float *dlora_u,
                         const struct mint_head_grad *g, const void *h,
                         const struct mint_weight *head, const struct mint_lora *lora, int64_t T,
                         const struct mint_head_leaves *leaves, struct mint_err *err);
    /* dx f32[T,K] (row stride K) = (accumulate ? dx : 0) + dy W + du A; dy act[T,N] (row stride
     * lddy); du act[T,r] or NULL. The frozen part and the LoRA part each have their own
     * accumulator; they are added last. */
    int (*linear_dx)(struct mint_dev *d, float *dx, bool accumulate, const void *dy, int64_t lddy,
                     const struct mint_weight *w, const struct mint_lora *lora, const void *du,
                     int64_t T, struct mint_err *err);
    /* du f32[T,r] = scale * dy B. */
    int (*lora_du)(struct mint_dev *d, float *du, const void *dy, int64_t lddy,
                   const struct mint_lora *lora, int64_t T, struct mint_err *err);
    /* Gradients of one matrix, one a leaf: out[i] f32[M,N] = o over rows first[i] .. first[i+1]-1,
     * ascending, for i < n. out, first (n + 1, not descending): host arrays. */
    int (*outer)(struct mint_dev *d, float *const *out, const struct mint_outer *o,
                 const int64_t *first, int64_t n, struct mint_err *err);
    /* Sums of leaves: each of f[0..n), whose arrays are no other's. f: host. */
    int (*fold)(struct mint_dev *d, const struct mint_fold *f, int64_t n, struct mint_err *err);
    /* dx f32[T,H] += gradient through rmsnorm; dy f32[T,H]. */
    int (*rmsnorm_backward)(struct mint_dev *d, float *dx, const float *dy, const float *x,
                            const float *w, float eps, int64_t T, int64_t H, struct mint_err *err);
    /* dgu act[T,2F] from dout f32[T,F] and gu f32[T,2F]. */
    int (*swiglu_backward)(struct mint_dev *d, void *dgu, const float *dout, const float *gu,
                           int64_t T, int64_t F, struct mint_err *err);
    /* dq f32[T, heads*hd], dk, dv f32[T, kv_heads*hd] from dout f32[T, heads*hd], out act, lse.
     * A sequence at position 0 begins a family; those after it with pos0 > 0, a multiple of
     * MINT_KV_PAGE, go on from its first pos0 rows, whose dk and dv get their share too. The order
     * over sequences, queries and heads of a kv head is fixed. */
    int (*attention_backward)(struct mint_dev *d, float *dq, float *dk, float *dv,
                              const float *dout, const void *out, const float *lse, const void *q,
                              const struct mint_kv *kv, int32_t layer,
                              const struct mint_attn_shape *s, const struct mint_seq *seqs,
                              int64_t nseqs, int64_t T, struct mint_err *err);
    /* dqkv act[T,(heads+2kv)*hd] from dq, dk, dv: through the rotation and the optional head norms.
     * qkv: the forward's input. */
    int (*qkv_backward)(struct mint_dev *d, void *dqkv, const float *dq, const float *dk,
                        const float *dv, const float *qkv, const float *qnorm, const float *knorm,
                        float eps, const float *inv_freq, const int32_t *pos,
                        const struct mint_attn_shape *s, int64_t T, struct mint_err *err);

    /* --- optimiser. */
    /* Adam (Kingma & Ba 2015) with decoupled weight decay (Loshchilov & Hutter 2019), element by
     * element of t[0..n). t: host. */
    int (*adam)(struct mint_dev *d, const struct mint_adam_tensor *t, int64_t n,
                const struct mint_adam *a, struct mint_err *err);
    /* out[i], host: sum of the squares of t[i].g in double, in an order that t[i].n decides; not
     * finite if one of g is not. */
    int (*sumsq)(struct mint_dev *d, double *out, const struct mint_adam_tensor *t, int64_t n,
                 struct mint_err *err);

    /* --- KV store. */
    int (*kv_new)(struct mint_dev *d, struct mint_kv **kv, int32_t layers, int32_t pages,
                  const struct mint_attn_shape *s, struct mint_err *err);
    void (*kv_free)(struct mint_dev *d, struct mint_kv *kv);
    int (*kv_copy_page)(struct mint_dev *d, struct mint_kv *kv, int32_t to, int32_t from,
                        struct mint_err *err); /* all layers */

    void (*close)(struct mint_dev *d);

    const struct mint_peer_ops *peers; /* NULL: none */
};

/* Every backend's handle starts with this. */
struct mint_dev {
    const struct mint_ops *ops;
    enum mint_precision precision;
    size_t act_bytes; /* 2 or 4 */
    bool packs; /* weights made packed are other copies; else every weight serves for all ops */
    size_t leaf_room; /* bytes of leaves that are best computed at a time before they are folded */
    int threads;
    char kind[64]; /* what goes into records: "cpu"; two devices of one kind give the same bits */
};

/* "cpu", "cuda", "cuda:N", "auto". Without N: the first GPU, and of several processes that a
 * launcher started on a machine each takes its own (mint_ranks_local). threads 0: as many as the
 * process may use (affinity and cgroup).
 */
int mint_backend_open(struct mint_dev **d, const char *device, enum mint_precision p, int threads,
                      struct mint_err *err);
void mint_backend_close(struct mint_dev *d); /* NULL is fine */

/* Bytes of a KV page over all layers, for planning. */
size_t mint_kv_page_bytes(const struct mint_dev *d, int32_t layers,
                          const struct mint_attn_shape *s);

#endif
