/* SPDX-License-Identifier: MIT
 *
 * See supervise.h. One look (look_once) reads top to bottom.
 */
#include "server/supervise.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/backlog.h"
#include "server/clock.h"
#include "server/log.h"
#include "server/scaling.h"
#include "server/shed.h"

enum {
    TICK_MS = 1000,        /* a fixed number of workers changes slowly */
    TICK_SCALING_MS = 50,  /* a busy pool must grow at once */
    TICK_WEAR_MS = 100,    /* max_requests is kept within so much */
    CONGESTED_MS = 5000,   /* a queue that long is worth a line */
    WARN_EVERY_MS = 60000, /* and not more than one in this time */
    TICK_DEADLINE_MS = 250,
};

/* -- what is there ----------------------------------------------------------
 */

static const struct scoreboard_slot *
score_of(const struct generation *g, unsigned i, unsigned thread)
{
    return &g->score.slot[i * g->settings.threads + thread];
}

static bool
is_idle(const struct generation *g, unsigned i)
{
    for (unsigned t = 0; t < g->settings.threads; t++) {
        if (atomic_load(&score_of(g, i, t)->begun_ns) != 0) {
            return false;
        }
    }
    return true;
}

static uint64_t
requests_of(const struct generation *g, unsigned i)
{
    uint64_t sum = 0;

    for (unsigned t = 0; t < g->settings.threads; t++) {
        sum += atomic_load(&score_of(g, i, t)->requests);
    }
    return sum;
}

/* In a backlog, or kept and passed on by a worker that was the last one. */
static bool
is_waiting(const struct generation *g)
{
    struct pollfd p = { .fd = g->queue, .events = POLLIN };

    for (unsigned i = 0; poll(&p, 1, 0) != 1; i++) {
        if (i == g->listeners) {
            return false;
        }
        p.fd = g->listen_fd[i];
    }
    return true;
}

static void
view(struct generation *g, struct scaling_view *v)
{
    uint64_t now = uv_now(g->loop);

    memset(v, 0, sizeof(*v));
    for (unsigned i = 0; i < g->count; i++) {
        struct slot *s = &g->slot[i];
        bool live = (s->state == SLOT_STARTING || s->state == SLOT_READY) &&
                    !s->used_up && !s->overdue;

        v->live += live;
        v->starting += live && s->state == SLOT_STARTING;
        if (!live || s->state != SLOT_READY || !is_idle(g, i)) {
            s->idle_since_ms = 0;
            continue;
        }
        s->idle_since_ms = s->idle_since_ms != 0 ? s->idle_since_ms : now;
        v->idle++;
        if (now - s->idle_since_ms > v->longest_idle_ms) {
            v->longest_idle_ms = now - s->idle_since_ms;
        }
    }
    v->waiting = v->idle == 0 && is_waiting(g);
}

/* -- one worker -------------------------------------------------------------
 */

/* Fields of /proc/PID/stat behind the name: state is the first, rss (in pages)
 * the 22nd. */
static bool
read_stat(int pid, char *ret_state, uint64_t *ret_rss_bytes)
{
    char path[64], text[1024], *at;
    unsigned long pages = 0;
    size_t n;
    FILE *in;

    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    in = fopen(path, "re");
    if (in == NULL) {
        return false;
    }
    n = fread(text, 1, sizeof(text) - 1, in);
    fclose(in);
    text[n] = '\0';
    at = strrchr(text, ')');
    if (at == NULL || at[1] != ' ' || at[2] == '\0') {
        return false;
    }
    *ret_state = at[2];
    at += 2;
    for (int field = 0; field < 21 && at != NULL; field++) {
        at = strchr(at, ' ');
        at = at != NULL ? at + 1 : NULL;
    }
    if (at != NULL) {
        pages = strtoul(at, NULL, 10);
    }
    *ret_rss_bytes = (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
    return true;
}

static void
tell_stopped(struct generation *g, struct slot *s, char state)
{
    bool stopped = state == 'T' || state == 't';

    if (stopped && !s->stopped) {
        log_error("pool %s: worker %d is stopped (SIGSTOP or a debugger); what "
                  "it has waits until it goes on (kill -CONT %d)",
                  g->settings.name, s->pid, s->pid);
    } else if (!stopped && s->stopped) {
        log_info("pool %s: worker %d goes on", g->settings.name, s->pid);
    }
    s->stopped = stopped;
}

/* Is it to be replaced? Another one starts first (it does not count as live any
 * more), then it is let go. */
static void
look_at_wear(struct generation *g, unsigned i, uint64_t rss,
             unsigned *replacing)
{
    struct slot *s = &g->slot[i];
    struct scaling_worker w = {
        .requests = requests_of(g, i),
        .limit = s->limit,
        .age_ms = uv_now(g->loop) - s->started_ms,
        .memory_bytes = rss,
    };
    const char *why;

    if (s->used_up || *replacing >= g->settings.max_recycling) {
        return;
    }
    why = scaling_used_up(&g->settings, &w);
    if (why != NULL) {
        s->used_up = true;
        (*replacing)++;
        log_info("pool %s: worker %d is replaced: %s (%" PRIu64
                 " requests, %" PRIu64 " MB)",
                 g->settings.name, s->pid, why, w.requests, rss >> 20);
    }
}

/* What a thread may take in the state it is in, in ms, and since when it is; 0:
 * as long as it likes. The worker itself was to end a request that takes too
 * long (overtime.h), so that gets some grace. */
static uint64_t
limit_of(const struct generation *g, const struct scoreboard_slot *t,
         uint64_t *ret_since_ns, const char **ret_what)
{
    if (atomic_load(&t->state) == SCORE_AFTER) {
        *ret_since_ns = atomic_load(&t->since_ns);
        *ret_what = "work after a response runs past after_timeout";
        return g->settings.after_timeout;
    }
    *ret_since_ns = atomic_load(&t->begun_ns);
    *ret_what = "a request runs past request_timeout and request_grace";
    return g->settings.request_timeout > 0
               ? g->settings.request_timeout + g->settings.request_grace
               : 0;
}

/* A worker with a thread past its limit is killed, once the others are done. */
static void
look_at_deadline(struct generation *g, unsigned i)
{
    struct slot *s = &g->slot[i];
    uint64_t now = clock_now_ns();
    bool others = false;

    if (s->pid == 0) {
        return;
    }
    for (unsigned t = 0; t < g->settings.threads; t++) {
        const char *what;
        uint64_t since;
        uint64_t limit = limit_of(g, score_of(g, i, t), &since, &what);

        if (since == 0 || limit == 0 || now < since ||
            (now - since) / NS_PER_MS <= limit) {
            others = others || since != 0;
            continue;
        }
        if (!s->overdue) {
            s->overdue = true;
            log_error("pool %s: worker %d: %s (%" PRIu64 " s); it is killed%s",
                      g->settings.name, s->pid, what,
                      (now - since) / 1000 / NS_PER_MS,
                      g->settings.threads > 1
                          ? " when its other threads are done"
                          : "");
            generation_retire(g, i);
        }
    }
    if (s->overdue && !others) {
        generation_kill_worker(g, i);
    }
}

static void
look_at_worker(struct generation *g, unsigned i, unsigned *replacing)
{
    struct slot *s = &g->slot[i];
    char state = ' ';
    uint64_t rss = 0;

    if (s->state == SLOT_EMPTY || s->pid == 0) {
        return;
    }
    if (g->supervision.looks % (TICK_MS / g->supervision.tick_ms) == 0 &&
        read_stat(s->pid, &state, &rss)) {
        tell_stopped(g, s, state);
    }
    if (s->state == SLOT_STARTING &&
        uv_now(g->loop) - s->started_ms > g->settings.start_timeout) {
        log_error("pool %s: worker %d is not ready within start_timeout: it is "
                  "killed",
                  g->settings.name, s->pid);
        s->started_ms = uv_now(g->loop);
        generation_kill_worker(g, i);
    }
    if (s->state == SLOT_READY) {
        look_at_wear(g, i, rss, replacing);
    }
    look_at_deadline(g, i);
    if (s->state == SLOT_RETIRING && s->kill_at_ms != 0 &&
        uv_now(g->loop) >= s->kill_at_ms) {
        log_warnx("pool %s: worker %d has not ended within graceful_timeout: "
                  "it is killed",
                  g->settings.name, s->pid);
        s->kill_at_ms = 0;
        generation_kill_worker(g, i);
    }
}

/* -- the number of workers --------------------------------------------------
 */

/* The one that has been idle for longest. */
static void
let_one_go(struct generation *g)
{
    unsigned best = g->count;

    for (unsigned i = 0; i < g->count; i++) {
        const struct slot *s = &g->slot[i];

        if (s->state != SLOT_READY || s->used_up || s->overdue) {
            continue;
        }
        if (best == g->count ||
            (s->idle_since_ms != 0 &&
             (g->slot[best].idle_since_ms == 0 ||
              s->idle_since_ms < g->slot[best].idle_since_ms))) {
            best = i;
        }
    }
    if (best < g->count) {
        log_debug("pool %s: worker %d is let go", g->settings.name,
                  g->slot[best].pid);
        generation_retire(g, best);
    }
}

/* Their replacements are there. */
static void
let_used_up_go(struct generation *g)
{
    for (unsigned i = 0; i < g->count; i++) {
        if (g->slot[i].state == SLOT_READY && g->slot[i].used_up) {
            generation_retire(g, i);
        }
    }
}

static void
on_connection(uv_poll_t *poll_handle, int status, int events)
{
    struct generation *g = poll_handle->data;
    (void)status;
    (void)events;

    supervise_now(g);
}

/* With no worker at all the manager itself waits for a connection, without
 * taking it. */
static void
watch_listeners(struct generation *g, bool on)
{
    if (g->supervision.watching == on ||
        g->settings.scaling != CONF_SCALING_ONDEMAND) {
        return;
    }
    g->supervision.watching = on;
    for (unsigned i = 0; i < g->supervision.polls; i++) {
        if (on) {
            uv_poll_start(&g->supervision.poll[i], UV_READABLE, on_connection);
        } else {
            uv_poll_stop(&g->supervision.poll[i]);
        }
    }
}

/* -- a queue that grows -----------------------------------------------------
 */

static void
shed(struct generation *g, bool on, const char *why)
{
    struct supervision *v = &g->supervision;
    unsigned long refused;

    if (on == v->shedding) {
        return;
    }
    if (v->shed == NULL) {
        v->shed = shed_open(g->loop, g->listen_fd, g->listeners);
        if (v->shed == NULL) {
            return;
        }
    }
    v->shedding = on;
    refused = shed_switch(v->shed, on);
    if (on) {
        log_error("pool %s: %s: what waits is answered with 503",
                  g->settings.name, why);
    } else {
        log_info("pool %s: workers take connections again; %lu were answered "
                 "with 503",
                 g->settings.name, refused);
    }
}

static unsigned
waiting_connections(const struct generation *g)
{
    unsigned sum = 0;

    for (unsigned i = 0; i < g->listeners; i++) {
        struct backlog b;

        if (backlog_read(g->listen_fd[i], &b) == 0) {
            sum += b.waiting;
        }
    }
    return sum;
}

/* Nobody is idle and somebody waits: said once in a while, and, when it lasts
 * longer than queue_timeout or when there is no worker at all, refused. */
static void
look_at_queue(struct generation *g, const struct scaling_view *view)
{
    struct supervision *v = &g->supervision;
    uint64_t now = uv_now(g->loop);
    uint64_t limit = g->settings.queue_timeout;

    if (!view->waiting) {
        v->congested_ms = 0;
        /* While nobody is idle the queue is empty because it is refused. */
        if (view->idle > 0 || view->starting > 0) {
            shed(g, false, "");
        }
        return;
    }
    v->congested_ms = v->congested_ms != 0 ? v->congested_ms : now;
    if (g->settings.command != NULL) {
        return; /* it listens on a socket that blocks, and tells no state */
    }
    if (view->live == 0 && now < v->hold_until_ms) {
        shed(g, true, "no worker is left, and the next one must wait");
    } else if (limit > 0 && now - v->congested_ms >= limit) {
        shed(g, true, "every worker is busy for longer than queue_timeout");
    }
    if (now - v->congested_ms >= CONGESTED_MS &&
        (v->warned_ms == 0 || now - v->warned_ms >= WARN_EVERY_MS)) {
        v->warned_ms = now;
        log_warnx("pool %s: all %u workers are busy for %" PRIu64
                  " s and %u connections wait; more workers (or threads) or "
                  "faster requests are needed",
                  g->settings.name, view->live, (now - v->congested_ms) / 1000,
                  waiting_connections(g));
    }
}

static void
look_once(struct generation *g)
{
    unsigned replacing = 0;
    struct scaling_view v;
    int step;

    g->supervision.looks++;
    for (unsigned i = 0; i < g->count; i++) {
        replacing += g->slot[i].state != SLOT_EMPTY && g->slot[i].used_up;
    }
    /* Beginning with another one each time: few may be replaced at once, and it
     * must not be the same ones for ever. */
    for (unsigned i = 0; i < g->count; i++) {
        look_at_worker(g, (unsigned)((i + g->supervision.looks) % g->count),
                       &replacing);
    }
    view(g, &v);
    step = scaling_step(&g->settings, g->supervision.target, &v);
    if (step > 0 && uv_now(g->loop) >= g->supervision.hold_until_ms) {
        while (step-- > 0 && generation_start_worker(g)) {
            v.live++;
        }
    } else if (step < 0) {
        let_one_go(g);
    } else if (step == 0 && v.starting == 0) {
        let_used_up_go(g);
    }
    watch_listeners(g, v.live == 0);
    look_at_queue(g, &v);
}

static void
on_tick(uv_timer_t *timer)
{
    look_once(timer->data);
}

/* -- begin and end ----------------------------------------------------------
 */

void
supervise_init(struct generation *g)
{
    uv_timer_init(g->loop, &g->supervision.tick);
    g->supervision.tick.data = g;
}

/* Duplicates: two generations may watch one listener for a moment, and libuv
 * wants a descriptor to itself. */
static void
open_watches(struct generation *g)
{
    g->supervision.poll = calloc(g->listeners, sizeof(*g->supervision.poll));
    for (unsigned i = 0; g->supervision.poll != NULL && i < g->listeners; i++) {
        int fd = dup(g->listen_fd[i]);

        if (fd < 0) {
            return;
        }
        g->supervision.poll_fd[g->supervision.polls] = fd;
        uv_poll_init(g->loop, &g->supervision.poll[g->supervision.polls], fd);
        g->supervision.poll[g->supervision.polls++].data = g;
    }
}

void
supervise_begin(struct generation *g)
{
    const struct pool_settings *s = &g->settings;

    g->supervision.tick_ms =
        s->scaling != CONF_SCALING_STATIC || s->queue_timeout > 0
            ? TICK_SCALING_MS
        : s->max_requests > 0                            ? TICK_WEAR_MS
        : s->request_timeout > 0 || s->after_timeout > 0 ? TICK_DEADLINE_MS
                                                         : TICK_MS;
    if (s->scaling == CONF_SCALING_ONDEMAND) {
        open_watches(g);
    }
    uv_timer_start(&g->supervision.tick, on_tick, g->supervision.tick_ms,
                   g->supervision.tick_ms);
    look_once(g);
}

void
supervise_now(struct generation *g)
{
    if (uv_is_active((uv_handle_t *)&g->supervision.tick)) {
        look_once(g);
    }
}

void
supervise_end(struct generation *g)
{
    uv_timer_stop(&g->supervision.tick);
    watch_listeners(g, false);
    shed_close(g->supervision.shed);
    g->supervision.shed = NULL;
    g->supervision.shedding = false;
}
