/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers and words in running text. Each function is linear in the text. */
#include <string.h>

#include "num.h"
#include "num_swar.h"
#include "score.h"

static bool digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (unsigned char)c >= 0x80;
}

static size_t digits(const char *s, size_t n)
{
    size_t i = 0;
    while (i < n && digit(s[i]))
        i++;
    return i;
}

/* The first place from i on where a number can begin; what is passed over has no digit. */
static size_t next_digit(const char *text, size_t n, size_t i)
{
    while (n - i >= 8 && mint_swar_others(mint_swar_load(text + i)) == UINT64_C(0x8080808080808080))
        i += 7; /* the eighth byte may be the point of ".5" */
    return i;
}

/* Length of the unsigned number at s[0..n), which starts with a digit or with a point and a digit.
 */
static size_t unsigned_number(const char *s, size_t n)
{
    size_t i = digits(s, n);
    if (i >= 1 && i <= 3) {
        while (i + 3 < n && s[i] == ',' && digits(s + i + 1, MINT_MIN(n - i - 1, (size_t)4)) == 3)
            i += 4;
    }
    if (i + 1 < n && s[i] == '.' && digit(s[i + 1]))
        i += 1 + digits(s + i + 1, n - i - 1);
    if (i + 1 < n && (s[i] == 'e' || s[i] == 'E')) {
        size_t sign = s[i + 1] == '-' || s[i + 1] == '+';
        size_t e = digits(s + i + 1 + sign, n - i - 1 - sign), end = i + 1 + sign + e;
        if (e && !(end < n && letter(s[end])))
            i = end;
    }
    return i;
}

/* Bytes of a sign that ends at text[at). */
static size_t sign_before(const char *text, size_t at)
{
    size_t n = 0;
    if (at >= 1 && (text[at - 1] == '-' || text[at - 1] == '+'))
        n = 1;
    else if (at >= 3 && !memcmp(text + at - 3, "\xe2\x88\x92", 3))
        n = 3;
    if (!n || at == n)
        return n;
    char before = text[at - n - 1];
    bool joined =
        digit(before) || letter(before) || before == ')' || before == ']' || before == '}';
    return joined ? 0 : n;
}

bool mint_number_find(const char *text, size_t n, enum mint_score_which which, size_t *at,
                      size_t *len)
{
    bool found = false;
    for (size_t i = 0; i < n;) {
        bool point =
            text[i] == '.' && i + 1 < n && digit(text[i + 1]) && !(i && digit(text[i - 1]));
        if (!digit(text[i]) && !point) {
            i = next_digit(text, n, i + 1);
            continue;
        }
        size_t sign = sign_before(text, i), size = unsigned_number(text + i, n - i);
        *at = i - sign;
        *len = size + sign;
        found = true;
        if (which == MINT_SCORE_FIRST)
            break;
        i += size;
    }
    return found;
}

/* The exponent, of any size: a sign and n digits, the first of which is not 0, plus by. More digits
 * than an int64 holds outweigh every by, so that the sign stays. */
static void put_exponent(struct mint_buf *out, bool down, const char *s, size_t n, int64_t by)
{
    char text[MINT_NUM_MAX];
    if (n <= 18) {
        int64_t e = 0;
        for (size_t i = 0; i < n; i++)
            e = e * 10 + (s[i] - '0');
        by += down ? -e : e;
        if (by) {
            mint_buf_addc(out, 'e');
            mint_buf_add(out, text, (size_t)mint_num_print_int(text, by));
        }
        return;
    }
    mint_buf_adds(out, down ? "e-0" : "e0");
    size_t first = out->len - 1;
    mint_buf_add(out, s, n);
    int64_t carry = down ? -by : by;
    for (size_t i = out->len; carry && i-- > first;) {
        carry += out->data[i] - '0';
        int64_t low = (carry % 10 + 10) % 10;
        out->data[i] = (char)('0' + low);
        carry = (carry - low) / 10;
    }
    size_t zeros = 0;
    while (out->data[first + zeros] == '0')
        zeros++;
    memmove(out->data + first, out->data + first + zeros, out->len - first - zeros + 1);
    out->len -= zeros;
}

void mint_number_canon(const char *s, size_t n, struct mint_buf *out)
{
    size_t i = 0, start = out->len;
    int64_t exponent = 0;
    bool fraction = false, minus = n && *s == '-';
    if (n && (*s == '-' || *s == '+'))
        i = 1;
    else if (n >= 3 && (unsigned char)*s == 0xe2)
        minus = true, i = 3;
    if (minus)
        mint_buf_addc(out, '-');
    size_t first = out->len;
    for (; i < n && s[i] != 'e' && s[i] != 'E'; i++) {
        fraction |= s[i] == '.';
        if (!digit(s[i]))
            continue;
        exponent -= fraction;
        if (s[i] != '0' || out->len > first)
            mint_buf_addc(out, s[i]);
    }
    if (out->len == first) { /* zero has no sign and no exponent */
        out->len = start;
        mint_buf_addc(out, '0');
        return;
    }
    for (; out->data[out->len - 1] == '0'; exponent++)
        out->len--;
    out->data[out->len] = '\0';
    bool down = i < n && s[i + 1] == '-';
    if (i < n)
        i += 1 + (down || s[i + 1] == '+');
    while (i < n && s[i] == '0')
        i++;
    put_exponent(out, down, s + i, n - i, exponent);
}

size_t mint_text_space(const char *s, size_t n)
{
    const unsigned char *u = (const unsigned char *)s;
    if (n == 0)
        return 0;
    if (u[0] < 0x80)
        return u[0] == ' ' || (u[0] >= 9 && u[0] <= 13) || (u[0] >= 28 && u[0] <= 31);
    if (n >= 2 && u[0] == 0xc2)
        return u[1] == 0x85 || u[1] == 0xa0 ? 2 : 0;
    if (n < 3)
        return 0;
    unsigned c = (u[0] & 15u) << 12 | (u[1] & 63u) << 6 | (u[2] & 63u);
    if (u[0] < 0xe1 || u[0] > 0xe3)
        return 0;
    return c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
                   c == 0x202f || c == 0x205f || c == 0x3000
               ? 3
               : 0;
}

void mint_text_trim(const char *text, size_t *at, size_t *n)
{
    size_t k;
    while ((k = mint_text_space(text + *at, *n))) {
        *at += k;
        *n -= k;
    }
    for (;;) {
        const char *end = text + *at + *n;
        if (*n && mint_text_space(end - 1, 1))
            *n -= 1;
        else if (*n >= 2 && mint_text_space(end - 2, 2) == 2)
            *n -= 2;
        else if (*n >= 3 && mint_text_space(end - 3, 3) == 3)
            *n -= 3;
        else
            return;
    }
}

bool mint_text_word(const char *text, size_t n, size_t *at, size_t *word, size_t *word_n)
{
    size_t k;
    while (*at < n && (k = mint_text_space(text + *at, n - *at)))
        *at += k;
    *word = *at;
    while (*at < n && !mint_text_space(text + *at, n - *at))
        ++*at;
    *word_n = *at - *word;
    return *word_n > 0;
}
