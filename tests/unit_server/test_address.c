/* SPDX-License-Identifier: MIT
 *
 * server/address.c: ADDRESS texts, resolving, naming.
 */
#include "tests/unit_server/unit.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "server/address.h"

static char why[512];

static struct address
parsed(const char *text)
{
    struct address a;

    if (address_parse(text, &a, why, sizeof(why)) != 0) {
        fail_msg("%s: %s", text, why);
    }
    assert_string_equal(a.text, text);
    return a;
}

static void
refused(const char *text, const char *part)
{
    struct address a;

    if (address_parse(text, &a, why, sizeof(why)) == 0) {
        fail_msg("\"%s\" was taken", text);
    }
    assert_contains(why, part);
}

static void
test_unix(void **state)
{
    struct address a;
    char path[140], text[160], number[16];

    (void)state;
    a = parsed("unix:/run/x.sock");
    assert_int_equal(a.kind, ADDRESS_UNIX);
    assert_int_equal(a.un.sun_family, AF_UNIX);
    assert_string_equal(a.un.sun_path, "/run/x.sock");
    a = parsed("/run/x.sock");
    assert_string_equal(a.un.sun_path, "/run/x.sock");
    a = parsed("/run/a:80");
    assert_int_equal(a.kind, ADDRESS_UNIX);

    refused("unix:", "begin with a slash");
    refused("unix:x.sock", "begin with a slash");
    refused("/run/", "names a folder");
    refused("/", "names a folder");

    /* 107 bytes fit, 108 do not: both lengths are said. */
    memset(path, 'p', sizeof(path));
    path[0] = '/';
    path[107] = '\0';
    a = parsed(path);
    assert_string_equal(a.un.sun_path, path);
    path[107] = 'p';
    path[108] = '\0';
    snprintf(text, sizeof(text), "unix:%s", path);
    refused(text, "108 bytes long");
    assert_contains(why, "107");
    path[108] = 'p';
    path[120] = '\0';
    refused(path, "120 bytes long");
    snprintf(number, sizeof(number), "%zu",
             sizeof(((struct sockaddr_un *)0)->sun_path) - 1);
    assert_contains(why, number);
}

static void
test_tcp(void **state)
{
    static const struct {
        const char *text, *host, *port;
    } cases[] = {
        { "127.0.0.1:9000", "127.0.0.1", "9000" },
        { "localhost:80", "localhost", "80" },
        { ":9000", "", "9000" },
        { "*:9000", "*", "9000" },
        { "[::1]:9000", "::1", "9000" },
        { "[::]:0", "::", "0" },
        { "app.example:65535", "app.example", "65535" },
        { "h:00080", "h", "80" },
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct address a = parsed(cases[i].text);

        assert_int_equal(a.kind, ADDRESS_TCP);
        assert_string_equal(a.host, cases[i].host);
        assert_string_equal(a.port, cases[i].port);
    }
    refused("", "empty");
    refused("9000", "no address");
    refused("localhost", "no address");
    refused("x.sock", "no address");
    refused("::1:9000", "brackets");
    refused("[::1]", "[ADDRESS]:PORT");
    refused("[::1:9000", "[ADDRESS]:PORT");
    refused("[]:9000", "empty");
    refused("localhost:", "number from 0 to 65535");
    refused("localhost:http", "number from 0 to 65535");
    refused("localhost:65536", "number from 0 to 65535");
    refused("localhost:99999999999999999999", "number from 0 to 65535");
    refused("localhost:-1", "number from 0 to 65535");
    refused("localhost: 80", "number from 0 to 65535");
}

static void
test_long_texts(void **state)
{
    char text[600];

    (void)state;
    memset(text, 'a', sizeof(text));
    text[128] = ':';
    text[129] = '1';
    text[130] = '\0';
    refused(text, "too long");
    memset(text, 'a', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    refused(text, "599 bytes long");
    memcpy(text, "systemd:", 8);
    text[100] = '\0';
    refused(text, "92 bytes long, 63 are allowed");
}

static void
test_inherited(void **state)
{
    (void)state;
    assert_int_equal(parsed("fd:0").fd, 0);
    assert_int_equal(parsed("fd:17").fd, 17);
    assert_int_equal(parsed("fd:17").kind, ADDRESS_FD);
    assert_int_equal(parsed("systemd").kind, ADDRESS_SYSTEMD);
    assert_string_equal(parsed("systemd").name, "");
    assert_string_equal(parsed("systemd:web").name, "web");
    refused("fd:", "number");
    refused("fd:x", "number");
    refused("fd:-1", "number");
    refused("fd:99999999999", "number");
    refused("systemdx", "no address");
}

static int
resolve(const char *text, int passive, char out[][64])
{
    struct address a = parsed(text);
    struct sockaddr_storage sa[ADDRESS_MAX_RESOLVED];
    socklen_t len[ADDRESS_MAX_RESOLVED];
    int n;

    n = address_resolve(&a, passive, sa, len, ADDRESS_MAX_RESOLVED, why,
                        sizeof(why));
    for (int i = 0; i < n; i++) {
        address_format((struct sockaddr *)&sa[i], len[i], out[i], 64);
    }
    return n;
}

static void
test_resolve(void **state)
{
    char out[ADDRESS_MAX_RESOLVED][64];
    int n;

    (void)state;
    assert_int_equal(resolve("127.0.0.1:80", 1, out), 1);
    assert_string_equal(out[0], "127.0.0.1:80");
    assert_int_equal(resolve("[2001:db8::1]:80", 0, out), 1);
    assert_string_equal(out[0], "[2001:db8::1]:80");
    assert_int_equal(resolve("/run/x", 0, out), 1);
    assert_string_equal(out[0], "unix:/run/x");

    /* No host is this machine alone, in both families. */
    assert_int_equal(resolve(":80", 1, out), 2);
    assert_string_equal(out[0], "127.0.0.1:80");
    assert_string_equal(out[1], "[::1]:80");
    assert_int_equal(resolve("*:80", 1, out), 2);
    assert_string_equal(out[0], "0.0.0.0:80");
    assert_string_equal(out[1], "[::]:80");
    assert_int_equal(resolve("*:80", 0, out), -1);
    assert_contains(why, "listen");

    /* A bare root folder has no /etc/hosts, which is where the name stands. */
    n = resolve("localhost:80", 1, out);
    assert_true(n >= 1 || access("/etc/hosts", R_OK) != 0);
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < i; j++) {
            assert_string_not_equal(out[i], out[j]);
        }
    }
    /* RFC 6761: .invalid never resolves. */
    assert_int_equal(resolve("no-such-host.invalid:80", 1, out), -1);
    assert_contains(why, "no-such-host.invalid");
    assert_int_equal(resolve("fd:3", 1, out), -1);
    assert_int_equal(resolve("systemd", 1, out), -1);
}

static void
test_resolve_room(void **state)
{
    struct address a = parsed(":80");
    struct sockaddr_storage sa[1];
    socklen_t len[1];

    (void)state;
    assert_int_equal(address_resolve(&a, 1, sa, len, 1, why, sizeof(why)), 1);
    assert_int_equal(sa[0].ss_family, AF_INET);
}

static void
test_format(void **state)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    struct sockaddr sa = { .sa_family = AF_UNSPEC };
    char out[128];
    socklen_t head = offsetof(struct sockaddr_un, sun_path);

    (void)state;
    address_format((struct sockaddr *)&un, head, out, sizeof(out));
    assert_string_equal(out, "unix:(unnamed)");
    memcpy(un.sun_path, "\0abc", 4);
    address_format((struct sockaddr *)&un, head + 4, out, sizeof(out));
    assert_string_equal(out, "unix:@abc");
    /* A path that fills sun_path has no NUL behind it. */
    memset(un.sun_path, 'x', sizeof(un.sun_path));
    address_format((struct sockaddr *)&un, sizeof(un), out, sizeof(out));
    assert_int_equal(strlen(out), 5 + sizeof(un.sun_path));
    assert_string_equal(address_format(&sa, 0, out, sizeof(out)), "(unnamed)");
    address_format(&sa, sizeof(sa), out, sizeof(out));
    assert_contains(out, "family 0");
    address_format((struct sockaddr *)&un, sizeof(un), out, 8);
    assert_string_equal(out, "unix:xx");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unix),       cmocka_unit_test(test_tcp),
        cmocka_unit_test(test_long_texts), cmocka_unit_test(test_inherited),
        cmocka_unit_test(test_resolve),    cmocka_unit_test(test_resolve_room),
        cmocka_unit_test(test_format),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
