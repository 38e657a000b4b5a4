/* SPDX-License-Identifier: MIT
 *
 * server/scaling.c: how many workers there should be. Pure: tables, and a pool
 * that is played through.
 */
#include "tests/unit_server/unit.h"

#include "server/scaling.h"

static struct pool_settings
settings(enum conf_scaling scaling)
{
    struct pool_settings s = {
        .scaling = scaling,
        .threads = 1,
        .workers = 2,
        .min_workers = scaling == CONF_SCALING_ONDEMAND ? 0 : 1,
        .max_workers = 8,
        .min_spare = 1,
        .max_spare = 3,
        .idle_timeout = 1000,
        .max_recycling = 1,
    };

    return s;
}

static void
test_static(void **state)
{
    struct pool_settings s = settings(CONF_SCALING_STATIC);
    struct scaling_view v = { .live = 2 };

    (void)state;
    assert_int_equal(scaling_step(&s, 0, &v), 0);
    v.live = 0;
    assert_int_equal(scaling_step(&s, 0, &v), 2);
    v.live = 1;
    assert_int_equal(scaling_step(&s, 0, &v), 1);
    /* Whatever they do: no spare ones, none that go for being idle. */
    v = (struct scaling_view){
        .live = 2, .idle = 2, .longest_idle_ms = UINT64_MAX, .waiting = true
    };
    assert_int_equal(scaling_step(&s, 0, &v), 0);
    /* What TTIN and TTOU ask for; fewer one after the other. */
    assert_int_equal(scaling_step(&s, 5, &v), 3);
    assert_int_equal(scaling_step(&s, 1, &v), -1);
}

static void
test_dynamic(void **state)
{
    static const struct {
        struct scaling_view v;
        int step;
    } cases[] = {
        /* min_workers, min_spare */
        { { .live = 0 }, 1 },
        { { .live = 1, .idle = 1 }, 0 },
        { { .live = 1 }, 1 },
        { { .live = 2, .starting = 1 }, 0 },
        { { .live = 5, .waiting = true }, 1 },
        /* max_workers */
        { { .live = 8, .waiting = true }, 0 },
        { { .live = 9, .waiting = true }, 0 },
        /* more than max_spare, and for long enough */
        { { .live = 5, .idle = 4, .longest_idle_ms = 999 }, 0 },
        { { .live = 5, .idle = 4, .longest_idle_ms = 1000 }, -1 },
        { { .live = 5, .idle = 3, .longest_idle_ms = 9999 }, 0 },
    };
    struct pool_settings s = settings(CONF_SCALING_DYNAMIC);
    struct scaling_view v = { .live = 4, .idle = 4, .longest_idle_ms = 9999 };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_int_equal(scaling_step(&s, 0, &cases[i].v), cases[i].step);
    }
    s.reserved_slots = 2;
    assert_int_equal(scaling_step(&s, 0, &v), 0);
    v.idle = 2;
    assert_int_equal(scaling_step(&s, 0, &v), 1);
    v.idle = 4;
    s.reserved_slots = 0;
    s.min_workers = 4;
    assert_int_equal(scaling_step(&s, 0, &v), 0);
    s.min_workers = 6;
    assert_int_equal(scaling_step(&s, 0, &v), 2);
    s.min_workers = 1;
    s.min_spare = 7;
    v = (struct scaling_view){ .live = 4, .idle = 1, .starting = 1 };
    assert_int_equal(scaling_step(&s, 0, &v), 4); /* 5 are missing, 4 fit */
}

static void
test_ondemand(void **state)
{
    static const struct {
        struct scaling_view v;
        int step;
    } cases[] = {
        { { .live = 0 }, 0 },
        { { .waiting = true }, 1 },
        { { .live = 1, .starting = 1, .waiting = true }, 0 },
        { { .live = 3, .waiting = true }, 1 },
        { { .live = 8, .waiting = true }, 0 },
        { { .live = 1, .idle = 1, .longest_idle_ms = 999 }, 0 },
        { { .live = 1, .idle = 1, .longest_idle_ms = 1000 }, -1 },
        { { .live = 8, .idle = 1, .longest_idle_ms = 1000 }, -1 },
        { { .live = 8, .longest_idle_ms = 9999 }, 0 },
    };
    struct pool_settings s = settings(CONF_SCALING_ONDEMAND);
    struct scaling_view v = { .live = 2, .idle = 2, .longest_idle_ms = 9999 };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_int_equal(scaling_step(&s, 0, &cases[i].v), cases[i].step);
    }
    s.min_workers = 2;
    assert_int_equal(scaling_step(&s, 0, &v), 0);
    v.live = 1;
    assert_int_equal(scaling_step(&s, 0, &v), 1);
}

/* No view, however odd, leads beyond the bounds. */
static void
test_never_beyond_the_bounds(void **state)
{
    struct scaling_view v = { 0 };

    (void)state;
    for (int scaling = 0; scaling <= CONF_SCALING_ONDEMAND; scaling++) {
        struct pool_settings s = settings((enum conf_scaling)scaling);

        for (v.live = 0; v.live <= 10; v.live++) {
            for (v.idle = 0; v.idle <= v.live; v.idle++) {
                for (v.starting = 0; v.starting + v.idle <= v.live;
                     v.starting++) {
                    for (int bits = 0; bits < 4; bits++) {
                        int step, then;

                        v.waiting = bits & 1;
                        v.longest_idle_ms = bits & 2 ? 5000 : 0;
                        step = scaling_step(&s, 0, &v);
                        then = (int)v.live + step;
                        assert_true(step >= -1 && then >= 0);
                        assert_true(step <= 0 || then <= 8);
                        assert_true(step >= 0 || then >= (int)s.min_workers);
                    }
                }
            }
        }
    }
}

/* A pool in which all workers are busy, then none: it comes to rest at either
 * end and does not swing. */
static void
test_comes_to_rest(void **state)
{
    struct pool_settings s = settings(CONF_SCALING_DYNAMIC);
    struct scaling_view v = { 0 };
    unsigned steps = 0;
    int step;

    (void)state;
    v.waiting = true;
    while ((step = scaling_step(&s, 0, &v)) != 0) {
        assert_true(step > 0 && steps++ < 20);
        v.live += (unsigned)step;
    }
    assert_int_equal(v.live, 8);
    v.waiting = false;
    v.longest_idle_ms = 5000;
    v.idle = v.live;
    steps = 0;
    while ((step = scaling_step(&s, 0, &v)) != 0) {
        assert_true(step == -1 && steps++ < 20);
        v.live--;
        v.idle--;
    }
    assert_int_equal(v.live, 3); /* max_spare */
}

static void
test_how_many(void **state)
{
    struct pool_settings s = settings(CONF_SCALING_STATIC);

    (void)state;
    assert_int_equal(scaling_initial(&s), 2);
    assert_int_equal(scaling_most(&s), 8);
    assert_int_equal(scaling_slots(&s), 9);
    s.max_recycling = 5;
    assert_int_equal(scaling_slots(&s), 13);
    s.max_workers = 2; /* as settings_finish() makes it when none is given */
    assert_true(scaling_most(&s) > 2);

    s = settings(CONF_SCALING_DYNAMIC);
    assert_int_equal(scaling_initial(&s), 2);
    s.min_workers = 4;
    assert_int_equal(scaling_initial(&s), 4);
    s.workers = 20;
    assert_int_equal(scaling_initial(&s), 8);

    s = settings(CONF_SCALING_ONDEMAND);
    assert_int_equal(scaling_initial(&s), 0);
    s.min_workers = 1;
    assert_int_equal(scaling_initial(&s), 1);
    assert_int_equal(scaling_most(&s), 8);
}

static void
test_used_up(void **state)
{
    struct pool_settings s = settings(CONF_SCALING_STATIC);
    struct scaling_worker w = { .requests = 1000000,
                                .age_ms = UINT64_MAX,
                                .memory_bytes = UINT64_MAX };

    (void)state;
    assert_null(scaling_used_up(&s, &w)); /* 0: never */
    w.limit = 1000001;
    assert_null(scaling_used_up(&s, &w));
    w.limit = 1000000;
    assert_contains(scaling_used_up(&s, &w), "max_requests");

    w = (struct scaling_worker){ .requests = 1, .memory_bytes = 100 };
    s.max_worker_memory = 100;
    assert_null(scaling_used_up(&s, &w));
    w.memory_bytes = 101;
    assert_contains(scaling_used_up(&s, &w), "max_worker_memory");
    w.requests = 0; /* the next one would be no smaller */
    assert_null(scaling_used_up(&s, &w));

    s.max_worker_age = 5000;
    w.age_ms = 4999;
    assert_null(scaling_used_up(&s, &w));
    w.age_ms = 5000;
    assert_contains(scaling_used_up(&s, &w), "max_worker_age");
}

static void
test_request_limit(void **state)
{
    struct pool_settings s = settings(CONF_SCALING_STATIC);
    bool least = false, most = false;

    (void)state;
    s.max_requests_jitter = 5; /* of no limit: no limit */
    assert_int_equal(scaling_request_limit(&s, 12345), 0);
    s.max_requests = 100;
    for (uint32_t dice = 0; dice < 1000; dice++) {
        uint64_t limit = scaling_request_limit(&s, dice);

        assert_in_range(limit, 100, 105);
        least = least || limit == 100;
        most = most || limit == 105;
    }
    assert_true(least && most);
    assert_in_range(scaling_request_limit(&s, UINT32_MAX), 100, 105);
    s.max_requests_jitter = 0;
    assert_int_equal(scaling_request_limit(&s, 12345), 100);
    s.max_requests_jitter = UINT32_MAX;
    s.max_requests = UINT32_MAX;
    assert_true(scaling_request_limit(&s, UINT32_MAX) >= UINT32_MAX);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_static),
        cmocka_unit_test(test_dynamic),
        cmocka_unit_test(test_ondemand),
        cmocka_unit_test(test_never_beyond_the_bounds),
        cmocka_unit_test(test_comes_to_rest),
        cmocka_unit_test(test_how_many),
        cmocka_unit_test(test_used_up),
        cmocka_unit_test(test_request_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
