/* SPDX-License-Identifier: Apache-2.0 */
/*
 * emu_cublaslt.h: the slice of cuBLASLt that the plugin uses, played on the host, so that its
 * descriptors, layouts and self-check run in tests. The heuristic offers three algorithms: one that
 * cuts the inner dimension in two, one with another order of additions, and one with the order of
 * the tensor cores. EMU_CUBLASLT=wrong leaves the last one out; missing: there is no library; old:
 * it lacks a call.
 */
#ifndef EMU_CUBLASLT_H
#define EMU_CUBLASLT_H

#include "cuda_emu.h"

#include <dlfcn.h>

#define CUBLAS_VER_MAJOR 13

typedef int cublasStatus_t;
typedef int cudaDataType;
typedef void *cublasLtHandle_t;
enum { CUBLAS_STATUS_SUCCESS = 0, CUBLAS_STATUS_NOT_SUPPORTED = 15 };
enum { CUDA_R_32F = 0, CUDA_R_16BF = 14 };
enum cublasComputeType_t { CUBLAS_COMPUTE_32F = 68 };
enum cublasOperation_t { CUBLAS_OP_N, CUBLAS_OP_T };
enum { CUBLASLT_MATMUL_DESC_TRANSA = 3, CUBLASLT_MATMUL_DESC_TRANSB = 4 };
enum cublasLtMatmulPreferenceAttributes_t {
    CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,
    CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK = 3,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8
};
enum { CUBLASLT_REDUCTION_SCHEME_NONE = 0 };
enum cublasLtMatmulAlgoConfigAttributes_t {
    CUBLASLT_ALGO_CONFIG_SPLITK_NUM = 2,
    CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME = 3
};

struct cublasLtMatmulDescOpaque_t {
    cublasOperation_t trans[2];
};
struct cublasLtMatrixLayoutOpaque_t {
    cudaDataType type;
    uint64_t rows, cols;
    int64_t ld;
};
struct cublasLtMatmulPreferenceOpaque_t {
    uint64_t data[8];
};
typedef cublasLtMatmulDescOpaque_t *cublasLtMatmulDesc_t;
typedef cublasLtMatrixLayoutOpaque_t *cublasLtMatrixLayout_t;
typedef cublasLtMatmulPreferenceOpaque_t *cublasLtMatmulPreference_t;
struct cublasLtMatmulAlgo_t {
    int kind; /* 0: split, 1: another order, 2: ours */
};
struct cublasLtMatmulHeuristicResult_t {
    cublasLtMatmulAlgo_t algo;
    cublasStatus_t state;
};

namespace emu
{

inline bool lt_is(const char *what)
{
    const char *s = getenv("EMU_CUBLASLT");
    return s && !strcmp(s, what);
}
/* dlopen, which fails for a file that is nowhere, and dlsym. */
inline void *lt_open(const char *)
{
    return lt_is("missing") ? dlopen("libcublasLt-missing.so", RTLD_NOW) : dlopen(NULL, RTLD_NOW);
}
inline void *lt_find(const char *name, void *call)
{
    return lt_is("old") && !strcmp(name, "cublasLtMatmul") ? NULL : call;
}

} // namespace emu

static inline cublasStatus_t cublasLtCreate(cublasLtHandle_t *h)
{
    *h = nullptr;
    return 0;
}
static inline cublasStatus_t cublasLtDestroy(cublasLtHandle_t)
{
    return 0;
}
static inline cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t d, size_t,
                                                             cublasComputeType_t, cudaDataType)
{
    d->trans[0] = d->trans[1] = CUBLAS_OP_N;
    return 0;
}
static inline cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d, int what,
                                                            const void *v, size_t)
{
    memcpy(&d->trans[what - CUBLASLT_MATMUL_DESC_TRANSA], v, sizeof d->trans[0]);
    return 0;
}
static inline cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t l, size_t,
                                                               cudaDataType type, uint64_t rows,
                                                               uint64_t cols, int64_t ld)
{
    *l = {type, rows, cols, ld};
    if ((uint64_t)ld < rows)
        emu::fail("cuBLASLt: a leading dimension of %ld for %lu rows", (long)ld, (long)rows);
    return 0;
}
static inline cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t p,
                                                                   size_t)
{
    *p = {};
    return 0;
}
static inline cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t, const void *, size_t)
{
    return 0;
}
static inline cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
    cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, int most,
    cublasLtMatmulHeuristicResult_t *res, int *n)
{
    *n = emu::lt_is("wrong") ? 2 : 3;
    *n = *n < most ? *n : most;
    for (int i = 0; i < *n; i++)
        res[i] = {{i}, CUBLAS_STATUS_SUCCESS};
    return 0;
}
static inline cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(
    const cublasLtMatmulAlgo_t *a, cublasLtMatmulAlgoConfigAttributes_t what, void *v, size_t size,
    size_t *written)
{
    uint32_t x = what == CUBLASLT_ALGO_CONFIG_SPLITK_NUM ? (a->kind == 0 ? 2 : 1) : 0;
    memcpy(v, &x, size < sizeof x ? size : sizeof x);
    *written = sizeof x;
    return 0;
}

namespace emu
{

/* n rows of op(A), or columns of op(B), cut into pieces of sixteen of the inner dimension. */
static inline std::vector<Row16> lt_rows(const void *x, const cublasLtMatrixLayoutOpaque_t *l,
                                         bool krows, uint64_t n, uint64_t K)
{
    uint64_t pieces = (K + 15) / 16, ld = (uint64_t)l->ld;
    std::vector<Row16> r(n * pieces);
    for (uint64_t i = 0; i < n; i++)
        for (uint64_t k = 0; k < 16 * pieces; k++) {
            Row16 *p = &r[i * pieces + k / 16];
            uint64_t at = krows ? k * ld + i : i * ld + k;
            if (k % 16 == 0)
                p->special = false;
            unpack(p, (int)(k % 16), k < K ? ((const uint16_t *)x)[at] : 0);
        }
    return r;
}

static inline float lt_dot(int kind, float c, const Row16 *a, const Row16 *b)
{
    if (kind == 2)
        return dot16(c, a, b);
    for (int k = 15; k >= 0; k--)
        c += (float)(ldexp(a->m[k], a->e[k] - 7) * ldexp(b->m[k], b->e[k] - 7));
    return c;
}

} // namespace emu

/* D = op(A) op(B) + beta C, column-major, alpha 1. */
static inline cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t d, const void *,
                                            const void *A, cublasLtMatrixLayout_t la, const void *B,
                                            cublasLtMatrixLayout_t lb, const void *beta,
                                            const void *C, cublasLtMatrixLayout_t, void *D,
                                            cublasLtMatrixLayout_t ld,
                                            const cublasLtMatmulAlgo_t *algo, void *, size_t,
                                            cudaStream_t)
{
    bool ta = d->trans[0] == CUBLAS_OP_T, tb = d->trans[1] == CUBLAS_OP_T;
    uint64_t m = ta ? la->cols : la->rows, K = ta ? la->rows : la->cols;
    uint64_t n = tb ? lb->rows : lb->cols, K2 = tb ? lb->cols : lb->rows;
    if (m != ld->rows || n != ld->cols || K != K2)
        emu::fail("cuBLASLt: shapes do not fit");
    bool add = *(const float *)beta != 0;
    std::vector<emu::Row16> a = emu::lt_rows(A, la, !ta, m, K), b = emu::lt_rows(B, lb, tb, n, K);
    uint64_t pieces = (K + 15) / 16;
    for (uint64_t j = 0; j < n; j++)
        for (uint64_t i = 0; i < m; i++) {
            float c = 0;
            for (uint64_t k = 0; k < pieces; k++)
                c = emu::lt_dot(algo->kind, c, &a[i * pieces + k], &b[j * pieces + k]);
            uint64_t at = j * (uint64_t)ld->ld + i;
            ((float *)D)[at] = add ? c + ((const float *)C)[at] : c;
        }
    return 0;
}

#endif
