/* SPDX-License-Identifier: Apache-2.0 */
/*
 * emu_runtime.h: the calls of the CUDA runtime that the host code uses, for the emulator. Work is
 * done at once; fresh memory is NaN. Only pinned memory shows that copies take time: until an event
 * or a synchronisation behind such a copy was waited for, what it brings is NaN, and writing to
 * what it takes is a fault, which that wait finds. What a machine lacks can be played:
 *
 *   EMU_DRIVER=N    the driver's version, as 13000 for 13.0; 0: there is none
 *   EMU_DEVICES=N   that many devices (1)
 *   EMU_CAPABILITY=N  their compute capability (90)
 *   EMU_MEMORY=N    bytes of device memory (2 GiB)
 */
#ifndef EMU_RUNTIME_H
#define EMU_RUNTIME_H

enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInsufficientDriver = 35,
    cudaErrorNoDevice = 100,
    cudaErrorInvalidDevice = 101,
    cudaErrorNotReady = 600
};
enum cudaMemcpyKind {
    cudaMemcpyHostToHost,
    cudaMemcpyHostToDevice,
    cudaMemcpyDeviceToHost,
    cudaMemcpyDeviceToDevice,
    cudaMemcpyDefault
};
typedef struct CUstream_st *cudaStream_t;
typedef struct emu_event *cudaEvent_t;
enum { cudaEventDisableTiming = 2 };
struct cudaDeviceProp {
    char name[256];
    size_t totalGlobalMem, sharedMemPerBlockOptin;
    int major, minor, multiProcessorCount;
};
#define CUDART_VERSION 13000

namespace emu
{

inline size_t memory_used = 0;

inline size_t number(const char *variable, size_t otherwise)
{
    const char *s = getenv(variable);
    return s && *s ? strtoull(s, nullptr, 10) : otherwise;
}

inline size_t memory_total()
{
    return number("EMU_MEMORY", (size_t)2 << 30);
}

/* The size lies before the block, so that what is freed is counted; the block itself has exactly
 * the size that was asked for, and so a tight red zone. */
constexpr size_t HEAD = 256;

inline cudaError_t malloc_device(void **p, size_t n)
{
    char *base = nullptr;
    if (n > memory_total() - memory_used || posix_memalign((void **)&base, HEAD, n + HEAD))
        return cudaErrorMemoryAllocation;
    memcpy(base, &n, sizeof n);
    memory_used += n;
    memset(base + HEAD, 0xff, n);
    *p = base + HEAD;
    return cudaSuccess;
}

/* Copies between the device and pinned memory that may not be done yet, in order. */
struct HostCopy {
    unsigned long number;
    char *host;
    std::vector<char> bytes; /* what they bring or took */
    bool brings;
};
inline std::vector<HostCopy> copies;
inline unsigned long copies_begun = 0;
inline std::vector<std::pair<char *, size_t>> pinned;

inline bool is_pinned(const void *p)
{
    for (auto &r : pinned)
        if ((const char *)p >= r.first && (const char *)p < r.first + r.second)
            return true;
    return false;
}

/* All up to this one are done. */
inline void finish_copies(unsigned long number)
{
    size_t n = 0;
    for (; n < copies.size() && copies[n].number <= number; n++) {
        HostCopy &c = copies[n];
        if (c.brings)
            memcpy(c.host, c.bytes.data(), c.bytes.size());
        else if (memcmp(c.host, c.bytes.data(), c.bytes.size()))
            fail("pinned memory was written to before a copy from it was known to be done");
    }
    copies.erase(copies.begin(), copies.begin() + (long)n);
}

inline void begin_copy(void *host, const void *bytes, size_t n, bool brings)
{
    const char *from = (const char *)bytes;
    copies.push_back({++copies_begun, (char *)host, std::vector<char>(from, from + n), brings});
    if (brings)
        memset(host, 0xff, n);
}

} // namespace emu

struct emu_event {
    unsigned long number;
};
static inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned)
{
    *e = new emu_event{0};
    return cudaSuccess;
}
static inline cudaError_t cudaEventDestroy(cudaEvent_t e)
{
    delete e;
    return cudaSuccess;
}
static inline cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t)
{
    e->number = emu::copies_begun;
    return cudaSuccess;
}
static inline cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
    emu::finish_copies(e->number);
    return cudaSuccess;
}
template <class T> static inline cudaError_t cudaMallocHost(T **p, size_t n)
{
    *p = (T *)malloc(n);
    emu::pinned.push_back({(char *)*p, n});
    return *p ? cudaSuccess : cudaErrorMemoryAllocation;
}
static inline cudaError_t cudaFreeHost(void *p)
{
    emu::finish_copies(emu::copies_begun);
    for (size_t i = 0; i < emu::pinned.size(); i++)
        if (emu::pinned[i].first == p)
            emu::pinned.erase(emu::pinned.begin() + (long)i);
    free(p);
    return cudaSuccess;
}
template <class T> static inline cudaError_t cudaMalloc(T **p, size_t n)
{
    return emu::malloc_device((void **)p, n);
}
static inline cudaError_t cudaFree(void *p)
{
    size_t n;
    if (!p)
        return cudaSuccess;
    memcpy(&n, (char *)p - emu::HEAD, sizeof n);
    emu::memory_used -= n;
    free((char *)p - emu::HEAD);
    return cudaSuccess;
}
static inline cudaError_t cudaMemGetInfo(size_t *left, size_t *total)
{
    *total = emu::memory_total();
    *left = *total - emu::memory_used;
    return cudaSuccess;
}
static inline cudaError_t cudaMemcpy(void *d, const void *s, size_t n, cudaMemcpyKind)
{
    memcpy(d, s, n);
    return cudaSuccess;
}
static inline cudaError_t cudaMemcpyAsync(void *d, const void *s, size_t n, cudaMemcpyKind kind,
                                          cudaStream_t = nullptr)
{
    if (kind == cudaMemcpyDeviceToHost && emu::is_pinned(d)) {
        emu::begin_copy(d, s, n, true);
        return cudaSuccess;
    }
    if (kind == cudaMemcpyHostToDevice && emu::is_pinned(s))
        emu::begin_copy((void *)(uintptr_t)s, s, n, false);
    memcpy(d, s, n);
    return cudaSuccess;
}
static inline cudaError_t cudaMemcpy2DAsync(void *d, size_t ldd, const void *s, size_t lds,
                                            size_t width, size_t height, cudaMemcpyKind,
                                            cudaStream_t = nullptr)
{
    for (size_t i = 0; i < height; i++)
        memcpy((char *)d + i * ldd, (const char *)s + i * lds, width);
    return cudaSuccess;
}
static inline cudaError_t cudaMemset(void *d, int v, size_t n)
{
    memset(d, v, n);
    return cudaSuccess;
}
static inline cudaError_t cudaMemsetAsync(void *d, int v, size_t n, cudaStream_t = nullptr)
{
    memset(d, v, n);
    return cudaSuccess;
}
static inline cudaError_t cudaDriverGetVersion(int *v)
{
    *v = (int)emu::number("EMU_DRIVER", CUDART_VERSION);
    return cudaSuccess;
}
static inline cudaError_t cudaGetDeviceCount(int *n)
{
    if (emu::number("EMU_DRIVER", CUDART_VERSION) < CUDART_VERSION)
        return cudaErrorInsufficientDriver;
    *n = (int)emu::number("EMU_DEVICES", 1);
    return *n ? cudaSuccess : cudaErrorNoDevice;
}
static inline cudaError_t cudaSetDevice(int i)
{
    return i < (int)emu::number("EMU_DEVICES", 1) ? cudaSuccess : cudaErrorInvalidDevice;
}
static inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int)
{
    memset(p, 0, sizeof *p);
    strcpy(p->name, "emulated");
    p->totalGlobalMem = emu::memory_total();
    p->sharedMemPerBlockOptin = emu::SMEM_MAX;
    p->major = (int)emu::number("EMU_CAPABILITY", 90) / 10;
    p->minor = (int)emu::number("EMU_CAPABILITY", 90) % 10;
    p->multiProcessorCount = 132;
    return cudaSuccess;
}
static inline cudaError_t cudaStreamCreate(cudaStream_t *s)
{
    *s = nullptr;
    return cudaSuccess;
}
static inline cudaError_t cudaStreamDestroy(cudaStream_t)
{
    return cudaSuccess;
}
static inline cudaError_t cudaStreamQuery(cudaStream_t)
{
    emu::finish_copies(emu::copies_begun);
    return cudaSuccess;
}
static inline cudaError_t cudaStreamSynchronize(cudaStream_t)
{
    emu::finish_copies(emu::copies_begun);
    return cudaSuccess;
}
static inline cudaError_t cudaDeviceSynchronize()
{
    return cudaStreamSynchronize(nullptr);
}
static inline cudaError_t cudaGetLastError()
{
    return cudaSuccess;
}
static inline const char *cudaGetErrorName(cudaError_t e)
{
    switch (e) {
    case cudaSuccess:
        return "cudaSuccess";
    case cudaErrorMemoryAllocation:
        return "cudaErrorMemoryAllocation";
    case cudaErrorInsufficientDriver:
        return "cudaErrorInsufficientDriver";
    case cudaErrorNoDevice:
        return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice:
        return "cudaErrorInvalidDevice";
    case cudaErrorNotReady:
        return "cudaErrorNotReady";
    }
    return "?";
}
static inline const char *cudaGetErrorString(cudaError_t e)
{
    return cudaGetErrorName(e);
}

#endif
