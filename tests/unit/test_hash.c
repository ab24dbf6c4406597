/* SPDX-License-Identifier: Apache-2.0 */
#include "hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void digest(bool portable, const void *p, size_t n, size_t piece, char out[MINT_SHA256_TEXT])
{
    struct mint_sha256 s;
    const char *c = p;
    mint_sha256_init(&s);
    if (portable)
        s.fast = false;
    while (n > 0) {
        size_t take = MINT_MIN(piece, n);
        mint_sha256_add(&s, c, take);
        c += take;
        n -= take;
    }
    mint_sha256_add(&s, NULL, 0);
    mint_sha256_end_text(&s, out);
}

/* FIPS 180-4 examples, and the empty text */
static void known_answers(void **state)
{
    (void)state;
    static char million[1000000];
    memset(million, 'a', sizeof million);
    const struct {
        const char *text;
        size_t n;
        const char *hex;
    } cases[] = {
        {"", 0, "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", 3, "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
         "sha256:248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {million, sizeof million,
         "sha256:cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
    };
    char out[MINT_SHA256_TEXT];
    for (size_t i = 0; i < MINT_ARRAY_LEN(cases); i++) {
        for (int portable = 0; portable < 2; portable++) {
            digest(portable, cases[i].text, cases[i].n, SIZE_MAX, out);
            assert_string_equal(out, cases[i].hex);
        }
    }
}

static void pieces_and_instructions_do_not_matter(void **state)
{
    (void)state;
    unsigned char data[400];
    char whole[MINT_SHA256_TEXT], other[MINT_SHA256_TEXT];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 37 + i / 7);
    for (size_t n = 0; n <= sizeof data; n++) {
        digest(false, data, n, SIZE_MAX, whole);
        digest(true, data, n, SIZE_MAX, other);
        assert_string_equal(whole, other);
        for (size_t piece = 1; piece < 130; piece += 21) {
            digest(false, data, n, piece, other);
            assert_string_equal(whole, other);
        }
    }
}

/* Two texts at once, from any length on, on either path. */
static void two_at_once(void **state)
{
    (void)state;
    unsigned char a[600], b[600];
    char want[2][MINT_SHA256_TEXT], got[2][MINT_SHA256_TEXT];
    for (size_t i = 0; i < sizeof a; i++) {
        a[i] = (unsigned char)(i * 37 + i / 7);
        b[i] = (unsigned char)(i * 11 + 5);
    }
    for (size_t n = 0; n < 300; n++) {
        for (int fast = 0; fast < 4; fast++) {
            size_t before = n % 7 ? 0 : 64 + n % 2; /* whole blocks or not */
            struct mint_sha256 s, t;
            mint_sha256_init(&s);
            mint_sha256_init(&t);
            s.fast = s.fast && (fast & 1);
            t.fast = t.fast && (fast & 2);
            mint_sha256_add(&s, a, before);
            mint_sha256_add_two(&s, a + before, &t, b, n);
            mint_sha256_end_text(&s, got[0]);
            mint_sha256_end_text(&t, got[1]);
            digest(true, a, before + n, SIZE_MAX, want[0]);
            digest(true, b, n, SIZE_MAX, want[1]);
            assert_string_equal(got[0], want[0]);
            assert_string_equal(got[1], want[1]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(pieces_and_instructions_do_not_matter),
        cmocka_unit_test(two_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
