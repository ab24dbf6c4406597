// SPDX-License-Identifier: Apache-2.0
/* cases_attention_backward.cpp: gradients of attention against double precision and the CPU
 * backend; bits that may not depend on the batch. */
#include "kernel_test.h"

#ifndef MINT_GPU
#include "attention_backward.h"
#endif

#include <algorithm>

namespace
{

struct Seq {
    int rows, pos0; /* pos0 > 0: goes on from the last sequence that began at 0 */
};

typedef std::vector<float> Floats;
typedef std::vector<double> Doubles;

/* A batch on the host. Values of act are kept as floats. */
struct Batch {
    mint_k_attn s;
    bool f32;
    int T, pages; /* pages: how many there are */
    std::vector<mint_k_seq> seqs;
    std::vector<int> begin; /* of each sequence: the one that holds its first pos0 positions */
    std::vector<int32_t> page, pos, page_of_row;
    Floats qkv, dout;
    Floats q, out, lse; /* forward, by the CPU */
    Floats dq, dk, dv;  /* its backward */
    Floats k, v;        /* [page][kv head][slot][head_dim], NaN where nothing was written */
    Doubles want[3];
};

/* A row of qkv: heads of q, of k, of v. */
int64_t qkv_at(const Batch &b, int row, int head)
{
    return ((int64_t)row * (b.s.heads + 2 * b.s.kv_heads) + head) * b.s.head_dim;
}

int64_t kv_at(const Batch &b, int page, int head, int slot)
{
    return (((int64_t)page * b.s.kv_heads + head) * MINT_K_PAGE + slot) * b.s.head_dim;
}

/* Rows, pages (not in order), positions; random values. */
Batch batch_of(int heads, int kv_heads, int head_dim, bool f32, const std::vector<Seq> &list)
{
    Batch b = {};
    b.s = {heads, kv_heads, head_dim, 1 / sqrtf((float)head_dim)};
    b.f32 = f32;
    for (const Seq &q : list)
        b.pages += (q.rows + MINT_K_PAGE - 1) / MINT_K_PAGE;
    int free_page = b.pages;
    for (const Seq &q : list) {
        int at = (int)b.page.size(), i = (int)b.seqs.size();
        b.begin.push_back(q.pos0 ? b.begin.back() : i);
        for (int p = 0; p < q.pos0 + q.rows; p += MINT_K_PAGE)
            b.page.push_back(p < q.pos0 ? b.page[b.seqs[b.begin[i]].page0 + p / MINT_K_PAGE]
                                        : --free_page);
        for (int p = q.pos0; p < q.pos0 + q.rows; p++) {
            b.pos.push_back(p);
            b.page_of_row.push_back(b.page[at + p / MINT_K_PAGE]);
        }
        b.seqs.push_back({b.T, q.rows, q.pos0, at});
        b.T += q.rows;
    }
    int64_t width = heads + 2 * kv_heads;
    b.qkv = kt::normal((size_t)(b.T * width * head_dim));
    if (!f32)
        b.qkv = kt::widen(kt::narrow(b.qkv));
    b.dout = kt::normal((size_t)b.T * heads * head_dim);
    return b;
}

Floats from_act(const std::vector<unsigned char> &v, bool f32)
{
    Floats f(v.size() / 4);
    std::vector<uint16_t> h(v.size() / 2);
    if (f32)
        memcpy(f.data(), v.data(), v.size());
    else
        memcpy(h.data(), v.data(), v.size());
    return f32 ? f : kt::widen(h);
}

std::vector<unsigned char> to_act(const Floats &f, bool f32)
{
    std::vector<uint16_t> h = kt::narrow(f);
    size_t bytes = f.size() * (f32 ? 4 : 2);
    std::vector<unsigned char> v(bytes);
    memcpy(v.data(), f32 ? (const void *)f.data() : h.data(), bytes);
    return v;
}

/* Forward and backward on the CPU. Angles of 0 leave queries and keys as they are. */
void run_cpu(Batch *b)
{
    struct mint_dev *d = kt::cpu(b->f32 ? MINT_PRECISION_F32 : MINT_PRECISION_BF16);
    const struct mint_ops *ops = d->ops;
    const mint_attn_shape s = {b->s.heads, b->s.kv_heads, b->s.head_dim, b->s.scale};
    struct mint_err err;
    struct mint_kv *kv;
    size_t n = (size_t)b->T * (size_t)(s.heads * s.head_dim);
    size_t m = (size_t)b->T * (size_t)(s.kv_heads * s.head_dim);
    std::vector<unsigned char> q(n * d->act_bytes), out(n * d->act_bytes);
    Floats none((size_t)s.head_dim / 2, 0.0f);
    std::vector<mint_seq> seqs;
    for (const mint_k_seq &x : b->seqs)
        seqs.push_back({x.row0, x.rows, x.pos0, &b->page[(size_t)x.page0]});
    b->lse.resize((size_t)b->T * (size_t)s.heads);
    b->dq.resize(n);
    b->dk.resize(m);
    b->dv.resize(m);
    CHECK(ops->kv_new(d, &kv, 1, b->pages, &s, &err) == 0, "kv_new");
    ops->qkv(d, q.data(), kv, 0, b->qkv.data(), nullptr, nullptr, 0, none.data(), b->pos.data(),
             b->page_of_row.data(), &s, b->T, &err);
    ops->attention(d, out.data(), b->lse.data(), q.data(), kv, 0, &s, seqs.data(),
                   (int64_t)seqs.size(), b->T, &err);
    ops->attention_backward(d, b->dq.data(), b->dk.data(), b->dv.data(), b->dout.data(), out.data(),
                            b->lse.data(), q.data(), kv, 0, &s, seqs.data(), (int64_t)seqs.size(),
                            b->T, &err);
    ops->kv_free(d, kv);
    b->q = from_act(q, b->f32);
    b->out = from_act(out, b->f32);
}

void lay_out_pages(Batch *b)
{
    size_t n = (size_t)kv_at(*b, b->pages, 0, 0);
    b->k.assign(n, NAN);
    b->v.assign(n, NAN);
    for (int t = 0; t < b->T; t++)
        for (int h = 0; h < b->s.kv_heads; h++) {
            int64_t to = kv_at(*b, b->page_of_row[(size_t)t], h, b->pos[(size_t)t] % MINT_K_PAGE);
            int64_t k = qkv_at(*b, t, b->s.heads + h), v = k + b->s.kv_heads * b->s.head_dim;
            std::copy_n(&b->qkv[(size_t)k], b->s.head_dim, &b->k[(size_t)to]);
            std::copy_n(&b->qkv[(size_t)v], b->s.head_dim, &b->v[(size_t)to]);
        }
}

/* One query and head in double precision: adds to want. at: rows of qkv of the keys. */
void reference_row(Batch *b, int t, int h, const std::vector<int> &at)
{
    const int n = b->s.head_dim, kv_head = h / (b->s.heads / b->s.kv_heads);
    const float *q = &b->qkv[(size_t)qkv_at(*b, t, h)];
    const float *dout = &b->dout[((size_t)t * (size_t)b->s.heads + (size_t)h) * (size_t)n];
    Doubles p(at.size()), dp(at.size(), 0.0);
    double max = -INFINITY, sum = 0, delta = 0;
    for (size_t j = 0; j < at.size(); j++) {
        const float *k = &b->qkv[(size_t)qkv_at(*b, at[j], b->s.heads + kv_head)];
        const float *v = k + b->s.kv_heads * n;
        for (int d = 0; d < n; d++) {
            p[j] += (double)q[d] * k[d] * b->s.scale;
            dp[j] += (double)dout[d] * v[d];
        }
        max = std::max(max, p[j]);
    }
    for (double &x : p)
        sum += x = exp(x - max);
    for (size_t j = 0; j < at.size(); j++)
        delta += (p[j] /= sum) * dp[j];
    for (size_t j = 0; j < at.size(); j++) {
        const float *k = &b->qkv[(size_t)qkv_at(*b, at[j], b->s.heads + kv_head)];
        double ds = p[j] * (dp[j] - delta) * b->s.scale;
        double *dq = &b->want[0][((size_t)t * (size_t)b->s.heads + (size_t)h) * (size_t)n];
        size_t to = ((size_t)at[j] * (size_t)b->s.kv_heads + (size_t)kv_head) * (size_t)n;
        for (int d = 0; d < n; d++) {
            dq[d] += ds * k[d];
            b->want[1][to + (size_t)d] += ds * q[d];
            b->want[2][to + (size_t)d] += p[j] * dout[d];
        }
    }
}

void reference(Batch *b)
{
    b->want[0].assign(b->dq.size(), 0);
    b->want[1].assign(b->dk.size(), 0);
    b->want[2].assign(b->dv.size(), 0);
    for (size_t i = 0; i < b->seqs.size(); i++) {
        const mint_k_seq &s = b->seqs[i];
        std::vector<int> at; /* the rows of its positions */
        for (int p = 0; p < s.pos0; p++)
            at.push_back(b->seqs[(size_t)b->begin[i]].row0 + p);
        for (int r = 0; r < s.rows; r++) {
            at.push_back(s.row0 + r);
            for (int h = 0; h < b->s.heads; h++)
                reference_row(b, s.row0 + r, h, at);
        }
    }
}

struct Gradients {
    Floats dq, dk, dv;
};

/* Who computes what: as planned; dk and dv of whole pages or of slices only; in another order. */
enum Jobs { PLANNED, WHOLES, SLICES, TURNED };

std::vector<int32_t> jobs_of(const Batch &b, struct mint_k_backward_plan *plan, Jobs how)
{
    const int64_t n = (int64_t)b.seqs.size();
    mint_k_attention_backward_plan(plan, nullptr, &b.s, b.seqs.data(), n);
    std::vector<int32_t> jobs((size_t)plan->words);
    mint_k_attention_backward_plan(plan, jobs.data(), &b.s, b.seqs.data(), n);
    if (how == PLANNED)
        return jobs;
    const int step = how == WHOLES ? MINT_K_PAGE : 16;
    int32_t pages = 0;
    jobs.resize((size_t)plan->rows * 2);
    for (size_t i = 0; i < b.seqs.size(); i++)
        for (int p = 0; p < b.seqs[i].rows; p += step, pages++) {
            jobs.push_back((int32_t)i);
            jobs.push_back(b.seqs[i].pos0 + p);
        }
    plan->slices = how == WHOLES ? 0 : pages;
    plan->wholes = how == WHOLES ? pages : 0;
    for (int32_t i = 0; how == TURNED && i < plan->rows / 2; i++)
        std::swap_ranges(&jobs[i * 2], &jobs[i * 2] + 2, &jobs[(plan->rows - 1 - i) * 2]);
    return jobs;
}

Gradients run_device(const Batch &b, Jobs how = PLANNED)
{
    const int hd = b.s.head_dim;
    Dev<unsigned char> q(to_act(b.q, b.f32)), out(to_act(b.out, b.f32)), g(q.n);
    Dev<unsigned char> k(to_act(b.k, b.f32)), v(to_act(b.v, b.f32));
    Dev<float> dout(b.dout), lse(b.lse), delta(b.lse.size());
    Dev<float> dq(b.q.size()), dk((size_t)(b.T * b.s.kv_heads * hd)), dv(dk.n);
    Dev<mint_k_seq> seqs(b.seqs);
    Dev<int32_t> pages(b.page);
    mint_k_kv kv = {k.p, v.p, (int64_t)b.s.kv_heads * MINT_K_PAGE * hd, MINT_K_PAGE * hd};
    struct mint_k_backward_plan plan;
    Dev<int32_t> table(jobs_of(b, &plan, how));
    mint_k_attention_backward(dq.p, dk.p, dv.p, b.f32, dout.p, out.p, lse.p, q.p, &kv, seqs.p,
                              (int64_t)b.seqs.size(), pages.p, &plan, table.p, delta.p, g.p, &b.s,
                              b.T, nullptr);
    g.get(); /* its guards */
    return {dq.get(), dk.get(), dv.get()};
}

Batch prepared(int heads, int kv_heads, int head_dim, bool f32, const std::vector<Seq> &list)
{
    Batch b = batch_of(heads, kv_heads, head_dim, f32, list);
    run_cpu(&b);
    lay_out_pages(&b);
    return b;
}

void compare(int heads, int kv_heads, int head_dim, bool f32, const std::vector<Seq> &list)
{
    Batch b = prepared(heads, kv_heads, head_dim, f32, list);
    reference(&b);
    const Gradients g = run_device(b, WHOLES), h = run_device(b, SLICES);
    CHECK(g.dk == h.dk && g.dv == h.dv, "slices of pages");
    const Floats *got[3] = {&g.dq, &g.dk, &g.dv}, *cpu[3] = {&b.dq, &b.dk, &b.dv};
    const double most = f32 ? 2e-6 : 5e-3, twin = f32 ? 2e-6 : 2e-4;
    for (int i = 0; i < 3; i++) {
        double e = kt::error(b.want[i], Doubles(got[i]->begin(), got[i]->end()));
        double c = kt::error(*cpu[i], *got[i]);
        kt::bits(*got[i]);
        CHECK(e < most, "d%c of %d/%d heads of %d: %g from the truth", "qkv"[i], heads, kv_heads,
              head_dim, e);
        CHECK(c < twin, "d%c of %d/%d heads of %d: %g from the CPU", "qkv"[i], heads, kv_heads,
              head_dim, c);
    }
}

/* Rows of a batch's gradients that belong to sequences i .. j-1. */
Floats rows_of(const Batch &b, const Floats &x, size_t i, size_t j)
{
    size_t row = x.size() / (size_t)b.T, from = (size_t)b.seqs[i].row0;
    size_t to = j < b.seqs.size() ? (size_t)b.seqs[j].row0 : (size_t)b.T;
    return Floats(x.begin() + (long)(from * row), x.begin() + (long)(to * row));
}

/* Sequences i .. of b as a batch of their own: the same values in other rows. */
Batch part_of(const Batch &b, size_t i, size_t j)
{
    std::vector<Seq> list;
    for (size_t n = i; n < j; n++)
        list.push_back({b.seqs[n].rows, b.seqs[n].pos0});
    Batch a = batch_of(b.s.heads, b.s.kv_heads, b.s.head_dim, b.f32, list);
    a.qkv = rows_of(b, b.qkv, i, j);
    a.dout = rows_of(b, b.dout, i, j);
    a.q = rows_of(b, b.q, i, j);
    a.out = rows_of(b, b.out, i, j);
    a.lse = rows_of(b, b.lse, i, j);
    lay_out_pages(&a);
    return a;
}

/* A family's gradients have the same bits alone and among others. */
void families_apart(int heads, int head_dim, bool f32)
{
    Batch b = prepared(heads, 1, head_dim, f32,
                       {{5, 0}, {70, 0}, {20, 64}, {7, 64}, {66, 0}, {3, 64}, {1, 0}});
    const Gradients all = run_device(b), other = run_device(b, TURNED);
    CHECK(all.dq == other.dq && all.dk == other.dk && all.dv == other.dv, "order of the jobs");
    kt::bits(all.dk);
    for (size_t i = 0, j; i < b.seqs.size(); i = j) {
        for (j = i + 1; j < b.seqs.size() && b.seqs[j].pos0;)
            j++;
        const Gradients one = run_device(part_of(b, i, j), i & 1 ? WHOLES : PLANNED);
        CHECK(one.dq == rows_of(b, all.dq, i, j), "dq of sequences %zu..%zu", i, j);
        CHECK(one.dk == rows_of(b, all.dk, i, j), "dk of sequences %zu..%zu", i, j);
        CHECK(one.dv == rows_of(b, all.dv, i, j), "dv of sequences %zu..%zu", i, j);
    }
}

} // namespace

CASE(attention_backward_64)
{
    compare(4, 2, 64, false, {{1, 0}, {65, 0}, {33, 0}});
    if (!kt::quick)
        compare(3, 1, 64, false, {{150, 0}});
}

CASE(attention_backward_128)
{
    compare(2, 1, 128, false, {{70, 0}});
    if (!kt::quick)
        compare(8, 1, 128, false, {{31, 0}, {129, 0}});
}

CASE(attention_backward_family)
{
    compare(2, 1, 64, false, {{80, 0}, {17, 64}, {2, 64}, {9, 0}});
    if (!kt::quick)
        compare(2, 2, 128, false, {{64, 0}, {130, 0}, {40, 64}, {1, 128}, {70, 128}});
}

CASE(attention_backward_plain)
{
    compare(2, 1, 32, false, {{40, 0}, {66, 0}});
    compare(2, 2, 6, false, {{70, 0}, {5, 64}});
    if (!kt::quick)
        compare(5, 1, 256, false, {{67, 0}});
}

CASE(attention_backward_f32)
{
    compare(2, 1, 64, true, {{3, 0}, {80, 0}, {34, 64}});
    if (!kt::quick)
        compare(3, 3, 128, true, {{67, 0}});
}

CASE(attention_backward_bits_are_the_family_s)
{
    families_apart(3, 64, false);
    if (kt::quick)
        return;
    families_apart(1, 128, false);
    families_apart(2, 16, false);
    families_apart(2, 16, true);
}

/* A prompt's pages are cut into slices when many samples go on from it, those of a long sequence
 * are not; everything is computed once. */
CASE(attention_backward_plan)
{
    Batch b = {};
    b.s = {16, 8, 128, 1};
    b.seqs = {{0, 8192, 0, 0}};
    struct mint_k_backward_plan plan;
    jobs_of(b, &plan, PLANNED);
    CHECK(plan.rows == 256 && plan.slices == 0 && plan.wholes == 128, "%d rows, %d slices, %d",
          plan.rows, plan.slices, plan.wholes);
    b.seqs = {{0, 705, 0, 0}};
    for (int i = 1; i < 16; i++)
        b.seqs.push_back({705 + (i - 1) * 449, 449, 256, 12 * i});
    const std::vector<int32_t> jobs = jobs_of(b, &plan, PLANNED);
    CHECK(plan.slices == 16 && plan.wholes == 8 * 16, "%d slices, %d", plan.slices, plan.wholes);
    std::vector<int> done[2] = {std::vector<int>(705 + 15 * 449, 0), std::vector<int>(2 * 7440, 0)};
    for (int32_t i = 0; i < plan.rows + plan.slices + plan.wholes; i++) {
        const mint_k_seq &s = b.seqs[(size_t)jobs[(size_t)i * 2]];
        const int first = jobs[(size_t)i * 2 + 1], dq = i < plan.rows;
        const int n = dq ? 64 : i < plan.rows + plan.slices ? 16 : MINT_K_PAGE;
        const int at = dq ? s.row0 * 2 + first : s.row0 + first - s.pos0;
        const int end = (s.row0 + s.rows) * (dq ? 2 : 1);
        for (int j = at; j < std::min(at + n, end); j++)
            done[dq][(size_t)j]++;
    }
    for (const std::vector<int> &d : done)
        CHECK(std::all_of(d.begin(), d.end(), [](int x) { return x == 1; }), "not all, or twice");
}

#ifndef MINT_GPU
CASE(attention_backward_token_of_a_row)
{
    for (int group = 1; group <= 128; group++) {
        backward::Args<float> x = {};
        backward::set_group(&x, group);
        for (int i = 0; i < 2000; i++) {
            const int r = i < 1000 ? i : (int)((kt::random32() >> 1) / (unsigned)group);
            CHECK(token_of(x, r) == r / group, "%d / %d", r, group);
        }
    }
}
#endif
