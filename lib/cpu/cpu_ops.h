/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu_ops.h: the CPU backend's entries of struct mint_ops (backend.h says what each computes),
 * cpu_NAME for the member NAME. Memory is in cpu_mem.c, weights in cpu_weight.c, products in
 * cpu_gemm.c, the row operations beside the row code; cpu.c gathers them into the table.
 */
#ifndef MINT_CPU_OPS_H
#define MINT_CPU_OPS_H

#include "../backend.h"

extern const struct mint_ops cpu_ops;

/* Opens the CPU device: MINT_CPU_ISA is read here. threads 0: as many as the process may use. */
int cpu_open(struct mint_dev **d, enum mint_precision p, int threads, struct mint_err *err);

void *cpu_alloc(struct mint_dev *d, size_t bytes, struct mint_err *err);
void cpu_free(struct mint_dev *d, void *p);
size_t cpu_available(struct mint_dev *d);
int cpu_upload(struct mint_dev *d, void *dst, const void *host, size_t bytes, struct mint_err *err);
int cpu_download(struct mint_dev *d, void *host, const void *src, size_t bytes,
                 struct mint_err *err);
int cpu_copy(struct mint_dev *d, void *dst, const void *src, size_t bytes, struct mint_err *err);
int cpu_zero(struct mint_dev *d, void *p, size_t bytes, struct mint_err *err);
int cpu_weight_new(struct mint_dev *d, struct mint_weight **w, const void *rows, enum mint_dtype t,
                   int64_t N, int64_t K, bool keep, bool packed, struct mint_err *err);
void cpu_weight_free(struct mint_dev *d, struct mint_weight *w);
int cpu_weight_set(struct mint_dev *d, struct mint_weight *const *w, const float *const *values,
                   int64_t n, struct mint_err *err);
int cpu_embed(struct mint_dev *d, float *x, const struct mint_weight *table, const int32_t *ids,
              int64_t T, struct mint_err *err);
int cpu_rmsnorm(struct mint_dev *d, void *out, const float *x, const float *w, float eps, int64_t T,
                int64_t H, struct mint_err *err);
int cpu_linear(struct mint_dev *d, float *y, int64_t ldy, const void *x,
               const struct mint_weight *w, const float *bias, const struct mint_lora *lora,
               void *u, int64_t T, struct mint_err *err);
int cpu_qkv(struct mint_dev *d, void *q, struct mint_kv *kv, int32_t layer, const float *qkv,
            const float *qnorm, const float *knorm, float eps, const float *inv_freq,
            const int32_t *pos, const int32_t *pages, const struct mint_attn_shape *s, int64_t T,
            struct mint_err *err);
int cpu_attention(struct mint_dev *d, void *out, float *lse, const void *q,
                  const struct mint_kv *kv, int32_t layer, const struct mint_attn_shape *s,
                  const struct mint_seq *seqs, int64_t nseqs, int64_t T, struct mint_err *err);
int cpu_swiglu(struct mint_dev *d, void *out, const float *gu, int64_t T, int64_t F,
               struct mint_err *err);
int cpu_add(struct mint_dev *d, float *x, const float *y, int64_t n, struct mint_err *err);
int cpu_cast(struct mint_dev *d, void *out, const float *x, int64_t n, struct mint_err *err);
int cpu_gather(struct mint_dev *d, void *out, const void *x, const int32_t *rows, int64_t n,
               size_t row_bytes, struct mint_err *err);
int cpu_scatter(struct mint_dev *d, void *out, const void *x, const int32_t *rows, int64_t n,
                size_t row_bytes, struct mint_err *err);
int cpu_logprob(struct mint_dev *d, float *lp, float *entropy, float *lse, float *logits,
                int64_t ldl, const void *h, const struct mint_weight *head,
                const struct mint_lora *lora, const int32_t *target, int64_t T,
                struct mint_err *err);
int cpu_sample(struct mint_dev *d, struct mint_drawn *out, const float *logits, int64_t ldl,
               const struct mint_draw *draws, int64_t S, int64_t V, struct mint_err *err);
int cpu_head_backward(struct mint_dev *d, float *dh, float *dlora_u, const struct mint_head_grad *g,
                      const void *h, const struct mint_weight *head, const struct mint_lora *lora,
                      int64_t T, const struct mint_head_leaves *leaves, struct mint_err *err);
int cpu_linear_dx(struct mint_dev *d, float *dx, bool accumulate, const void *dy, int64_t lddy,
                  const struct mint_weight *w, const struct mint_lora *lora, const void *du,
                  int64_t T, struct mint_err *err);
int cpu_lora_du(struct mint_dev *d, float *du, const void *dy, int64_t lddy,
                const struct mint_lora *lora, int64_t T, struct mint_err *err);
int cpu_outer(struct mint_dev *d, float *const *out, const struct mint_outer *o,
              const int64_t *first, int64_t n, struct mint_err *err);
int cpu_fold(struct mint_dev *d, const struct mint_fold *f, int64_t n, struct mint_err *err);
int cpu_rmsnorm_backward(struct mint_dev *d, float *dx, const float *dy, const float *x,
                         const float *w, float eps, int64_t T, int64_t H, struct mint_err *err);
int cpu_swiglu_backward(struct mint_dev *d, void *dgu, const float *dout, const float *gu,
                        int64_t T, int64_t F, struct mint_err *err);
int cpu_attention_backward(struct mint_dev *d, float *dq, float *dk, float *dv, const float *dout,
                           const void *out, const float *lse, const void *q,
                           const struct mint_kv *kv, int32_t layer, const struct mint_attn_shape *s,
                           const struct mint_seq *seqs, int64_t nseqs, int64_t T,
                           struct mint_err *err);
int cpu_qkv_backward(struct mint_dev *d, void *dqkv, const float *dq, const float *dk,
                     const float *dv, const float *qkv, const float *qnorm, const float *knorm,
                     float eps, const float *inv_freq, const int32_t *pos,
                     const struct mint_attn_shape *s, int64_t T, struct mint_err *err);
int cpu_adam(struct mint_dev *d, const struct mint_adam_tensor *t, int64_t n,
             const struct mint_adam *a, struct mint_err *err);
int cpu_sumsq(struct mint_dev *d, double *out, const struct mint_adam_tensor *t, int64_t n,
              struct mint_err *err);
int cpu_kv_new(struct mint_dev *d, struct mint_kv **kv, int32_t layers, int32_t pages,
               const struct mint_attn_shape *s, struct mint_err *err);
void cpu_kv_free(struct mint_dev *d, struct mint_kv *kv);
int cpu_kv_copy_page(struct mint_dev *d, struct mint_kv *kv, int32_t to, int32_t from,
                     struct mint_err *err);
void cpu_close(struct mint_dev *d);

#endif
