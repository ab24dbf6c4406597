/* SPDX-License-Identifier: Apache-2.0 */
#include "mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void nothing_is_still_something(void **state)
{
    (void)state;
    void *p = mint_xmalloc(0), *q = mint_xcalloc(0, 8), *r = mint_xrealloc(NULL, 0);
    assert_non_null(p);
    assert_non_null(q);
    assert_non_null(r);
    free(p);
    free(q);
    free(r);
}

static void calloc_is_zeroed(void **state)
{
    (void)state;
    unsigned char *p = mint_xcalloc(1000, 3);
    for (size_t i = 0; i < 3000; i++)
        assert_int_equal(p[i], 0);
    free(p);
}

static void strings(void **state)
{
    (void)state;
    char *a = mint_xstrdup("abc"), *b = mint_xstrndup("abcdef", 2),
         *c = mint_xasprintf("%s-%d", a, 7);
    assert_string_equal(a, "abc");
    assert_string_equal(b, "ab");
    assert_string_equal(c, "abc-7");
    free(a);
    free(b);
    free(c);
}

static void say_hook(void)
{
    (void)!write(STDERR_FILENO, "hook ", 5);
}

static void overflow_is_fatal_after_the_hook(void **state)
{
    (void)state;
    int ends[2], status;
    char text[256] = "";
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        mint_mem_on_fatal = say_hook;
        free(mint_xreallocarray(NULL, SIZE_MAX / 2, 3));
        _exit(77);
    }
    close(ends[1]);
    assert_true(read(ends[0], text, 5) == 5);
    assert_string_equal(text, "hook ");
    assert_true(read(ends[0], text, sizeof text - 1) > 0);
    assert_non_null(strstr(text, "out of memory"));
    close(ends[0]);
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}

static void arena_aligns_and_keeps(void **state)
{
    (void)state;
    struct mint_arena a = MINT_ARENA_INIT;
    char *kept[500];
    for (size_t i = 0; i < 500; i++) {
        kept[i] = mint_arena_alloc(&a, i * 7);
        assert_int_equal((uintptr_t)kept[i] % 16, 0);
        memset(kept[i], (int)(i & 0xff), i * 7);
    }
    for (size_t i = 0; i < 500; i++) {
        for (size_t k = 0; k < i * 7; k++)
            assert_int_equal((unsigned char)kept[i][k], i & 0xff);
    }
    assert_string_equal(mint_arena_strndup(&a, "hello", 4), "hell");
    mint_arena_release(&a);
    assert_null(a.head);
}

static void arena_reset_stops_allocating(void **state)
{
    (void)state;
    struct mint_arena a = MINT_ARENA_INIT;
    void *first = NULL;
    for (int round = 0; round < 20; round++) {
        void *p = mint_arena_alloc(&a, 10000);
        for (int i = 0; i < 10; i++)
            mint_arena_alloc(&a, 5000);
        if (round == 2)
            first = p;
        if (round > 2)
            assert_ptr_equal(p, first);
        mint_arena_reset(&a);
    }
    mint_arena_reset(&a);
    mint_arena_release(&a);
    mint_arena_reset(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_still_something),
        cmocka_unit_test(calloc_is_zeroed),
        cmocka_unit_test(strings),
        cmocka_unit_test(overflow_is_fatal_after_the_hook),
        cmocka_unit_test(arena_aligns_and_keeps),
        cmocka_unit_test(arena_reset_stops_allocating),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
