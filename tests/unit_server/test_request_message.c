/* SPDX-License-Identifier: MIT
 *
 * server/request_message.c: URLs, headers, and the bytes of both protocols,
 * which the server's own decoders must understand.
 */
#include "tests/unit_server/unit.h"

#include <strings.h>

#include "protocol/decoder.h"
#include "protocol/fcgi.h"
#include "server/request_message.h"

static char why[512];

static const char *
value(const struct message *m, const char *name)
{
    const struct message_param *p = message_find(m, name);

    return p != NULL ? p->value : NULL;
}

static void
is(const struct message *m, const char *name, const char *expected)
{
    const char *v = value(m, name);

    if (expected == NULL) {
        assert_null(v);
    } else if (v == NULL || strcmp(v, expected) != 0) {
        fail_msg("%s is \"%s\", not \"%s\"", name, v ? v : "(absent)",
                 expected);
    }
}

struct url_case {
    const char *url, *script_name, *path_info; /* given */
    const char *script, *path, *query, *uri, *host, *port, *connect;
};

static void
test_urls(void **state)
{
    static const struct url_case cases[] = {
        { "/", NULL, NULL, "", "/", "", "/", "localhost", "80", "" },
        { "/a/b?c=d&e=%41", NULL, NULL, "", "/a/b", "c=d&e=%41",
          "/a/b?c=d&e=%41", "localhost", "80", "" },
        { "/a%20b/%E2%82%AC%zz%4", NULL, NULL, "", "/a b/\xe2\x82\xac%zz%4", "",
          "/a%20b/%E2%82%AC%zz%4", "localhost", "80", "" },
        { "http://ex.org/x?y#z", NULL, NULL, "", "/x", "y", "/x?y", "ex.org",
          "80", "" },
        { "https://ex.org:8443", NULL, NULL, "", "/", "", "/", "ex.org:8443",
          "8443", "ex.org:8443" },
        { "HTTPS://ex.org?q", NULL, NULL, "", "/", "q", "/?q", "ex.org", "443",
          "" },
        { "http://[::1]:90/x#f?g", NULL, NULL, "", "/x", "", "/x", "[::1]:90",
          "90", "[::1]:90" },
        { "http://[::1]/", NULL, NULL, "", "/", "", "/", "[::1]", "80", "" },
        { "/app/x", "/app", NULL, "/app", "/x", "", "/app/x", "localhost", "80",
          "" },
        { "/app", "/app", NULL, "/app", "", "", "/app", "localhost", "80", "" },
        { "/application", "/app", NULL, "/app", "/application", "",
          "/application", "localhost", "80", "" },
        { "/x", "/s", "/p", "/s", "/p", "", "/x", "localhost", "80", "" },
        { "/x", NULL, "", "", "", "", "/x", "localhost", "80", "" },
        { "*", NULL, NULL, "", "*", "", "*", "localhost", "80", "" },
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct url_case *c = &cases[i];
        struct message m = { 0 };
        char host[300];

        if (message_url(&m, c->url, c->script_name, c->path_info, host,
                        sizeof(host), why, sizeof(why)) != 0) {
            fail_msg("%s: %s", c->url, why);
        }
        is(&m, "SCRIPT_NAME", c->script);
        is(&m, "PATH_INFO", c->path);
        is(&m, "QUERY_STRING", c->query);
        is(&m, "REQUEST_URI", c->uri);
        is(&m, "HTTP_HOST", c->host);
        is(&m, "SERVER_PORT", c->port);
        is(&m, "HTTPS", strncasecmp(c->url, "https", 5) == 0 ? "on" : NULL);
        assert_string_equal(host, c->connect);
        message_release(&m);
    }
}

static void
test_bad_urls(void **state)
{
    static const char *const bad[] = {
        "",
        "x",
        "ftp://x/",
        "http://",
        "http:///x",
        "http://[::1/x",
        "http://:80/",
        "http://h:1234567890/",
    };

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct message m = { 0 };
        char host[300];

        if (message_url(&m, bad[i], NULL, NULL, host, sizeof(host), why,
                        sizeof(why)) == 0) {
            fail_msg("%s was taken", bad[i]);
        }
        message_release(&m);
    }
}

/* A NUL byte in the path reaches the server, which has to refuse it. */
static void
test_nul_in_path(void **state)
{
    const struct message_param *p;
    struct message m = { 0 };
    char host[300];

    (void)state;
    assert_int_equal(message_url(&m, "/a%00b", NULL, NULL, host, sizeof(host),
                                 why, sizeof(why)),
                     0);
    p = message_find(&m, "PATH_INFO");
    assert_int_equal(p->value_len, 4);
    assert_memory_equal(p->value, "/a\0b", 4);
    message_release(&m);
}

static void
header(struct message *m, const char *text, bool fresh)
{
    if (message_header(m, text, fresh, why, sizeof(why)) != 0) {
        fail_msg("%s: %s", text, why);
    }
}

static unsigned
count_of(const struct message *m, const char *name)
{
    unsigned n = 0;

    for (unsigned i = 0; i < m->count; i++) {
        n += strcmp(m->param[i].name, name) == 0;
    }
    return n;
}

static void
test_headers(void **state)
{
    struct message m = { 0 };
    char name[700];

    (void)state;
    message_set(&m, "HTTP_ACCEPT", "*/*");
    message_set(&m, "HTTP_HOST", "h");
    header(&m, "X-Some-Thing:  a: b ", true);
    is(&m, "HTTP_X_SOME_THING", "a: b ");
    header(&m, "content-type: text/x", true);
    is(&m, "CONTENT_TYPE", "text/x");
    header(&m, "Content-Length: 5", true);
    is(&m, "CONTENT_LENGTH", "5");
    header(&m, "Content: x", true);
    is(&m, "HTTP_CONTENT", "x");
    header(&m, "accept: text/html", true);
    is(&m, "HTTP_ACCEPT", "text/html");
    header(&m, "Accept: text/plain", false);
    assert_int_equal(count_of(&m, "HTTP_ACCEPT"), 2);
    header(&m, "Host:", true);
    is(&m, "HTTP_HOST", NULL);
    header(&m, "X-Empty;", true);
    is(&m, "HTTP_X_EMPTY", "");
    assert_int_equal(message_header(&m, "nothing", true, why, sizeof(why)), -1);
    assert_contains(why, "Name: value");
    assert_int_equal(message_header(&m, ": x", true, why, sizeof(why)), -1);
    memset(name, 'n', sizeof(name));
    name[698] = ':';
    name[699] = '\0';
    assert_int_equal(message_header(&m, name, true, why, sizeof(why)), -1);
    message_release(&m);
}

static void
fill(struct message *m)
{
    char *big = malloc(200000);

    memset(big, 'v', 200000);
    message_add(m, "REQUEST_METHOD", "POST", 4);
    message_add(m, "A", "", 0);
    message_add(m, "B", big, 127);
    message_add(m, "C", big, 128);
    message_add(m, "D", big, 200000);
    message_add(m, "CONTENT_LENGTH", "3", 1);
    message_add(m, "SCGI", "1", 1);
    free(big);
}

/* The decoder finds in the bytes what was put into them. */
static void
decodes(const struct message *m, const struct buf *bytes, unsigned id)
{
    struct request_limits limits = {
        .params_bytes = 1 << 20,
        .params_count = 100,
        .mpx = 1,
        .max_conns = 1,
    };
    struct decoder d;
    size_t used, len;
    const char *v;

    decoder_init(&d, DECODER_AUTO, &limits);
    assert_int_equal(decoder_feed(&d, bytes->data, bytes->len, &used),
                     DECODE_HEAD);
    assert_int_equal(d.req->param_count, m->count);
    assert_int_equal(d.req->id, id);
    assert_int_equal(d.req->content_length, 3);
    for (unsigned i = 0; i < m->count; i++) {
        v = request_param(d.req, m->param[i].name, &len);
        assert_non_null(v);
        assert_int_equal(len, m->param[i].value_len);
        assert_memory_equal(v, m->param[i].value, len);
    }
    if (id != 0) {
        assert_true(d.req->keep_conn);
        assert_int_equal(d.req->role, FCGI_FILTER);
    }
    decoder_release(&d);
}

static void
test_bytes(void **state)
{
    struct message m = { 0 };
    struct buf out;

    (void)state;
    fill(&m);
    buf_init(&out, SIZE_MAX / 2);
    assert_int_equal(message_put_fcgi(&m, 258, FCGI_FILTER, true, &out), 0);
    assert_int_equal(out.len % 8, 0);
    decodes(&m, &out, 258);
    buf_clear(&out);
    assert_int_equal(message_put_scgi(&m, &out), 0);
    assert_non_null(memmem(out.data, 30, ":CONTENT_LENGTH\0003\0", 18));
    decodes(&m, &out, 0);
    buf_release(&out);
    message_release(&m);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_urls),        cmocka_unit_test(test_bad_urls),
        cmocka_unit_test(test_nul_in_path), cmocka_unit_test(test_headers),
        cmocka_unit_test(test_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
