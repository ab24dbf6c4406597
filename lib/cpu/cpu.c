/* SPDX-License-Identifier: Apache-2.0 */
/* cpu.c: the CPU device: its op table, opening and closing. */
#include "cpu.h"

#include "../mem.h"
#include "cpu_ops.h"

#include <stdio.h>
#include <stdlib.h>

#define LEAF_ROOM ((size_t)256 << 10) /* they stay in the L2 cache until they are folded */

const struct mint_ops cpu_ops = {
    .abi = MINT_BACKEND_ABI,
    .name = "cpu",
    .alloc = cpu_alloc,
    .free = cpu_free,
    .available = cpu_available,
    .upload = cpu_upload,
    .download = cpu_download,
    .copy = cpu_copy,
    .zero = cpu_zero,
    .weight_new = cpu_weight_new,
    .weight_free = cpu_weight_free,
    .weight_set = cpu_weight_set,
    .embed = cpu_embed,
    .rmsnorm = cpu_rmsnorm,
    .linear = cpu_linear,
    .qkv = cpu_qkv,
    .attention = cpu_attention,
    .swiglu = cpu_swiglu,
    .add = cpu_add,
    .cast = cpu_cast,
    .gather = cpu_gather,
    .scatter = cpu_scatter,
    .logprob = cpu_logprob,
    .sample = cpu_sample,
    .head_backward = cpu_head_backward,
    .linear_dx = cpu_linear_dx,
    .lora_du = cpu_lora_du,
    .outer = cpu_outer,
    .fold = cpu_fold,
    .rmsnorm_backward = cpu_rmsnorm_backward,
    .swiglu_backward = cpu_swiglu_backward,
    .attention_backward = cpu_attention_backward,
    .qkv_backward = cpu_qkv_backward,
    .adam = cpu_adam,
    .sumsq = cpu_sumsq,
    .kv_new = cpu_kv_new,
    .kv_free = cpu_kv_free,
    .kv_copy_page = cpu_kv_copy_page,
    .close = cpu_close,
};

int cpu_open(struct mint_dev **out, enum mint_precision p, int threads, struct mint_err *err)
{
    const struct cpu_isa *isa;
    *out = NULL;
    if (cpu_isa_choose(&isa, getenv("MINT_CPU_ISA"), err) != 0)
        return -1;
    struct cpu_dev *d = mint_xcalloc(1, sizeof *d);
    d->base.ops = &cpu_ops;
    d->base.precision = p;
    d->base.act_bytes = p == MINT_PRECISION_BF16 ? 2 : 4;
    d->base.packs = true;
    d->base.leaf_room = LEAF_ROOM;
    d->base.threads = threads > 0 ? threads : cpu_count();
    snprintf(d->base.kind, sizeof d->base.kind, "cpu");
    d->isa = isa;
    size_t n = (size_t)d->base.threads;
    d->scratch = mint_xcalloc(n, sizeof *d->scratch);
    d->scratch_bytes = mint_xcalloc(n, sizeof *d->scratch_bytes);
    d->panels = mint_xcalloc(n, sizeof *d->panels);
    d->panels_bytes = mint_xcalloc(n, sizeof *d->panels_bytes);
    *out = &d->base;
    return 0;
}

void cpu_close(struct mint_dev *dev)
{
    struct cpu_dev *d = cpu_dev(dev);
    if (!dev)
        return;
    cpu_pool_free(d->pool);
    for (int i = 0; i < dev->threads; i++) {
        cpu_big_free(d->scratch[i]);
        cpu_big_free(d->panels[i]);
    }
    cpu_big_free(d->work);
    free(d->scratch);
    free(d->scratch_bytes);
    free(d->panels);
    free(d->panels_bytes);
    free(d);
}
