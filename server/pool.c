/* SPDX-License-Identifier: MIT
 *
 * See pool.h. Reads top to bottom: the list of generations, what they report,
 * reload, stop, start.
 */
#include "server/pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/channel.h"
#include "server/log.h"
#include "server/manager.h"
#include "server/own_program.h"
#include "server/privileges.h"
#include "server/upgrade.h"

/* Addresses that are given up: looked at so often, and refused at the latest
 * after so long. */
enum { PART_TICK_MS = 20, PART_LIMIT_MS = 1000 };

static const char *
name(const struct pool *p)
{
    return p->settings->name;
}

static void
forget(struct pool *p, struct generation *g)
{
    for (struct generation **at = &p->all; *at != NULL; at = &(*at)->next) {
        if (*at == g) {
            *at = g->next;
            break;
        }
    }
    if (p->current == g) {
        p->current = NULL;
    }
    if (p->next == g) {
        p->next = NULL;
    }
}

/* -- generations that finish ------------------------------------------------
 */

/* How long what runs may go on; 0 while draining: for ever. */
static uint64_t
patience(const struct pool *p)
{
    return p->draining ? p->drain_ms : p->settings->graceful_timeout;
}

static void
on_kill(uv_timer_t *timer)
{
    struct pool *p = timer->data;

    bool left = false;

    for (struct generation *g = p->all; g != NULL; g = g->next) {
        left = left || g->stopping;
        if (g->stopping && uv_now(p->loop) - g->stopped_ms + 1 >= patience(p)) {
            log_warnx("pool %s: %s has passed: ending the workers of template "
                      "%d that are left",
                      name(p),
                      p->draining ? "the time for draining"
                                  : "graceful_timeout",
                      g->process.pid);
            generation_kill(g);
        }
    }
    if (!left) {
        uv_timer_stop(timer);
    }
}

/* Let a generation finish, under the deadline. */
static void
retire(struct pool *p, struct generation *g)
{
    generation_stop(g,
                    p->handed_over || (p->state == POOL_SERVING &&
                                       p->current != NULL && p->current != g));
    /* Later ones do not put off the end of those that came before. */
    if ((!p->draining || p->drain_ms > 0) &&
        !uv_is_active((uv_handle_t *)&p->kill)) {
        uv_timer_start(&p->kill, on_kill, patience(p), patience(p));
    }
}

/* -- addresses that are given up ---------------------------------------------
 */

static void
on_part(uv_timer_t *timer)
{
    struct pool *p = timer->data;

    if (listener_set_refuse(&p->parting, uv_now(p->loop) - p->parting_ms >=
                                             PART_LIMIT_MS) == 0) {
        uv_timer_stop(timer);
    }
}

/* Close what keep (or NULL) has not. Idle workers take what waits to be
 * accepted first; but what waits for busy ones longer than a moment is better
 * off elsewhere, and knows that only when it is refused. */
static void
give_up(struct pool *p, struct listener_set *set,
        const struct listener_set *keep)
{
    listener_set_part(set, keep, &p->parting);
    if (p->parting.count > 0) {
        p->parting_ms = uv_now(p->loop);
        uv_timer_start(&p->part, on_part, PART_TICK_MS, PART_TICK_MS);
    }
}

/* -- reload -----------------------------------------------------------------
 */

static struct generation *start_generation(struct pool *p,
                                           const struct pool_settings *s,
                                           const struct listener_set *listeners,
                                           char *why, size_t size);

static void
free_settings(struct pool_settings **s)
{
    if (*s != NULL) {
        settings_release(*s);
        free(*s);
        *s = NULL;
    }
}

/* Tell those who wait for the reload that has ended; those who asked meanwhile
 * wait for the next one. */
static void
tell_waiters(struct pool *p, const char *why)
{
    struct pool_waiter *all = p->waiters;

    p->waiters = NULL;
    while (all != NULL) {
        struct pool_waiter *w = all;

        all = w->next;
        if (w->again && p->reload_again) {
            w->again = false;
            w->next = p->waiters;
            p->waiters = w;
        } else {
            w->done(p, why, w->ctx);
            free(w);
        }
    }
}

/* why NULL: it went well. */
static void
reload_ended(struct pool *p, const char *why)
{
    if (why != NULL) {
        log_error("pool %s: reload refused: %s; the old workers serve on",
                  name(p), why);
        p->refused++;
        p->reload_failed_ms = uv_now(p->loop);
        snprintf(p->reload_failure, sizeof(p->reload_failure), "%s", why);
        free_settings(&p->next_settings);
        listener_set_close(&p->next_listeners, &p->listeners);
    }
    tell_waiters(p, why);
    if (p->reload_again) {
        struct pool_settings *s = p->again_settings;

        p->reload_again = false;
        p->again_settings = NULL;
        pool_reload(p, s, NULL, NULL);
    }
}

static void
add_waiter(struct pool *p, struct pool_waiter **list, pool_reloaded done,
           void *ctx, bool again)
{
    struct pool_waiter *w = malloc(sizeof(*w));

    if (w == NULL) {
        done(p, "out of memory", ctx);
        return;
    }
    *w = (struct pool_waiter){ done, ctx, again, *list };
    *list = w;
}

void
pool_reload(struct pool *p, struct pool_settings *s, pool_reloaded done,
            void *ctx)
{
    bool busy =
        p->state != POOL_SERVING || p->current == NULL || p->next != NULL;
    char why[512];

    if (done != NULL) {
        add_waiter(p, &p->waiters, done, ctx, busy);
    }
    if (busy) {
        /* One is under way, or a start is: once more when that has ended. */
        free_settings(&p->again_settings);
        p->again_settings = s;
        p->reload_again = true;
        return;
    }
    log_info("pool %s: reload: a new template starts", name(p));
    p->next_settings = s;
    if (p->inherited) {
        p->next_listeners = p->listeners;
    } else if (listener_set_open(&p->next_listeners,
                                 s != NULL ? s : p->settings, &p->listeners,
                                 why, sizeof(why)) != 0) {
        reload_ended(p, why);
        return;
    }
    p->next = start_generation(p, s != NULL ? s : p->settings,
                               &p->next_listeners, why, sizeof(why));
    if (p->next == NULL) {
        reload_ended(p, why);
    }
}

/* The new generation serves: what it was started with is the pool's now. */
static void
take_over(struct pool *p)
{
    struct generation *old = p->current;

    uv_timer_stop(&p->restart);
    p->current = p->next;
    p->next = NULL;
    p->reloads++;
    p->reload_failure[0] = '\0';
    if (p->next_settings != NULL) {
        free_settings(&p->settings);
        p->settings = p->next_settings;
        p->next_settings = NULL;
    }
    give_up(p, &p->listeners, &p->next_listeners);
    p->listeners = p->next_listeners;
    if (old != NULL) {
        retire(p, old);
    }
}

/* -- what generations report ------------------------------------------------
 */

/* Its last process is gone, and so is p afterwards. */
static void
stopped(struct pool *p)
{
    while (p->gone != NULL) {
        struct pool_waiter *w = p->gone;

        p->gone = w->next;
        w->done(p, NULL, w->ctx);
        free(w);
    }
    p->events->stopped(p, p->ctx);
}

static void
tell_ready(struct pool *p, struct generation *g)
{
    const struct pool_settings *s = &g->settings;
    char where[512];

    listener_set_format(g == p->next ? &p->next_listeners : &p->listeners,
                        where, sizeof(where));
    log_info("pool %s: ready: %u worker%s of %u thread%s on %s (template %d)",
             s->name, g->first, g->first == 1 ? "" : "s", s->threads,
             s->threads == 1 ? "" : "s", where, g->process.pid);
}

static void
on_ready(struct generation *g, void *ctx)
{
    struct pool *p = ctx;

    tell_ready(p, g);
    backoff_ready(&p->backoff);
    if (g == p->next) {
        take_over(p);
        reload_ended(p, NULL);
        return;
    }
    if (p->state == POOL_STARTING) {
        p->state = POOL_SERVING;
        p->events->serving(p, p->ctx);
    }
    if (p->reload_again) { /* asked for while it started */
        reload_ended(p, NULL);
    } else {
        tell_waiters(p, NULL);
    }
}

static void
on_failed(struct generation *g, const char *why, void *ctx)
{
    struct pool *p = ctx;

    if (g == p->next) {
        p->next = NULL;
        retire(p, g);
        reload_ended(p, why);
        return;
    }
    log_error("pool %s cannot start: %s", name(p), why);
    if (p->state == POOL_STARTING) {
        tell_waiters(p, why);
        p->events->failed(p, p->ctx);
    } else {
        retire(p, g);
    }
}

static void
on_restart(uv_timer_t *timer)
{
    struct pool *p = timer->data;
    char why[512];

    p->current =
        start_generation(p, p->settings, &p->listeners, why, sizeof(why));
    if (p->current == NULL) {
        log_error("pool %s: %s", name(p), why);
        uv_timer_start(&p->restart, on_restart, BACKOFF_MAX_MS, 0);
    }
}

/* The template that serves has died. Its workers notice and end in order; a new
 * one takes over. */
static void
replace_current(struct pool *p, uint64_t lived_ms)
{
    uint64_t delay =
        backoff_after_end(&p->backoff, lived_ms, 0); /* 0: it never served */

    p->lost++;
    if (p->state == POOL_STARTING &&
        backoff_gives_up(&p->backoff, p->settings->max_start_failures)) {
        log_error("pool %s cannot start: its template ended %u times", name(p),
                  p->backoff.quick);
        tell_waiters(p, "it cannot start: its template ends again and again");
        p->events->failed(p, p->ctx);
        return;
    }
    log_warnx("pool %s: a new template starts%s", name(p),
              delay > 0 ? " after a pause" : "");
    uv_timer_start(&p->restart, on_restart, delay, 0);
}

static void
on_ended(struct generation *g, void *ctx)
{
    struct pool *p = ctx;
    uint64_t lived = uv_now(p->loop) - g->started_ms;
    bool served = g->serving;
    bool was_current = p->current == g;
    bool was_next = p->next == g;

    forget(p, g);
    generation_free(g);
    if (p->state == POOL_STOPPING) {
        if (p->all == NULL) {
            uv_timer_stop(&p->kill);
            stopped(p);
        }
    } else if (was_next) {
        reload_ended(p, "its template ended before it was ready");
    } else if (was_current) {
        replace_current(p, served ? lived : 0);
    }
}

static const struct generation_events generation_events = {
    .ready = on_ready,
    .failed = on_failed,
    .ended = on_ended,
};

/* -- stop -------------------------------------------------------------------
 */

void
pool_stop(struct pool *p)
{
    p->state = POOL_STOPPING;
    p->reload_again = false;
    uv_timer_stop(&p->restart);
    listener_set_close(&p->next_listeners, &p->listeners);
    give_up(p, &p->listeners, NULL);
    tell_waiters(p, "the pool is being stopped");
    if (p->all == NULL) {
        stopped(p);
        return;
    }
    for (struct generation *g = p->all; g != NULL; g = g->next) {
        retire(p, g);
    }
}

void
pool_hand_over(struct pool *p)
{
    p->handed_over = true;
    listener_set_disown(&p->listeners);
    pool_stop(p);
}

void
pool_drain(struct pool *p, uint64_t timeout_ms)
{
    p->draining = true;
    p->drain_ms = timeout_ms;
    uv_timer_stop(&p->kill); /* of an older generation */
    pool_stop(p);
}

void
pool_scale_by(struct pool *p, int by)
{
    char why[256];
    unsigned now;

    if (p->current == NULL) {
        return;
    }
    now = generation_count(p->current, SLOT_READY) +
          generation_count(p->current, SLOT_STARTING);
    if ((int)now + by < 1 ||
        generation_scale(p->current, (unsigned)((int)now + by), why,
                         sizeof(why)) != 0) {
        log_warnx("pool %s: the number of workers stays %u: %s", name(p), now,
                  (int)now + by < 1 ? "one is the least" : why);
    }
}

void
pool_when_serving(struct pool *p, pool_reloaded done, void *ctx)
{
    add_waiter(p, &p->waiters, done, ctx, false);
}

void
pool_when_gone(struct pool *p, pool_reloaded done, void *ctx)
{
    add_waiter(p, &p->gone, done, ctx, false);
}

void
pool_kill(struct pool *p, bool templates)
{
    for (struct generation *g = p->all; g != NULL; g = g->next) {
        if (templates) {
            generation_kill_template(g);
        } else {
            generation_kill(g);
        }
    }
}

bool
pool_listens_at(const struct pool *p, const struct pool_settings *s)
{
    for (unsigned i = 0; i < s->listen.count; i++) {
        for (unsigned n = 0; n < p->listeners.count; n++) {
            if (strcmp(s->listen.item[i], p->listeners.spec[n]) == 0) {
                return true;
            }
        }
    }
    return false;
}

bool
pool_has_template(const struct pool *p, int pid)
{
    for (const struct generation *g = p->all; g != NULL; g = g->next) {
        if (!g->ended && g->process.pid == pid) {
            return true;
        }
    }
    return false;
}

void
pool_close(struct pool *p)
{
    autoreload_stop(p->autoreload);
    p->autoreload = NULL;
    listener_set_close(&p->next_listeners, &p->listeners);
    listener_set_close(&p->listeners, NULL);
    listener_set_close(&p->parting, NULL);
    for (int i = 0; i < 2; i++) {
        if (p->queue[i] >= 0) {
            close(p->queue[i]);
            p->queue[i] = -1;
        }
    }
    free_settings(&p->settings);
    free_settings(&p->next_settings);
    free_settings(&p->again_settings);
}

/* The loop looks at a handle until it has closed it, and closes the last one
 * first: p goes with whichever comes last. */
static void
on_timer_closed(uv_handle_t *handle)
{
    struct pool *p = handle->data;

    if (--p->timers == 0) {
        free(p);
    }
}

void
pool_free(struct pool *p)
{
    pool_close(p);
    p->timers = 3;
    uv_close((uv_handle_t *)&p->part, on_timer_closed);
    uv_close((uv_handle_t *)&p->restart, on_timer_closed);
    uv_close((uv_handle_t *)&p->kill, on_timer_closed);
}

/* -- start ------------------------------------------------------------------
 */

/* What runs as template: the worker program of the pool's Python, or for an
 * external program this one again. */
static int
find_program(struct pool *p, const struct pool_settings *s, char *why,
             size_t size)
{
    struct python_version wanted;

    if (s->command != NULL) {
        /* The very file, even when another one has its path now. */
        if (access("/proc/self/exe", X_OK) == 0) {
            snprintf(p->program, sizeof(p->program), "/proc/self/exe");
        } else {
            own_program(p->program, sizeof(p->program));
        }
        return 0;
    }
    if (venv_wanted(s->python, s->virtualenv, &wanted, why, size) != 0) {
        return -1;
    }
    if (venv_find_worker(&wanted, p->program, sizeof(p->program), why, size) !=
        0) {
        size_t len = strlen(why);

        if (s->virtualenv != NULL && s->python == NULL) {
            snprintf(why + len, size - len, " (virtualenv %s)", s->virtualenv);
        }
        return -1;
    }
    return 0;
}

static struct generation *
start_generation(struct pool *p, const struct pool_settings *s,
                 const struct listener_set *listeners, char *why, size_t size)
{
    struct generation *g;

    if (find_program(p, s, why, size) != 0 ||
        generation_start(p->loop, s, listeners, p->queue, p->program,
                         &generation_events, p, &g, why, size) != 0) {
        return NULL;
    }
    g->number = ++p->generations;
    g->history = &p->history;
    g->next = p->all;
    p->all = g;
    return g;
}

static void
on_change(const char *file, void *ctx)
{
    struct pool *p = ctx;

    log_info("pool %s: %s has changed", name(p), file);
    pool_reload(p, NULL, NULL, NULL);
}

void
pool_start(struct pool *p)
{
    char why[512];

    p->current =
        start_generation(p, p->settings, &p->listeners, why, sizeof(why));
    if (p->current == NULL) {
        log_error("pool %s: %s", name(p), why);
        tell_waiters(p, why);
        p->events->failed(p, p->ctx);
    } else if (p->settings->autoreload) {
        p->autoreload = autoreload_start(p->loop, p->settings, on_change, p);
    }
}

int
pool_open(struct pool *p, uv_loop_t *loop, struct pool_settings *s,
          bool inherited, const struct pool_events *events, void *ctx,
          char *why, size_t size)
{
    struct privileges user;
    int rc;

    memset(p, 0, sizeof(*p));
    p->queue[0] = p->queue[1] = -1;
    p->loop = loop;
    p->settings = s;
    p->inherited = inherited;
    p->events = events;
    p->ctx = ctx;
    uv_timer_init(loop, &p->restart);
    uv_timer_init(loop, &p->kill);
    uv_timer_init(loop, &p->part);
    p->restart.data = p->kill.data = p->part.data = p;
    if (find_program(p, s, why, size) != 0 ||
        privileges_lookup(s->user, s->group, &user, why, size) != 0 ||
        listener_set_check(s, why, size) != 0) {
        return MANAGER_EXIT_CONFIG;
    }
    rc = upgrade_queue(s->name, p->queue) ? 0 : channel_pair(p->queue);
    if (rc < 0) {
        snprintf(why, size, "hand-over queue: %s", strerror(-rc));
        return MANAGER_EXIT_FAILED;
    }
    rc = inherited ? listener_set_inherit(&p->listeners, why, size)
                   : listener_set_open(&p->listeners, s, upgrade_listeners(),
                                       why, size);
    return rc == 0 ? 0 : MANAGER_EXIT_UNAVAILABLE;
}
