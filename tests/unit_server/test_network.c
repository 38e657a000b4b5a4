/* SPDX-License-Identifier: MIT
 *
 * conf/network.c: addresses and networks of peers. Pure.
 */
#include "tests/unit_server/unit.h"

#include <arpa/inet.h>
#include <string.h>

#include "conf/network.h"

static bool
has(const char *network, const char *peer)
{
    struct conf_network n;
    unsigned char v4[4], address[16];

    assert_int_equal(conf_network_parse(network, &n), 0);
    if (inet_pton(AF_INET, peer, v4) == 1) {
        conf_network_map(v4, address);
    } else {
        assert_int_equal(inet_pton(AF_INET6, peer, address), 1);
    }
    return conf_network_has(&n, address);
}

static void
test_v4(void **state)
{
    (void)state;
    assert_true(has("192.0.2.7", "192.0.2.7"));
    assert_false(has("192.0.2.7", "192.0.2.6"));
    assert_true(has("192.0.2.0/24", "192.0.2.255"));
    assert_false(has("192.0.2.0/24", "192.0.3.0"));
    assert_true(has("10.128.0.0/9", "10.255.1.2"));
    assert_false(has("10.128.0.0/9", "10.127.255.255"));
    assert_true(has("0.0.0.0/0", "255.255.255.255"));
    /* All of IPv4 is not all of IPv6. */
    assert_false(has("0.0.0.0/0", "::1"));
    assert_true(has("192.0.2.7", "::ffff:192.0.2.7"));
    assert_true(has("::ffff:192.0.2.0/120", "192.0.2.9"));
}

static void
test_v6(void **state)
{
    (void)state;
    assert_true(has("::1", "::1"));
    assert_false(has("::1", "127.0.0.1"));
    assert_true(has("2001:db8::/32", "2001:db8:ffff::1"));
    assert_false(has("2001:db8::/32", "2001:db9::1"));
    assert_true(has("fe80::/10", "febf::1"));
    assert_false(has("fe80::/10", "fec0::1"));
    assert_true(has("::/0", "2001:db8::1"));
    assert_true(has("::/0", "192.0.2.1"));
}

static void
test_no_network(void **state)
{
    static const char *const wrong[] = {
        "",
        "/",
        "10.0.0.0/",
        "10.0.0.0/33",
        "10.0.0/8",
        "::/129",
        "10.0.0.1/8",
        "2001:db8::1/32",
        "localhost",
        "1.2.3.4/ 8",
        "1.2.3.4/+8",
        "1.2.3.4/8x",
        "any",
        "[::1]",
        "1.2.3.4:80",
        "1.2.3.4/4294967304",
        "0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000",
    };
    struct conf_network n;

    (void)state;
    for (size_t i = 0; i < COUNT(wrong); i++) {
        assert_int_equal(conf_network_parse(wrong[i], &n), -1);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_v4),
        cmocka_unit_test(test_v6),
        cmocka_unit_test(test_no_network),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
