/* SPDX-License-Identifier: MIT
 *
 * See pool.h. Reads top to bottom: the list of generations, what they report,
 * reload, stop, start.
 */
#include "server/pool.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "server/channel.h"
#include "server/log.h"
#include "server/manager.h"
#include "server/privileges.h"

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

static void
on_kill(uv_timer_t *timer)
{
    struct pool *p = timer->data;

    for (struct generation *g = p->all; g != NULL; g = g->next) {
        if (g->stopping) {
            log_warnx("pool %s: graceful_timeout has passed: ending the "
                      "workers of template %d that are left",
                      name(p), g->process.pid);
            generation_kill(g);
        }
    }
}

/* Let a generation finish, under the deadline. */
static void
retire(struct pool *p, struct generation *g)
{
    generation_stop(g, p->state == POOL_SERVING && p->current != NULL &&
                           p->current != g);
    uv_timer_start(&p->kill, on_kill, p->settings->graceful_timeout, 0);
}

/* -- reload -----------------------------------------------------------------
 */

static struct generation *start_generation(struct pool *p, char *why,
                                           size_t size);

/* why NULL: it went well. */
static void
reload_ended(struct pool *p, const char *why)
{
    pool_reloaded done = p->reloaded;

    p->reloaded = NULL;
    if (why != NULL) {
        log_error("pool %s: reload refused: %s; the old workers serve on",
                  name(p), why);
    }
    if (p->reload_again) {
        p->reload_again = false;
        pool_reload(p, done, p->reloaded_ctx);
        return;
    }
    if (done != NULL) {
        done(p, why, p->reloaded_ctx);
    }
}

void
pool_reload(struct pool *p, pool_reloaded done, void *ctx)
{
    char why[512];

    if (done != NULL) {
        p->reloaded = done;
        p->reloaded_ctx = ctx;
    }
    if (p->state != POOL_SERVING || p->current == NULL || p->next != NULL) {
        /* One is under way, or a start is: once more when that has ended. */
        p->reload_again = p->state != POOL_STOPPING;
        return;
    }
    log_info("pool %s: reload: a new template starts", name(p));
    p->next = start_generation(p, why, sizeof(why));
    if (p->next == NULL) {
        reload_ended(p, why);
    }
}

/* -- what generations report ------------------------------------------------
 */

static void
tell_ready(struct pool *p, struct generation *g)
{
    const struct pool_settings *s = p->settings;
    char where[512] = "";
    size_t used = 0;

    for (unsigned i = 0; i < p->listeners && used < sizeof(where) - 1; i++) {
        used += (size_t)snprintf(where + used, sizeof(where) - used, "%s%s",
                                 i > 0 ? ", " : "", p->listener[i].text);
    }
    log_info("pool %s: ready: %u worker%s of %u thread%s on %s (template %d)",
             s->name, g->count, g->count == 1 ? "" : "s", s->threads,
             s->threads == 1 ? "" : "s", where, g->process.pid);
}

static void
on_ready(struct generation *g, void *ctx)
{
    struct pool *p = ctx;

    tell_ready(p, g);
    backoff_ready(&p->backoff);
    if (g == p->next) {
        struct generation *old = p->current;

        p->current = g;
        p->next = NULL;
        p->reloads++;
        if (old != NULL) {
            retire(p, old);
        }
        reload_ended(p, NULL);
        return;
    }
    if (p->state == POOL_STARTING) {
        p->state = POOL_SERVING;
        p->events->serving(p, p->ctx);
    }
    if (p->reload_again) {
        reload_ended(p, NULL);
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

    p->current = start_generation(p, why, sizeof(why));
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
    uint64_t delay = backoff_after_end(&p->backoff, lived_ms, 0);

    if (p->state == POOL_STARTING &&
        backoff_gives_up(&p->backoff, p->settings->max_start_failures)) {
        log_error("pool %s cannot start: its template ended %u times", name(p),
                  p->backoff.quick);
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
    bool was_current = p->current == g;
    bool was_next = p->next == g;

    forget(p, g);
    generation_free(g);
    if (p->state == POOL_STOPPING) {
        if (p->all == NULL) {
            uv_timer_stop(&p->kill);
            p->events->stopped(p, p->ctx);
        }
    } else if (was_next) {
        reload_ended(p, "its template ended before it was ready");
    } else if (was_current) {
        replace_current(p, lived);
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
    uv_timer_stop(&p->restart);
    for (unsigned i = 0; i < p->listeners; i++) {
        listener_close(&p->listener[i]);
    }
    if (p->all == NULL) {
        p->events->stopped(p, p->ctx);
        return;
    }
    for (struct generation *g = p->all; g != NULL; g = g->next) {
        retire(p, g);
    }
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
    for (unsigned i = 0; i < p->listeners; i++) {
        listener_close(&p->listener[i]);
    }
    for (int i = 0; i < 2; i++) {
        if (p->queue[i] >= 0) {
            close(p->queue[i]);
        }
    }
}

/* -- start ------------------------------------------------------------------
 */

static struct generation *
start_generation(struct pool *p, char *why, size_t size)
{
    struct generation *g;

    if (generation_start(p->loop, p->settings, p->listener, p->listeners,
                         p->queue, p->program, &generation_events, p, &g, why,
                         size) != 0) {
        return NULL;
    }
    g->next = p->all;
    p->all = g;
    return g;
}

void
pool_start(struct pool *p)
{
    char why[512];

    p->current = start_generation(p, why, sizeof(why));
    if (p->current == NULL) {
        log_error("pool %s: %s", name(p), why);
        p->events->failed(p, p->ctx);
    }
}

static int
open_listeners(struct pool *p, char *why, size_t size)
{
    const struct pool_settings *s = p->settings;
    struct listener_options o = {
        .backlog = s->backlog,
        .mode = (unsigned)s->socket_mode,
        .owner = (unsigned)-1,
        .group = (unsigned)-1,
    };
    uid_t uid;
    gid_t gid;

    if (p->inherited) {
        p->listeners = 1;
        return listener_inherit(0, &p->listener[0], why, size);
    }
    if (s->socket_owner != NULL) {
        if (privileges_uid(s->socket_owner, &uid, why, size) != 0) {
            return -1;
        }
        o.owner = uid;
    }
    if (s->socket_group != NULL) {
        if (privileges_gid(s->socket_group, &gid, why, size) != 0) {
            return -1;
        }
        o.group = gid;
    }
    for (unsigned i = 0; i < s->listen.count; i++) {
        struct address a;
        int n;

        if (address_parse(s->listen.item[i], &a, why, size) != 0) {
            return -1;
        }
        n = listener_open(&a, &o, p->listener + p->listeners,
                          EXECUTOR_MAX_LISTENERS - p->listeners, why, size);
        if (n < 0) {
            return -1;
        }
        p->listeners += (unsigned)n;
    }
    return 0;
}

int
pool_open(struct pool *p, uv_loop_t *loop, struct pool_settings *s,
          bool inherited, const struct pool_events *events, void *ctx,
          char *why, size_t size)
{
    struct python_version wanted;
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
    p->restart.data = p->kill.data = p;
    if (venv_wanted(s->python, s->virtualenv, &wanted, why, size) != 0 ||
        venv_find_worker(&wanted, p->program, sizeof(p->program), why, size) !=
            0 ||
        privileges_lookup(s->user, s->group, &user, why, size) != 0) {
        return MANAGER_EXIT_CONFIG;
    }
    rc = channel_pair(p->queue);
    if (rc < 0) {
        snprintf(why, size, "hand-over queue: %s", strerror(-rc));
        return MANAGER_EXIT_FAILED;
    }
    return open_listeners(p, why, size) == 0 ? 0 : MANAGER_EXIT_UNAVAILABLE;
}
