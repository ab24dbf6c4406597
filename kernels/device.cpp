// SPDX-License-Identifier: Apache-2.0
/* device.cpp: the plugin's entry, opening and closing a device, errors. */
#include "device.h"

extern "C" {
#include "mem.h"
}

#include <cstdio>
#include <cstdlib>
#include <cstring>

#define LEAST_CAPABILITY 80 /* bf16 tensor cores, cp.async */
#define LEAF_ROOM        ((size_t)64 << 20)

int cuda_check(cudaError_t e, const char *what, struct mint_err *err)
{
    if (e == cudaSuccess)
        return 0;
    return mint_fail(err, MINT_EDEVICE, "the GPU failed at %s: %s (%s)", what,
                     cudaGetErrorString(e), cudaGetErrorName(e));
}

int cuda_launched(struct cuda_dev *d, const char *op, struct mint_err *err)
{
    cudaError_t e = cudaGetLastError();
    if (e == cudaSuccess && d->sync)
        e = cudaStreamSynchronize(d->stream);
    return cuda_check(e, op, err);
}

static const struct mint_ops *ops_table(void)
{
    static const struct mint_ops ops = {
        .abi = MINT_BACKEND_ABI,
        .name = "cuda",
        .alloc = cuda_alloc,
        .free = cuda_free,
        .available = cuda_available,
        .upload = cuda_upload,
        .download = cuda_download,
        .copy = cuda_copy,
        .zero = cuda_zero,
        .weight_new = cuda_weight_new,
        .weight_free = cuda_weight_free,
        .weight_set = cuda_weight_set,
        .embed = cuda_embed,
        .rmsnorm = cuda_rmsnorm,
        .linear = cuda_linear,
        .qkv = cuda_qkv,
        .attention = cuda_attention,
        .swiglu = cuda_swiglu,
        .add = cuda_add,
        .cast = cuda_cast,
        .gather = cuda_gather,
        .scatter = cuda_scatter,
        .logprob = cuda_logprob,
        .sample = cuda_sample,
        .head_backward = cuda_head_backward,
        .linear_dx = cuda_linear_dx,
        .lora_du = cuda_lora_du,
        .outer = cuda_outer,
        .fold = cuda_fold,
        .rmsnorm_backward = cuda_rmsnorm_backward,
        .swiglu_backward = cuda_swiglu_backward,
        .attention_backward = cuda_attention_backward,
        .qkv_backward = cuda_qkv_backward,
        .adam = cuda_adam,
        .sumsq = cuda_sumsq,
        .kv_new = cuda_kv_new,
        .kv_free = cuda_kv_free,
        .kv_copy_page = cuda_kv_copy_page,
        .close = cuda_close,
        .peers = cuda_peers(),
    };
    return &ops;
}

/* ---- opening: each thing that a machine may lack has its own line. */

static int check_driver(struct mint_err *err)
{
    int driver = 0;
    if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
        return mint_fail(err, MINT_EDEVICE,
                         "there is no NVIDIA driver on this machine; install it, or use --device "
                         "cpu");
    if (driver / 1000 < CUDART_VERSION / 1000)
        return mint_fail(err, MINT_EDEVICE,
                         "the NVIDIA driver is too old: it knows CUDA up to %d.%d, this backend "
                         "was built with %d.%d; update it, or use --device cpu",
                         driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000,
                         CUDART_VERSION % 1000 / 10);
    return 0;
}

static int check_index(int index, struct mint_err *err)
{
    int n = 0;
    cudaError_t e = cudaGetDeviceCount(&n);
    if (e == cudaErrorNoDevice || (e == cudaSuccess && n == 0))
        return mint_fail(err, MINT_EDEVICE,
                         "the NVIDIA driver shows no GPU; see nvidia-smi and CUDA_VISIBLE_DEVICES, "
                         "or use --device cpu");
    if (cuda_check(e, "counting the devices", err) != 0)
        return -1;
    if (index >= n)
        return mint_fail(err, MINT_EDEVICE, "there is no GPU %d: the last one is cuda:%d", index,
                         n - 1);
    return 0;
}

static int count_devices(void)
{
    int n = 0;
    return cudaGetDeviceCount(&n) == cudaSuccess ? n : 0;
}

static int look_at(struct cuda_dev *d, struct mint_err *err)
{
    struct cudaDeviceProp prop;
    if (cuda_check(cudaGetDeviceProperties(&prop, d->index), "asking for its properties", err) != 0)
        return -1;
    d->capability = prop.major * 10 + prop.minor;
    if (d->capability < LEAST_CAPABILITY)
        return mint_fail(err, MINT_EDEVICE,
                         "cuda:%d (%s) has compute capability %d.%d; %d.%d is the least", d->index,
                         prop.name, prop.major, prop.minor, LEAST_CAPABILITY / 10,
                         LEAST_CAPABILITY % 10);
#ifdef MINT_GPU
    snprintf(d->base.kind, sizeof d->base.kind, "cuda-sm%d-%d", d->capability, CUDA_NUMERICS);
#else
    snprintf(d->base.kind, sizeof d->base.kind, "cuda-emulated-%d", CUDA_NUMERICS);
#endif
    return 0;
}

static int start(struct cuda_dev *d, struct mint_err *err)
{
    if (look_at(d, err) != 0)
        return -1;
    if (cuda_check(cudaSetDevice(d->index), "taking it into use", err) != 0 ||
        cuda_check(cudaStreamCreate(&d->stream), "making a stream", err) != 0 ||
        cuda_stage_open(&d->stage, err) != 0)
        return -1;
    return cuda_library_open(&d->library, d, err);
}

static int open_device(struct mint_dev **out, int index, enum mint_precision p,
                       struct mint_err *err)
{
    *out = NULL;
    if (check_driver(err) != 0 || check_index(index, err) != 0)
        return -1;
    struct cuda_dev *d = (struct cuda_dev *)mint_xcalloc(1, sizeof *d);
    d->base.ops = ops_table();
    d->base.precision = p;
    d->base.act_bytes = p == MINT_PRECISION_BF16 ? 2 : 4;
    d->base.leaf_room = LEAF_ROOM;
    d->base.threads = 1;
    d->index = index;
    d->sync = getenv("MINT_CUDA_SYNC") != NULL;
    if (start(d, err) != 0) {
        cuda_close(&d->base);
        return -1;
    }
    *out = &d->base;
    return 0;
}

void cuda_close(struct mint_dev *dev)
{
    struct cuda_dev *d = cuda_dev(dev);
    if (!d)
        return;
    cuda_peers_close(dev);
    cuda_memory_close(d);
    cuda_library_close(d->library);
    cuda_stage_close(&d->stage);
    if (d->stream)
        cudaStreamDestroy(d->stream);
    free(d);
}

extern "C" __attribute__((visibility("default"))) const struct mint_plugin *mint_backend_entry(void)
{
    static const struct mint_plugin plugin = {MINT_BACKEND_ABI, open_device, count_devices};
    return &plugin;
}
