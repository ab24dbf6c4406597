// SPDX-License-Identifier: Apache-2.0
/*
 * device_library.cpp: cuBLASLt for the large bf16 products. It is opened by name, since linking it
 * costs every start half a second. It may only do what our own product does, bit for bit: no split
 * of the inner dimension, no workspace, fp32 accumulation. What its documents do not promise, that
 * a row's bits are those of one accumulator over ascending k whatever the number of rows, is found
 * out: the first use of each algorithm is computed by our product too, and what differs in one bit
 * is not used. Small products, those with a scale or a bias, and act outputs are always ours.
 */
#include "device.h"

#ifdef MINT_GPU
#include <cublasLt.h>
#define OPEN(name)     dlopen(name, RTLD_NOW | RTLD_LOCAL)
#define FIND(so, name) dlsym(so, #name)
#else
#include "emu_cublaslt.h"
#define OPEN(name)     emu::lt_open(name)
#define FIND(so, name) emu::lt_find(#name, (void *)name)
#endif

extern "C" {
#include "mem.h"
}

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>

#define CALLS(F)                             \
    F(cublasLtCreate)                        \
    F(cublasLtDestroy)                       \
    F(cublasLtMatmulDescInit_internal)       \
    F(cublasLtMatmulDescSetAttribute)        \
    F(cublasLtMatrixLayoutInit_internal)     \
    F(cublasLtMatmulPreferenceInit_internal) \
    F(cublasLtMatmulPreferenceSetAttribute)  \
    F(cublasLtMatmulAlgoGetHeuristic)        \
    F(cublasLtMatmulAlgoConfigGetAttribute)  \
    F(cublasLtMatmul)

struct calls {
#define F(name) decltype(&name) name##_;
    CALLS(F)
#undef F
};

#define CANDIDATES  8
#define ALIGNED     16          /* bytes, at least: of operands and rows */
#define LEAST_ROWS  64          /* fewer are for our own thin tiles, which stream the weights */
#define LEAST_WIDTH 64          /* of N and K */
#define CHECK_ROWS  2048        /* most rows of a check, */
#define CHECK_ELEMS (32l << 20) /* and most elements */
#define CHECK_LEAST 4096        /* so many outputs must differ from 0: zeros prove nothing */

/* One kind of product and the algorithm for it. */
struct choice {
    bool a_krows, b_krows, add;
    int64_t N, K, rows; /* rows: M rounded up, see rounded */
    int64_t next, n;    /* candidates: the one that is tried or used next; n: none is left */
    int64_t tried;      /* candidates that had other bits, or did not run */
    bool good;          /* `next` has our bits */
    cublasLtMatmulAlgo_t algo[CANDIDATES];
};

struct cuda_library {
    bool verbose; /* MINT_CUDA_VERBOSE */
    struct calls f;
    cublasLtHandle_t lt;
    struct choice *choice;
    int64_t n, cap;
};

/* ---- opening. */

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)
#define SONAME   "libcublasLt.so." TEXT(CUBLAS_VER_MAJOR)

static int find_calls(struct calls *f, struct mint_err *err)
{
    void *so = OPEN(SONAME);
    if (!so)
        return mint_fail(err, MINT_EDEVICE,
                         "cuBLASLt is missing: %s; install it (package libcublas of the CUDA "
                         "toolkit), or set MINT_CUBLAS=0 to do without it, more slowly",
                         dlerror());
#define F(name)                             \
    *(void **)&f->name##_ = FIND(so, name); \
    if (!f->name##_)                        \
        return mint_fail(err, MINT_EDEVICE, SONAME " has no " #name ": it is too old");
    CALLS(F)
#undef F
    return 0;
}

int cuda_library_open(struct cuda_library **out, const struct cuda_dev *d, struct mint_err *err)
{
    const char *wish = getenv("MINT_CUBLAS");
    *out = NULL;
    if (cuda_f32(d) || (wish && strcmp(wish, "0") == 0))
        return 0;
    struct cuda_library *l = (struct cuda_library *)mint_xcalloc(1, sizeof *l);
    l->verbose = getenv("MINT_CUDA_VERBOSE") != NULL;
    if (find_calls(&l->f, err) != 0) {
        free(l);
        return -1;
    }
    if (l->f.cublasLtCreate_(&l->lt) != CUBLAS_STATUS_SUCCESS) {
        free(l);
        return mint_fail(err, MINT_EDEVICE, "cuBLASLt does not start on this GPU");
    }
    *out = l;
    return 0;
}

/* A line a choice, on stderr. */
static void say(const struct choice *c)
{
    fprintf(stderr, "cuda: product %s%s, N %lld, K %lld, to %lld rows%s: ", c->a_krows ? "T" : "N",
            c->b_krows ? "N" : "T", (long long)c->N, (long long)c->K, (long long)c->rows,
            c->add ? ", added" : "");
    if (c->good)
        fprintf(stderr, "cuBLASLt, candidate %lld of %lld\n", (long long)c->next + 1,
                (long long)c->n);
    else
        fprintf(stderr, "our own; %lld candidates, %lld refused\n", (long long)c->n,
                (long long)c->tried);
}

void cuda_library_close(struct cuda_library *l)
{
    if (!l)
        return;
    for (int64_t i = 0; l->verbose && i < l->n; i++)
        say(&l->choice[i]);
    l->f.cublasLtDestroy_(l->lt);
    free(l->choice);
    free(l);
}

/* ---- one call. The library thinks in columns: c^T [N, M] = op(b) op(a). */

struct call {
    cublasLtMatmulDescOpaque_t desc;
    cublasLtMatrixLayoutOpaque_t a, b, c;
};

static bool describe(const struct cuda_library *l, struct call *x, const struct mint_k_product *p,
                     int64_t M)
{
    const struct calls *f = &l->f;
    cublasOperation_t of_b = p->b_krows ? CUBLAS_OP_N : CUBLAS_OP_T;
    cublasOperation_t of_a = p->a_krows ? CUBLAS_OP_T : CUBLAS_OP_N;
    uint64_t m = (uint64_t)M, n = (uint64_t)p->N, k = (uint64_t)p->K;
    int bad = f->cublasLtMatmulDescInit_internal_(&x->desc, sizeof x->desc, CUBLAS_COMPUTE_32F,
                                                  CUDA_R_32F);
    bad |= f->cublasLtMatmulDescSetAttribute_(&x->desc, CUBLASLT_MATMUL_DESC_TRANSA, &of_b,
                                              sizeof of_b);
    bad |= f->cublasLtMatmulDescSetAttribute_(&x->desc, CUBLASLT_MATMUL_DESC_TRANSB, &of_a,
                                              sizeof of_a);
    bad |= f->cublasLtMatrixLayoutInit_internal_(&x->b, sizeof x->b, CUDA_R_16BF,
                                                 p->b_krows ? n : k, p->b_krows ? k : n, p->ldb);
    bad |= f->cublasLtMatrixLayoutInit_internal_(&x->a, sizeof x->a, CUDA_R_16BF,
                                                 p->a_krows ? m : k, p->a_krows ? k : m, p->lda);
    bad |= f->cublasLtMatrixLayoutInit_internal_(&x->c, sizeof x->c, CUDA_R_32F, n, m, p->ldc);
    return !bad;
}

/* False: it does not take this. */
static bool multiply(const struct cuda_dev *d, const struct mint_k_product *p,
                     const cublasLtMatmulAlgo_t *algo)
{
    const struct cuda_library *l = d->library;
    const float one = 1, beta = p->store == MINT_K_ADD ? 1.0f : 0.0f;
    struct call x;
    return describe(l, &x, p, p->M) &&
           l->f.cublasLtMatmul_(l->lt, &x.desc, &one, p->b, &x.b, p->a, &x.a, &beta, p->c, &x.c,
                                p->c, &x.c, algo, NULL, 0, d->stream) == CUBLAS_STATUS_SUCCESS;
}

/* ---- which algorithm. */

static bool serves(const struct mint_k_product *p)
{
    int64_t even = p->lda | p->ldb | p->N | p->K | (p->a_krows ? p->M : 0);
    uintptr_t at = (uintptr_t)p->a | (uintptr_t)p->b | (uintptr_t)p->c;
    return p->M >= LEAST_ROWS && p->N >= LEAST_WIDTH && p->K >= LEAST_WIDTH && even % 8 == 0 &&
           p->ldc % 4 == 0 && at % ALIGNED == 0 && p->scale == 1 && !p->bias &&
           p->store != MINT_K_ACT && p->tile == MINT_K_ANY;
}

/* 64, 96, 128, 192, 256, ...: numbers of rows that share an algorithm. */
static int64_t rounded(int64_t M)
{
    int64_t n = LEAST_ROWS;
    while (n < M)
        n = n & (n - 1) ? (n / 3) * 4 : n / 2 * 3;
    return n;
}

static uint32_t config(const struct cuda_library *l, const cublasLtMatmulAlgo_t *a,
                       cublasLtMatmulAlgoConfigAttributes_t what)
{
    uint32_t v = 0;
    size_t n = 0;
    l->f.cublasLtMatmulAlgoConfigGetAttribute_(a, what, &v, sizeof v, &n);
    return v;
}

/* No workspace, no reduction behind the product, and pointers that are aligned as ours are. */
static bool wish_for(const struct calls *f, cublasLtMatmulPreferenceOpaque_t *wish)
{
    static const cublasLtMatmulPreferenceAttributes_t operands[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    size_t workspace = 0;
    uint32_t none = CUBLASLT_REDUCTION_SCHEME_NONE, aligned = ALIGNED;
    int bad = f->cublasLtMatmulPreferenceInit_internal_(wish, sizeof *wish);
    bad |= f->cublasLtMatmulPreferenceSetAttribute_(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                    &workspace, sizeof workspace);
    bad |= f->cublasLtMatmulPreferenceSetAttribute_(
        wish, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &none, sizeof none);
    for (cublasLtMatmulPreferenceAttributes_t o : operands)
        bad |= f->cublasLtMatmulPreferenceSetAttribute_(wish, o, &aligned, sizeof aligned);
    return !bad;
}

/* What the heuristic offers, less what splits the inner dimension. */
static void find_candidates(const struct cuda_library *l, struct choice *c,
                            const struct mint_k_product *p)
{
    const struct calls *f = &l->f;
    cublasLtMatmulHeuristicResult_t found[CANDIDATES];
    cublasLtMatmulPreferenceOpaque_t wish;
    struct call x;
    int n = 0;
    if (!describe(l, &x, p, c->rows) || !wish_for(f, &wish) ||
        f->cublasLtMatmulAlgoGetHeuristic_(l->lt, &x.desc, &x.b, &x.a, &x.c, &x.c, &wish,
                                           CANDIDATES, found, &n))
        return;
    for (int i = 0; i < n; i++)
        if (found[i].state == CUBLAS_STATUS_SUCCESS &&
            config(l, &found[i].algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM) <= 1 &&
            config(l, &found[i].algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME) == 0)
            c->algo[c->n++] = found[i].algo;
}

static struct choice *choice_for(struct cuda_library *l, const struct mint_k_product *p)
{
    bool add = p->store == MINT_K_ADD;
    int64_t rows = rounded(p->M);
    for (int64_t i = 0; i < l->n; i++) {
        struct choice *c = &l->choice[i];
        if (c->N == p->N && c->K == p->K && c->rows == rows && c->a_krows == p->a_krows &&
            c->b_krows == p->b_krows && c->add == add)
            return c;
    }
    if (l->n == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 64;
        l->choice =
            (struct choice *)mint_xreallocarray(l->choice, (size_t)l->cap, sizeof *l->choice);
    }
    struct choice *c = &l->choice[l->n++];
    *c = {};
    c->a_krows = p->a_krows;
    c->b_krows = p->b_krows;
    c->add = add;
    c->N = p->N;
    c->K = p->K;
    c->rows = rows;
    find_candidates(l, c, p);
    return c;
}

/* ---- the check: the last rows of the product by both, on the data at hand. */

struct check {
    struct mint_k_product lib;         /* these rows, with c in scratch */
    const float *ours;                 /* where our product has put them */
    uint32_t (*counts)[2], (*host)[2]; /* of mint_k_differ */
};

static int check_begin(struct check *k, struct cuda_dev *d, const struct mint_k_product *p,
                       struct mint_err *err)
{
    int64_t most = MINT_MAX(LEAST_ROWS, MINT_MIN(CHECK_ROWS, CHECK_ELEMS / p->N) / 8 * 8);
    int64_t rows = MINT_MIN(p->M, most), first = p->M - rows;
    size_t floats = (size_t)(rows * p->N) * sizeof(float), counts = (size_t)rows * 8;
    float *room = (float *)cuda_scratch(d, CUDA_CHECK, floats + counts, err);
    if (!room)
        return -1;
    k->lib = *p;
    k->lib.M = rows;
    k->lib.a = cuda_at(d, p->a, p->a_krows ? first : first * p->lda);
    k->lib.c = room;
    k->lib.ldc = p->N;
    k->ours = (const float *)p->c + first * p->ldc;
    k->counts = (uint32_t(*)[2])(void *)((char *)room + floats);
    k->host = (uint32_t(*)[2])mint_xmalloc(counts);
    return 0;
}

/* The rows as they are before the product, for one that adds to them. */
static int check_fill(const struct check *k, struct cuda_dev *d, int64_t ldc, struct mint_err *err)
{
    size_t width = (size_t)k->lib.N * sizeof(float);
    if (k->lib.store != MINT_K_ADD)
        return 0;
    return cuda_check(cudaMemcpy2DAsync(k->lib.c, width, k->ours, (size_t)ldc * sizeof(float),
                                        width, (size_t)k->lib.M, cudaMemcpyDeviceToDevice,
                                        d->stream),
                      "a copy", err);
}

static int check_compare(const struct check *k, struct cuda_dev *d, int64_t ldc, int64_t *differ,
                         int64_t *full, struct mint_err *err)
{
    mint_k_differ(k->counts, (const float *)k->lib.c, k->lib.ldc, k->ours, ldc, k->lib.M, k->lib.N,
                  d->stream);
    MINT_TRY(cuda_launched(d, "a self-check", err));
    MINT_TRY(cuda_download(&d->base, k->host, k->counts, (size_t)k->lib.M * 8, err));
    *differ = *full = 0;
    for (int64_t i = 0; i < k->lib.M; i++) {
        *differ += k->host[i][0];
        *full += k->host[i][1];
    }
    return 0;
}

/* Computes p by our product, and finds out whether the next candidate has its bits. */
static int try_next(struct cuda_dev *d, struct choice *c, const struct mint_k_product *p,
                    struct mint_err *err)
{
    struct check k;
    int64_t differ = 0, full = 0;
    if (check_begin(&k, d, p, err) != 0)
        return 0; /* no memory for it now: ours */
    int rc = check_fill(&k, d, p->ldc, err);
    mint_k_product(p, false, d->stream);
    if (rc == 0)
        rc = cuda_launched(d, "a matrix product", err);
    bool ran = rc == 0 && multiply(d, &k.lib, &c->algo[c->next]);
    if (ran)
        rc = check_compare(&k, d, p->ldc, &differ, &full, err);
    free(k.host);
    if (rc != 0)
        return -1;
    if (!ran || differ) {
        c->next++;
        c->tried++;
    } else {
        c->good = full >= CHECK_LEAST;
    }
    return 1;
}

int cuda_library_product(struct cuda_dev *d, const struct mint_k_product *p, struct mint_err *err)
{
    if (!d->library || !serves(p))
        return 0;
    struct choice *c = choice_for(d->library, p);
    if (c->next >= c->n)
        return 0;
    if (!c->good)
        return try_next(d, c, p, err);
    if (multiply(d, p, &c->algo[c->next]))
        return 1;
    c->next = c->n; /* refused: from now on ours */
    c->tried++;
    c->good = false;
    return 0;
}
