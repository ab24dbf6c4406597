/* SPDX-License-Identifier: Apache-2.0 */
#include "buf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void grows_and_ends_in_nul(void **state)
{
    (void)state;
    struct mint_buf b = MINT_BUF_INIT;
    for (int i = 0; i < 10000; i++) {
        mint_buf_addc(&b, (char)('a' + i % 26));
        assert_int_equal(b.data[b.len], 0);
        assert_true(b.cap > b.len);
    }
    assert_int_equal(b.len, 10000);
    for (int i = 0; i < 10000; i++)
        assert_int_equal(b.data[i], 'a' + i % 26);
    mint_buf_release(&b);
    assert_null(b.data);
    assert_int_equal(b.len + b.cap, 0);
}

static void adds_nothing_bytes_text_and_format(void **state)
{
    (void)state;
    struct mint_buf b = MINT_BUF_INIT;
    mint_buf_add(&b, NULL, 0);
    assert_string_equal(b.data, "");
    mint_buf_adds(&b, "ab");
    mint_buf_add(&b, "\0c", 2);
    mint_buf_addf(&b, "%05d%s", 42, "!");
    assert_int_equal(b.len, 10);
    assert_memory_equal(b.data, "ab\0c00042!", 11);
    mint_buf_release(&b);
}

static void long_format_fits(void **state)
{
    (void)state;
    struct mint_buf b = MINT_BUF_INIT;
    mint_buf_addf(&b, "%*s|", 5000, "x");
    assert_int_equal(b.len, 5001);
    assert_int_equal(b.data[4999], 'x');
    assert_int_equal(b.data[5000], '|');
    mint_buf_release(&b);
}

static void reset_keeps_memory(void **state)
{
    (void)state;
    struct mint_buf b = MINT_BUF_INIT;
    mint_buf_reset(&b);
    mint_buf_adds(&b, "hello");
    char *data = b.data;
    mint_buf_reset(&b);
    assert_ptr_equal(b.data, data);
    assert_int_equal(b.len, 0);
    assert_string_equal(b.data, "");
    mint_buf_release(&b);
}

static void detach_gives_away(void **state)
{
    (void)state;
    struct mint_buf b = MINT_BUF_INIT;
    char *empty = mint_buf_detach(&b);
    assert_string_equal(empty, "");
    mint_buf_adds(&b, "text");
    char *text = mint_buf_detach(&b);
    assert_string_equal(text, "text");
    assert_null(b.data);
    free(empty);
    free(text);
}

static void reserve_leaves_room(void **state)
{
    (void)state;
    struct mint_buf b = MINT_BUF_INIT;
    for (size_t want = 0; want < 300; want++) {
        mint_buf_reserve(&b, want);
        assert_true(b.cap >= b.len + want + 1);
        mint_buf_addc(&b, 'x');
    }
    mint_buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grows_and_ends_in_nul),
        cmocka_unit_test(adds_nothing_bytes_text_and_format),
        cmocka_unit_test(long_format_fits),
        cmocka_unit_test(reset_keeps_memory),
        cmocka_unit_test(detach_gives_away),
        cmocka_unit_test(reserve_leaves_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
