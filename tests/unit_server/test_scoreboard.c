/* SPDX-License-Identifier: MIT
 *
 * server/scoreboard.c: the shared mapping, and lines that are never mixed.
 */
#include "tests/unit_server/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "server/clock.h"
#include "server/scoreboard.h"

static void
test_create(void **state)
{
    struct scoreboard s, other = { .fd = -1 }, zero = { 0 };

    (void)state;
    assert_int_equal(scoreboard_create(0, &s), -EINVAL);
    assert_int_equal(scoreboard_create(5, &s), 0);
    assert_int_equal(s.count, 5);
    assert_true(fcntl(s.fd, F_GETFD) & FD_CLOEXEC);
    for (unsigned i = 0; i < s.count; i++) {
        assert_int_equal(s.slot[i].state, SCORE_FREE);
        assert_int_equal(s.slot[i].requests, 0);
        assert_int_equal((uintptr_t)&s.slot[i] % 128, 0);
    }
    /* Nobody can cut it under the feet of the others. */
    assert_int_equal(ftruncate(s.fd, 0), -1);

    assert_int_equal(scoreboard_attach(s.fd, 6 * 4096, &other), -EINVAL);
    assert_int_equal(scoreboard_attach(s.fd, 0, &other), -EINVAL);
    assert_int_equal(scoreboard_attach(-1, 5, &other), -EBADF);
    scoreboard_release(&s);
    scoreboard_release(&s);
    scoreboard_release(&zero); /* and not descriptor 0 */
    scoreboard_release(NULL);
    assert_true(fcntl(STDIN_FILENO, F_GETFD) >= 0);
}

static void
test_states(void **state)
{
    struct scoreboard s;
    struct scoreboard_slot *slot;
    char line[SCORE_LINE_MAX];

    (void)state;
    assert_int_equal(scoreboard_create(2, &s), 0);
    slot = &s.slot[1];
    scoreboard_set(slot, SCORE_STARTING);
    assert_int_equal(slot->state, SCORE_STARTING);
    assert_true(slot->since_ns > 0);

    scoreboard_begin(slot, "GET", 3, "/a?b", 4, 12345);
    assert_int_equal(slot->begun_ns, 12345);
    assert_int_equal(slot->sequence % 2, 0);
    scoreboard_line(slot, line, sizeof(line));
    assert_string_equal(line, "GET /a?b");
    scoreboard_set(slot, SCORE_WRITING);
    scoreboard_end(slot, false);
    assert_int_equal(slot->state, SCORE_IDLE);
    assert_int_equal(slot->begun_ns, 0);
    assert_int_equal(slot->requests, 1);
    assert_int_equal(slot->failures, 0);

    scoreboard_begin(slot, "POST", 4, "/", 1, 1);
    scoreboard_line(slot, line, sizeof(line));
    assert_string_equal(line, "POST /");
    scoreboard_end(slot, true);
    assert_int_equal(slot->requests, 2);
    assert_int_equal(slot->failures, 1);
    assert_int_equal(s.slot[0].requests, 0);
    scoreboard_release(&s);
}

static void
test_cut_lines(void **state)
{
    struct scoreboard s;
    char long_text[1000], line[SCORE_LINE_MAX + 10], small[6];

    (void)state;
    memset(long_text, 'u', sizeof(long_text));
    assert_int_equal(scoreboard_create(1, &s), 0);
    for (size_t n = SCORE_LINE_MAX - 12; n < SCORE_LINE_MAX + 12; n++) {
        scoreboard_begin(s.slot, "GET", 3, long_text, n, 1);
        scoreboard_line(s.slot, line, sizeof(line));
        assert_int_equal(strlen(line), n + 4 < SCORE_LINE_MAX - 1
                                           ? n + 4
                                           : SCORE_LINE_MAX - 1);
        scoreboard_begin(s.slot, long_text, n, "/", 1, 1);
        scoreboard_line(s.slot, line, sizeof(line));
        assert_true(strlen(line) < SCORE_LINE_MAX);
    }
    scoreboard_begin(s.slot, NULL, 0, NULL, 0, 1);
    scoreboard_line(s.slot, line, sizeof(line));
    assert_string_equal(line, " ");
    scoreboard_begin(s.slot, "OPTIONS", 7, "*", 1, 1);
    scoreboard_line(s.slot, small, sizeof(small));
    assert_string_equal(small, "OPTIO");
    scoreboard_release(&s);
}

/* Another process writes; its death in the middle of a line neither blocks a
 * reader nor the slot's next owner. */
static void
test_other_process(void **state)
{
    struct scoreboard s, attached;
    char line[SCORE_LINE_MAX];
    int status;
    pid_t pid;

    (void)state;
    assert_int_equal(scoreboard_create(3, &s), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        int fd = dup(s.fd);

        if (scoreboard_attach(fd, 3, &attached) != 0) {
            _exit(1);
        }
        scoreboard_begin(&attached.slot[2], "GET", 3, "/child", 6, 77);
        attached.slot[2].sequence++; /* as if killed while writing */
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(s.slot[2].sequence % 2, 1);
    assert_false(scoreboard_line(&s.slot[2], line, sizeof(line)));
    assert_string_equal(line, "GET /child");
    scoreboard_begin(&s.slot[2], "GET", 3, "/next", 5, 78);
    assert_int_equal(s.slot[2].sequence % 2, 0);
    assert_true(scoreboard_line(&s.slot[2], line, sizeof(line)));
    assert_string_equal(line, "GET /next");
    scoreboard_release(&s);
}

/* A request that began so long ago ends now. */
static void
request_of(struct scoreboard_slot *slot, uint64_t us)
{
    scoreboard_begin(slot, "GET", 3, "/", 1, clock_now_ns() - us * 1000);
    scoreboard_end(slot, false);
}

static uint64_t
counted(const struct score_totals *t)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < SCORE_BUCKETS; i++) {
        sum += t->bucket[i];
    }
    return sum;
}

static void
test_times(void **state)
{
    struct score_totals t = { 0 };
    struct scoreboard s;

    (void)state;
    assert_int_equal(scoreboard_bound_us[0], 500);
    assert_int_equal(scoreboard_bound_us[SCORE_BOUNDS - 1], 30 * 1000 * 1000);
    for (unsigned i = 1; i < SCORE_BOUNDS; i++) {
        assert_true(scoreboard_bound_us[i] > scoreboard_bound_us[i - 1]);
    }
    /* Just above a bound is the bucket behind it, however slow this is. */
    for (unsigned i = 0; i < SCORE_BOUNDS; i++) {
        assert_int_equal(scoreboard_create(1, &s), 0);
        memset(&t, 0, sizeof(t));
        request_of(s.slot, scoreboard_bound_us[i] + 1);
        scoreboard_add(s.slot, &t);
        for (unsigned b = 0; b <= i; b++) {
            assert_int_equal(t.bucket[b], 0);
        }
        assert_int_equal(counted(&t), 1);
        assert_true(t.time_ns > (uint64_t)scoreboard_bound_us[i] * 1000);
        scoreboard_release(&s);
    }
    /* Much longer than the last bound, and a clock that stands still. */
    assert_int_equal(scoreboard_create(1, &s), 0);
    memset(&t, 0, sizeof(t));
    request_of(s.slot, 3600 * UINT64_C(1000000));
    scoreboard_begin(s.slot, "GET", 3, "/", 1, clock_now_ns() + 1000000000);
    scoreboard_end(s.slot, false);
    scoreboard_add(s.slot, &t);
    assert_int_equal(t.bucket[SCORE_BOUNDS], 1);
    assert_int_equal(t.bucket[0], 1);
    scoreboard_release(&s);
}

static void
test_take(void **state)
{
    struct score_totals past = { 0 }, live = { 0 }, sum = { 0 };
    struct scoreboard s;

    (void)state;
    assert_int_equal(scoreboard_create(2, &s), 0);
    for (int i = 0; i < 5; i++) {
        scoreboard_begin(&s.slot[0], "GET", 3, "/", 1, clock_now_ns());
        scoreboard_end(&s.slot[0], i == 0);
    }
    request_of(&s.slot[1], 2000);
    assert_int_equal(scoreboard_take(&s.slot[0], &past), 5);
    assert_int_equal(scoreboard_take(&s.slot[0], &past), 0);
    assert_int_equal(past.requests, 5);
    assert_int_equal(past.failures, 1);
    assert_int_equal(counted(&past), 5);
    scoreboard_add(&s.slot[0], &live);
    scoreboard_add(&s.slot[1], &live);
    assert_int_equal(live.requests, 1);
    assert_true(live.time_ns >= 2000000);
    score_totals_add(&sum, &past);
    score_totals_add(&sum, &live);
    assert_int_equal(sum.requests, 6);
    assert_int_equal(sum.failures, 1);
    assert_int_equal(counted(&sum), 6);
    assert_true(sum.time_ns == past.time_ns + live.time_ns);
    scoreboard_release(&s);
}

struct racing {
    struct scoreboard_slot *slot;
    _Atomic int stop;
};

static void *
keep_writing(void *arg)
{
    struct racing *r = arg;
    char uri[180];

    for (unsigned i = 0; !r->stop; i++) {
        char c = (char)('a' + i % 26);

        memset(uri, c, sizeof(uri));
        scoreboard_begin(r->slot, &c, 1, uri, 1 + i % sizeof(uri), i + 1);
    }
    return NULL;
}

/* A line that is read is always of one request: all its letters are the same.
 * Under the thread sanitizer this also says that the orders are enough. */
static void
test_race(void **state)
{
    struct scoreboard s;
    struct racing r = { 0 };
    pthread_t writer;
    char line[SCORE_LINE_MAX];
    unsigned mixed = 0, whole = 0;

    (void)state;
    assert_int_equal(scoreboard_create(1, &s), 0);
    r.slot = s.slot;
    scoreboard_begin(r.slot, "a", 1, "a", 1, 1);
    assert_int_equal(pthread_create(&writer, NULL, keep_writing, &r), 0);
    while (whole + mixed < 20000) {
        if (!scoreboard_line(r.slot, line, sizeof(line))) {
            continue; /* the writer was interrupted in the middle */
        }
        assert_int_equal(line[1], ' ');
        if (strspn(line + 2, (char[]){ line[0], '\0' }) == strlen(line) - 2) {
            whole++;
        } else {
            mixed++;
        }
    }
    r.stop = 1;
    pthread_join(writer, NULL);
    assert_int_equal(mixed, 0);
    scoreboard_release(&s);
}

static void *
keep_answering(void *arg)
{
    struct racing *r = arg;

    while (!r->stop) {
        scoreboard_begin(r->slot, "GET", 3, "/", 1, clock_now_ns());
        scoreboard_end(r->slot, false);
    }
    return NULL;
}

/* Counters only grow while somebody looks. */
static void
test_count_race(void **state)
{
    struct score_totals before = { 0 };
    struct scoreboard s;
    struct racing r = { 0 };
    pthread_t writer;

    (void)state;
    assert_int_equal(scoreboard_create(1, &s), 0);
    r.slot = s.slot;
    assert_int_equal(pthread_create(&writer, NULL, keep_answering, &r), 0);
    while (before.requests < 2000) {
        struct score_totals now = { 0 };

        scoreboard_add(s.slot, &now);
        assert_true(now.requests >= before.requests);
        assert_true(now.time_ns >= before.time_ns);
        assert_true(counted(&now) >= counted(&before));
        before = now;
    }
    r.stop = 1;
    pthread_join(writer, NULL);
    scoreboard_release(&s);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_create),    cmocka_unit_test(test_states),
        cmocka_unit_test(test_cut_lines), cmocka_unit_test(test_other_process),
        cmocka_unit_test(test_race),      cmocka_unit_test(test_times),
        cmocka_unit_test(test_take),      cmocka_unit_test(test_count_race),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
