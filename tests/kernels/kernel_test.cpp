// SPDX-License-Identifier: Apache-2.0
/*
 * kernel_test.cpp: runs the cases, in TAP.
 *
 *   kernels [all|quick] [list] [SCHED=a,b,...] [NAME...]     NAME: a case, or the beginning of one
 */
#include "kernel_test.h"

#include <algorithm>
#include <cstdarg>

namespace kt
{

bool quick;

static Case *cases;
static std::string words;
static int failures;
static uint64_t hash, state;
static const uint64_t FNV = 1469598103934665603u;

Case::Case(const char *n, void (*f)()) : name(n), run(f), next(cases)
{
    cases = this;
}

void check(bool ok, const char *file, int line, const char *fmt, ...)
{
    if (ok)
        return;
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (failures++ < 20)
        words += std::string("# ") + file + ":" + std::to_string(line) + ": " + text + "\n";
}

void bits_of(const void *p, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ ((const unsigned char *)p)[i]) * 1099511628211u;
}

uint32_t random32()
{
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(state >> 32);
}

double uniform()
{
    return (random32() + 0.5) / 4294967296.0;
}

std::vector<float> normal(size_t n, float scale)
{
    std::vector<float> v(n);
    for (float &x : v) {
        double r = sqrt(-2 * log(uniform()));
        x = scale * (float)(r * cos(6.283185307179586 * uniform()));
    }
    return v;
}

std::vector<uint16_t> normal_bf16(size_t n, float scale)
{
    return narrow(normal(n, scale));
}

float bf16_to_f32(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, 4);
    return f;
}

uint16_t f32_to_bf16(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    if (f != f)
        return 0x7fff;
    return (uint16_t)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

std::vector<float> widen(const std::vector<uint16_t> &v)
{
    std::vector<float> f(v.size());
    std::transform(v.begin(), v.end(), f.begin(), bf16_to_f32);
    return f;
}

std::vector<uint16_t> narrow(const std::vector<float> &v)
{
    std::vector<uint16_t> h(v.size());
    std::transform(v.begin(), v.end(), h.begin(), f32_to_bf16);
    return h;
}

double error(const std::vector<double> &want, const std::vector<double> &got)
{
    double a = 0, b = 0;
    if (want.size() != got.size())
        return NAN;
    for (size_t i = 0; i < want.size(); i++) {
        a += (want[i] - got[i]) * (want[i] - got[i]);
        b += want[i] * want[i];
    }
    return sqrt(a / (b + 1e-300));
}

struct mint_dev *cpu(enum mint_precision p)
{
    static struct mint_dev *dev[2];
    struct mint_err err;
    if (!dev[p] && mint_backend_open(&dev[p], "cpu", p, 1, &err) != 0) {
        printf("Bail out! %s\n", err.msg);
        exit(1);
    }
    return dev[p];
}

static void must(cudaError_t e)
{
    if (e == cudaSuccess)
        return;
    printf("%sBail out! CUDA: %s\n", words.c_str(), cudaGetErrorString(e));
    exit(1);
}

void *device_alloc(size_t bytes)
{
    void *p = nullptr;
    must(cudaMalloc(&p, bytes));
    return p;
}

void device_free(void *p)
{
    must(cudaFree(p));
}

void to_device(void *d, const void *s, size_t bytes)
{
    if (bytes)
        must(cudaMemcpy(d, s, bytes, cudaMemcpyHostToDevice));
}

void to_host(void *d, const void *s, size_t bytes)
{
    must(cudaGetLastError());
    must(cudaDeviceSynchronize());
    if (bytes)
        must(cudaMemcpy(d, s, bytes, cudaMemcpyDeviceToHost));
}

static void run_once(const Case *c, const char *schedule)
{
#ifndef MINT_GPU
    emu::init();
    emu::set_schedule(schedule);
#else
    (void)schedule;
#endif
    hash = FNV;
    state = 42;
    c->run();
#ifndef MINT_GPU
    for (const emu::Place &p : emu::m.places)
        printf("# site %s:%d %s\n", p.file, p.line, c->name);
    emu::m.places.clear();
#endif
}

/* Under every schedule; true: passed. */
static bool run(const Case *c, const std::vector<std::string> &schedules)
{
    uint64_t first = 0;
    failures = 0;
    words.clear();
    for (size_t i = 0; i < schedules.size() && !failures; i++) {
        run_once(c, schedules[i].c_str());
        if (i == 0)
            first = hash;
        CHECK(hash == first, "%s: the result depends on the order (%s, %s)", c->name,
              schedules[0].c_str(), schedules[i].c_str());
    }
    printf("# bits %s %016llx\n", c->name, (unsigned long long)first);
    return failures == 0;
}

static std::vector<std::string> split(const std::string &s)
{
    std::vector<std::string> v(1);
    for (char c : s) {
        if (c == ',')
            v.emplace_back();
        else
            v.back() += c;
    }
    return v;
}

static bool wanted(const char *name, const std::vector<std::string> &names)
{
    if (names.empty())
        return true;
    return std::any_of(names.begin(), names.end(), [&](const std::string &n) {
        return strncmp(name, n.c_str(), n.size()) == 0;
    });
}

static std::vector<const Case *> sorted()
{
    std::vector<const Case *> all;
    for (Case *c = cases; c; c = c->next)
        all.push_back(c);
    std::sort(all.begin(), all.end(),
              [](const Case *a, const Case *b) { return strcmp(a->name, b->name) < 0; });
    return all;
}

} // namespace kt

int main(int argc, char **argv)
{
    std::vector<std::string> names, schedules;
    bool list = false;
    setvbuf(stdout, nullptr, _IOLBF, 0);
    for (int i = 1; i < argc; i++) {
        std::string a = argv[i];
        if (a == "quick")
            kt::quick = true;
        else if (a == "all")
            kt::quick = false;
        else if (a == "list")
            list = true;
        else if (a.compare(0, 6, "SCHED=") == 0)
            schedules = kt::split(a.substr(6));
        else
            names.push_back(a);
    }
    if (schedules.empty())
        schedules = kt::split(kt::quick ? "rev,1" : "fwd,rev,1,2,3");
#ifdef MINT_GPU
    schedules = {"first", "second"};
#endif
    int n = 0, bad = 0;
    for (const kt::Case *c : kt::sorted()) {
        if (!kt::wanted(c->name, names))
            continue;
        if (list) {
            printf("%s\n", c->name);
            continue;
        }
        bool ok = kt::run(c, schedules);
        printf("%sok %d - %s\n%s", ok ? "" : "not ", ++n, c->name, kt::words.c_str());
        bad += !ok;
    }
    if (!list)
        printf("1..%d\n", n);
#ifndef MINT_GPU
    if (emu::m.skip_line >= 0 && !emu::m.skipped)
        printf("# EMU_SKIP matched nothing\n");
#endif
    return bad != 0;
}
