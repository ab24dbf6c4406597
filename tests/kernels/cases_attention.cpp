// SPDX-License-Identifier: Apache-2.0
/*
 * cases_attention.cpp: forward attention against double precision and the CPU backend, and bit
 * against bit: whole sequences, chunks of prompts of any size, tokens one by one, alone and in any
 * company, with pages of their own and with shared ones, give a row the same bits.
 */
#include "twin.h"

extern "C" {
#include "cpu/cpu_kv.h"
}

using namespace kt;

namespace
{

typedef std::vector<int32_t> Ints;

struct Shape {
    int heads, kv_heads, hd;
};

/* A sequence of len tokens; its first common pages are those of the first sequence. */
struct Text {
    int len, common;
};

/* Rows first .. first+n-1 of a text. */
struct Piece {
    int text, first, n;
};

struct World {
    Shape s;
    bool f32;
    float scale;
    std::vector<Text> texts;
    std::vector<Ints> pages; /* of each text */
    std::vector<size_t> row; /* of each text's first token in q */
    size_t T = 0, npages = 0;
    Act q, k, v; /* [T][heads][hd], [page][kv head][PAGE][hd] */

    size_t kv_at(int text, int pos, int head, int dim) const
    {
        size_t page = (size_t)pages[(size_t)text][(size_t)(pos / MINT_K_PAGE)];
        return ((page * (size_t)s.kv_heads + (size_t)head) * MINT_K_PAGE +
                (size_t)(pos % MINT_K_PAGE)) *
                   (size_t)s.hd +
               (size_t)dim;
    }
    size_t q_at(int text, int pos, int head, int dim) const
    {
        return ((row[(size_t)text] + (size_t)pos) * (size_t)s.heads + (size_t)head) * (size_t)s.hd +
               (size_t)dim;
    }
    World(Shape shape, bool f, std::vector<Text> t)
        : s(shape), f32(f), scale(1 / sqrtf((float)s.hd)), texts(t), q(f, 0), k(f, 0), v(f, 0)
    {
        for (const Text &x : texts) {
            Ints p;
            for (int i = 0; i * MINT_K_PAGE < x.len; i++)
                p.push_back(i < x.common ? pages[0][(size_t)i] : (int32_t)npages++);
            row.push_back(T);
            pages.push_back(p);
            T += (size_t)x.len;
        }
        for (Ints &p : pages) /* not in ascending order */
            for (int32_t &i : p)
                i = (int32_t)npages - 1 - i;
        const size_t n = npages * (size_t)(s.kv_heads * MINT_K_PAGE * s.hd);
        q = Act(f32, normal(T * (size_t)(s.heads * s.hd), 2));
        k = Act(f32, n); /* NaN where no token is */
        v = Act(f32, n);
        for (int x = 0; x < (int)texts.size(); x++)
            for (int p = texts[(size_t)x].common * MINT_K_PAGE; p < texts[(size_t)x].len; p++)
                for (int h = 0; h < s.kv_heads; h++)
                    for (int d = 0; d < s.hd; d++) {
                        Floats two = normal(2);
                        k.put(kv_at(x, p, h, d), two[0]);
                        v.put(kv_at(x, p, h, d), two[1]);
                    }
    }
};

struct Result {
    Act out;
    Floats lse;
    int splits; /* jobs of that kind */
};

struct Device {
    const World &w;
    DevAct k, v;
    explicit Device(const World &world) : w(world), k(world.k), v(world.v)
    {
    }
    Result run(const std::vector<Piece> &pieces) const;
};

/* Where pieces lie in q of one call: every third is followed by a row that nobody owns. */
size_t pack(const std::vector<Piece> &pieces, std::vector<size_t> *row)
{
    size_t T = 0;
    for (const Piece &p : pieces) {
        row->push_back(T);
        T += (size_t)p.n + (row->size() % 3 == 0);
    }
    return T;
}

/* All pieces in one call. The result is laid out like q; rows of no piece stay NaN. */
Result Device::run(const std::vector<Piece> &pieces) const
{
    const size_t width = (size_t)(w.s.heads * w.s.hd), heads = (size_t)w.s.heads;
    std::vector<mint_k_seq> seqs;
    std::vector<size_t> row;
    Ints pages;
    const size_t T = pack(pieces, &row);
    Act q(w.f32, T * width);
    for (const Piece &p : pieces) {
        const Ints &own = w.pages[(size_t)p.text];
        const size_t at = row[seqs.size()];
        auto rows = w.q.part(w.q_at(p.text, p.first, 0, 0), (size_t)p.n * width);
        std::copy(rows.begin(), rows.end(), q.bytes.begin() + (long)(at * width * q.width()));
        seqs.push_back({(int32_t)at, p.n, p.first, (int32_t)pages.size()});
        pages.insert(pages.end(), own.begin(),
                     own.begin() + (p.first + p.n + MINT_K_PAGE - 1) / MINT_K_PAGE);
    }
    mint_k_attn s = {w.s.heads, w.s.kv_heads, w.s.hd, w.scale};
    mint_k_forward_plan plan;
    mint_k_attention_plan(&plan, nullptr, w.f32, &s, seqs.data(), (int64_t)seqs.size(),
                          pages.data());
    Ints table((size_t)plan.words);
    mint_k_attention_plan(&plan, table.data(), w.f32, &s, seqs.data(), (int64_t)seqs.size(),
                          pages.data());
    CHECK((size_t)plan.words == table.size(), "the size of the table");
    const int64_t head = (int64_t)MINT_K_PAGE * w.s.hd;
    mint_k_kv kv = {k.p, v.p, w.s.kv_heads * head, head};
    DevAct dq(q), out(w.f32, T * width);
    Dev<mint_k_seq> dseqs(seqs);
    Dev<int32_t> dpages(pages), dtable(table);
    Dev<float> parts((size_t)plan.part_floats), lse(T * heads);
    mint_k_attention(out.p, lse.p, w.f32, dq.p, &kv, dseqs.p, dpages.p, &plan, dtable.p, parts.p,
                     &s, nullptr);
    Act packed = out.act();
    Floats l = lse.get();
    Result r = {Act(w.f32, w.q.n), Floats(w.T * heads, NAN), plan.splits};
    for (size_t i = 0; i < pieces.size(); i++) {
        const Piece &p = pieces[i];
        const size_t at = w.row[(size_t)p.text] + (size_t)p.first, n = (size_t)p.n;
        auto rows = packed.part(row[i] * width, n * width);
        std::copy(rows.begin(), rows.end(),
                  r.out.bytes.begin() + (long)(at * width * r.out.width()));
        std::copy_n(&l[row[i] * heads], n * heads, &r.lse[at * heads]);
    }
    for (size_t i = 2; i < pieces.size(); i += 3)
        if (row[i] + (size_t)pieces[i].n < T) {
            const size_t at = row[i] + (size_t)pieces[i].n;
            CHECK(std::isnan(packed.at(at * width)) && std::isnan(l[at * heads]), "nobody's row");
        }
    return r;
}

std::vector<Piece> whole(const World &w)
{
    std::vector<Piece> p;
    for (int i = 0; i < (int)w.texts.size(); i++)
        p.push_back({i, 0, w.texts[(size_t)i].len});
    return p;
}

void truth(const World &w, Doubles *out, Doubles *lse)
{
    const int group = w.s.heads / w.s.kv_heads;
    out->assign(w.q.n, 0);
    for (int x = 0; x < (int)w.texts.size(); x++)
        for (int pos = 0; pos < w.texts[(size_t)x].len; pos++)
            for (int h = 0; h < w.s.heads; h++) {
                Doubles p((size_t)pos + 1);
                double m = -INFINITY, sum = 0;
                for (int j = 0; j <= pos; j++) {
                    double dot = 0;
                    for (int d = 0; d < w.s.hd; d++)
                        dot += (double)w.q.at(w.q_at(x, pos, h, d)) *
                               w.k.at(w.kv_at(x, j, h / group, d));
                    p[(size_t)j] = dot * w.scale;
                    m = std::max(m, p[(size_t)j]);
                }
                for (double &y : p)
                    sum += y = exp(y - m);
                for (int j = 0; j <= pos; j++)
                    for (int d = 0; d < w.s.hd; d++)
                        (*out)[w.q_at(x, pos, h, d)] +=
                            p[(size_t)j] / sum * w.v.at(w.kv_at(x, j, h / group, d));
                lse->push_back(m + log(sum));
            }
}

Result twin(const World &w)
{
    struct mint_dev *d = cpu_of(w.f32);
    struct mint_err err;
    struct mint_kv *kv;
    const mint_attn_shape s = {w.s.heads, w.s.kv_heads, w.s.hd, w.scale};
    std::vector<mint_seq> seqs;
    Result r = {Act(w.f32, w.q.n), Floats(w.T * (size_t)w.s.heads), 0};
    d->ops->kv_new(d, &kv, 1, (int32_t)w.npages, &s, &err);
    for (int x = 0; x < (int)w.texts.size(); x++) {
        seqs.push_back(
            {(int64_t)w.row[(size_t)x], w.texts[(size_t)x].len, 0, w.pages[(size_t)x].data()});
        for (int p = 0; p < w.texts[(size_t)x].len; p++)
            for (int h = 0; h < w.s.kv_heads; h++)
                for (int i = 0; i < w.s.hd; i++) {
                    const size_t a = w.k.width(), from = w.kv_at(x, p, h, i) * a;
                    const int32_t page = w.pages[(size_t)x][(size_t)(p / MINT_KV_PAGE)];
                    const int64_t slot = p % MINT_KV_PAGE;
                    memcpy(cpu_kv_keys(kv, 0, page, h) + cpu_kv_key_at(w.s.hd, slot, i) * a,
                           &w.k.bytes[from], a);
                    memcpy(cpu_kv_values(kv, 0, page, h) + cpu_kv_value_at(slot, i) * a,
                           &w.v.bytes[from], a);
                }
    }
    d->ops->attention(d, r.out.bytes.data(), r.lse.data(), w.q.bytes.data(), kv, 0, &s, seqs.data(),
                      (int64_t)seqs.size(), (int64_t)w.T, &err);
    d->ops->kv_free(d, kv);
    return r;
}

/* The rows of some pieces have the bits of want. Returns how many jobs by splits that took. */
int same(const Device &d, const std::vector<Piece> &pieces, const Result &want, const char *what)
{
    const World &w = d.w;
    const size_t width = (size_t)(w.s.heads * w.s.hd), heads = (size_t)w.s.heads;
    Result got = d.run(pieces);
    for (const Piece &p : pieces) {
        const size_t at = w.row[(size_t)p.text] + (size_t)p.first, n = (size_t)p.n;
        CHECK(got.out.part(at * width, n * width) == want.out.part(at * width, n * width),
              "%s: text %d, rows %d to %d", what, p.text, p.first, p.first + p.n - 1);
        CHECK(!memcmp(&got.lse[at * heads], &want.lse[at * heads], n * heads * sizeof(float)),
              "%s: lse of text %d, rows %d to %d", what, p.text, p.first, p.first + p.n - 1);
    }
    return got.splits;
}

/* Each text in chunks of n rows: chunk i of all texts in one call. */
void in_chunks(const Device &d, int n, const Result &want)
{
    for (int first = 0;; first += n) {
        std::vector<Piece> p;
        for (int x = 0; x < (int)d.w.texts.size(); x++) {
            const int len = d.w.texts[(size_t)x].len;
            if (first < len)
                p.push_back({x, first, std::min(n, len - first)});
        }
        if (p.empty())
            return;
        same(d, p, want, "in chunks");
    }
}

/* One token of each text a call, the last, the one before it, ...: as in decoding, texts of
 * different lengths together; every step-th call. */
void token_by_token(const Device &d, int step, const Result &want)
{
    int longest = 0;
    for (const Text &t : d.w.texts)
        longest = std::max(longest, t.len);
    for (int back = 0; back < longest; back += step) {
        std::vector<Piece> p;
        for (int x = 0; x < (int)d.w.texts.size(); x++)
            if (back < d.w.texts[(size_t)x].len)
                p.push_back({x, d.w.texts[(size_t)x].len - 1 - back, 1});
        same(d, p, want, "token by token");
    }
}

Result numbers(const Device &d)
{
    Doubles out, lse;
    Result got = d.run(whole(d.w)), cpu = twin(d.w);
    truth(d.w, &out, &lse);
    agree("attention", d.w.f32, out, cpu.out.floats(), got.out.floats());
    bits(got.lse);
    CHECK(error(lse, got.lse) < 2e-6, "lse: %g from the truth", error(lse, got.lse));
    CHECK(error(cpu.lse, got.lse) < 2e-6, "lse: %g from the CPU", error(cpu.lse, got.lse));
    return got;
}

} // namespace

/* Tokens, tiles, pages and groups that do not fit each other; every position decoded. */
CASE(attention_every_position)
{
    const Shape shapes[] = {{4, 2, 64}, {3, 1, 64}, {2, 2, 128}, {7, 1, 128}};
    for (const Shape &s : shapes) {
        World w(s, false,
                quick ? std::vector<Text>{{66, 0}, {1, 0}}
                      : std::vector<Text>{{130, 0}, {1, 0}, {17, 0}, {64, 0}});
        Device d(w);
        Result want = numbers(d);
        token_by_token(d, quick ? 7 : 1, want);
        for (int n : {3, 16, 50})
            in_chunks(d, n, want);
    }
}

/* Splits and what is left of them. */
CASE(attention_splits)
{
    if (quick)
        return;
    World w({2, 1, 64}, false, {{600, 0}, {257, 0}, {512, 0}});
    Device d(w);
    Result want = numbers(d);
    token_by_token(d, 37, want);
    for (int n : {1, 2, 255, 256, 257})
        same(d, {{0, 600 - n, n}, {1, 257 - n / 2 - 1, n / 2 + 1}, {2, 0, 512}}, want, "the end");
}

CASE(attention_split_quick)
{
    World w({2, 1, 64}, false, {{260, 0}});
    Device d(w);
    Result want = numbers(d);
    for (int pos : {0, 63, 64, 254, 255, 256, 259})
        same(d, {{0, pos, 1}}, want, "a token");
    for (int n : {2, 10, 16})
        same(d, {{0, 260 - n, n}}, want, "a few tokens");
}

/* Samples of a prompt: splits on common pages are read once for as many as fit a fragment. The ends
 * of the texts as tiles say what is right. */
CASE(attention_shared_pages)
{
    for (const Shape &s : {Shape{4, 2, 64}, Shape{6, 1, 128}, Shape{1, 1, 64}}) {
        std::vector<Text> t = {{256, 0}};
        for (int i = 0; i < 9; i++)
            t.push_back({256 + (i * 29 + 1) % 90, i == 4 ? 2 : 4});
        t.push_back({519, 4});
        if (quick)
            t.resize(4);
        World w(s, false, t);
        Device d(w);
        std::vector<Piece> ends, mixed;
        for (int x = 0; x < (int)t.size(); x++)
            ends.push_back({x, 200, w.texts[(size_t)x].len - 200});
        Result want = d.run(ends);
        bits(want.out.bytes);
        for (int back : {0, 1, 40, 86}) {
            std::vector<Piece> p;
            int alone = 0;
            for (int x = 0; x < (int)t.size(); x++) {
                const int pos = t[(size_t)x].len - 1 - back;
                if (pos < 200)
                    continue;
                p.push_back({x, pos, 1});
                alone += pos / 256 + 1;
            }
            const int together = same(d, p, want, "together");
            CHECK(back > 1 || together < alone, "%d jobs, no pages are read together", together);
        }
        for (int x : {3, 1, 2, 10, 0, 7, 8}) /* a prompt between, others not in order */
            if (x < (int)t.size())
                mixed.push_back({x, x ? t[(size_t)x].len - 1 : 210, x ? 1 : 46});
        same(d, mixed, want, "mixed");
        if (quick)
            break;
    }
}

/* More heads than a fragment has rows. */
CASE(attention_wide_group)
{
    for (int heads : {20, 40}) {
        World w({heads, 1, 64}, false, {{quick ? 5 : 70, 0}, {3, 0}});
        Device d(w);
        Result want = numbers(d);
        token_by_token(d, 11, want);
        in_chunks(d, 2, want);
    }
}

/* Head sizes that no tensor-core kernel serves, and float. */
CASE(attention_plain)
{
    const struct {
        Shape s;
        bool f32;
    } kinds[] = {{{3, 1, 10}, false}, {{2, 2, 96}, false}, {{4, 2, 64}, true},
                 {{2, 1, 128}, true}, {{1, 1, 256}, true}, {{5, 1, 2}, true}};
    for (auto &k : kinds) {
        if (quick && k.s.hd > 64)
            continue;
        World w(k.s, k.f32, {{quick ? 66 : 150, 0}, {1, 0}, {64, 1}});
        Device d(w);
        Result want = numbers(d);
        token_by_token(d, 13, want);
        in_chunks(d, 50, want);
    }
}

/* lse is optional, and so is work. */
CASE(attention_nothing)
{
    mint_k_attn s = {2, 1, 64, 1};
    mint_k_kv kv = {nullptr, nullptr, 64, 64};
    mint_k_forward_plan plan;
    mint_k_attention_plan(&plan, nullptr, false, &s, nullptr, 0, nullptr);
    CHECK(plan.words == 0 && plan.part_floats == 0, "an empty plan");
    mint_k_attention(nullptr, nullptr, false, nullptr, &kv, nullptr, nullptr, &plan, nullptr,
                     nullptr, &s, nullptr);
}
