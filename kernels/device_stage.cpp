// SPDX-License-Identifier: Apache-2.0
/*
 * device_stage.cpp: pinned memory through which small arrays go to and from the device: a copy from
 * pageable memory may wait for all that is queued. Parts are used in turn; each has an event,
 * queued behind the last copy of a part, which is waited for before the part is used again.
 */
#include "device.h"

#define PART CUDA_STAGE_MOST /* the largest array fits */
#define LINE 64              /* arrays begin at multiples of it */

int cuda_stage_open(struct cuda_stage *s, struct mint_err *err)
{
    if (cuda_check(cudaMallocHost(&s->data, CUDA_STAGE_PARTS * PART), "taking host memory", err))
        return -1;
    for (cudaEvent_t &e : s->done)
        if (cuda_check(cudaEventCreateWithFlags(&e, cudaEventDisableTiming), "making an event",
                       err))
            return -1;
    return 0;
}

void cuda_stage_close(struct cuda_stage *s)
{
    for (cudaEvent_t e : s->done)
        if (e)
            cudaEventDestroy(e);
    cudaFreeHost(s->data);
}

/* An event that was never recorded is not waited for. */
static int next_part(struct cuda_stage *s, cudaStream_t stream, struct mint_err *err)
{
    MINT_TRY(cuda_check(cudaEventRecord(s->done[s->part], stream), "marking a copy", err));
    s->part = (s->part + 1) % CUDA_STAGE_PARTS;
    s->used = 0;
    return cuda_check(cudaEventSynchronize(s->done[s->part]), "waiting for a copy", err);
}

int cuda_stage_take(struct cuda_stage *s, void **p, size_t bytes, cudaStream_t stream,
                    struct mint_err *err)
{
    size_t whole = (bytes + LINE - 1) / LINE * LINE;
    if (whole > PART - s->used)
        MINT_TRY(next_part(s, stream, err));
    *p = s->data + (size_t)s->part * PART + s->used;
    s->used += whole;
    return 0;
}
