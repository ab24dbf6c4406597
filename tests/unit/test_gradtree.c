/* SPDX-License-Identifier: Apache-2.0 */
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

static void one_sum(struct mint_gradtree *t, uint64_t n, uint64_t mask)
{
    struct mint_err err;
    float *sum, want;
    for (uint64_t i = 0; i < n; i++) {
        if (absent(i, mask))
            continue;
        float *leaf = mint_gradtree_leaf(t, 1, &err);
        leaf[0] = leaf[1] = leaf[2] = leaf_value(i);
        assert_int_equal(mint_gradtree_push(t, 1, (int64_t)i, leaf, &err), 0);
    }
    assert_int_equal(mint_gradtree_sum(t, 1, &sum, &err), 0);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sum_is_the_tree),
        cmocka_unit_test(reset_forgets),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
