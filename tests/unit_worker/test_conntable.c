/* SPDX-License-Identifier: MIT
 *
 * server/conntable.c: who owns a connection. One thread plays every order of
 * events; then many threads race for the same connections, under
 * ThreadSanitizer as well.
 */
#include "tests/unit_server/unit.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "server/conntable.h"

static const struct request_limits limits = {
    .params_bytes = 65536,
    .params_count = 100,
    .mpx = 1,
    .max_conns = 100,
};

static struct conntable *
new_table(void)
{
    struct conntable *t = malloc(sizeof(*t));

    assert_non_null(t);
    conntable_init(t, &limits);
    return t;
}

/* Its memory is never given back; a test's is. */
static void
free_table(struct conntable *t)
{
    for (unsigned i = 0; i < t->chunks; i++) {
        free(atomic_load(&t->chunk[i]));
    }
    pthread_mutex_destroy(&t->lock);
    free(t);
}

static int
some_fd(void)
{
    int fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);

    assert_true(fd >= 0);
    return fd;
}

static struct connection *
open_one(struct conntable *t)
{
    struct connection *c = conntable_open(t, some_fd(), DECODER_AUTO);

    assert_non_null(c);
    return c;
}

static enum conn_owner
owner(struct connection *c)
{
    return (enum conn_owner)(atomic_load(&c->ticket) & 0xff);
}

static void
test_park_and_claim(void **state)
{
    struct conntable *t = new_table();
    struct connection *c = open_one(t);
    uint64_t event = conntable_event(c);

    (void)state;
    assert_int_equal(owner(c), CONN_OWNED);
    assert_int_equal(t->open, 1);
    assert_true(conntable_park(c));
    assert_int_equal(owner(c), CONN_PARKED);
    assert_ptr_equal(conntable_claim(t, event), c);
    assert_int_equal(owner(c), CONN_OWNED);
    assert_true(conntable_event(c) == event);
    conntable_close(t, c);
    assert_int_equal(t->open, 0);
    free_table(t);
}

/* An event of somebody else's connection leaves a note: the owner looks once
 * more, however many events there were. */
static void
test_note(void **state)
{
    struct conntable *t = new_table();
    struct connection *c = open_one(t);
    uint64_t event = conntable_event(c);

    (void)state;
    assert_null(conntable_claim(t, event));
    assert_null(conntable_claim(t, event));
    assert_int_equal(owner(c), CONN_NOTED);
    assert_false(conntable_park(c));
    assert_int_equal(owner(c), CONN_OWNED);
    assert_true(conntable_park(c));
    free_table(t);
}

/* Lent: who sees an event takes it; a note is not lost. */
static void
test_lend(void **state)
{
    struct conntable *t = new_table();
    struct connection *c = open_one(t);
    uint64_t event = conntable_event(c);
    bool stays;

    (void)state;
    assert_true(conntable_lend(c));
    assert_int_equal(owner(c), CONN_LENT);
    assert_true(conntable_resume(c));
    assert_int_equal(owner(c), CONN_OWNED);
    assert_false(conntable_resume(c));
    assert_true(conntable_lend(c));
    assert_ptr_equal(conntable_claim(t, event), c);
    assert_false(conntable_resume(c));
    assert_null(conntable_claim(t, event));
    assert_false(conntable_try_lend(c));
    assert_int_equal(owner(c), CONN_OWNED);
    assert_null(conntable_claim(t, event));
    assert_false(conntable_lend(c));
    assert_int_equal(owner(c), CONN_LENT);
    assert_true(c->noted);
    assert_ptr_equal(conntable_claim_lent(t, event, &stays), c);
    assert_true(stays);
    assert_null(conntable_claim_lent(t, event, &stays));
    assert_true(stays); /* owned by somebody */
    conntable_note(c);
    assert_false(conntable_park(c));
    assert_true(conntable_park(c));
    assert_null(conntable_claim_lent(t, event, &stays));
    assert_false(stays);
    assert_ptr_equal(conntable_claim(t, event), c);
    conntable_close(t, c);
    assert_null(conntable_claim_lent(t, event, &stays));
    assert_false(stays);
    free_table(t);
}

/* Events that were fetched before their connection was closed, also when its
 * place is used again. */
static void
test_stale_events(void **state)
{
    struct conntable *t = new_table();
    struct connection *c = open_one(t), *again;
    uint64_t old = conntable_event(c);

    (void)state;
    conntable_close(t, c);
    assert_int_equal(owner(c), CONN_FREE);
    assert_null(conntable_claim(t, old));
    again = open_one(t);
    assert_ptr_equal(again, c);
    assert_true(conntable_event(again) != old);
    assert_null(conntable_claim(t, old));
    assert_int_equal(owner(again), CONN_OWNED); /* no note either */
    assert_true(conntable_park(again));
    assert_null(conntable_claim(t, old));
    assert_int_equal(owner(again), CONN_PARKED);
    /* Places that do not exist. */
    assert_null(conntable_claim(t, UINT32_MAX));
    assert_null(conntable_claim(t, CONN_PER_CHUNK));
    assert_null(conntable_claim(t, (uint64_t)CONN_PER_CHUNK * CONN_CHUNKS));
    assert_null(conntable_claim(t, UINT64_MAX));
    free_table(t);
}

/* A connection that is opened in a used place remembers nothing. */
static void
test_fresh(void **state)
{
    struct conntable *t = new_table();
    struct connection *c = open_one(t);

    (void)state;
    c->registered = c->hangup = c->served = true;
    c->phase = CONN_LINGER;
    c->lingered = 99;
    c->waits_since_ns = 99;
    conntable_close(t, c);
    assert_int_equal(c->fd, -1);
    c = conntable_open(t, some_fd(), DECODER_SCGI);
    assert_non_null(c);
    assert_false(c->registered || c->hangup || c->served);
    assert_int_equal(c->phase, CONN_HEAD);
    assert_int_equal(c->lingered, 0);
    assert_int_equal(c->waits_since_ns, 0);
    assert_null(c->request);
    assert_int_equal(c->decoder.kind, DECODER_SCGI);
    assert_true(decoder_is_idle(&c->decoder));
    conntable_close(t, c);
    free_table(t);
}

static void
test_growth(void **state)
{
    enum { MANY = 3 * CONN_PER_CHUNK + 1 };
    struct conntable *t = new_table();
    struct connection *c[MANY];

    (void)state;
    for (unsigned i = 0; i < MANY; i++) {
        c[i] = conntable_open(t, -1, DECODER_AUTO);
        assert_non_null(c[i]);
        assert_int_equal(c[i]->index, i);
        assert_true(conntable_park(c[i]));
    }
    assert_int_equal(t->chunks, 4);
    assert_int_equal(t->open, MANY);
    /* No place has moved. */
    for (unsigned i = 0; i < MANY; i++) {
        assert_ptr_equal(conntable_claim(t, conntable_event(c[i])), c[i]);
    }
    for (unsigned i = 0; i < MANY; i++) {
        conntable_close(t, c[i]);
    }
    assert_int_equal(t->open, 0);
    for (unsigned i = 0; i < MANY; i++) {
        assert_non_null(conntable_open(t, -1, DECODER_AUTO));
    }
    assert_int_equal(t->chunks, 4);
    free_table(t);
}

static void
count_and_park(struct connection *c, void *ctx)
{
    unsigned *count = ctx;

    assert_int_equal(owner(c), CONN_OWNED);
    (*count)++;
    assert_true(conntable_park(c));
}

static void
test_each_parked(void **state)
{
    struct conntable *t = new_table();
    struct connection *c[300];
    unsigned seen = 0, parked = 0;

    (void)state;
    conntable_each_parked(t, count_and_park, &seen);
    assert_int_equal(seen, 0);
    assert_true(conntable_next_deadline(t) == UINT64_MAX);
    for (unsigned i = 0; i < COUNT(c); i++) {
        c[i] = conntable_open(t, -1, DECODER_AUTO);
        atomic_store(&c[i]->deadline_ns, 1000 - i);
        if (i % 3 == 0) {
            assert_true(conntable_park(c[i]));
            parked++;
        } else if (i % 3 == 1) {
            conntable_close(t, c[i]);
        }
    }
    conntable_each_parked(t, count_and_park, &seen);
    assert_int_equal(seen, parked);
    /* Only of those that are parked. */
    assert_int_equal(conntable_next_deadline(t), 1000 - 297);
    assert_ptr_equal(conntable_claim(t, conntable_event(c[297])), c[297]);
    assert_int_equal(conntable_next_deadline(t), 1000 - 294);
    free_table(t);
}

/* -- threads ----------------------------------------------------------------
 */

enum { THREADS = 4, CONNECTIONS = 8, EVENTS_EACH = 20000 };

static struct {
    struct conntable *table;
    _Atomic uint64_t event[CONNECTIONS];
    /* Of the owner alone: ThreadSanitizer sees it when two are. */
    unsigned long served[CONNECTIONS];
    /* Bytes that "arrived" and that nobody has looked at. */
    _Atomic unsigned long arrived[CONNECTIONS];
    _Atomic unsigned long seen[CONNECTIONS];
    _Atomic unsigned running;
} race;

/* The owner: take what is there, and park; look again when a note was left. As
 * with an edge-triggered epoll set, each arrival makes one event, and what is
 * there when that event has been handled must have been seen. */
static void
serve(struct connection *c, unsigned i)
{
    do {
        race.served[i]++;
        atomic_store(&race.seen[i], atomic_load(&race.arrived[i]));
    } while (!conntable_park(c));
}

static void *
racer(void *arg)
{
    unsigned dice = (unsigned)(uintptr_t)arg * 2654435761u + 1;

    for (unsigned n = 0; n < EVENTS_EACH; n++) {
        struct connection *c;
        unsigned i;

        dice = dice * 1103515245u + 12345u;
        i = dice >> 16 & (CONNECTIONS - 1);
        atomic_fetch_add(&race.arrived[i], 1);
        c = conntable_claim(race.table, atomic_load(&race.event[i]));
        if (c == NULL) {
            continue;
        }
        /* Now and then it is closed and another one has its place. */
        if ((dice >> 24) % 16 == 0) {
            conntable_close(race.table, c);
            do {
                c = conntable_open(race.table, -1, DECODER_AUTO);
            } while (c == NULL);
            atomic_store(&race.event[i], conntable_event(c));
        }
        serve(c, i);
    }
    atomic_fetch_sub(&race.running, 1);
    return NULL;
}

static void
leave_it(struct connection *c, void *ctx)
{
    (void)ctx;
    while (!conntable_park(c)) {
    }
}

/* The sweep: looks at everything that is parked, all the time. */
static void *
sweeper(void *arg)
{
    (void)arg;
    while (atomic_load(&race.running) > 0) {
        conntable_each_parked(race.table, leave_it, NULL);
        conntable_next_deadline(race.table);
        sched_yield();
    }
    return NULL;
}

/* Exactly one owner at any time. */
static void
test_race(void **state)
{
    pthread_t thread[THREADS + 1];
    struct connection *c;

    (void)state;
    race.table = new_table();
    atomic_store(&race.running, THREADS);
    for (unsigned i = 0; i < CONNECTIONS; i++) {
        c = conntable_open(race.table, -1, DECODER_AUTO);
        atomic_store(&race.event[i], conntable_event(c));
        assert_true(conntable_park(c));
    }
    for (uintptr_t i = 0; i < THREADS; i++) {
        assert_int_equal(
            pthread_create(&thread[i], NULL, racer, (void *)(i + 1)), 0);
    }
    assert_int_equal(pthread_create(&thread[THREADS], NULL, sweeper, NULL), 0);
    for (unsigned i = 0; i <= THREADS; i++) {
        pthread_join(thread[i], NULL);
    }
    assert_int_equal(race.table->open, CONNECTIONS);
    for (unsigned i = 0; i < CONNECTIONS; i++) {
        c = conntable_claim(race.table, atomic_load(&race.event[i]));
        assert_non_null(c); /* everybody has given it back */
        assert_true(race.served[i] > 0);
    }
    free_table(race.table);
}

/* Without sweeps and closes no event is lost: when all is quiet, everything
 * that arrived has been seen. */
static void *
arrive(void *arg)
{
    (void)arg;
    for (unsigned n = 0; n < EVENTS_EACH; n++) {
        struct connection *c;
        unsigned i = n & (CONNECTIONS - 1);

        atomic_fetch_add(&race.arrived[i], 1);
        c = conntable_claim(race.table, atomic_load(&race.event[i]));
        if (c != NULL) {
            serve(c, i);
        }
    }
    return NULL;
}

static void
test_no_event_is_lost(void **state)
{
    pthread_t thread[THREADS];
    struct connection *c;

    (void)state;
    race.table = new_table();
    for (unsigned i = 0; i < CONNECTIONS; i++) {
        c = conntable_open(race.table, -1, DECODER_AUTO);
        atomic_store(&race.event[i], conntable_event(c));
        atomic_store(&race.arrived[i], 0);
        atomic_store(&race.seen[i], 0);
        assert_true(conntable_park(c));
    }
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&thread[i], NULL, arrive, NULL), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
    }
    for (unsigned i = 0; i < CONNECTIONS; i++) {
        assert_int_equal(race.arrived[i], THREADS * EVENTS_EACH / CONNECTIONS);
        assert_int_equal(race.seen[i], race.arrived[i]);
    }
    free_table(race.table);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_park_and_claim),
        cmocka_unit_test(test_note),
        cmocka_unit_test(test_lend),
        cmocka_unit_test(test_stale_events),
        cmocka_unit_test(test_fresh),
        cmocka_unit_test(test_growth),
        cmocka_unit_test(test_each_parked),
        cmocka_unit_test(test_race),
        cmocka_unit_test(test_no_event_is_lost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
