// SPDX-License-Identifier: Apache-2.0
/*
 * bugs.cpp: kernels with a mistake each, to show that the emulator notices it. `bugs N` runs number
 * N and ends with status 0 if nothing was noticed; what it prints may differ between schedules.
 * bugs.sh says which build has to notice which.
 */
#include "dev.h"

#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int T = 64, N = 256;

__global__ void missing_barrier(float *o, const float *x)
{
    SHARED(float, s, [T]);
    s[threadIdx.x] = x[threadIdx.x];
    if (threadIdx.x == 0) {
        float a = 0;
        for (int i = 0; i < T; i++)
            a += s[i];
        o[0] = a;
    }
}

__global__ void lockstep(float *o, const float *x) /* relies on lanes that move together */
{
    SHARED(float, s, [32]);
    int l = threadIdx.x;
    s[l] = x[l] + x[l + 32];
    for (int k = 16; k; k >>= 1)
        if (l < k)
            s[l] += s[l + k];
    if (l == 0)
        o[0] = s[0];
}

__global__ void block_race(float *o, const float *x) /* two blocks write one address */
{
    o[0] = x[0] * 64;
    if (threadIdx.x == 0)
        o[1 + blockIdx.x / 2] = (float)blockIdx.x;
}

__global__ void divergent_barrier(float *o, const float *x)
{
    if (threadIdx.x < 32) {
        o[threadIdx.x] = x[0];
        __syncthreads();
    } else {
        __syncthreads();
    }
}

__global__ void early_exit(float *o, const float *)
{
    if (threadIdx.x >= 40)
        return;
    __syncthreads();
    o[threadIdx.x] = 1;
}

__global__ void partial_shuffle(float *o, const float *x) /* full mask, half of the lanes */
{
    float v = x[threadIdx.x];
    if (threadIdx.x % 32 < 16)
        v += __shfl_xor_sync(~0u, v, 1);
    o[threadIdx.x] = v;
}

__global__ void read_past_end(float *o, const float *x)
{
    o[threadIdx.x] = x[threadIdx.x * 4 + 4];
}

__global__ void shared_overrun(float *o, const float *x)
{
    SHARED(float, a, [T]);
    SHARED(float, b, [T]);
    b[threadIdx.x] = x[threadIdx.x];
    a[threadIdx.x + 1] = x[threadIdx.x];
    __syncthreads();
    o[threadIdx.x] = b[threadIdx.x] + a[1 + threadIdx.x];
}

__global__ void uninitialised(float *o, const float *x) /* s[0] is never written */
{
    SHARED(float, s, [T]);
    if (threadIdx.x)
        s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    o[0] = s[0];
}

__global__ void no_wait(float *o, const float *x) /* a copy used before its wait */
{
    DYN_SHARED(float, s);
    cp_async16(s + threadIdx.x * 4, x + threadIdx.x * 4, true);
    cp_async_commit();
    __syncthreads();
    o[threadIdx.x] = s[threadIdx.x * 4];
    cp_async_wait<0>();
}

__global__ void warp_exchange(float *o, const float *x) /* shuffles do not order memory */
{
    SHARED(float, s, [32]);
    s[threadIdx.x] = x[threadIdx.x];
    float v = __shfl_xor_sync(~0u, x[threadIdx.x], 1);
    o[threadIdx.x] = s[threadIdx.x ^ 1] + v;
}

/* Pinned memory that is used again, or read, before a copy is known to be done. */
static float reuse_pinned(float *o, bool read)
{
    float *host, got;
    cudaMallocHost(&host, sizeof *host);
    *host = 1;
    cudaMemcpyAsync(o, host, sizeof *o, cudaMemcpyHostToDevice);
    cudaStreamSynchronize(nullptr);
    if (read)
        cudaMemcpyAsync(host, o, sizeof *o, cudaMemcpyDeviceToHost);
    else
        cudaMemcpyAsync(o, host, sizeof *o, cudaMemcpyHostToDevice);
    got = *host;
    if (!read)
        *host = 2;
    cudaFreeHost(host);
    return got;
}

static void run(int bug, float *o, const float *x)
{
    switch (bug) {
    case 1:
        LAUNCH(missing_barrier, 1, T, 0, nullptr, o, x);
        break;
    case 2:
        LAUNCH(lockstep, 1, 32, 0, nullptr, o, x);
        break;
    case 3:
        LAUNCH(block_race, 4, T, 0, nullptr, o, x);
        break;
    case 4:
        LAUNCH(divergent_barrier, 1, T, 0, nullptr, o, x);
        break;
    case 5:
        LAUNCH(early_exit, 1, T, 0, nullptr, o, x);
        break;
    case 6:
        LAUNCH(partial_shuffle, 1, T, 0, nullptr, o, x);
        break;
    case 7:
        LAUNCH(read_past_end, 1, T, 0, nullptr, o, x);
        break;
    case 8:
        LAUNCH(shared_overrun, 1, T, 0, nullptr, o, x);
        break;
    case 9:
        LAUNCH(uninitialised, 1, T, 0, nullptr, o, x);
        break;
    case 10:
        LAUNCH(no_wait, 1, T, T * 16, nullptr, o, x);
        break;
    case 11:
        LAUNCH(warp_exchange, 1, 32, 0, nullptr, o, x);
        break;
    case 12:
    case 13:
        *o = reuse_pinned(o, bug == 13);
        break;
    }
}

int main(int, char **argv)
{
    int bug = atoi(argv[1]);
    std::vector<float> hx(N), ho(N);
    for (int i = 0; i < N; i++)
        hx[i] = (float)(i % 7) + 0.25f;
    float *x, *o, want = 0;
    cudaMalloc(&x, N * sizeof *x);
    cudaMalloc(&o, N * sizeof *o);
    cudaMemcpy(x, hx.data(), N * sizeof *x, cudaMemcpyHostToDevice);
    cudaMemset(o, 0, N * sizeof *o);
    for (int i = 0; i < T; i++)
        want += hx[i];
    run(bug, o, x);
    cudaMemcpy(ho.data(), o, N * sizeof *o, cudaMemcpyDeviceToHost);
    bool bad = bug <= 2 && ho[0] != want;
    for (float f : ho)
        bad |= f != f;
    for (int i = 0; bug == 11 && i < 32; i++)
        bad |= ho[i] != 2 * hx[i ^ 1];
    printf("%.9g %.9g\n", (double)ho[0], (double)ho[1]);
    return bad;
}
