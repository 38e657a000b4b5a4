/* SPDX-License-Identifier: MIT
 *
 * server/access_format.c: every letter, escapes, JSON, wrong formats.
 */
#include "tests/unit_server/unit.h"

#include "server/access_format.h"

static const struct request_limits limits = { .params_bytes = 1 << 20,
                                              .params_count = 1000,
                                              .mpx = 1 };
static struct request request;
static struct access_entry entry;
static char line[ACCESS_LINE_MAX + 1];

static void
add(const char *name, const char *value, size_t len)
{
    uint32_t at = (uint32_t)request.params.len;
    uint32_t name_len = (uint32_t)strlen(name);

    assert_int_equal(buf_append(&request.params, name, name_len), 0);
    assert_int_equal(buf_append(&request.params, value, len), 0);
    assert_int_equal(request_add_param(&request, &limits, at, name_len,
                                       at + name_len, (uint32_t)len),
                     0);
}

static void
add_str(const char *name, const char *value)
{
    add(name, value, strlen(value));
}

static int
begin(void **state)
{
    (void)state;
    setenv("TZ", "XST-05:30", 1);
    tzset();
    request_init(&request, &limits);
    entry = (struct access_entry){
        .request = &request,
        .begun = { 86400 * 365, 123456789 },
        .took_ns = 2345678901,
        .status = 404,
        .body_bytes = 17,
        .pool = "sh\"op",
        .worker = 3,
        .pid = 4711,
    };
    return 0;
}

static int
end(void **state)
{
    (void)state;
    request_release(&request);
    return 0;
}

/* The line of a format, without its newline. */
static const char *
line_of(const char *format)
{
    char why[256] = "";
    struct access_format *f = access_format_new(format, why, sizeof(why));
    size_t len;

    assert_string_equal(why, "");
    assert_non_null(f);
    len = access_format_line(f, &entry, line);
    access_format_free(f);
    assert_true(len > 0 && len <= ACCESS_LINE_MAX);
    assert_int_equal(line[len - 1], '\n');
    assert_null(memchr(line, '\n', len - 1));
    line[len - 1] = '\0';
    return line;
}

static void
test_letters(void **state)
{
    (void)state;
    add_str("REMOTE_ADDR", "::1");
    add_str("REMOTE_USER", "me");
    add_str("REQUEST_METHOD", "POST");
    add_str("REQUEST_URI", "/a/b?c=d");
    add_str("QUERY_STRING", "c=d");
    add_str("SERVER_PROTOCOL", "HTTP/2.0");
    add_str("HTTP_X_FORWARDED_FOR", "10.0.0.1");
    add_str("CONTENT_TYPE", "text/x");
    add_str("CONTENT_LENGTH", "5");
    add_str("odd name", "odd value");
    assert_string_equal(line_of("%h %l %u"), "::1 - me");
    assert_string_equal(line_of("%t"), "[01/Jan/1971:05:30:00 +0530]");
    assert_string_equal(line_of("\"%r\""), "\"POST /a/b?c=d HTTP/2.0\"");
    assert_string_equal(line_of("%m %U %q %H"), "POST /a/b ?c=d HTTP/2.0");
    assert_string_equal(line_of("%s %>s %<s"), "404 404 404");
    assert_string_equal(line_of("%b %B"), "17 17");
    assert_string_equal(line_of("%D %T"), "2345678 2");
    assert_string_equal(line_of("%p %P %w"), "4711 sh\\x22op 3");
    assert_string_equal(line_of("%X"), "-");
    assert_string_equal(line_of("100%% %%h"), "100% %h");
    assert_string_equal(line_of("%{X-Forwarded-For}i|%{x-forwarded-for}i"),
                        "10.0.0.1|10.0.0.1");
    assert_string_equal(line_of("%{Content-Type}i %{Content-Length}i"),
                        "text/x 5");
    assert_string_equal(line_of("%{odd name}e %{REQUEST_METHOD}e"),
                        "odd value POST");
    assert_string_equal(line_of("text only"), "text only");
    entry.client_closed = true;
    entry.status = 0;
    entry.body_bytes = 0;
    assert_string_equal(line_of("%s %b %B %X"), "- - 0 client-closed");
}

/* Nothing of a request is there. */
static void
test_nothing(void **state)
{
    (void)state;
    assert_string_equal(line_of("%h %u %m %H %{A}i %{A}e"), "- - - - - -");
    assert_string_equal(line_of("[%U][%q]"), "[][]");
    assert_string_equal(line_of("%r"), "-  -");
}

/* Front ends that send no REQUEST_URI. */
static void
test_path_without_uri(void **state)
{
    (void)state;
    add_str("SCRIPT_NAME", "/app");
    add_str("PATH_INFO", "/x y");
    add_str("QUERY_STRING", "q");
    add_str("REQUEST_METHOD", "GET");
    assert_string_equal(line_of("%U%q"), "/app/x y?q");
    assert_string_equal(line_of("%r"), "GET /app/x y?q -");
}

static void
test_named_formats(void **state)
{
    (void)state;
    add_str("REMOTE_ADDR", "10.1.2.3");
    add_str("HTTP_REFERER", "http://x/");
    add_str("REQUEST_METHOD", "GET");
    add_str("REQUEST_URI", "/");
    add_str("SERVER_PROTOCOL", "HTTP/1.1");
    assert_string_equal(line_of("common"),
                        "10.1.2.3 - - [01/Jan/1971:05:30:00 +0530] "
                        "\"GET / HTTP/1.1\" 404 17");
    assert_string_equal(line_of("combined"),
                        "10.1.2.3 - - [01/Jan/1971:05:30:00 +0530] "
                        "\"GET / HTTP/1.1\" 404 17 \"http://x/\" \"-\"");
}

static void
test_escapes(void **state)
{
    (void)state;
    add("REQUEST_URI", "/a\"\\\n\r\0\x1b\x7f\xff\xc3\xa9~", 12);
    assert_string_equal(line_of("%U"), "/a\\x22\\x5c\\x0a\\x0d\\x00\\x1b\\x7f"
                                       "\\xff\\xc3\\xa9");
}

/* Cut at the limit, and an escape is whole or not there. */
static void
test_long_lines(void **state)
{
    char big[8192];

    (void)state;
    memset(big, 'a', sizeof(big));
    add("HTTP_A", big, sizeof(big));
    memset(big, '"', sizeof(big));
    add("HTTP_B", big, sizeof(big));
    for (size_t room = 0; room < 6; room++) {
        char format[ACCESS_LINE_MAX + 20];
        size_t len = ACCESS_LINE_MAX - 1 - room;

        memset(format, 'x', len);
        strcpy(format + len, "%{B}i%s");
        assert_int_equal(strlen(line_of(format)), len + (room >= 4 ? 4 : 0));
    }
    assert_int_equal(strlen(line_of("%{A}i%{A}i")), ACCESS_LINE_MAX - 1);
}

static void
test_json(void **state)
{
    (void)state;
    add_str("REMOTE_ADDR", "::1");
    add_str("REQUEST_METHOD", "GET");
    add_str("REQUEST_URI", "/x");
    add_str("SERVER_PROTOCOL", "HTTP/1.1");
    add_str("HTTP_HOST", "h");
    assert_string_equal(
        line_of("json"),
        "{\"time\":\"1971-01-01T05:30:00.123+05:30\",\"pool\":\"sh\\u0022op\","
        "\"pid\":4711,\"worker\":3,\"remote_addr\":\"::1\","
        "\"remote_user\":null,\"method\":\"GET\",\"host\":\"h\",\"uri\":\"/x\","
        "\"protocol\":\"HTTP/1.1\",\"status\":404,\"bytes\":17,"
        "\"duration_us\":2345678,\"client_closed\":false,\"referer\":null,"
        "\"user_agent\":null}");
    entry.status = 0;
    entry.client_closed = true;
    assert_contains(line_of("json"), "\"status\":null,");
    assert_contains(line_of("json"), "\"client_closed\":true,");
}

/* RFC 3629: what is UTF-8 stays, every other byte becomes a character. */
static void
test_json_bytes(void **state)
{
    static const struct {
        const char *bytes, *json;
    } cases[] = {
        { "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
          "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80" },
        { "\xef\xbf\xbf\xf4\x8f\xbf\xbf", "\xef\xbf\xbf\xf4\x8f\xbf\xbf" },
        { "\x80", "\\u0080" },
        { "\xff\xfe", "\\u00ff\\u00fe" },
        { "\xc0\xaf", "\\u00c0\\u00af" },
        { "\xc1\xbf", "\\u00c1\\u00bf" },
        { "\xe0\x9f\xbf", "\\u00e0\\u009f\\u00bf" },
        { "\xed\xa0\x80", "\\u00ed\\u00a0\\u0080" },
        { "\xf0\x8f\xbf\xbf", "\\u00f0\\u008f\\u00bf\\u00bf" },
        { "\xf4\x90\x80\x80", "\\u00f4\\u0090\\u0080\\u0080" },
        { "\xf5\x80\x80\x80", "\\u00f5\\u0080\\u0080\\u0080" },
        { "\xc3", "\\u00c3" },
        { "\xe2\x82", "\\u00e2\\u0082" },
        { "\xe2\x82x", "\\u00e2\\u0082x" },
        { "\"\\\x01\x1f\x7f", "\\u0022\\u005c\\u0001\\u001f\\u007f" },
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        char expected[200];

        request_clear(&request);
        add_str("HTTP_REFERER", cases[i].bytes);
        snprintf(expected, sizeof(expected), "\"referer\":\"%s\",",
                 cases[i].json);
        assert_contains(line_of("json"), expected);
    }
}

/* Every member as long as it may be, and longer: still whole. */
static void
test_json_is_never_cut(void **state)
{
    static const char *const names[] = { "REMOTE_ADDR",    "REMOTE_USER",
                                         "REQUEST_METHOD", "HTTP_HOST",
                                         "REQUEST_URI",    "SERVER_PROTOCOL",
                                         "HTTP_REFERER",   "HTTP_USER_AGENT" };
    char big[8192];

    (void)state;
    memset(big, '\x01', sizeof(big));
    for (size_t i = 0; i < COUNT(names); i++) {
        add(names[i], big, sizeof(big));
    }
    memset(big, 'p', sizeof(big));
    big[sizeof(big) - 1] = '\0';
    entry.pool = big;
    entry.pid = entry.worker = 2147483647;
    entry.took_ns = entry.body_bytes = UINT64_MAX;
    line_of("json");
    assert_int_equal(line[strlen(line) - 1], '}');
    assert_contains(line, "\\u0001\"}");
    assert_null(strstr(line, "\\u0001\\u0001\\u000\""));
}

static void
test_wrong_formats(void **state)
{
    static const struct {
        const char *format, *why;
    } cases[] = {
        { "%z", "there is no %z" },
        { "%h %", "there is no %" },
        { "%\xff", "there is no %\\xff" },
        { "%{", "needs a name" },
        { "%{A", "needs a name" },
        { "%{}i", "needs a name" },
        { "%{A}", "is followed by" },
        { "%{A}q", "is followed by" },
        { "%{Set-Cookie}o", "%{Set-Cookie}o: headers of the answer" },
        { "", "not empty" },
        { "a\nb", "one line" },
    };
    char why[256];

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_int_equal(access_format_check(cases[i].format, why, sizeof(why)),
                         -1);
        assert_contains(why, cases[i].why);
        assert_contains(why, "access_format");
    }
    assert_int_equal(access_format_check("%h", why, sizeof(why)), 0);
    access_format_free(NULL);
}

#define WITH_REQUEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_REQUEST(test_letters),
        WITH_REQUEST(test_nothing),
        WITH_REQUEST(test_path_without_uri),
        WITH_REQUEST(test_named_formats),
        WITH_REQUEST(test_escapes),
        WITH_REQUEST(test_long_lines),
        WITH_REQUEST(test_json),
        WITH_REQUEST(test_json_bytes),
        WITH_REQUEST(test_json_is_never_cut),
        cmocka_unit_test(test_wrong_formats),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
