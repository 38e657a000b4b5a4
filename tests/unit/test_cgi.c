/* SPDX-License-Identifier: MIT
 *
 * protocol/cgi.c: classes of names; SCRIPT_NAME and PATH_INFO from what front
 * ends send. test_captures.c has the recorded ones.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "protocol/cgi.h"
#include "protocol_util.h"

static void
test_classify(void **state)
{
    static const struct {
        const char *name;
        enum cgi_class class;
    } cases[] = {
        { "REQUEST_METHOD", CGI_METHOD },
        { "SCRIPT_NAME", CGI_SCRIPT_NAME },
        { "PATH_INFO", CGI_PATH_INFO },
        { "REQUEST_URI", CGI_REQUEST_URI },
        { "DOCUMENT_URI", CGI_DOCUMENT_URI },
        { "QUERY_STRING", CGI_QUERY_STRING },
        { "CONTENT_LENGTH", CGI_CONTENT_LENGTH },
        { "CONTENT_TYPE", CGI_EMPTY_ABSENT },
        { "REMOTE_USER", CGI_EMPTY_ABSENT },
        { "AUTH_TYPE", CGI_EMPTY_ABSENT },
        { "HTTPS", CGI_HTTPS },
        { "REQUEST_SCHEME", CGI_SCHEME },
        { "SERVER_NAME", CGI_SERVER_NAME },
        { "SERVER_PORT", CGI_SERVER_PORT },
        { "SERVER_PROTOCOL", CGI_SERVER_PROTOCOL },
        { "HTTP_HOST", CGI_HEADER },
        { "HTTP_X_UNDER_1", CGI_HEADER },
        { "HTTP_COOKIE", CGI_COOKIE },
        { "HTTP_COOKIE2", CGI_HEADER },
        { "HTTP_PROXY", CGI_PROXY },
        { "HTTP_PROXY_CONNECTION", CGI_HEADER },
        { "HTTP_CONTENT_LENGTH", CGI_DROP },
        { "HTTP_CONTENT_TYPE", CGI_DROP },
        { "HTTP_TRANSFER_ENCODING", CGI_DROP },
        { "HTTP_", CGI_DROP },
        { "HTTP_X.DOT", CGI_DROP },
        { "HTTP_X!BANG", CGI_DROP },
        { "HTTP_x", CGI_DROP },
        { "HTTP_X\xc3", CGI_DROP },
        { "HTTP_A=B", CGI_UNUSABLE },
        { "", CGI_UNUSABLE },
        { "=", CGI_UNUSABLE },
        { "A=", CGI_UNUSABLE },
        { "HTTP", CGI_PLAIN },
        { "HTTP2", CGI_PLAIN },
        { "proxy-nokeepalive", CGI_PLAIN },
        { "PATH", CGI_PLAIN },
        { "path_info", CGI_PLAIN },
        { "REMOTE_ADDR", CGI_PLAIN },
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct guard g;
        size_t len = strlen(cases[i].name);

        guard_init(&g, len + 1);
        assert_int_equal(cgi_classify(guard_put(&g, cases[i].name, len), len),
                         cases[i].class);
        guard_release(&g);
    }
    assert_int_equal(cgi_classify("A\0B", 3), CGI_UNUSABLE);
    assert_int_equal(cgi_classify("HTTP_A\0B", 8), CGI_UNUSABLE);
}

/* One way a front end fills the variables; NULL: absent. path_info NULL with
 * outside: the answer is CGI_PATH_OUTSIDE. */
struct path_case {
    const char *mount;
    const char *script_name, *path_info, *document_uri, *request_uri;
    const char *expected; /* PATH_INFO, or NULL: outside the mount */
    bool in_place;        /* nothing may be allocated */
};

static struct cgi_text
text_of(struct guard *g, const char *s)
{
    struct cgi_text text = { NULL, 0 };

    if (s != NULL) {
        text.len = strlen(s);
        guard_init(g, text.len + 1);
        text.data = guard_put(g, s, text.len);
    }
    return text;
}

static void
check_path(const struct path_case *c, bool from_uri)
{
    struct guard g[4] = { { NULL, 0 } };
    struct cgi_path_input in = {
        .script_name = text_of(&g[0], c->script_name),
        .path_info = text_of(&g[1], c->path_info),
        .document_uri = text_of(&g[2], c->document_uri),
        .request_uri = text_of(&g[3], c->request_uri),
    };
    struct cgi_text script_name, path_info;
    struct buf scratch;
    enum cgi_path_result result;
    size_t i;

    buf_init(&scratch, SIZE_MAX);
    result = cgi_split_path(&in, c->mount, strlen(c->mount), from_uri, &scratch,
                            &script_name, &path_info);
    if (c->expected == NULL) {
        assert_int_equal(result, CGI_PATH_OUTSIDE);
    } else {
        char text[200];

        assert_int_equal(result, CGI_PATH_OK);
        assert_ptr_equal(script_name.data, c->mount);
        assert_int_equal(script_name.len, strlen(c->mount));
        assert_non_null(path_info.data);
        snprintf(text, sizeof(text), "%.*s", (int)path_info.len,
                 path_info.data);
        assert_string_equal(text, c->expected);
        if (c->in_place) {
            assert_int_equal(scratch.cap, 0);
        }
    }
    buf_release(&scratch);
    for (i = 0; i < 4; i++) {
        if (g[i].map != NULL) {
            guard_release(&g[i]);
        }
    }
}

/* Rule R1, "mount". */
static void
test_mount(void **state)
{
    static const struct path_case cases[] = {
        /* Stock nginx and ProxyPass: the whole path in SCRIPT_NAME. */
        { "", "/", NULL, "/", "/", "/", true },
        { "", "/app/x", NULL, "/app/x", "/app/x", "/app/x", true },
        { "/app", "/app/x/y", NULL, NULL, "/app/x/y?q=1", "/x/y", true },
        { "/app", "/app", NULL, NULL, "/app", "", true },
        { "/app", "/app", "", NULL, "/app", "", true },
        { "/app", "/app/", NULL, NULL, "/app/", "/", true },
        /* Stock nginx SCGI: neither is sent. */
        { "", NULL, NULL, "/p q", "/p%20q", "/p q", true },
        { "/app", NULL, NULL, "/app/p", "/app/p", "/p", true },
        { "", NULL, NULL, NULL, "/p?x=/", "/p", true },
        { "", NULL, NULL, NULL, "/p%20q?x", "/p q", false },
        { "", "", "", "", "/p", "/p", true },
        { "", NULL, NULL, NULL, NULL, "", true },
        { "", "", "", NULL, NULL, "", true },
        { "/app", NULL, NULL, NULL, NULL, NULL, true },
        /* A split of the front end's at the mount, and elsewhere. */
        { "/app", "/app", "/x/y", NULL, "/app/x/y", "/x/y", false },
        { "", "/app", "/x/y", NULL, "/app/x/y", "/app/x/y", false },
        { "/app/x", "/app", "/x/y", NULL, "/app/x/y", "/y", false },
        { "/app", "/app/x", "/y", NULL, "/app/x/y", "/x/y", false },
        { "", "", "/x", NULL, "/x", "/x", true },
        { "/app", "", "/app/x", NULL, "/app/x", "/x", true },
        /* Segment boundaries. */
        { "/app", "/app", "lication", NULL, "/application", NULL, false },
        { "/app", "/application", NULL, NULL, "/application", NULL, true },
        { "/app", "/ap", NULL, NULL, "/ap", NULL, true },
        { "/app", "/", NULL, NULL, "/", NULL, true },
        { "/app", "/other/app/x", NULL, NULL, "/other/app/x", NULL, true },
        /* The mount was stripped (Caddy handle_path). */
        { "/app", "", "/x/y", NULL, "/app/x/y", "/x/y", true },
        { "/app", "", "/", NULL, "/app/", "/", true },
        { "/app", "", "/x", NULL, "/%61pp/x", "/x", false },
        { "/app", "", "/x", NULL, "/application/x", NULL, true },
        /* ... but not where dot segments only seem to say so. */
        { "/app", "/admin", NULL, NULL, "/app/../admin", NULL, false },
        { "/app", "/admin", NULL, NULL, "/app/%2e%2e/admin", NULL, false },
        /* lighttpd's strip-request-uri shortens REQUEST_URI only. */
        { "/app", "/app", "/x/y", NULL, "/x/y?q=1", "/x/y", false },
        { "/app", "/app", "/app", NULL, "/app", "/app", false },
        /* The path is taken as it is: no decoding, no dots, no slashes. */
        { "", "/a%20b", NULL, NULL, "/a%2520b", "/a%20b", true },
        { "", "", "/a/../b//c", NULL, "/a/../b//c", "/a/../b//c", true },
        { "/app", "", "/app//x", NULL, "/app//x", "//x", true },
        /* SCRIPT_NAME "/" is the root, not a segment. */
        { "", "/", "/x", NULL, "/x", "/x", true },
        { "", "/", "", NULL, "/", "/", true },
        /* The whole path in both. */
        { "", "/x/y", "/x/y", NULL, "/x/y", "/x/y", false },
        { "", "/x", "/x", NULL, "/x/x", "/x/x", false },
        { "", "/x", "/x", NULL, NULL, "/x/x", false },
        /* h2o and a target in absolute form. */
        { "", "", "/http://h:80/app/x%y", NULL, "http://h:80/app/x?q", "/app/x",
          true },
        { "/app", "", "/http://h:80/app/x", NULL, "http://h:80/app/x?q", "/x",
          true },
        { "", "", "/http://h/x", NULL, "/http://h/x", "/http://h/x", true },
        /* Apache sends it absolute beside a right SCRIPT_NAME. */
        { "/app", "/app/x", NULL, NULL, "http://h:80/app/x?q", "/x", true },
        /* No slash in front. */
        { "", "x", "/y", NULL, "/x/y", "/x/y", false },
        { "", "*", NULL, NULL, "*", "/*", false },
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        check_path(&cases[i], false);
    }
}

/* Rule R2, "request-uri". */
static void
test_request_uri(void **state)
{
    static const struct path_case cases[] = {
        { "", "/app.py", NULL, NULL, "/x/y?q=/z", "/x/y", true },
        { "/app", "/index.php", "", NULL, "/app/x", "/x", true },
        { "/app", "/index.php", "", NULL, "/app", "", true },
        { "/app", "/index.php", "", NULL, "/application", NULL, true },
        { "/app", "/app/x", NULL, NULL, "/y", NULL, true },
        { "", "/w", NULL, NULL, "/a%20b/%E2%82%AC", "/a b/\xe2\x82\xac",
          false },
        { "", "/w", NULL, NULL, "/%2541%25", "/%41%", false },
        { "", "/w", NULL, NULL, "/%zz%4%", "/%zz%4%", false },
        { "", "/w", NULL, NULL, "/a%2Fb", "/a/b", false },
        { "", "/w", NULL, NULL, "/a%3Fb?c", "/a?b", false },
        { "", "/w", NULL, NULL, "/?", "/", true },
        { "", "/w", NULL, NULL, "/x#f", "/x", true },
        /* Dot segments, encoded or not. */
        { "", "/w", NULL, NULL, "/a/./b", "/a/b", false },
        { "", "/w", NULL, NULL, "/a/../b", "/b", false },
        { "", "/w", NULL, NULL, "/a/%2e%2E/b", "/b", false },
        { "", "/w", NULL, NULL, "/a%2f..%2fb", "/b", false },
        { "", "/w", NULL, NULL, "/../../b", "/b", false },
        { "", "/w", NULL, NULL, "/a/b/..", "/a/", false },
        { "", "/w", NULL, NULL, "/a/b/.", "/a/b/", false },
        { "", "/w", NULL, NULL, "/..", "/", false },
        { "", "/w", NULL, NULL, "/.", "/", false },
        { "", "/w", NULL, NULL, "/a/.../b", "/a/.../b", false },
        { "", "/w", NULL, NULL, "/.well-known/..x", "/.well-known/..x", false },
        { "", "/w", NULL, NULL, "/a//b", "/a//b", true },
        { "", "/w", NULL, NULL, "/a//../b", "/a/b", false },
        { "", "/w", NULL, NULL, "//h/x", "//h/x", true },
        { "/app", "/w", NULL, NULL, "/app/../admin", NULL, false },
        { "/app", "/w", NULL, NULL, "/x/../app/y", "/y", false },
        /* Absolute form: scheme and authority go. */
        { "", "/w", NULL, NULL, "http://h:81/app/x?q=1", "/app/x", true },
        { "/app", "/w", NULL, NULL, "HTTPS://h/app/x", "/x", true },
        { "", "/w", NULL, NULL, "http://h", "/", true },
        { "", "/w", NULL, NULL, "http://h?q=/x", "/", true },
        { "", "/w", NULL, NULL, "http://h/a/../b", "/b", false },
        /* Neither has a path. */
        { "", "/w", NULL, NULL, "*", "/*", true },
        { "", "/w", NULL, NULL, "example.org:443", "/", true },
        /* Without REQUEST_URI there is only the other rule. */
        { "/app", "/app", "/x", NULL, NULL, "/x", false },
        { "/app", "/app/x", NULL, NULL, "", "/x", true },
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        check_path(&cases[i], true);
    }
}

static void
test_nul(void **state)
{
    struct cgi_path_input in = { .path_info = { "/x\0y", 4 } };
    struct cgi_text script_name, path_info;
    struct buf scratch;

    (void)state;
    buf_init(&scratch, SIZE_MAX);
    assert_int_equal(
        cgi_split_path(&in, "", 0, false, &scratch, &script_name, &path_info),
        CGI_PATH_NUL);
    in.request_uri.data = "/x%00y";
    in.request_uri.len = 6;
    assert_int_equal(
        cgi_split_path(&in, "", 0, true, &scratch, &script_name, &path_info),
        CGI_PATH_NUL);
    /* A NUL in the query only does no harm to the path. */
    in.request_uri.data = "/x?\0";
    in.request_uri.len = 4;
    assert_int_equal(
        cgi_split_path(&in, "", 0, true, &scratch, &script_name, &path_info),
        CGI_PATH_OK);
    buf_release(&scratch);
}

/* Scratch that may not grow: an error, no crash. */
static void
test_no_memory(void **state)
{
    struct cgi_path_input in = {
        .script_name = { "/app", 4 },
        .path_info = { "/x", 2 },
        .request_uri = { "/app/%78", 8 },
    };
    struct cgi_text script_name, path_info;
    struct buf scratch;

    (void)state;
    buf_init(&scratch, 4);
    assert_int_equal(cgi_split_path(&in, "/app", 4, false, &scratch,
                                    &script_name, &path_info),
                     CGI_PATH_LIMIT);
    assert_int_equal(cgi_split_path(&in, "/app", 4, true, &scratch,
                                    &script_name, &path_info),
                     CGI_PATH_LIMIT);
    buf_release(&scratch);
}

/* The same scratch again and again: cleared first, and nothing leaks. */
static void
test_scratch_reused(void **state)
{
    struct buf scratch;
    unsigned i;

    (void)state;
    buf_init(&scratch, 4096);
    for (i = 0; i < 1000; i++) {
        struct cgi_path_input in = {
            .script_name = { "/a/b", 4 },
            .path_info = { "/c", 2 },
            .request_uri = { "/m/a/b/%63", 10 },
        };
        struct cgi_text script_name, path_info;

        assert_int_equal(cgi_split_path(&in, "/m", 2, false, &scratch,
                                        &script_name, &path_info),
                         CGI_PATH_OK);
        assert_int_equal(path_info.len, 6);
        assert_memory_equal(path_info.data, "/a/b/c", 6);
    }
    buf_release(&scratch);
}

static void
test_https(void **state)
{
    static const struct {
        const char *https, *scheme;
        bool expected;
    } cases[] = {
        { "on", NULL, true },     { "ON", "http", true },
        { "1", NULL, true },      { "off", "http", false },
        { "", "http", false },    { NULL, NULL, false },
        { NULL, "https", true },  { NULL, "HTTPS", true },
        { NULL, "http", false },  { "0", NULL, false },
        { "one", NULL, false },   { "o", NULL, false },
        { "off", "https", true }, { NULL, "https ", false },
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct guard g[2] = { { NULL, 0 } };
        struct cgi_text https = text_of(&g[0], cases[i].https);
        struct cgi_text scheme = text_of(&g[1], cases[i].scheme);

        assert_int_equal(cgi_is_https(https, scheme), cases[i].expected);
        if (g[0].map != NULL) {
            guard_release(&g[0]);
        }
        if (g[1].map != NULL) {
            guard_release(&g[1]);
        }
    }
}

/* RFC 3875, section 4.1.14: hostname | "[" IPv6address "]", without a port. */
static void
test_host_length(void **state)
{
    static const struct {
        const char *name, *host;
    } cases[] = {
        { "www.example.org:8080", "www.example.org" },
        { "www.example.org", "www.example.org" },
        { "127.0.0.1:80", "127.0.0.1" },
        { "127.0.0.1", "127.0.0.1" },
        { "[::1]:8080", "[::1]" },
        { "[::1]", "[::1]" },
        { "::1", "::1" },
        { "fe80::1:2", "fe80::1:2" },
        { "host:", "host" }, /* RFC 3986, section 3.2.3: port = *DIGIT */
        { ":80", ":80" },
        { "80", "80" },
        { "host:80x", "host:80x" },
        { "", "" },
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct guard g = { NULL, 0 };
        struct cgi_text name = text_of(&g, cases[i].name);

        assert_int_equal(cgi_host_length(name.data, name.len),
                         strlen(cases[i].host));
        if (g.map != NULL) {
            guard_release(&g);
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_classify),
        cmocka_unit_test(test_mount),
        cmocka_unit_test(test_request_uri),
        cmocka_unit_test(test_nul),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_scratch_reused),
        cmocka_unit_test(test_https),
        cmocka_unit_test(test_host_length),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
