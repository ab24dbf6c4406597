/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gradtree.h"
#include "mem.h"

static struct mint_dev *dev;

static int open_device(void **state)
{
    (void)state;
    return mint_backend_open(&dev, "cpu", MINT_PRECISION_F32, 1, NULL);
}

static int close_device(void **state)
{
    (void)state;
    mint_backend_close(dev);
    return 0;
}

/* Values whose sum depends on the order of addition. */
static float leaf_value(uint64_t i)
{
    static const float v[] = {1e8f, 1.0f, -1e8f, 0.3f, 7e-3f, 3e7f, -0.1f};
    return v[i % 7] * (1.0f + (float)(i % 11) * 0.01f);
}

static bool absent(uint64_t i, uint64_t mask)
{
    return mask >> (i % 64) & 1;
}

/* The tree by its definition: the sum of leaves [from, from + size) of n, an aligned block. */
static bool tree(uint64_t from, uint64_t size, uint64_t n, uint64_t mask, float *out)
{
    if (from >= n)
        return false;
    if (size == 1) {
        *out = leaf_value(from);
        return !absent(from, mask);
    }
    float left, right;
    bool l = tree(from, size / 2, n, mask, &left);
    bool r = tree(from + size / 2, size / 2, n, mask, &right);
    *out = l && r ? left + right : l ? left : right;
    return l || r;
}

static void push_each(struct mint_gradtree *t, uint64_t from, uint64_t to, uint64_t mask)
{
    struct mint_err err;
    for (uint64_t i = from; i < to; i++) {
        if (absent(i, mask))
            continue;
        float *leaf = mint_gradtree_leaf(t, 1, &err);
        leaf[0] = leaf[1] = leaf[2] = leaf_value(i);
        assert_int_equal(mint_gradtree_push(t, 1, (int64_t)i, leaf, &err), 0);
    }
}

/* The same from rows: leaf i is the one row of a, beginning with a row of no leaf. */
static void push_together(struct mint_gradtree *t, uint64_t from, uint64_t to, uint64_t mask)
{
    enum { MOST = 80 };
    struct mint_err err;
    float a[MOST] = {NAN}, b[MOST][3];
    int64_t first[MOST], number[MOST], n = 0;
    for (uint64_t i = from; i < to; i++) {
        if (absent(i, mask))
            continue;
        number[n] = (int64_t)i;
        first[n] = 1 + n;
        a[1 + n++] = leaf_value(i);
    }
    first[n] = 1 + n;
    for (int64_t i = 0; i < MOST; i++)
        b[i][0] = b[i][1] = b[i][2] = 1.0f;
    struct mint_outer o = {1.0f, a, 1, 1, b, 3, 3};
    assert_int_equal(mint_gradtree_outer(t, 1, &o, first, number, n, &err), 0);
}

static void push_all(struct mint_gradtree *t, uint64_t from, uint64_t to, uint64_t mask)
{
    dev->leaf_room = (to * 7 % 6) * 64 * sizeof(float);
    if (dev->leaf_room)
        push_together(t, from, to, mask);
    else
        push_each(t, from, to, mask);
}

static void one_sum(struct mint_gradtree *t, uint64_t n, uint64_t mask)
{
    struct mint_err err;
    float *sum, *all[2], want;
    push_all(t, 0, n / 3, mask);
    push_all(t, n / 3, n, mask);
    if (n % 2) {
        assert_int_equal(mint_gradtree_sum(t, 1, &sum, &err), 0);
    } else {
        assert_int_equal(mint_gradtree_sum_all(t, all, &err), 0);
        assert_null(all[0]);
        sum = all[1];
    }
    uint64_t size = 1;
    while (size < n)
        size *= 2;
    if (!tree(0, size, n, mask, &want)) {
        assert_null(sum);
        return;
    }
    for (int k = 0; k < 3; k++)
        assert_memory_equal(&sum[k], &want, sizeof want);
}

static void sum_is_the_tree(void **state)
{
    (void)state;
    int64_t sizes[] = {5, 3};
    struct mint_gradtree *t = mint_gradtree_new(dev, sizes, 2);
    for (uint64_t n = 0; n < 70; n++)
        one_sum(t, n, 0);
    for (uint64_t n = 1; n < 40; n++)
        one_sum(t, n, 0x9e3779b97f4a7c15u >> (n % 13));
    one_sum(t, 17, ~0ull);
    mint_gradtree_free(t);
}

/* The leaves of a parameter take two operations, whatever their number. */
static int64_t outers, folds;

static int count_outer(struct mint_dev *d, float *const *out, const struct mint_outer *o,
                       const int64_t *first, int64_t n, struct mint_err *err)
{
    (void)d, (void)out, (void)o, (void)first, (void)n, (void)err;
    outers++;
    return 0;
}

static int count_fold(struct mint_dev *d, const struct mint_fold *f, int64_t n,
                      struct mint_err *err)
{
    (void)d, (void)f, (void)n;
    folds++;
    return outers > 1 ? mint_fail(err, MINT_EDEVICE, "broken") : 0;
}

static void leaves_are_computed_together(void **state)
{
    (void)state;
    struct mint_ops ops = *dev->ops;
    struct mint_dev counting = {.ops = &ops, .leaf_room = 1 << 20};
    int64_t sizes[] = {5, 3}, first[61], number[60];
    struct mint_outer o = {0};
    struct mint_err err;
    struct mint_gradtree *t = mint_gradtree_new(&counting, sizes, 2);
    ops.outer = count_outer;
    ops.fold = count_fold;
    for (int64_t i = 0; i <= 60; i++)
        first[i] = i;
    for (int64_t i = 0; i < 60; i++)
        number[i] = i + 3;
    assert_int_equal(mint_gradtree_outer(t, 1, &o, first, number, 60, &err), 0);
    assert_int_equal(outers, 1);
    assert_int_equal(folds, 1);
    /* one that fails leaves a tree that can be emptied */
    assert_int_equal(mint_gradtree_outer(t, 0, &o, first, number, 60, &err), -1);
    mint_gradtree_free(t);
}

static void reset_forgets(void **state)
{
    (void)state;
    struct mint_err err;
    int64_t sizes[] = {4, 3};
    float *sum;
    struct mint_gradtree *t = mint_gradtree_new(dev, sizes, 2);
    for (int i = 0; i < 5; i++)
        assert_int_equal(mint_gradtree_push(t, 0, i, mint_gradtree_leaf(t, 0, &err), &err), 0);
    mint_gradtree_reset(t);
    assert_int_equal(mint_gradtree_sum(t, 0, &sum, &err), 0);
    assert_null(sum);
    one_sum(t, 6, 0);
    mint_gradtree_free(t);
}

/* Leaves [from, to) of n in a tree of their own, and its nodes into t. */
static void add_stretch(struct mint_gradtree *t, uint64_t from, uint64_t to, uint64_t mask)
{
    struct mint_err err;
    struct mint_gradnode nodes[MINT_GRADTREE_NODES];
    int64_t sizes[] = {5, 3};
    struct mint_gradtree *part = mint_gradtree_new(dev, sizes, 2);
    mint_gradtree_begin(part, (int64_t)from);
    push_all(part, from, to, mask);
    size_t n = mint_gradtree_nodes(part, 1, nodes);
    for (size_t k = 0; k < n; k++) {
        float *copy = mint_gradtree_leaf(t, 1, &err);
        memcpy(copy, nodes[k].sum, 3 * sizeof *copy);
        assert_int_equal(mint_gradtree_push_node(t, 1, nodes[k].number, nodes[k].level, copy, &err),
                         0);
    }
    mint_gradtree_free(part);
}

static void stretches_join_to_the_tree(void **state)
{
    (void)state;
    struct mint_err err;
    int64_t sizes[] = {5, 3};
    uint64_t masks[] = {0, 0x5a5a5a5a12345678u, ~0xffull};
    struct mint_gradtree *t = mint_gradtree_new(dev, sizes, 2);
    for (uint64_t n = 1; n < 40; n++) {
        for (uint64_t a = 0; a <= n; a++) {
            uint64_t b = a + (n - a) * (a % 4) / 3, size = 1, mask = masks[(n + a) % 3];
            float *sum, want;
            add_stretch(t, 0, a, mask);
            add_stretch(t, a, MINT_MIN(b, n), mask);
            add_stretch(t, MINT_MIN(b, n), n, mask);
            while (size < n)
                size *= 2;
            assert_int_equal(mint_gradtree_sum(t, 1, &sum, &err), 0);
            if (tree(0, size, n, mask, &want))
                assert_memory_equal(sum, &want, sizeof want);
            else
                assert_null(sum);
        }
    }
    mint_gradtree_free(t);
}

/* The tree of a stretch in the middle becomes that of the whole. */
static void own_nodes_among_others(void **state)
{
    (void)state;
    struct mint_err err;
    struct mint_gradnode own[MINT_GRADTREE_NODES];
    int64_t sizes[] = {5, 3};
    struct mint_gradtree *t = mint_gradtree_new(dev, sizes, 2);
    for (uint64_t n = 3; n < 30; n++) {
        uint64_t a = n / 3, b = n - n / 4, size = 1, mask = n % 2 ? 0 : 0x5a5a5a5a12345678u;
        float *sum, want;
        mint_gradtree_begin(t, (int64_t)a);
        add_stretch(t, a, b, mask);
        size_t k = mint_gradtree_take(t, 1, own);
        add_stretch(t, 0, a, mask);
        for (size_t i = 0; i < k; i++)
            assert_int_equal(
                mint_gradtree_push_node(t, 1, own[i].number, own[i].level, own[i].sum, &err), 0);
        add_stretch(t, b, n, mask);
        while (size < n)
            size *= 2;
        assert_int_equal(mint_gradtree_sum(t, 1, &sum, &err), 0);
        assert_true(tree(0, size, n, mask, &want));
        assert_memory_equal(sum, &want, sizeof want);
    }
    /* what one parameter forgets the other keeps */
    mint_gradtree_reset(t);
    add_stretch(t, 0, 5, 0);
    assert_int_equal(mint_gradtree_push(t, 0, 0, mint_gradtree_leaf(t, 0, &err), &err), 0);
    mint_gradtree_forget(t, 0);
    assert_int_equal(mint_gradtree_nodes(t, 0, own), 0);
    assert_int_equal(mint_gradtree_nodes(t, 1, own), 2);
    mint_gradtree_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sum_is_the_tree),        cmocka_unit_test(leaves_are_computed_together),
        cmocka_unit_test(reset_forgets),          cmocka_unit_test(stretches_join_to_the_tree),
        cmocka_unit_test(own_nodes_among_others),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
