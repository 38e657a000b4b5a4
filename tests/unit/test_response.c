/* SPDX-License-Identifier: MIT
 *
 * protocol/response.c: checks of status and headers (WSGI checklist F2, F3,
 * F6-F12), and the bytes of a response head.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "protocol/response.h"
#include "protocol_util.h"

static enum response_check
check_status(const char *s, size_t len, int *code)
{
    struct guard g;
    const char *why = NULL;
    enum response_check result;

    guard_init(&g, len + 1);
    result = response_check_status(guard_put(&g, s, len), len, code, &why);
    assert_int_equal(result == RESPONSE_BAD, why != NULL);
    guard_release(&g);
    return result;
}

static void
test_status(void **state)
{
    static const struct {
        const char *text;
        enum response_check result;
        int code;
    } cases[] = {
        { "200 OK", RESPONSE_OK, 200 },
        { "404 Not Found", RESPONSE_OK, 404 },
        { "299 Custom \xe4\xff Words", RESPONSE_OK, 299 },
        { "999 x", RESPONSE_OK, 999 },
        { "200", RESPONSE_NO_REASON, 200 },
        { "200 ", RESPONSE_NO_REASON, 200 },
        { "", RESPONSE_BAD, 0 },
        { "2", RESPONSE_BAD, 0 },
        { "20", RESPONSE_BAD, 0 },
        { "abc", RESPONSE_BAD, 0 },
        { "2000 OK", RESPONSE_BAD, 0 },
        { "200OK", RESPONSE_BAD, 0 },
        { "200\tOK", RESPONSE_BAD, 0 },
        { "99 x", RESPONSE_BAD, 0 },
        { " 200 OK", RESPONSE_BAD, 0 },
        { "-20 OK", RESPONSE_BAD, 0 },
        { "099 OK", RESPONSE_BAD, 0 },
        { "000 OK", RESPONSE_BAD, 0 },
        { "100 Continue", RESPONSE_BAD, 0 },
        { "199 x", RESPONSE_BAD, 0 },
        { "200 O\rK", RESPONSE_BAD, 0 },
        { "200 OK\n", RESPONSE_BAD, 0 },
        { "200 O\tK", RESPONSE_BAD, 0 },
        { "200 O\x7fK", RESPONSE_BAD, 0 },
        { "HTTP/1.1 200 OK", RESPONSE_BAD, 0 },
    };
    int code;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        code = 0;
        assert_int_equal(
            check_status(cases[i].text, strlen(cases[i].text), &code),
            cases[i].result);
        assert_int_equal(code, cases[i].code);
    }
    assert_int_equal(check_status("200 O\0K", 7, &code), RESPONSE_BAD);
}

static enum response_check
check_header(const char *name, size_t name_len, const char *value,
             size_t value_len, int64_t *length, const char **why)
{
    struct guard n, v;
    enum response_check result;

    *why = NULL;
    guard_init(&n, name_len + 1);
    guard_init(&v, value_len + 1);
    result = response_check_header(guard_put(&n, name, name_len), name_len,
                                   guard_put(&v, value, value_len), value_len,
                                   length, why);
    assert_int_equal(result == RESPONSE_BAD, *why != NULL);
    guard_release(&n);
    guard_release(&v);
    return result;
}

static void
test_header(void **state)
{
    static const struct {
        const char *name, *value;
        enum response_check result;
    } cases[] = {
        { "Content-Type", "text/html; charset=utf-8", RESPONSE_OK },
        { "X-Empty", "", RESPONSE_OK },
        { "X", " blanks\tand tabs ", RESPONSE_OK },
        { "X", "latin-1 \xe4\xf6\xfc \x80\xff", RESPONSE_OK },
        { "!#$%&'*+-.^_`|~09azAZ", "x", RESPONSE_OK },
        { "Location", "/x", RESPONSE_OK },
        { "X-Accel-Redirect", "/x", RESPONSE_OK },
        { "Statu", "x", RESPONSE_OK },
        { "Status-Code", "x", RESPONSE_OK },
        { "", "x", RESPONSE_BAD },
        { "X Y", "x", RESPONSE_BAD },
        { "X:", "x", RESPONSE_BAD },
        { "X\r", "x", RESPONSE_BAD },
        { "X\nY", "x", RESPONSE_BAD },
        { "X\xe4", "x", RESPONSE_BAD },
        { "X\x7f", "x", RESPONSE_BAD },
        { "X(", "x", RESPONSE_BAD },
        { "X", "a\r\nSet-Cookie: b", RESPONSE_BAD },
        { "X", "a\rb", RESPONSE_BAD },
        { "X", "a\nb", RESPONSE_BAD },
        { "X", "a\x01", RESPONSE_BAD },
        { "X", "\x1f", RESPONSE_BAD },
        { "X", "\x7f", RESPONSE_BAD },
        { "X", "a folded\n line", RESPONSE_BAD },
        { "Status", "200 OK", RESPONSE_BAD },
        { "sTATUS", "200 OK", RESPONSE_BAD },
        { "Connection", "close", RESPONSE_HOP },
        { "keep-ALIVE", "x", RESPONSE_HOP },
        { "Proxy-Authenticate", "x", RESPONSE_HOP },
        { "Proxy-Authorization", "x", RESPONSE_HOP },
        { "Proxy-Connection", "x", RESPONSE_HOP },
        { "TE", "x", RESPONSE_HOP },
        { "Trailer", "x", RESPONSE_HOP },
        { "Trailers", "x", RESPONSE_HOP },
        { "Transfer-Encoding", "chunked", RESPONSE_HOP },
        { "upgrade", "h2c", RESPONSE_HOP },
        { "Connection", "a\nb", RESPONSE_BAD },
        { "Content-Length", "0", RESPONSE_LENGTH },
        { "content-length", "12", RESPONSE_LENGTH },
        { "Content-Length", "", RESPONSE_BAD },
        { "Content-Length", "-1", RESPONSE_BAD },
        { "Content-Length", "+1", RESPONSE_BAD },
        { "Content-Length", " 1", RESPONSE_BAD },
        { "Content-Length", "1 ", RESPONSE_BAD },
        { "Content-Length", "0x1", RESPONSE_BAD },
        { "Content-Length", "1.0", RESPONSE_BAD },
        { "Content-Length", "1, 1", RESPONSE_BAD },
        { "Content-Length", "9223372036854775808", RESPONSE_BAD },
        { "Content-Length", "99999999999999999999999", RESPONSE_BAD },
    };
    int64_t length = -7;
    const char *why;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(check_header(cases[i].name, strlen(cases[i].name),
                                      cases[i].value, strlen(cases[i].value),
                                      &length, &why),
                         cases[i].result);
    }
    assert_int_equal(check_header("X\0Y", 3, "x", 1, &length, &why),
                     RESPONSE_BAD);
    assert_int_equal(check_header("X", 1, "a\0b", 3, &length, &why),
                     RESPONSE_BAD);
    check_header("Content-Length", 14, "9223372036854775807", 19, &length,
                 &why);
    assert_true(length == INT64_MAX);
    check_header("Content-Length", 14, "00012", 5, &length, &why);
    assert_int_equal(length, 12);
}

/* Every byte at every place of a value, across the eight-byte steps. */
static void
test_every_byte(void **state)
{
    int64_t length;
    const char *why;
    size_t len, at;
    int c;

    (void)state;
    for (len = 1; len <= 20; len++) {
        for (at = 0; at < len; at++) {
            for (c = 0; c < 256; c++) {
                char value[20];
                bool control = (c < 0x20 && c != '\t') || c == 0x7f;
                enum response_check result;

                /* All places with some bytes, all bytes at some places. */
                if (len != 20 && len != 11 && c != 0x1f && c != '\t' &&
                    c != 0x7f && c != 0x80 && c != 0xff && c != ' ') {
                    continue;
                }
                memset(value, at % 2 ? 'x' : 0x80, sizeof(value));
                value[at] = (char)c;
                result =
                    response_check_header("X", 1, value, len, &length, &why);
                assert_int_equal(result, control ? RESPONSE_BAD : RESPONSE_OK);
            }
        }
    }
    for (c = 0; c < 256; c++) {
        char name[3] = { 'A', (char)c, 'B' };
        bool token = c != 0 && c < 128 &&
                     strchr("!#$%&'*+-.^_`|~0123456789"
                            "abcdefghijklmnopqrstuvwxyz"
                            "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
                            c) != NULL;

        assert_int_equal(response_check_header(name, 3, "", 0, &length, &why),
                         token ? RESPONSE_OK : RESPONSE_BAD);
    }
}

static void
assert_bytes(const struct buf *b, const char *expected)
{
    assert_int_equal(b->len, strlen(expected));
    assert_memory_equal(b->data, expected, b->len);
}

static void
test_put(void **state)
{
    struct buf b;

    (void)state;
    buf_init(&b, SIZE_MAX);
    assert_int_equal(response_put_status(&b, "200 Fine", 8), 0);
    assert_int_equal(response_put_header(&b, "X-Y", 3, "z", 1), 0);
    assert_int_equal(response_put_header(&b, "X-Empty", 7, "", 0), 0);
    assert_int_equal(response_put_header(&b, "X-Null", 6, NULL, 0), 0);
    assert_int_equal(response_put_length(&b, 0), 0);
    assert_int_equal(response_put_length(&b, UINT64_MAX), 0);
    assert_int_equal(response_put_end(&b), 0);
    assert_bytes(&b, "Status: 200 Fine\r\n"
                     "X-Y: z\r\n"
                     "X-Empty: \r\n"
                     "X-Null: \r\n"
                     "Content-Length: 0\r\n"
                     "Content-Length: 18446744073709551615\r\n"
                     "\r\n");
    /* A status never goes out without a reason. */
    buf_clear(&b);
    assert_int_equal(response_put_status(&b, "404", 3), 0);
    assert_int_equal(response_put_status(&b, "404 ", 4), 0);
    assert_int_equal(response_put_status(&b, "299", 3), 0);
    assert_bytes(&b, "Status: 404 Not Found\r\n"
                     "Status: 404 Not Found\r\n"
                     "Status: 299 Unknown\r\n");
    buf_release(&b);
}

static void
test_put_limit(void **state)
{
    struct buf b;

    (void)state;
    buf_init(&b, 10);
    assert_int_equal(response_put_status(&b, "200 OK", 6), -1);
    assert_int_equal(response_put_header(&b, "Name", 4, "value", 5), -1);
    assert_int_equal(response_put_length(&b, 1), -1);
    assert_int_equal(response_simple(&b, 500, false), -1);
    assert_int_equal(b.len, 0);
    buf_release(&b);
}

static void
test_simple(void **state)
{
    struct buf b;

    (void)state;
    buf_init(&b, SIZE_MAX);
    assert_int_equal(buf_append_str(&b, "what was there"), 0);
    assert_int_equal(response_simple(&b, 500, false), 0);
    assert_bytes(&b, "Status: 500 Internal Server Error\r\n"
                     "Content-Type: text/plain\r\n"
                     "Content-Length: 26\r\n"
                     "\r\n"
                     "500 Internal Server Error\n");
    assert_int_equal(response_simple(&b, 413, true), 0);
    assert_bytes(&b, "Status: 413 Content Too Large\r\n"
                     "Content-Type: text/plain\r\n"
                     "Content-Length: 22\r\n"
                     "\r\n");
    assert_int_equal(response_simple(&b, 304, false), 0);
    assert_bytes(&b, "Status: 304 Not Modified\r\n"
                     "\r\n");
    buf_release(&b);
}

static void
test_reason(void **state)
{
    static const int server_uses[] = { 200, 204, 304, 400, 404,
                                       408, 413, 431, 500, 503 };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(server_uses) / sizeof(server_uses[0]); i++) {
        assert_string_not_equal(response_reason(server_uses[i]), "Unknown");
    }
    assert_string_equal(response_reason(0), "Unknown");
    assert_string_equal(response_reason(999), "Unknown");
    assert_true(response_is_bodyless(100));
    assert_true(response_is_bodyless(204));
    assert_true(response_is_bodyless(304));
    assert_false(response_is_bodyless(200));
    assert_false(response_is_bodyless(205));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_status),     cmocka_unit_test(test_header),
        cmocka_unit_test(test_every_byte), cmocka_unit_test(test_put),
        cmocka_unit_test(test_put_limit),  cmocka_unit_test(test_simple),
        cmocka_unit_test(test_reason),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
