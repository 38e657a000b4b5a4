/* SPDX-License-Identifier: MIT
 *
 * Which variables look misconfigured, and what is said about them.
 */
#include "protocol_check.h"

#include "protocol/advice.h"

static struct cgi_text
text(const char *s)
{
    return (struct cgi_text){ s, s != NULL ? strlen(s) : 0 };
}

static enum advice
look(const char *mount, const char *name, const char *info, const char *uri,
     bool from_uri)
{
    struct cgi_path_input in = {
        text(name), text(info), { NULL, 0 }, text(uri)
    };
    struct buf scratch, more;
    struct cgi_text script_name, path_info = { NULL, 0 };
    enum cgi_path_result result;
    enum advice advice;

    buf_init(&scratch, 1 << 20);
    buf_init(&more, 1 << 20);
    result = cgi_split_path(&in, mount, strlen(mount), from_uri, &scratch,
                            &script_name, &path_info);
    advice = advice_look(&in, mount, strlen(mount), from_uri, result,
                         &path_info, &more);
    buf_release(&scratch);
    buf_release(&more);
    return advice;
}

/* What front ends send, and have every right to. */
static void
test_nothing_odd(void **state)
{
    static const struct {
        const char *mount, *name, *info, *uri;
    } cases[] = {
        { "", "", "/x", "/x" },
        { "", "", "/x", "/x?q=1" },
        { "", "", "/", "/" },
        { "", NULL, "/x", "/x" },
        { "", "", "/x", NULL },
        { "/app", "/app", "/x", "/app/x?q" },
        { "/app", "/app", NULL, "/app" },
        { "/app", "/app", "", "/app?q" },
        { "/app", "", "/app/x", "/app/x" }, /* h2o */
        { "/app", "", "/x", "/app/x" },     /* Caddy: handle_path */
        { "", "", "/a b/\xe2\x82\xac", "/a%20b/%E2%82%AC" },
        { "", "", "/a/b", "/a%2Fb" },
        { "", "", "/a/b", "/a//b" },
        { "", "", "/a//b", "/a//b" },
        { "", "", "/b", "/a/../b" },
        { "", "", "/a/../b", "/a/../b" },
        { "", "", "/b", "/a/%2e%2e/b" },
        { "", "", "/%zz", "/%zz" },
        { "", "", "/x", "http://host/x" },
        { "", "", "/*", "*" },
        { "", "", "/host:80", "host:80" },
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(look(cases[i].mount, cases[i].name, cases[i].info,
                              cases[i].uri, false),
                         ADVICE_NONE);
    }
}

static void
test_odd(void **state)
{
    static const struct {
        const char *mount, *name, *info, *uri;
        enum advice advice;
    } cases[] = {
        { "", "/x", NULL, "/x", ADVICE_WHOLE }, /* nginx, ProxyPass */
        { "", "/x/y", "", "/x/y?q", ADVICE_WHOLE },
        { "", "/", NULL, "/", ADVICE_WHOLE },
        { "/app", "/app/x", NULL, "/app/x", ADVICE_WHOLE },
        { "", "/a b", NULL, "/a%20b", ADVICE_WHOLE },
        { "", NULL, NULL, "/x", ADVICE_NO_PATH }, /* nginx scgi_params */
        { "/app", NULL, NULL, "/app/x", ADVICE_NO_PATH },
        { "", "/app", "/x", "/app/x", ADVICE_SPLIT }, /* lighttpd */
        { "/app", "/app/x", "/y", "/app/x/y", ADVICE_SPLIT },
        { "/app", "/x", NULL, "/x", ADVICE_OUTSIDE },
        { "/app", "", "/application", "/application", ADVICE_OUTSIDE },
        { "", "/app.py", NULL, "/x/y", ADVICE_REWRITTEN }, /* try_files */
        { "", "/index.html", NULL, "/", ADVICE_REWRITTEN },
        { "", "", "/new/x", "/app/x", ADVICE_REWRITTEN },
        { "", "", "/a%20b", "/a%20b", ADVICE_REWRITTEN }, /* not decoded */
        { "", "", "/x/y", "/app/x/y", ADVICE_STRIPPED },
        { "", "", "/a b", "/app/a%20b", ADVICE_STRIPPED },
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(look(cases[i].mount, cases[i].name, cases[i].info,
                              cases[i].uri, false),
                         cases[i].advice);
        assert_int_equal(advice_is_harmless(cases[i].advice),
                         cases[i].advice == ADVICE_WHOLE ||
                             cases[i].advice == ADVICE_NO_PATH ||
                             cases[i].advice == ADVICE_SPLIT);
    }
}

/* path_source = request_uri: only the mount can be wrong. */
static void
test_from_uri(void **state)
{
    (void)state;
    assert_int_equal(look("", "/app.py", NULL, "/x", true), ADVICE_NONE);
    assert_int_equal(look("", "/x", NULL, "/x", true), ADVICE_NONE);
    assert_int_equal(look("/app", "/app.py", NULL, "/x", true), ADVICE_OUTSIDE);
}

static void
test_no_memory(void **state)
{
    struct cgi_path_input in = {
        text(""), text("/a b"), { NULL, 0 }, text("/x")
    };
    struct cgi_text path = text("/a b");
    struct buf none;

    (void)state;
    buf_init(&none, 2);
    assert_int_equal(advice_look(&in, "", 0, false, CGI_PATH_OK, &path, &none),
                     ADVICE_NONE);
    buf_release(&none);
}

/* One line, whatever comes from outside, in any room; each front end has its
 * own words. */
static void
test_format(void **state)
{
    static const char *const servers[] = {
        "nginx/1.22.1",
        "lighttpd/1.4.69",
        "Apache/2.4.71 (Debian)",
        "HAProxy 2.6",
        "Caddy/2.6.2",
        "h2o/2.2.5",
        "other",
        NULL,
    };
    struct cgi_path_input in = {
        text("/x\n\xff"), text(NULL), { NULL, 0 }, text("/x%0A%FF")
    };
    char out[1024], before[1024] = "";
    size_t size;

    (void)state;
    for (int a = ADVICE_NONE + 1; a < ADVICE_COUNT; a++) {
        for (size_t i = 0; i < sizeof(servers) / sizeof(servers[0]); i++) {
            advice_format(out, sizeof(out), (enum advice)a, &in, "/app",
                          text(servers[i]));
            assert_null(strchr(out, '\n'));
            assert_null(strstr(out, "%s"));
            assert_non_null(strstr(out, "SCRIPT_NAME \"/x\\x0a\\xff\""));
            assert_non_null(strstr(out, "PATH_INFO (absent)"));
            assert_non_null(strstr(out, "(mount is \"/app\")"));
            assert_int_equal(
                strncmp(out, servers[i] != NULL ? servers[i] : "the front end",
                        5),
                0);
            assert_string_not_equal(out, before);
            memcpy(before, out, sizeof(before));
        }
    }
    for (size = 1; size < 300; size++) {
        char *small = malloc(size);

        assert_non_null(small);
        advice_format(small, size, ADVICE_WHOLE, &in, "/app", text("nginx"));
        assert_true(strlen(small) < size);
        free(small);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_odd), cmocka_unit_test(test_odd),
        cmocka_unit_test(test_from_uri),    cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_format),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
