/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device.h: the CUDA device, the host side of the plugin: what its sources share. The op table of
 * backend.h over the launchers of kernels.h; everything on one stream, in order. C in C++'s
 * clothes: no exceptions, no library of C++. Built for a device by the toolkit, or over the
 * emulator for tests (EMU: no library, kind "emulated").
 */
#ifndef MINT_DEVICE_H
#define MINT_DEVICE_H

#ifdef MINT_GPU
#include <cuda_runtime.h>
#else
#include "cuda_emu.h"
#endif

#include "kernels.h"

extern "C" {
#include "backend_plugin.h"
}

/*
 * Part of mint_dev.kind: raise it when a kernel's bits change (order of additions, block sizes,
 * functions), so that log-probabilities of before and after are not taken for equal.
 */
#define CUDA_NUMERICS 1

/* Device memory that grows and is used anew by each op: the stream orders the uses. */
struct cuda_buffer {
    void *p;
    size_t bytes;
};

/* A host array that ops bring to the device; the copy stays as long as the array has the same
 * bytes, which it has in all layers of a step. */
struct cuda_array {
    struct cuda_buffer dev;
    void *host;
    size_t bytes, room; /* of host */
};

enum cuda_slot { /* arrays that one op may need together */
                 CUDA_IDS,
                 CUDA_POS,
                 CUDA_PAGES,
                 CUDA_FREQ,
                 CUDA_ROWS,
                 CUDA_TARGET,
                 CUDA_DRAWS,
                 CUDA_LEAVES,
                 CUDA_LIST,
                 CUDA_ADDITIONS,
                 CUDA_SEQS,
                 CUDA_SEQ_PAGES,
                 CUDA_FORWARD_PLAN,
                 CUDA_BACKWARD_PLAN,
                 CUDA_SLOTS
};

enum cuda_scratch {               /* buffers that one op may need together */
                    CUDA_U,       /* act(A x), act(du) */
                    CUDA_HEAD_U,  /* act(A h) of the head */
                    CUDA_DU,      /* its gradient */
                    CUDA_PARTS,   /* partial results */
                    CUDA_LOGITS,  /* of some rows and a chunk of columns */
                    CUDA_DLOGITS, /* their gradient */
                    CUDA_CHECK,   /* what the library's product is compared with */
                    CUDA_SMALL,
                    CUDA_SCRATCHES
};

/* Pinned memory, see device_stage.cpp. */
#define CUDA_STAGE_PARTS 4
#define CUDA_STAGE_MOST  ((size_t)64 << 10) /* bytes of an array that goes through it */
struct cuda_stage {
    char *data;
    int part;    /* in use, */
    size_t used; /* and so many bytes of it */
    cudaEvent_t done[CUDA_STAGE_PARTS];
};

struct cuda_library; /* cuBLASLt */
struct cuda_comm;    /* NCCL */

struct cuda_dev {
    struct mint_dev base;  /* first */
    int index, capability; /* 90 for 9.0 */
    bool sync;             /* MINT_CUDA_SYNC: wait after each op, so that errors name theirs */
    cudaStream_t stream;
    struct cuda_library *library; /* NULL: our own products serve */
    struct cuda_comm *comm;       /* NULL: this process is alone, or has no NCCL */
    struct cuda_buffer scratch[CUDA_SCRATCHES];
    struct cuda_array array[CUDA_SLOTS];
    struct cuda_stage stage;
    /* What was planned for the sequences in CUDA_SEQS. */
    bool forward_planned, backward_planned;
    struct mint_k_attn forward_shape, backward_shape;
    struct mint_k_forward_plan forward;
    struct mint_k_backward_plan backward;
};

struct mint_weight {
    void *rows; /* act [N][K] */
    int64_t N, K;
};

struct mint_kv { /* [page][layer][k, v][kv head][MINT_KV_PAGE][head_dim], act */
    void *data;
    int32_t layers, pages, kv_heads, head_dim;
    size_t tile_bytes, page_bytes; /* of k or v of a layer's page; of a page */
};

static inline struct cuda_dev *cuda_dev(struct mint_dev *d)
{
    return (struct cuda_dev *)d;
}
static inline bool cuda_f32(const struct cuda_dev *d)
{
    return d->base.precision == MINT_PRECISION_F32;
}
/* x + n elements of act */
static inline void *cuda_at(const struct cuda_dev *d, const void *x, int64_t n)
{
    return (char *)x + n * (int64_t)d->base.act_bytes;
}
static inline bool cuda_has_lora(const struct mint_lora *l)
{
    return l && l->a;
}

/* ---- device.cpp */

/* 0, or fills err from e, what failed in words: "the copy to the device". */
int cuda_check(cudaError_t e, const char *what, struct mint_err *err);
/* After the launches of an op. */
int cuda_launched(struct cuda_dev *d, const char *op, struct mint_err *err);

/* ---- device_memory.cpp */

size_t cuda_available(struct mint_dev *d);
void *cuda_alloc(struct mint_dev *d, size_t bytes, struct mint_err *err);
void cuda_free(struct mint_dev *d, void *p);
int cuda_upload(struct mint_dev *d, void *dst, const void *host, size_t bytes,
                struct mint_err *err);
int cuda_download(struct mint_dev *d, void *host, const void *src, size_t bytes,
                  struct mint_err *err);
int cuda_copy(struct mint_dev *d, void *dst, const void *src, size_t bytes, struct mint_err *err);
int cuda_zero(struct mint_dev *d, void *p, size_t bytes, struct mint_err *err);
/* At least so many bytes, 256-byte aligned, any contents; NULL with err. Also for 0 bytes. */
void *cuda_scratch(struct cuda_dev *d, enum cuda_scratch which, size_t bytes, struct mint_err *err);
/* The array on the device; NULL with err. *fresh (may be NULL): it differs from the last one. */
const void *cuda_array(struct cuda_dev *d, enum cuda_slot slot, const void *host, size_t bytes,
                       bool *fresh, struct mint_err *err);
void cuda_memory_close(struct cuda_dev *d);

/* ---- device_stage.cpp */

int cuda_stage_open(struct cuda_stage *s, struct mint_err *err);
void cuda_stage_close(struct cuda_stage *s);
/* *p: room for a copy of up to CUDA_STAGE_MOST bytes that the caller queues next. */
int cuda_stage_take(struct cuda_stage *s, void **p, size_t bytes, cudaStream_t stream,
                    struct mint_err *err);

/* ---- device_weight.cpp */

int cuda_weight_new(struct mint_dev *d, struct mint_weight **w, const void *rows, enum mint_dtype t,
                    int64_t N, int64_t K, bool keep, bool packed, struct mint_err *err);
void cuda_weight_free(struct mint_dev *d, struct mint_weight *w);

/* ---- device_product.cpp: one product, by the library where it is known to give our bits. */

int cuda_product(struct cuda_dev *d, const struct mint_k_product *p, struct mint_err *err);

/* ---- device_library.cpp */

/* *l stays NULL where there is to be none (emulation, precision f32, MINT_CUBLAS=0). */
int cuda_library_open(struct cuda_library **l, const struct cuda_dev *d, struct mint_err *err);
void cuda_library_close(struct cuda_library *l);
/* 1: done, with the bits of mint_k_product; 0: not for the library; -1. */
int cuda_library_product(struct cuda_dev *d, const struct mint_k_product *p, struct mint_err *err);

/* ---- device_peers.cpp: NCCL */

const struct mint_peer_ops *cuda_peers(void);
void cuda_peers_close(struct mint_dev *d);

/* ---- the ops: device_linear.cpp, device_layer.cpp, device_attention.cpp, device_head.cpp,
 * device_optim.cpp. */

int cuda_linear(struct mint_dev *d, float *y, int64_t ldy, const void *x,
                const struct mint_weight *w, const float *bias, const struct mint_lora *lora,
                void *u, int64_t T, struct mint_err *err);
int cuda_linear_dx(struct mint_dev *d, float *dx, bool accumulate, const void *dy, int64_t lddy,
                   const struct mint_weight *w, const struct mint_lora *lora, const void *du,
                   int64_t T, struct mint_err *err);
int cuda_lora_du(struct mint_dev *d, float *du, const void *dy, int64_t lddy,
                 const struct mint_lora *lora, int64_t T, struct mint_err *err);
int cuda_outer(struct mint_dev *d, float *const *out, const struct mint_outer *o,
               const int64_t *first, int64_t n, struct mint_err *err);

int cuda_embed(struct mint_dev *d, float *x, const struct mint_weight *table, const int32_t *ids,
               int64_t T, struct mint_err *err);
int cuda_rmsnorm(struct mint_dev *d, void *out, const float *x, const float *w, float eps,
                 int64_t T, int64_t H, struct mint_err *err);
int cuda_rmsnorm_backward(struct mint_dev *d, float *dx, const float *dy, const float *x,
                          const float *w, float eps, int64_t T, int64_t H, struct mint_err *err);
int cuda_swiglu(struct mint_dev *d, void *out, const float *gu, int64_t T, int64_t F,
                struct mint_err *err);
int cuda_swiglu_backward(struct mint_dev *d, void *dgu, const float *dout, const float *gu,
                         int64_t T, int64_t F, struct mint_err *err);
int cuda_add(struct mint_dev *d, float *x, const float *y, int64_t n, struct mint_err *err);
int cuda_cast(struct mint_dev *d, void *out, const float *x, int64_t n, struct mint_err *err);
int cuda_gather(struct mint_dev *d, void *out, const void *x, const int32_t *rows, int64_t n,
                size_t row_bytes, struct mint_err *err);
int cuda_scatter(struct mint_dev *d, void *out, const void *x, const int32_t *rows, int64_t n,
                 size_t row_bytes, struct mint_err *err);

int cuda_kv_new(struct mint_dev *d, struct mint_kv **kv, int32_t layers, int32_t pages,
                const struct mint_attn_shape *s, struct mint_err *err);
void cuda_kv_free(struct mint_dev *d, struct mint_kv *kv);
int cuda_kv_copy_page(struct mint_dev *d, struct mint_kv *kv, int32_t to, int32_t from,
                      struct mint_err *err);
int cuda_qkv(struct mint_dev *d, void *q, struct mint_kv *kv, int32_t layer, const float *qkv,
             const float *qnorm, const float *knorm, float eps, const float *inv_freq,
             const int32_t *pos, const int32_t *pages, const struct mint_attn_shape *s, int64_t T,
             struct mint_err *err);
int cuda_qkv_backward(struct mint_dev *d, void *dqkv, const float *dq, const float *dk,
                      const float *dv, const float *qkv, const float *qnorm, const float *knorm,
                      float eps, const float *inv_freq, const int32_t *pos,
                      const struct mint_attn_shape *s, int64_t T, struct mint_err *err);
int cuda_attention(struct mint_dev *d, void *out, float *lse, const void *q,
                   const struct mint_kv *kv, int32_t layer, const struct mint_attn_shape *s,
                   const struct mint_seq *seqs, int64_t nseqs, int64_t T, struct mint_err *err);
int cuda_attention_backward(struct mint_dev *d, float *dq, float *dk, float *dv, const float *dout,
                            const void *out, const float *lse, const void *q,
                            const struct mint_kv *kv, int32_t layer,
                            const struct mint_attn_shape *s, const struct mint_seq *seqs,
                            int64_t nseqs, int64_t T, struct mint_err *err);

int cuda_logprob(struct mint_dev *d, float *lp, float *entropy, float *lse, float *logits,
                 int64_t ldl, const void *h, const struct mint_weight *head,
                 const struct mint_lora *lora, const int32_t *target, int64_t T,
                 struct mint_err *err);
int cuda_sample(struct mint_dev *d, struct mint_drawn *out, const float *logits, int64_t ldl,
                const struct mint_draw *draws, int64_t S, int64_t V, struct mint_err *err);
int cuda_head_backward(struct mint_dev *d, float *dh, float *dlora_u,
                       const struct mint_head_grad *g, const void *h,
                       const struct mint_weight *head, const struct mint_lora *lora, int64_t T,
                       const struct mint_head_leaves *leaves, struct mint_err *err);

int cuda_fold(struct mint_dev *d, const struct mint_fold *f, int64_t n, struct mint_err *err);
int cuda_adam(struct mint_dev *d, const struct mint_adam_tensor *t, int64_t n,
              const struct mint_adam *a, struct mint_err *err);
int cuda_sumsq(struct mint_dev *d, double *out, const struct mint_adam_tensor *t, int64_t n,
               struct mint_err *err);
int cuda_weight_set(struct mint_dev *d, struct mint_weight *const *w, const float *const *values,
                    int64_t n, struct mint_err *err);

void cuda_close(struct mint_dev *d);

#endif
