/* SPDX-License-Identifier: MIT
 *
 * See lookout.h.
 *
 * While it stands in, the listeners and the hand-over queue are out of the
 * epoll set: a busy worker must not be the one that is woken for a new
 * connection. An executor that becomes free puts them back before it waits.
 */
#include "server/lookout.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "server/clock.h"
#include "server/connection.h"
#include "server/log.h"
#include "server/mux.h"
#include "server/overtime.h"
#include "server/reserve.h"

enum {
    SLOW_TICK_MS = 4, /* while no request has been slow for SLOW_REST_MS */
    SLOW_REST_MS = 5000,
    TICK_MS = 1,       /* a request that outlives one tick is slow */
    CALM_TICK_MS = 20, /* with deadlines only */
    PATIENCE_MS = 5,   /* an application may stay away from its body */
    REST_MS = 250,     /* without requests for so long: sleep */
    EVENTS = 16,
};

/* -- sleeping ---------------------------------------------------------------
 */

static bool
any_running(struct worker *w)
{
    for (unsigned i = 0; i < w->settings->threads; i++) {
        if (atomic_load(&w->executor[i].score->begun_ns) != 0) {
            return true;
        }
    }
    return false;
}

static void tick(int ms);

/* An executor stores that it has begun and then looks whether we sleep, with no
 * fence between the two: one tick later whatever it stored is visible. */
static void
sleep_until_woken(struct worker *w)
{
    atomic_store(&w->lookout_asleep, 1);
    tick(TICK_MS);
    if (any_running(w)) {
        atomic_store(&w->lookout_asleep, 0);
        return;
    }
    while (atomic_load(&w->lookout_asleep) == 1) {
        syscall(SYS_futex, &w->lookout_asleep, FUTEX_WAIT_PRIVATE, 1, NULL);
    }
}

static void
wake(struct worker *w)
{
    if (atomic_exchange(&w->lookout_asleep, 0) == 1) {
        syscall(SYS_futex, &w->lookout_asleep, FUTEX_WAKE_PRIVATE, 1);
    }
}

static void
tick(int ms)
{
    struct timespec t = { 0, (long)ms * NS_PER_MS };

    nanosleep(&t, NULL);
}

/* -- standing in ------------------------------------------------------------
 */

/* When the youngest running request began; 0 when an executor is free. */
static uint64_t
busy_since(struct worker *w)
{
    uint64_t youngest = 1;

    for (unsigned i = 0; i < w->settings->threads; i++) {
        uint64_t begun = atomic_load_explicit(&w->executor[i].score->begun_ns,
                                              memory_order_relaxed);

        if (begun == 0) {
            return 0;
        }
        youngest = begun > youngest ? begun : youngest;
    }
    return youngest;
}

/* Connections that cannot be passed on, by their next_deferred: within a
 * request, or the queue is full. Their events have been used up, so they are
 * armed again when an executor is free. */
struct deferred {
    struct connection *first;
};

static bool
pass_on(struct worker *w, struct connection *c)
{
    return connection_is_idle(c) && connection_give_away(w, c) == 0;
}

/* The queue may have room again. */
static void
try_again(struct worker *w, struct deferred *d)
{
    struct connection **at = &d->first;

    while (*at != NULL) {
        struct connection *next = (*at)->next_deferred;

        if (pass_on(w, *at)) {
            *at = next;
        } else {
            at = &(*at)->next_deferred;
        }
    }
}

static void
rearm(struct worker *w, struct deferred *d)
{
    while (d->first != NULL) {
        struct connection *c = d->first;
        /* Of a shared one somebody may have to look although the socket has
         * nothing. */
        bool shared = mux_is_on(c);
        struct epoll_event ev = { .events = EPOLLIN | EPOLLRDHUP | EPOLLET |
                                            (shared ? EPOLLOUT : 0),
                                  .data.u64 = conntable_event(c) };

        d->first = c->next_deferred;
        c->poked = shared;

        /* Armed while it is ours: once parked it may be closed by another
         * thread at once, and the descriptor be another connection's. An event
         * that comes in between leaves a note, and it is armed again. */
        do {
            epoll_ctl(w->epoll_fd, EPOLL_CTL_MOD, c->fd, &ev);
        } while (!conntable_park(c));
    }
}

/* Its thread is in the application. */
static void
give_back(struct worker *w, struct connection *c)
{
    c->noted = true;
    c->lent_ns = 1; /* long ago: looked at when an executor is free */
    lookout_watch(w, c);
    conntable_lend(c);
}

/* One wait in place of the executors. False when nothing could be passed on:
 * then only orders to the worker are there, which are not for this thread. */
static bool
wait_and_pass_on(struct worker *w, struct deferred *deferred)
{
    struct epoll_event ev[EVENTS];
    /* Never waiting in there: the kernel must not choose this thread when it
     * wakes one process for a new connection. */
    int n = epoll_wait(w->epoll_fd, ev, EVENTS, 0);
    bool passed = false;

    for (int i = 0; i < n; i++) {
        struct connection *c = conntable_claim(&w->conns, ev[i].data.u64);

        if (c != NULL && c->runner != NULL) {
            give_back(w, c);
            passed = true;
        } else if (c != NULL) {
            if (!pass_on(w, c)) {
                c->next_deferred = deferred->first;
                deferred->first = c;
            }
            passed = true;
        }
    }
    return passed;
}

static void
stand_in(struct worker *w)
{
    struct deferred deferred = { .first = NULL };

    if (atomic_exchange(&w->taken_over, true)) {
        return;
    }
    executor_unwatch(w);
    executor_pass_on_wakeups(w);
    while (atomic_load(&w->taken_over) && busy_since(w) != 0 &&
           !atomic_load(&w->stopping)) {
        if (!wait_and_pass_on(w, &deferred)) {
            tick(TICK_MS);
        }
        try_again(w, &deferred);
        if (w->reserve != NULL) {
            reserve_pass_on(w);
        }
        overtime_check(w);
    }
    rearm(w, &deferred);
    /* An executor that became free may have put the listeners back before we
     * had taken them all out, and waits now: whoever is last puts them back. */
    if (!atomic_load(&w->taken_over)) {
        executor_watch(w);
    } else if (busy_since(w) == 0) {
        lookout_end(w);
    }
}

/* -- lent connections --------------------------------------------------------
 */

/* Its thread has been away for long enough: an event for whoever is free (now
 * is 0 while nobody is). */
static bool
still_waits(struct worker *w, uint64_t event, uint64_t now)
{
    bool stays;
    struct connection *c = conntable_claim_lent(&w->conns, event, &stays);
    bool late;

    if (c == NULL) {
        return stays;
    }
    /* lent_ns is set anew each time that it is lent; 0: an event was made. */
    late = c->lent_ns != 0 &&
           now >= c->lent_ns + (uint64_t)PATIENCE_MS * NS_PER_MS;
    if (late) {
        c->force = c->noted = true;
        c->lent_ns = 0;
    }
    do {
        if (late) {
            lookout_rearm(w, c);
        }
    } while (!conntable_try_lend(c));
    return true;
}

static void
look_at_watched(struct worker *w, bool free)
{
    uint64_t now = clock_coarse_ns();
    unsigned kept = 0;

    if (atomic_load_explicit(&w->watch_count, memory_order_relaxed) == 0) {
        return;
    }
    pthread_mutex_lock(&w->watch_lock);
    for (unsigned i = 0; i < atomic_load(&w->watch_count); i++) {
        if (still_waits(w, w->watch[i], free ? now : 0)) {
            w->watch[kept++] = w->watch[i];
        }
    }
    atomic_store(&w->watch_count, kept);
    pthread_mutex_unlock(&w->watch_lock);
}

/* Waking up costs: every millisecond only while there are slow requests. */
static int
tick_ms(bool parks, uint64_t stood_in_ns, uint64_t now_ns)
{
    if (!parks) {
        return CALM_TICK_MS;
    }
    return now_ns - stood_in_ns < (uint64_t)SLOW_REST_MS * NS_PER_MS
               ? TICK_MS
               : SLOW_TICK_MS;
}

static void *
lookout_main(void *arg)
{
    struct worker *w = arg;
    uint64_t last = 0, stood_in_ns = 0, active_ns = clock_coarse_ns();

    for (;;) {
        uint64_t since = busy_since(w);
        uint64_t now = clock_coarse_ns();
        bool parks = atomic_load(&w->parks);

        overtime_check(w);
        look_at_watched(w, since == 0);
        if (parks && since != 0 && since == last &&
            atomic_load(&w->conns.open) > 1) {
            stand_in(w);
            stood_in_ns = now;
        }
        last = since;
        if (any_running(w)) {
            active_ns = now;
        } else if (now - active_ns > (uint64_t)REST_MS * NS_PER_MS) {
            sleep_until_woken(w);
            active_ns = clock_coarse_ns();
        }
        tick(tick_ms(parks, stood_in_ns, now));
    }
    return NULL;
}

/* -- what executors call ----------------------------------------------------
 */

/* Signals are for the threads that run Python. */
static void
start(struct worker *w)
{
    sigset_t all, old;
    pthread_t thread;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(&thread, NULL, lookout_main, w);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc != 0) {
        log_warnx("no control thread (%s): kept connections wait for this "
                  "worker while it is busy",
                  strerror(rc));
        return;
    }
    pthread_detach(thread);
}

void
lookout_start(struct worker *w)
{
    if (overtime_is_on(w) && !atomic_exchange(&w->lookout_started, true)) {
        start(w);
    }
}

void
lookout_parked(struct worker *w)
{
    if (atomic_load_explicit(&w->parks, memory_order_relaxed) ||
        w->queue_out < 0) {
        return;
    }
    atomic_store(&w->parks, true);
    if (!atomic_exchange(&w->lookout_started, true)) {
        start(w);
    }
}

void
lookout_rearm(struct worker *w, const struct connection *c)
{
    struct epoll_event ev = { .events = EPOLLIN | EPOLLRDHUP | EPOLLET,
                              .data.u64 = conntable_event(c) };

    epoll_ctl(w->epoll_fd, EPOLL_CTL_MOD, c->fd, &ev);
}

void
lookout_watch(struct worker *w, const struct connection *c)
{
    unsigned count;

    pthread_mutex_lock(&w->watch_lock);
    count = atomic_load(&w->watch_count);
    if (count < EXECUTOR_WATCH) {
        w->watch[count] = conntable_event(c);
        atomic_store(&w->watch_count, count + 1);
    }
    pthread_mutex_unlock(&w->watch_lock);
    if (!atomic_load_explicit(&w->lookout_started, memory_order_relaxed) &&
        !atomic_exchange(&w->lookout_started, true)) {
        start(w);
    }
}

void
lookout_begin(struct worker *w)
{
    if (atomic_load_explicit(&w->lookout_asleep, memory_order_relaxed) == 1) {
        wake(w);
    }
}

void
lookout_end(struct worker *w)
{
    if (atomic_load_explicit(&w->taken_over, memory_order_relaxed) &&
        atomic_exchange(&w->taken_over, false)) {
        executor_watch(w);
    }
}
