/* SPDX-License-Identifier: MIT
 *
 * See status.h. This is the look itself; what becomes of it is in
 * status_json.c, status_table.c and status_metrics.c.
 */
#include "server/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/clock.h"

/* Reading the memory of a process is work for the kernel: what was read is good
 * for this long, or for so many times as long as reading all of them took, so
 * that somebody who polls without a pause costs one part in MEMORY_SHARE. */
enum { MEMORY_FRESH_MS = 1000, MEMORY_SHARE = 20 };

static struct {
    uint64_t fresh_ms;
    uint64_t spent_ns; /* in this look */
} memory = { .fresh_ms = MEMORY_FRESH_MS };

const char *
status_state_name(enum status_state state)
{
    static const char *const names[] = { "starting", "idle", "busy",
                                         "stopping" };

    return names[state];
}

const char *
status_thread_state_name(enum scoreboard_state state)
{
    static const char *const names[] = {
        [SCORE_FREE] = "free",       [SCORE_STARTING] = "starting",
        [SCORE_IDLE] = "idle",       [SCORE_READING] = "reading",
        [SCORE_RUNNING] = "running", [SCORE_WRITING] = "writing",
        [SCORE_AFTER] = "after",     [SCORE_DRAINING] = "draining",
    };

    return (unsigned)state < STATUS_THREAD_STATES ? names[state] : "unknown";
}

unsigned
status_wanted(const struct pool *p)
{
    unsigned target = p->current != NULL ? p->current->supervision.target : 0;

    return target > 0 ? target : p->settings->workers;
}

static uint64_t
age(uint64_t now, uint64_t then)
{
    return now > then ? now - then : 0;
}

/* -- a worker ---------------------------------------------------------------
 */

/* The line of the request that runs now: read again when another one began
 * meanwhile. */
static void
read_request(const struct scoreboard_slot *s, uint64_t now_ns,
             struct status_thread *t)
{
    for (int i = 0; i < 3; i++) {
        uint64_t begun =
            atomic_load_explicit(&s->begun_ns, memory_order_acquire);
        bool whole;

        t->running = begun != 0;
        t->running_ms = begun != 0 ? age(now_ns, begun) / NS_PER_MS : 0;
        t->line[0] = '\0';
        if (begun == 0) {
            return;
        }
        whole = scoreboard_line(s, t->line, sizeof(t->line));
        if (whole &&
            atomic_load_explicit(&s->begun_ns, memory_order_acquire) == begun) {
            return;
        }
    }
    t->line[0] = '\0';
}

static void
read_thread(const struct scoreboard_slot *s, uint64_t now_ns,
            struct status_thread *t)
{
    uint32_t state = atomic_load_explicit(&s->state, memory_order_acquire);

    t->state = state < STATUS_THREAD_STATES ? (enum scoreboard_state)state
                                            : SCORE_FREE;
    t->state_ms =
        age(now_ns, atomic_load_explicit(&s->since_ns, memory_order_relaxed)) /
        NS_PER_MS;
    t->requests = atomic_load_explicit(&s->requests, memory_order_relaxed);
    t->failures = atomic_load_explicit(&s->failures, memory_order_relaxed);
    read_request(s, now_ns, t);
}

static bool
is_idle(const struct status_worker *w)
{
    for (unsigned i = 0; i < w->threads; i++) {
        if (w->thread[i].state != SCORE_IDLE) {
            return false;
        }
    }
    return true;
}

static void
read_memory(int pid, struct memory_use *kept, uint64_t *kept_ms, uint64_t now)
{
    if (pid > 0 && (*kept_ms == 0 || age(now, *kept_ms) >= memory.fresh_ms)) {
        uint64_t before = clock_now_ns();

        memory_read(pid, kept);
        memory.spent_ns += clock_now_ns() - before;
        *kept_ms = now;
    }
}

static void
set_memory_fresh(void)
{
    if (memory.spent_ns > 0) {
        memory.fresh_ms = memory.spent_ns * MEMORY_SHARE / NS_PER_MS;
        if (memory.fresh_ms < MEMORY_FRESH_MS) {
            memory.fresh_ms = MEMORY_FRESH_MS;
        }
        memory.spent_ns = 0;
    }
}

/* ret_thread: room for the worker's threads. */
static void
read_worker(struct generation *g, unsigned i, uint64_t now_ns,
            struct status_thread *ret_thread, struct status_worker *w)
{
    struct slot *slot = &g->slot[i];
    unsigned k = g->settings.threads;

    *w = (struct status_worker){
        .slot = i,
        .pid = slot->pid,
        .generation = g->number,
        .age_ms = age(now_ns / NS_PER_MS, slot->started_ms),
        .thread = ret_thread,
    };
    read_memory(slot->pid, &slot->memory, &slot->memory_ms, now_ns / NS_PER_MS);
    w->memory = slot->memory;
    if (slot->state == SLOT_STARTING) {
        w->state = STATUS_STARTING;
        return;
    }
    if (g->settings.command != NULL) {
        w->state = g->stopping || slot->state == SLOT_RETIRING
                       ? STATUS_STOPPING
                       : STATUS_IDLE; /* it does not tell */
        return;
    }
    w->threads = k;
    for (unsigned t = 0; t < k; t++) {
        read_thread(&g->score.slot[i * k + t], now_ns, &ret_thread[t]);
        w->requests += ret_thread[t].requests;
        w->failures += ret_thread[t].failures;
    }
    if (g->stopping || slot->state == SLOT_RETIRING) {
        w->state = STATUS_STOPPING;
    } else {
        w->state = is_idle(w) ? STATUS_IDLE : STATUS_BUSY;
    }
}

/* -- sums -------------------------------------------------------------------
 */

static void
count_worker(struct status_counts *c, const struct status_worker *w)
{
    c->workers[w->state]++;
    for (unsigned i = 0; i < w->threads; i++) {
        c->threads[w->thread[i].state]++;
    }
    c->memory.rss += w->memory.rss;
    c->memory.pss += w->memory.pss;
}

static void
count_pool(struct status_counts *c, const struct status_counts *pool)
{
    for (int i = 0; i < STATUS_STATES; i++) {
        c->workers[i] += pool->workers[i];
    }
    for (int i = 0; i < STATUS_THREAD_STATES; i++) {
        c->threads[i] += pool->threads[i];
    }
    score_totals_add(&c->answered, &pool->answered);
    c->crashed += pool->crashed;
    c->ended += pool->ended;
    c->memory.rss += pool->memory.rss;
    c->memory.pss += pool->memory.pss;
    c->held += pool->held;
}

/* -- a pool -----------------------------------------------------------------
 */

static const char *
pool_state(const struct pool *p)
{
    switch (p->state) {
    case POOL_STARTING:
        return "starting";
    case POOL_STOPPING:
        return "stopping";
    default:
        return p->current == NULL || !p->current->serving ? "restarting"
               : p->next != NULL                          ? "reloading"
                                                          : "serving";
    }
}

static void __attribute__((format(printf, 3, 4)))
add_alarm(struct status_pool *s, uint64_t age_ms, const char *fmt, ...)
{
    struct status_alarm *a = &s->alarm[s->alarms];
    va_list args;

    if (s->alarms == STATUS_ALARMS) {
        return;
    }
    a->age_ms = age_ms;
    va_start(args, fmt);
    vsnprintf(a->text, sizeof(a->text), fmt, args);
    va_end(args);
    s->alarms++;
}

/* Do workers end again and again? It is over once they live for longer. */
static void
look_for_back_off(struct status_pool *s, const struct generation *g,
                  uint64_t now)
{
    bool young = now < g->supervision.hold_until_ms;

    for (unsigned i = 0; i < g->count; i++) {
        young = young || (g->slot[i].state != SLOT_EMPTY &&
                          age(now, g->slot[i].started_ms) < BACKOFF_LIFE_MS);
    }
    if (young && g->backoff.quick > 1) {
        add_alarm(s, 0,
                  "back-off: workers have ended %u times soon after they had "
                  "started, so that the next ones start after a pause",
                  g->backoff.quick);
    }
}

static void
look_for_stopped(struct status_pool *s, const struct generation *g)
{
    for (unsigned i = 0; i < g->count; i++) {
        if (g->slot[i].state != SLOT_EMPTY && g->slot[i].stopped) {
            add_alarm(s, 0,
                      "worker %d is stopped (SIGSTOP or a debugger); what it "
                      "has waits until it goes on",
                      g->slot[i].pid);
        }
    }
}

static void
look_for_alarms(struct status_pool *s, uint64_t now)
{
    const struct pool *p = s->pool;

    if (p->reload_failure[0] != '\0') {
        add_alarm(s, age(now, p->reload_failed_ms),
                  "the last reload was refused: %s", p->reload_failure);
    }
    if (p->state == POOL_STOPPING) {
        return;
    }
    if (p->current == NULL) {
        add_alarm(s, 0, "no template runs; another one starts%s",
                  p->backoff.quick > 1 ? " after a pause (back-off)" : "");
    } else if (!p->current->stopping) {
        look_for_back_off(s, p->current, now);
        look_for_stopped(s, p->current);
    }
    for (unsigned i = 0; i < p->listeners.count; i++) {
        const struct backlog *q = &s->queue[i];

        if (q->known && q->limit > 0 && q->waiting >= q->limit - q->limit / 4) {
            add_alarm(s, 0,
                      "%u connections wait on %s, %u may: more workers are "
                      "needed, or faster ones",
                      q->waiting, p->listeners.item[i].text, q->limit);
        }
    }
}

static void
read_generation(struct status *s, struct status_pool *pool,
                struct generation *g, uint64_t now_ns, unsigned *thread)
{
    for (unsigned i = 0; i < g->count; i++) {
        struct status_worker *w =
            &s->worker[pool->worker - s->worker + pool->workers];

        if (g->slot[i].state == SLOT_EMPTY) {
            continue;
        }
        read_worker(g, i, now_ns, &s->thread[*thread], w);
        *thread += w->threads;
        pool->workers++;
        count_worker(&pool->counts, w);
    }
    for (unsigned i = 0; i < g->score.count; i++) {
        scoreboard_add(&g->score.slot[i], &pool->counts.answered);
        pool->counts.held += atomic_load(&g->score.slot[i].held);
    }
    if (!g->ended) {
        read_memory(g->process.pid, &g->memory, &g->memory_ms, s->now_ms);
        pool->counts.memory.rss += g->memory.rss;
        pool->counts.memory.pss += g->memory.pss;
    }
}

static void
read_pool(struct status *s, struct status_pool *ret, struct pool *p,
          uint64_t now_ns, unsigned *worker, unsigned *thread)
{
    *ret = (struct status_pool){
        .pool = p,
        .state = pool_state(p),
        .worker = s->worker + *worker,
        .counts = { .answered = p->history.answered,
                    .crashed = p->history.crashed,
                    .ended = p->history.ended },
    };
    for (struct generation *g = p->all; g != NULL; g = g->next) {
        read_generation(s, ret, g, now_ns, thread);
    }
    *worker += ret->workers;
    for (unsigned i = 0; i < p->listeners.count; i++) {
        backlog_read(p->listeners.item[i].fd, &ret->queue[i]);
    }
    look_for_alarms(ret, s->now_ms);
    count_pool(&s->counts, &ret->counts);
}

/* -- all of it --------------------------------------------------------------
 */

static struct status *
allocate(const struct pool *pools)
{
    struct status *s = calloc(1, sizeof(*s));
    size_t workers = 0, threads = 0;

    if (s == NULL) {
        return NULL;
    }
    for (const struct pool *p = pools; p != NULL; p = p->following) {
        s->pools++;
        for (const struct generation *g = p->all; g != NULL; g = g->next) {
            workers += g->count;
            threads += g->score.count;
        }
    }
    /* One more: nothing at all is no lack of memory. */
    s->pool = calloc(s->pools + 1, sizeof(*s->pool));
    s->worker = calloc(workers + 1, sizeof(*s->worker));
    s->thread = calloc(threads + 1, sizeof(*s->thread));
    if (s->pool == NULL || s->worker == NULL || s->thread == NULL) {
        status_free(s);
        return NULL;
    }
    return s;
}

static void
look_at_manager(struct status *s, const struct status_manager *m)
{
    s->manager = *m;
    if (m->reload_failure != NULL) {
        s->alarms = 1;
        s->alarm[0].age_ms = age(s->now_ms, m->reload_failed_ms);
        snprintf(s->alarm[0].text, sizeof(s->alarm[0].text),
                 "the last reload was refused: %s", m->reload_failure);
    }
}

struct status *
status_take(struct pool *pools, const struct status_manager *m)
{
    struct status *s = allocate(pools);
    uint64_t now_ns = clock_now_ns();
    unsigned n = 0, worker = 0, thread = 0;

    if (s == NULL) {
        return NULL;
    }
    s->now_ms = now_ns / NS_PER_MS;
    look_at_manager(s, m);
    for (struct pool *p = pools; p != NULL; p = p->following) {
        read_pool(s, &s->pool[n++], p, now_ns, &worker, &thread);
    }
    set_memory_fresh();
    return s;
}

void
status_free(struct status *s)
{
    if (s != NULL) {
        free(s->pool);
        free(s->worker);
        free(s->thread);
        free(s);
    }
}

int
status_write(struct pool *pools, const struct status_manager *m,
             enum status_format format, struct buf *out)
{
    static int (*const write[])(const struct status *, struct buf *) = {
        [STATUS_TABLE] = status_table,
        [STATUS_JSON] = status_json_text,
        [STATUS_METRICS] = status_metrics,
    };
    struct status *s = status_take(pools, m);
    int rc = s != NULL ? write[format](s, out) : -1;

    status_free(s);
    return rc;
}

const char *
status_media_type(enum status_format format)
{
    static const char *const types[] = {
        [STATUS_TABLE] = "text/plain; charset=utf-8",
        [STATUS_JSON] = "application/json",
        [STATUS_METRICS] = "text/plain; version=0.0.4; charset=utf-8",
    };

    return types[format];
}
