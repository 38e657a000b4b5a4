/* SPDX-License-Identifier: MIT
 *
 * protocol/buf.c: growth, the limit, and that a failure changes nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "protocol/buf.h"

/* AddressSanitizer ends the program where malloc is to return NULL, unless it
 * is told not to. */
const char *__asan_default_options(void);

const char *
__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

static void
test_append(void **state)
{
    struct buf b;

    (void)state;
    buf_init(&b, 100);
    assert_null(b.data);
    assert_int_equal(buf_append(&b, "abc", 3), 0);
    assert_int_equal(buf_append_str(&b, "def"), 0);
    assert_int_equal(buf_append(&b, NULL, 0), 0);
    assert_int_equal(b.len, 6);
    assert_memory_equal(b.data, "abcdef", 6);
    buf_release(&b);
    buf_release(&b);
    buf_release(NULL);
    assert_null(b.data);
    assert_int_equal(b.limit, 100);
    assert_int_equal(buf_append_str(&b, "again"), 0);
    buf_release(&b);
}

static void
test_limit(void **state)
{
    struct buf b;
    char bytes[64];

    (void)state;
    memset(bytes, 'x', sizeof(bytes));
    buf_init(&b, 100);
    assert_int_equal(buf_append(&b, bytes, 64), 0);
    assert_int_equal(buf_append(&b, bytes, 37), -1);
    assert_int_equal(b.len, 64);
    assert_int_equal(buf_append(&b, bytes, 36), 0);
    assert_int_equal(b.len, 100);
    assert_true(b.cap <= 100);
    assert_int_equal(buf_append(&b, bytes, 1), -1);
    assert_int_equal(buf_reserve(&b, 0), 0);
    assert_int_equal(buf_reserve(&b, SIZE_MAX), -1);
    assert_int_equal(buf_reserve(&b, SIZE_MAX - 50), -1);
    assert_int_equal(b.len, 100);
    buf_release(&b);

    buf_init(&b, 0);
    assert_int_equal(buf_append(&b, "", 0), 0);
    assert_int_equal(buf_append(&b, "x", 1), -1);
    assert_null(b.data);
}

static void
test_grow_keeps_bytes(void **state)
{
    struct buf b;
    unsigned i;

    (void)state;
    buf_init(&b, SIZE_MAX);
    for (i = 0; i < 100000; i++) {
        unsigned char c = (unsigned char)(i * 7);

        assert_int_equal(buf_append(&b, &c, 1), 0);
        assert_true(b.len <= b.cap);
    }
    for (i = 0; i < 100000; i++) {
        assert_int_equal((unsigned char)b.data[i], (unsigned char)(i * 7));
    }
    /* No more than twice what is used: memory follows the contents. */
    assert_true(b.cap <= 2 * b.len);
    buf_release(&b);
}

static void
test_clear_keeps_memory(void **state)
{
    struct buf b;
    char *data;

    (void)state;
    buf_init(&b, 10000);
    assert_int_equal(buf_reserve(&b, 5000), 0);
    assert_int_equal(b.len, 0);
    data = b.data;
    assert_int_equal(buf_append_str(&b, "x"), 0);
    buf_clear(&b);
    assert_int_equal(b.len, 0);
    assert_ptr_equal(b.data, data);
    assert_true(b.cap >= 5000);
    buf_release(&b);
}

static void
test_no_memory(void **state)
{
    struct buf b;

    (void)state;
    buf_init(&b, SIZE_MAX);
    assert_int_equal(buf_append_str(&b, "kept"), 0);
    /* More than an address space has. */
    assert_int_equal(buf_reserve(&b, SIZE_MAX / 2), -1);
    assert_int_equal(b.len, 4);
    assert_memory_equal(b.data, "kept", 4);
    buf_release(&b);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_append),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_grow_keeps_bytes),
        cmocka_unit_test(test_clear_keeps_memory),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
