/* SPDX-License-Identifier: MIT
 *
 * server/backoff.c: how long to wait before the next attempt. Pure.
 */
#include "tests/unit_server/unit.h"

#include "server/backoff.h"

static void
test_first_quick_end_costs_nothing(void **state)
{
    struct backoff b = { 0 };

    (void)state;
    assert_int_equal(backoff_after_end(&b, 0, 0), 0);
    assert_int_equal(backoff_after_end(&b, 0, 0), BACKOFF_DELAY_MS);
}

static void
test_doubles_up_to_a_limit(void **state)
{
    struct backoff b = { 0 };
    uint64_t delay, last = 0;

    (void)state;
    backoff_after_end(&b, 10, 0);
    for (unsigned i = 0; i < 1000; i++) {
        delay = backoff_after_end(&b, 10, 0);
        assert_true(delay <= BACKOFF_MAX_MS);
        if (i == 0) {
            assert_int_equal(delay, BACKOFF_DELAY_MS);
        } else {
            assert_int_equal(delay, 2 * last > BACKOFF_MAX_MS ? BACKOFF_MAX_MS
                                                              : 2 * last);
        }
        last = delay;
    }
    assert_int_equal(last, BACKOFF_MAX_MS);
}

/* A life counts when it was long enough or of any use. */
static void
test_a_life_makes_it_good(void **state)
{
    static const struct {
        uint64_t lived_ms, answered;
        bool good;
    } cases[] = {
        { 0, 0, false },
        { BACKOFF_LIFE_MS - 1, 0, false },
        { BACKOFF_LIFE_MS, 0, true },
        { 0, 1, true },
        { UINT64_MAX, UINT64_MAX, true },
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct backoff b = { 5 };
        uint64_t delay =
            backoff_after_end(&b, cases[i].lived_ms, cases[i].answered);

        assert_int_equal(b.quick, cases[i].good ? 0 : 6);
        assert_int_equal(delay == 0, cases[i].good);
    }
}

static void
test_ready_begins_anew(void **state)
{
    struct backoff b = { 0 };

    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        backoff_after_end(&b, 0, 0);
    }
    backoff_ready(&b);
    assert_int_equal(backoff_after_end(&b, 0, 0), 0);
    assert_int_equal(backoff_after_end(&b, 0, 0), BACKOFF_DELAY_MS);
}

static void
test_gives_up(void **state)
{
    struct backoff b = { 0 };

    (void)state;
    for (unsigned i = 1; i <= 3; i++) {
        assert_false(backoff_gives_up(&b, 3));
        backoff_after_end(&b, 0, 0);
    }
    assert_true(backoff_gives_up(&b, 3));
    assert_false(backoff_gives_up(&b, 4));
    assert_true(backoff_gives_up(&b, 1));
    backoff_after_end(&b, BACKOFF_LIFE_MS, 0);
    assert_false(backoff_gives_up(&b, 1));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_quick_end_costs_nothing),
        cmocka_unit_test(test_doubles_up_to_a_limit),
        cmocka_unit_test(test_a_life_makes_it_good),
        cmocka_unit_test(test_ready_begins_anew),
        cmocka_unit_test(test_gives_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
