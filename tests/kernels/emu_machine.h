/* SPDX-License-Identifier: Apache-2.0 */
/*
 * emu_machine.h: the emulated streaming multiprocessor: fibers, warps, blocks, barriers, shared
 * memory, asynchronous copies. Each CUDA thread of a block is a fiber; blocks run one after the
 * other in a shuffled order; inside a block the order of warps and of lanes is drawn anew in every
 * pass, so that code which leans on an order that CUDA does not promise gives wrong numbers here.
 *
 *   EMU_SCHED=fwd|rev|SEED   the order (seed 1)
 *   EMU_SKIP=file.cu:LINE    the barrier or wait on that line does nothing (mutation tests)
 *   EMU_SITES=1              the cases print which barriers and waits they came by
 *   EMU_PROFILE=1            at the end: launches, blocks and seconds of each kernel
 *
 * -fsanitize=thread: every CUDA thread is a thread of its own to the sanitizer. Barriers and
 * __syncwarp order memory, shuffles do not, so a missing barrier is reported as a data race. Two
 * sets of threads alternate, so that neighbouring blocks race with each other.
 * -fsanitize=address: device buffers and shared arrays have red zones.
 * A kernel that breaks a rule of CUDA (lanes at different collectives, a barrier that some threads
 * never reach, an unaligned copy...) ends the process with status 99 and the line.
 */
#ifndef EMU_MACHINE_H
#define EMU_MACHINE_H

#include <cmath>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <tuple>
#include <type_traits>
#include <unistd.h>
#include <utility>
#include <vector>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
extern "C" void AnnotateIgnoreWritesBegin(const char *, int);
extern "C" void AnnotateIgnoreWritesEnd(const char *, int);
#endif
#define EMU_RAW  __attribute__((no_sanitize("thread", "address", "undefined")))
#define EMU_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x, y, z;
    dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c)
    {
    }
};

namespace emu
{

enum State { RUN, AT_BARRIER, AT_WARP, DONE };

struct Copy {
    void *dst;
    const void *src;
    bool zero;
    unsigned group;
};

constexpr int MAX_COPY = 512, MAX_SITE = 64, MAX_THREAD = 1024;
constexpr size_t STACK = 64 << 10, SMEM_MAX = 227 << 10, GAP = 32;
constexpr size_t SLAB = SMEM_MAX + 64 * GAP + 256;

struct Thread {
    void *sp = nullptr;
    char *stack = nullptr;
    uint3 tid{};
    unsigned lin = 0, lane = 0, warp = 0;
    State state = DONE;
    const char *file = "";
    int line = 0;
    unsigned cp_group = 0;
    Copy cp[MAX_COPY];
    int ncp = 0;
    void *tsan = nullptr, *fake = nullptr;
};

/* A rendezvous of lanes, keyed by its mask; two buffers of values, by the parity of gen. */
struct Coll {
    uint32_t mask = 0, arrived = 0;
    unsigned gen = 0;
    const char *file = "";
    int line = 0;
    uint64_t v[2][32][5];
};

struct Warp {
    uint32_t alive = 0;
    Coll c[8];
    char hb[2];
};

struct Site {
    const void *key;
    void *p;
};

struct Count { /* of a kernel */
    const char *name;
    unsigned long launches, blocks;
    double seconds;
};

struct Place { /* of a barrier or wait */
    const char *file;
    int line;
};

struct Machine {
    std::vector<Count> counts;
    std::vector<Place> places;
    bool profile = false, note_places = false;
    Thread *th = nullptr;
    Warp warp[MAX_THREAD / 32];
    Thread *cur = nullptr;
    void *main_sp = nullptr;
    dim3 grid, block;
    uint3 bidx{};
    unsigned nthr = 0, waiting = 0, live = 0, bar_gen = 0;
    void (*fn)(void *) = nullptr;
    void *arg = nullptr;
    char *slab = nullptr, *dyn = nullptr;
    size_t used = 0, dyn_size = 0;
    Site site[MAX_SITE];
    int nsite = 0;
    std::vector<char *> old_slabs;
    uint64_t rng = 1;
    int policy = 2; /* 0 forwards, 1 backwards, 2 drawn */
    bool ready = false;
    const char *skip_file = nullptr, *bar_file = "";
    int skip_line = -1, bar_line = 0;
    unsigned long blocks = 0, launches = 0, skipped = 0;
    char hb_start = 0, hb_end = 0, hb_bar[2] = {0, 0};
    void *main_tsan = nullptr, *main_fake = nullptr;
    const void *main_bottom = nullptr;
    size_t main_size = 0;
};
inline Machine m;

[[noreturn]] __attribute__((format(printf, 1, 2))) EMU_RAW inline void fail(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "emu: ");
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    if (m.cur)
        fprintf(stderr, " [block %u,%u,%u thread %u]", m.bidx.x, m.bidx.y, m.bidx.z, m.cur->lin);
    fprintf(stderr, "\n");
    fflush(nullptr);
    _exit(99);
}

EMU_RAW inline uint32_t rnd()
{
    m.rng = m.rng * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(m.rng >> 33);
}

/* s: fwd, rev or a seed */
EMU_RAW inline void set_schedule(const char *s)
{
    m.policy = !strcmp(s, "fwd") ? 0 : !strcmp(s, "rev") ? 1 : 2;
    m.rng = strtoull(s, nullptr, 10) * 2654435761u + 1;
}

/* ---- fibers. */

#if defined(__x86_64__)
/* Saves the registers that a callee keeps on this stack, goes on with the other one. */
__attribute__((naked, noinline, unused)) EMU_RAW static void swap(void **, void *)
{
    __asm__("pushq %rbp\n pushq %rbx\n pushq %r12\n pushq %r13\n pushq %r14\n pushq %r15\n"
            "movq %rsp, (%rdi)\n movq %rsi, %rsp\n"
            "popq %r15\n popq %r14\n popq %r13\n popq %r12\n popq %rbx\n popq %rbp\n ret\n");
}

EMU_RAW inline void *new_context(char *stack, void (*f)())
{
    uintptr_t top = ((uintptr_t)stack + STACK) & ~(uintptr_t)15;
    void **p = (void **)(top - 16);
    *p = (void *)f;
    for (int i = 0; i < 6; i++)
        *--p = nullptr;
    return p;
}
#else
#error "the emulator knows the context switch of x86-64 only"
#endif

EMU_RAW inline void yield()
{
    Thread *t = m.cur;
#if defined(__SANITIZE_ADDRESS__)
    void **fake = t->state == DONE ? nullptr : &t->fake;
    __sanitizer_start_switch_fiber(fake, m.main_bottom, m.main_size);
#endif
#if defined(__SANITIZE_THREAD__)
    __tsan_switch_to_fiber(m.main_tsan, __tsan_switch_to_fiber_no_sync);
#endif
    swap(&t->sp, m.main_sp);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(t->fake, &m.main_bottom, &m.main_size);
#endif
}

EMU_RAW inline void resume(Thread *t)
{
    m.cur = t;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&m.main_fake, t->stack, STACK);
#endif
#if defined(__SANITIZE_THREAD__)
    __tsan_switch_to_fiber(t->tsan, __tsan_switch_to_fiber_no_sync);
#endif
    swap(&m.main_sp, t->sp);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(m.main_fake, nullptr, nullptr);
#endif
    m.cur = nullptr;
}

EMU_RAW inline void release_barrier()
{
    if (m.waiting == 0 || m.waiting < m.live)
        return;
    m.waiting = 0;
    m.bar_gen++;
    for (unsigned i = 0; i < m.nthr; i++)
        if (m.th[i].state == AT_BARRIER)
            m.th[i].state = RUN;
}

EMU_RAW inline void fiber_main()
{
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(nullptr, &m.main_bottom, &m.main_size);
#endif
    Thread *t = m.cur;
#if defined(__SANITIZE_THREAD__)
    __tsan_acquire(&m.hb_start);
#endif
    m.fn(m.arg);
    if (t->ncp)
        fail("thread ends with %d asynchronous copies never waited for", t->ncp);
#if defined(__SANITIZE_THREAD__)
    __tsan_release(&m.hb_end);
#endif
    t->state = DONE;
    m.live--;
    m.warp[t->warp].alive &= ~(1u << t->lane);
    release_barrier();
    yield();
    __builtin_unreachable();
}

/* ---- what threads wait at. */

EMU_RAW inline bool same_place(const char *f, int l, const char *file, int line)
{
    return l == line && (f == file || !strcmp(f, file));
}

EMU_RAW inline void note_place(const char *file, int line)
{
    for (const Place &p : m.places)
        if (same_place(p.file, p.line, file, line))
            return;
    m.places.push_back({file, line});
}

EMU_RAW inline bool skip(const char *file, int line)
{
    if (__builtin_expect(m.note_places, 0))
        note_place(file, line);
    if (__builtin_expect(line != m.skip_line, 1))
        return false;
    size_t a = strlen(file), b = strlen(m.skip_file);
    if (a < b || strncmp(file + a - b, m.skip_file, b))
        return false;
    m.skipped++;
    return true;
}

EMU_RAW inline Coll *find_coll(Warp *w, uint32_t mask, const char *file, int line)
{
    for (auto &c : w->c)
        if (c.mask == mask || c.mask == 0) {
            c.mask = mask;
            return &c;
        }
    fail("%s:%d: too many different masks in one warp", file, line);
}

/* All lanes of mask meet here; each leaves w[0..n) for the others; the last one runs finish. *buf
 * says which of v[2] holds the values. */
EMU_RAW inline Coll *meet(uint32_t mask, const uint64_t *w, int n, unsigned *buf, const char *file,
                          int line, void (*finish)(uint64_t (*)[5]) = nullptr)
{
    Thread *t = m.cur;
    Warp *wp = &m.warp[t->warp];
    if (!(mask >> t->lane & 1))
        fail("%s:%d: lane %u is not in its own mask %08x", file, line, t->lane, mask);
    if (mask & ~wp->alive)
        fail("%s:%d: mask %08x names lanes that do not exist or have left (alive %08x)", file, line,
             mask, wp->alive);
    Coll *c = find_coll(wp, mask, file, line);
    if (c->arrived == 0) {
        c->file = file;
        c->line = line;
    } else if (!same_place(c->file, c->line, file, line)) {
        fail("lanes of one warp meet at different places: %s:%d and %s:%d", c->file, c->line, file,
             line);
    }
    *buf = c->gen & 1;
    for (int i = 0; i < n; i++)
        c->v[*buf][t->lane][i] = w[i];
    c->arrived |= 1u << t->lane;
    if (c->arrived != mask) {
        t->state = AT_WARP;
        t->file = file;
        t->line = line;
        yield();
        return c;
    }
    if (finish)
        finish(c->v[*buf]);
    c->arrived = 0;
    c->gen++;
    for (unsigned l = 0; l < 32; l++)
        if (mask >> l & 1 && m.th[t->warp * 32 + l].state == AT_WARP)
            m.th[t->warp * 32 + l].state = RUN;
    return c;
}

EMU_RAW inline void barrier(const char *file, int line)
{
    if (skip(file, line))
        return;
    Thread *t = m.cur;
    if (m.live < m.nthr)
        fail("%s:%d: barrier after some threads of the block have left", file, line);
    if (!m.waiting) {
        m.bar_file = file;
        m.bar_line = line;
    } else if (!same_place(m.bar_file, m.bar_line, file, line)) {
        fail("threads wait at different barriers: %s:%d and %s:%d", m.bar_file, m.bar_line, file,
             line);
    }
#if defined(__SANITIZE_THREAD__)
    unsigned g = m.bar_gen & 1;
    __tsan_release(&m.hb_bar[g]);
#endif
    t->file = file;
    t->line = line;
    t->state = AT_BARRIER;
    m.waiting++;
    release_barrier();
    if (t->state == AT_BARRIER)
        yield();
#if defined(__SANITIZE_THREAD__)
    __tsan_acquire(&m.hb_bar[g]);
#endif
}

EMU_RAW inline void syncwarp(uint32_t mask, const char *file, int line)
{
    if (skip(file, line))
        return;
    unsigned buf;
#if defined(__SANITIZE_THREAD__)
    Warp *w = &m.warp[m.cur->warp];
    unsigned g = 0;
    for (auto &k : w->c)
        if (k.mask == mask)
            g = k.gen & 1;
    __tsan_release(&w->hb[g]);
#endif
    meet(mask, nullptr, 0, &buf, file, line);
#if defined(__SANITIZE_THREAD__)
    __tsan_acquire(&w->hb[buf]);
#endif
}

/* An array in the block's shared memory; the same one for all threads of the block. */
EMU_RAW inline void *shared(const void *site, size_t bytes, size_t align)
{
    for (int i = 0; i < m.nsite; i++)
        if (m.site[i].key == site)
            return m.site[i].p;
    if (m.nsite == MAX_SITE)
        fail("too many shared arrays");
    size_t at = (m.used + align - 1) / align * align;
    if (at + bytes > SMEM_MAX + 64 * GAP)
        fail("shared memory of the block is over %zu bytes", SMEM_MAX);
    m.used = at + bytes + GAP;
    void *p = m.slab + at;
#if defined(__SANITIZE_ADDRESS__)
    ASAN_UNPOISON_MEMORY_REGION(p, bytes);
#endif
    m.site[m.nsite].key = site;
    m.site[m.nsite++].p = p;
    return p;
}

/* Asynchronous copies of 16 bytes are queued; the thread's wait carries them out. */
EMU_RAW inline void copy_later(void *dst, const void *src, bool zero)
{
    Thread *t = m.cur;
    if (((uintptr_t)dst | (uintptr_t)src) & 15)
        fail("asynchronous copy: not 16-byte aligned");
    if (t->ncp == MAX_COPY)
        fail("too many asynchronous copies under way");
    t->cp[t->ncp++] = {dst, src, zero, t->cp_group};
}

/* Seen by the sanitizers, unlike its caller. */
__attribute__((noinline)) inline void copy_now(uint64_t *d, const uint64_t *s)
{
    d[0] = s ? s[0] : 0;
    d[1] = s ? s[1] : 0;
}

/* All but the last `pending` groups are done after this. */
EMU_RAW inline void copies_wait(unsigned pending, const char *file, int line)
{
    if (skip(file, line))
        return;
    Thread *t = m.cur;
    unsigned upto = t->cp_group - pending;
    int k = 0;
    for (int i = 0; i < t->ncp; i++) {
        Copy c = t->cp[i];
        if ((int)(c.group - upto) < 0)
            copy_now((uint64_t *)c.dst, c.zero ? nullptr : (const uint64_t *)c.src);
        else
            t->cp[k++] = c;
    }
    t->ncp = k;
}

/* ---- a block. */

/* Shared memory begins as NaN. */
EMU_RAW inline void fresh_shared()
{
#if defined(__SANITIZE_THREAD__)
    if (m.slab)
        m.old_slabs.push_back(m.slab);
    m.slab = nullptr;
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
#endif
    size_t dirty = (m.used > m.dyn_size ? m.used : m.dyn_size) + 512;
    if (!m.slab) {
        m.slab = (char *)aligned_alloc(256, (SLAB + 255) / 256 * 256);
        dirty = SLAB;
    }
#if defined(__SANITIZE_ADDRESS__)
    ASAN_UNPOISON_MEMORY_REGION(m.slab, SLAB);
#endif
    memset(m.slab, 0xff, dirty < SLAB ? dirty : SLAB);
#if defined(__SANITIZE_THREAD__)
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
#endif
#if defined(__SANITIZE_ADDRESS__)
    ASAN_POISON_MEMORY_REGION(m.slab, SLAB);
#endif
    m.used = 0;
    m.nsite = 0;
    m.dyn = (char *)shared(&m.dyn, m.dyn_size, 128);
}

EMU_RAW inline void fresh_threads()
{
#if defined(__SANITIZE_THREAD__)
    static Thread *sets[2] = {new Thread[MAX_THREAD], new Thread[MAX_THREAD]};
    m.th = sets[m.blocks & 1];
#else
    if (!m.th)
        m.th = new Thread[MAX_THREAD];
#endif
    m.nthr = m.live = m.block.x * m.block.y * m.block.z;
    m.waiting = m.bar_gen = 0;
    for (unsigned w = 0; w < (m.nthr + 31) / 32; w++) {
        unsigned left = m.nthr - w * 32;
        m.warp[w].alive = left >= 32 ? ~0u : (1u << left) - 1;
        for (auto &c : m.warp[w].c)
            c.mask = c.arrived = c.gen = 0;
    }
    for (unsigned i = 0; i < m.nthr; i++) {
        Thread *t = &m.th[i];
        if (!t->stack)
            t->stack = (char *)aligned_alloc(4096, STACK);
        t->sp = new_context(t->stack, fiber_main);
        t->tid = {i % m.block.x, i / m.block.x % m.block.y, i / m.block.x / m.block.y};
        t->lin = i;
        t->lane = i & 31;
        t->warp = i >> 5;
        t->state = RUN;
        t->ncp = 0;
        t->cp_group = 0;
#if defined(__SANITIZE_THREAD__)
        if (!t->tsan)
            t->tsan = __tsan_create_fiber(0);
#endif
    }
}

/* Runs one warp as far as it goes. False: nothing in it could run. */
EMU_RAW inline bool run_warp(unsigned w)
{
    bool progress = false;
    for (bool again = true; again;) {
        again = false;
        unsigned step = m.policy == 0 ? 1 : m.policy == 1 ? 31 : rnd() | 1;
        unsigned off = m.policy == 0 ? 0 : m.policy == 1 ? 31 : rnd();
        for (unsigned j = 0; j < 32; j++) {
            unsigned i = w * 32 + ((off + j * step) & 31);
            if (i < m.nthr && m.th[i].state == RUN) {
                resume(&m.th[i]);
                again = progress = true;
            }
        }
    }
    return progress;
}

[[noreturn]] EMU_RAW inline void deadlock()
{
    int shown = 0;
    for (unsigned i = 0; i < m.nthr && shown < 8; i++)
        if (m.th[i].state != DONE) {
            shown++;
            fprintf(stderr, "emu: thread %u waits at %s:%d (%s)\n", i, m.th[i].file, m.th[i].line,
                    m.th[i].state == AT_BARRIER ? "block barrier" : "warp collective");
        }
    fail("deadlock in block %u,%u,%u", m.bidx.x, m.bidx.y, m.bidx.z);
}

EMU_RAW inline void run_block()
{
    fresh_threads();
    fresh_shared();
    m.blocks++;
#if defined(__SANITIZE_THREAD__)
    __tsan_release(&m.hb_start);
#endif
    unsigned order[MAX_THREAD / 32], nw = (m.nthr + 31) / 32;
    while (m.live) {
        bool progress = false;
        for (unsigned i = 0; i < nw; i++)
            order[i] = m.policy == 1 ? nw - 1 - i : i;
        for (unsigned i = nw; m.policy == 2 && i > 1; i--)
            std::swap(order[rnd() % i], order[i - 1]);
        for (unsigned k = 0; k < nw; k++)
            progress |= run_warp(order[k]);
        if (!progress)
            deadlock();
    }
}

/* ---- a launch. */

inline double now()
{
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

inline void print_counts()
{
    for (const Count &c : m.counts)
        fprintf(stderr, "%9.3f s %8lu launches %9lu blocks  %s\n", c.seconds, c.launches, c.blocks,
                c.name);
}

inline void count(const char *name, double seconds)
{
    Count *found = nullptr;
    for (Count &c : m.counts)
        if (!strcmp(c.name, name))
            found = &c;
    if (!found) {
        m.counts.push_back({name, 0, 0, 0});
        found = &m.counts.back();
    }
    found->launches++;
    found->blocks += (unsigned long)m.grid.x * m.grid.y * m.grid.z;
    found->seconds += seconds;
}

EMU_RAW inline void init()
{
    if (m.ready)
        return;
    m.ready = true;
    m.note_places = getenv("EMU_SITES") != nullptr;
    m.profile = getenv("EMU_PROFILE") != nullptr;
    if (m.profile)
        atexit(print_counts);
    const char *s = getenv("EMU_SCHED");
    if (s)
        set_schedule(s);
    if ((s = getenv("EMU_SKIP"))) {
        char *f = strdup(s);
        char *c = strrchr(f, ':');
        if (c) {
            *c = 0;
            m.skip_file = f;
            m.skip_line = atoi(c + 1);
        }
    }
}

inline unsigned long gcd(unsigned long a, unsigned long b)
{
    return b ? gcd(b, a % b) : a;
}

EMU_RAW inline void run_grid()
{
    unsigned long total = (unsigned long)m.grid.x * m.grid.y * m.grid.z, step = 1, off = 0;
    if (m.policy == 2) {
        off = rnd() % total;
        do
            step = 1 + rnd() % total;
        while (gcd(step, total) != 1);
    }
    for (unsigned long i = 0; i < total; i++) {
        unsigned long b = m.policy == 1 ? total - 1 - i : (off + i * step) % total;
        m.bidx = {(unsigned)(b % m.grid.x), (unsigned)(b / m.grid.x % m.grid.y),
                  (unsigned)(b / m.grid.x / m.grid.y)};
        run_block();
    }
}

template <class... P, class... A>
EMU_RAW void launch(const char *name, void (*k)(P...), dim3 grid, dim3 block, size_t smem, void *,
                    A &&...a)
{
    init();
    if (m.cur)
        fail("launch from a kernel");
    unsigned n = block.x * block.y * block.z;
    if (n == 0 || n > MAX_THREAD || smem > SMEM_MAX || !grid.x || !grid.y || !grid.z ||
        grid.x > 0x7fffffff || grid.y > 65535 || grid.z > 65535)
        fail("bad launch: %u threads, %zu bytes of shared memory, grid %u,%u,%u", n, smem, grid.x,
             grid.y, grid.z);
    struct Call {
        void (*k)(P...);
        std::tuple<P...> a;
    } call{k, std::tuple<P...>(std::forward<A>(a)...)};
    m.fn = [](void *p) {
        Call *c = (Call *)p;
        std::apply(c->k, c->a);
    };
    m.arg = &call;
    m.grid = grid;
    m.block = block;
    m.dyn_size = smem;
    m.launches++;
#if defined(__SANITIZE_THREAD__)
    m.main_tsan = __tsan_get_current_fiber();
#endif
    double begin = m.profile ? now() : 0;
    run_grid();
    if (m.profile)
        count(name, now() - begin);
#if defined(__SANITIZE_THREAD__)
    __tsan_acquire(&m.hb_end);
    for (char *s : m.old_slabs)
        free(s);
    m.old_slabs.clear();
#endif
}

} // namespace emu
#endif
