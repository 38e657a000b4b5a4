/* SPDX-License-Identifier: MIT
 *
 * protocol/request.c: parameters, the well-known ones, refusing, body
 * accounting, memory that is kept and given back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "protocol/request.h"

static const struct request_limits limits = {
    .params_bytes = 100000,
    .params_count = 1000,
    .body_bytes = 0,
    .mpx = 1,
};

/* Append name and value to the block and record them. */
static int
add(struct request *r, const struct request_limits *l, const char *name,
    const char *value)
{
    uint32_t at = (uint32_t)r->params.len;
    uint32_t name_len = (uint32_t)strlen(name);
    uint32_t value_len = (uint32_t)strlen(value);

    assert_int_equal(buf_append(&r->params, name, name_len), 0);
    assert_int_equal(buf_append(&r->params, value, value_len), 0);
    return request_add_param(r, l, at, name_len, at + name_len, value_len);
}

static void
assert_param(const struct request *r, const char *name, const char *value)
{
    size_t len = 0;
    const char *p = request_param(r, name, &len);

    assert_non_null(p);
    assert_int_equal(len, strlen(value));
    assert_memory_equal(p, value, len);
}

static void
test_params(void **state)
{
    struct request r;
    size_t len = 77;

    (void)state;
    request_init(&r, &limits);
    assert_null(request_param(&r, "A", &len));
    assert_int_equal(add(&r, &limits, "A", "1"), 0);
    assert_int_equal(add(&r, &limits, "B", ""), 0);
    assert_int_equal(add(&r, &limits, "", "no name"), 0);
    assert_int_equal(add(&r, &limits, "A", "last"), 0);
    assert_int_equal(r.param_count, 4);
    assert_param(&r, "A", "last");
    assert_param(&r, "B", "");
    assert_param(&r, "", "no name");
    assert_null(request_param(&r, "AA", &len));
    assert_int_equal(len, 77);
    request_release(&r);
    request_release(&r);
    request_release(NULL);
}

static void
test_well_known(void **state)
{
    struct request r;

    (void)state;
    request_init(&r, &limits);
    assert_int_equal(r.method, -1);
    assert_int_equal(r.uri, -1);
    assert_int_equal(r.content_length, -1);
    add(&r, &limits, "REQUEST_METHOD", "GET");
    add(&r, &limits, "REQUEST_URI", "/a");
    add(&r, &limits, "CONTENT_LENGTH", "12");
    add(&r, &limits, "REQUEST_METHOX", "GET");
    add(&r, &limits, "REQUEST_URL", "/a");
    assert_int_equal(r.method, 0);
    assert_int_equal(r.uri, 1);
    assert_int_equal(r.content_length, 12);
    /* The last one counts. */
    add(&r, &limits, "REQUEST_METHOD", "POST");
    add(&r, &limits, "CONTENT_LENGTH", "7");
    assert_int_equal(r.method, 5);
    assert_int_equal(r.content_length, 7);
    request_release(&r);
}

static void
test_content_length(void **state)
{
    static const struct {
        const char *text;
        int64_t value;
    } cases[] = {
        { "0", 0 },
        { "00012", 12 },
        { "", -1 },
        { "-1", -1 },
        { "+1", -1 },
        { " 1", -1 },
        { "1 ", -1 },
        { "1,1", -1 },
        { "0x10", -1 },
        { "abc", -1 },
        { "5368709120", 5368709120 },
        { "9223372036854775807", INT64_MAX },
        { "9223372036854775808", INT64_MAX },
        { "99999999999999999999999999999999", INT64_MAX },
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct request r;

        request_init(&r, &limits);
        assert_int_equal(add(&r, &limits, "CONTENT_LENGTH", cases[i].text), 0);
        assert_true(r.content_length == cases[i].value);
        request_release(&r);
    }
}

static void
test_limits(void **state)
{
    struct request_limits l = limits;
    struct request r;

    (void)state;
    l.params_count = 2;
    request_init(&r, &l);
    assert_int_equal(add(&r, &l, "A", "1"), 0);
    assert_int_equal(add(&r, &l, "B", "2"), 0);
    assert_int_equal(add(&r, &l, "HTTP_X", "3"), -1);
    assert_int_equal(r.param_count, 2);
    assert_int_equal(r.refuse_status, 431);
    assert_string_equal(r.refuse_why, "more than 2 parameters (max_params); "
                                      "the first one too many is HTTP_X");
    request_release(&r);

    l.params_count = 1000;
    l.params_bytes = 10;
    request_init(&r, &l);
    assert_int_equal(add(&r, &l, "AAAAA", "11111"), 0);
    assert_int_equal(add(&r, &l, "B", ""), -1);
    assert_int_equal(r.refuse_status, 431);
    assert_string_equal(r.refuse_why,
                        "parameters over 10 bytes (max_params_size): B of 1 "
                        "bytes comes after 10 bytes of others");
    request_release(&r);
}

static void
test_refuse(void **state)
{
    struct request r;
    char longer[400];

    (void)state;
    request_init(&r, &limits);
    request_refuse(&r, 400, "bad \"%s\"", "a\r\nb\\\x01\xff");
    assert_int_equal(r.refuse_status, 400);
    assert_string_equal(r.refuse_why, "bad \"a\\x0d\\x0ab\\x5c\\x01\\xff\"");
    request_refuse(&r, 413, "second");
    assert_int_equal(r.refuse_status, 400);
    request_clear(&r);
    assert_int_equal(r.refuse_status, 0);
    assert_string_equal(r.refuse_why, "");

    memset(longer, '\n', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    request_refuse(&r, 431, "%s", longer);
    assert_true(strlen(r.refuse_why) < sizeof(r.refuse_why));
    assert_int_equal(strlen(r.refuse_why) % 4, 0);
    request_release(&r);
}

static void
test_body_room(void **state)
{
    struct request_limits l = limits;
    struct request r;

    (void)state;
    /* Nothing bounds it. */
    request_init(&r, &l);
    assert_true(request_body_room(&r, &l) == UINT64_MAX);
    assert_int_equal(request_take_body(&r, &l, 1000), 1000);
    assert_int_equal(r.body_seen, 1000);
    assert_int_equal(r.body_given, 0);
    request_clear(&r);

    /* CONTENT_LENGTH: the surplus is seen, not given, and no error. */
    add(&r, &l, "CONTENT_LENGTH", "10");
    assert_int_equal(request_take_body(&r, &l, 7), 7);
    assert_int_equal(request_body_room(&r, &l), 3);
    assert_int_equal(request_take_body(&r, &l, 7), 3);
    assert_int_equal(request_take_body(&r, &l, 7), 0);
    assert_int_equal(r.body_seen, 21);
    assert_int_equal(r.refuse_status, 0);
    request_clear(&r);

    /* The limit counts where no CONTENT_LENGTH is. */
    l.body_bytes = 10;
    assert_int_equal(request_take_body(&r, &l, 10), 10);
    assert_int_equal(r.refuse_status, 0);
    assert_int_equal(request_take_body(&r, &l, 1), 0);
    assert_int_equal(r.refuse_status, 413);
    assert_string_equal(r.refuse_why, "a body without CONTENT_LENGTH is over "
                                      "10 bytes (max_body_size)");
    assert_int_equal(request_take_body(&r, &l, 5), 0);
    assert_int_equal(r.body_seen, 16);
    request_release(&r);
}

static void
test_end_params(void **state)
{
    struct request_limits l = limits;
    struct request r;

    (void)state;
    l.body_bytes = 10;
    request_init(&r, &l);
    add(&r, &l, "CONTENT_LENGTH", "10");
    request_end_params(&r, &l);
    assert_true(r.head_done);
    assert_false(r.body_done);
    assert_int_equal(r.refuse_status, 0);
    request_clear(&r);

    add(&r, &l, "CONTENT_LENGTH", "11");
    request_end_params(&r, &l);
    assert_int_equal(r.refuse_status, 413);
    assert_string_equal(r.refuse_why, "a body of 11 bytes (CONTENT_LENGTH) is "
                                      "over 10 bytes (max_body_size)");
    request_clear(&r);

    r.role = REQUEST_AUTHORIZER;
    request_end_params(&r, &l);
    assert_true(r.body_done);
    request_release(&r);
}

static void
test_clear(void **state)
{
    struct request r;
    struct request_param *param;
    char *data;
    unsigned i;

    (void)state;
    request_init(&r, &limits);
    add(&r, &limits, "REQUEST_METHOD", "GET");
    r.active = r.head_done = r.body_done = r.aborted = r.keep_conn = true;
    r.body_seen = r.body_given = 5;
    r.id = 9;
    assert_int_equal(buf_append_str(&r.kept, "12345"), 0);
    r.kept_used = 5;
    data = r.params.data;
    param = r.param;
    request_clear(&r);
    assert_false(r.active || r.head_done || r.body_done || r.aborted ||
                 r.keep_conn);
    assert_int_equal(r.body_seen + r.body_given + r.id + r.kept_used, 0);
    assert_int_equal(r.kept.len + r.params.len + r.param_count, 0);
    assert_int_equal(r.method, -1);
    /* Small memory is kept. */
    assert_ptr_equal(r.params.data, data);
    assert_ptr_equal(r.param, param);

    for (i = 0; i < 900; i++) {
        assert_int_equal(add(&r, &limits, "HTTP_X_SOMETHING_LONG", "value"), 0);
    }
    assert_true(r.params.cap > 16 * 1024);
    request_clear(&r);
    /* Big memory is given back. */
    assert_int_equal(r.params.cap, 0);
    assert_int_equal(r.param_cap, 0);
    request_release(&r);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_params),
        cmocka_unit_test(test_well_known),
        cmocka_unit_test(test_content_length),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_refuse),
        cmocka_unit_test(test_body_room),
        cmocka_unit_test(test_end_params),
        cmocka_unit_test(test_clear),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
