/* SPDX-License-Identifier: MIT
 *
 * See manager.h. Reads top to bottom: stop, what the pools report, upgrade,
 * start. What gives it orders is manager_signals.c, manager_ctl.c and
 * manager_reload.c.
 */
#include "server/manager_state.h"

#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "server/access_relay.h"
#include "server/log.h"
#include "server/log_relay.h"
#include "server/log_sink.h"
#include "server/notify.h"
#include "server/pidfile.h"
#include "server/upgrade.h"

/* After the workers were killed: until the templates are killed as well. */
enum { KILL_GRACE_MS = 5000, LOG_FLUSH_MS = 1000 };

/* -- stop -------------------------------------------------------------------
 */

static void
kill_pools(struct manager *m, bool templates)
{
    for (struct pool *p = m->pools; p != NULL; p = p->following) {
        pool_kill(p, templates);
    }
}

static void
on_stop_deadline(uv_timer_t *timer)
{
    struct manager *m = timer->data;

    if (!m->hurried) {
        m->hurried = true;
        kill_pools(m, false);
        uv_timer_start(timer, on_stop_deadline, KILL_GRACE_MS, 0);
        return;
    }
    kill_pools(m, true);
}

static uint64_t
longest_grace(const struct manager *m)
{
    uint64_t longest = 0;

    for (const struct pool *p = m->pools; p != NULL; p = p->following) {
        uint64_t grace = p->settings->graceful_timeout;

        longest = grace > longest ? grace : longest;
    }
    return longest;
}

/* This manager was to follow another one and ends before it serves: that one
 * goes on, and its sockets keep their paths. */
static void
leave_paths(struct manager *m)
{
    if (upgrade_is_pending()) {
        admin_hand_over(&m->admin);
        for (struct pool *p = m->pools; p != NULL; p = p->following) {
            listener_set_disown(&p->listeners);
        }
    }
}

void
manager_stop(struct manager *m, int code, const char *why)
{
    struct pool *next;

    uv_timer_stop(&m->delay);
    if (!m->stopping || m->draining) {
        m->stopping = true;
        m->ordered = true;
        m->draining = false;
        m->exit_code = code;
        leave_paths(m);
        notify("STOPPING=1");
        upgrade_cancel();
        log_info("%s: stopping; requests in flight have %llu s", why,
                 (unsigned long long)longest_grace(m) / 1000);
        uv_timer_start(&m->deadline, on_stop_deadline, longest_grace(m), 0);
        for (struct pool *p = m->pools; p != NULL; p = next) {
            next = p->following; /* one with no process is gone at once */
            if (p->state != POOL_STOPPING) {
                pool_stop(p);
            }
        }
    } else if (!m->ordered) { /* a new manager serves, this one finishes */
        m->ordered = true;
        log_info("%s: finishing what is left", why);
    } else if (!m->hurried) {
        log_warnx("%s again: stopping at once", why);
        uv_timer_start(&m->deadline, on_stop_deadline, 0, 0);
    }
}

/* -- [forebay] --------------------------------------------------------------
 */

static void
write_pidfile(const struct manager *m)
{
    char why[512];

    if (m->pidfile != NULL &&
        pidfile_write(m->pidfile, why, sizeof(why)) != 0) {
        log_error("pidfile: %s; everything goes on without it", why);
    }
}

void
manager_set_pidfile(struct manager *m, const char *path)
{
    if (path != NULL && m->pidfile != NULL && strcmp(path, m->pidfile) == 0) {
        return;
    }
    if (m->pidfile != NULL && m->started) {
        pidfile_remove(m->pidfile);
    }
    free(m->pidfile);
    m->pidfile = path != NULL ? strdup(path) : NULL;
    if (m->started) {
        write_pidfile(m);
    }
}

void
manager_take_log_level(const struct manager_settings *s)
{
    enum log_level level;

    if (s->log_level != NULL && log_level_named(s->log_level, &level) == 0) {
        log_suggest_level(level);
    }
}

int
manager_use_log(struct manager *m, const struct manager_settings *s, char *why,
                size_t size)
{
    struct log_sink *sink =
        log_sink_open(&m->loop, s->log != NULL ? s->log : "stderr", why, size);

    if (sink == NULL) {
        return -1;
    }
    log_set_output(log_sink_output(sink));
    log_sink_release(m->log);
    m->log = sink;
    return 0;
}

void
manager_drain(struct manager *m, uint64_t timeout_ms)
{
    struct pool *next;

    if (m->stopping) {
        return;
    }
    m->stopping = m->draining = true;
    notify("STOPPING=1");
    log_info("draining: no new connections; the end comes with the last "
             "request%s",
             timeout_ms > 0 ? ", or when the time is up" : "");
    if (timeout_ms > 0) {
        uv_timer_start(&m->deadline, on_stop_deadline, timeout_ms, 0);
    }
    for (struct pool *p = m->pools; p != NULL; p = next) {
        next = p->following;
        if (p->state != POOL_STOPPING) {
            pool_drain(p, timeout_ms);
        }
    }
}

/* -- what pools report ------------------------------------------------------
 */

static bool
all_served(const struct manager *m)
{
    for (const struct pool *p = m->pools; p != NULL; p = p->following) {
        if (p->state == POOL_STARTING) {
            return false;
        }
    }
    return true;
}

static void
on_serving(struct pool *p, void *ctx)
{
    struct manager *m = ctx;
    (void)p;

    if (!m->started && all_served(m)) {
        m->started = true;
        write_pidfile(m);
        upgrade_complete(m->pools, &m->admin.listeners);
        notify("READY=1\nMAINPID=%d", (int)getpid());
    }
}

/* The first start is all or nothing; a pool that a reload brought may fail
 * alone. */
static void
on_failed(struct pool *p, void *ctx)
{
    struct manager *m = ctx;

    if (!m->started) {
        manager_stop(m, MANAGER_EXIT_FAILED, "nothing is served without it");
    } else if (p->state != POOL_STOPPING) {
        pool_stop(p);
    }
}

static void
on_stopped(struct pool *p, void *ctx)
{
    struct manager *m = ctx;

    for (struct pool **at = &m->pools; *at != NULL; at = &(*at)->following) {
        if (*at == p) {
            *at = p->following;
            break;
        }
    }
    if (!m->stopping) {
        log_info("pool %s: gone", p->settings->name);
    }
    pool_free(p);
    if (m->pools == NULL) {
        uv_timer_stop(&m->deadline);
        uv_stop(&m->loop);
    }
}

static const struct pool_events pool_events = {
    .serving = on_serving,
    .failed = on_failed,
    .stopped = on_stopped,
};

int
manager_add_pool(struct manager *m, struct pool_settings *s, struct pool **ret)
{
    struct pool *p = malloc(sizeof(*p)), **at = &m->pools;
    char why[1024];
    int code;

    if (p == NULL) {
        log_error("out of memory");
        return MANAGER_EXIT_FAILED;
    }
    code = pool_open(p, &m->loop, s, m->inherited, &pool_events, m, why,
                     sizeof(why));
    if (code != 0) {
        log_error("pool %s: %s", s->name, why);
        pool_free(p);
        return code;
    }
    p->following = NULL;
    while (*at != NULL) {
        at = &(*at)->following;
    }
    *at = p;
    *ret = p;
    return 0;
}

struct pool *
manager_find_pool(struct manager *m, const char *name)
{
    for (struct pool *p = m->pools; p != NULL; p = p->following) {
        if (p->state != POOL_STOPPING && strcmp(p->settings->name, name) == 0) {
            return p;
        }
    }
    return NULL;
}

/* -- upgrade ----------------------------------------------------------------
 */

static void
on_upgraded(bool ok, void *ctx)
{
    struct manager *m = ctx;
    struct pool *next;

    if (!ok || m->stopping) {
        return;
    }
    uv_timer_stop(&m->delay);
    admin_hand_over(&m->admin);
    for (struct pool *p = m->pools; p != NULL; p = p->following) {
        p->handed_over = true;
    }
    m->stopping = true;
    log_info("upgrade: the new manager serves; this one finishes what it has");
    uv_timer_start(&m->deadline, on_stop_deadline, longest_grace(m), 0);
    for (struct pool *p = m->pools; p != NULL; p = next) {
        next = p->following;
        pool_hand_over(p);
    }
}

void
manager_upgrade(struct manager *m)
{
    char why[512];

    if (m->stopping || m->inherited) {
        return;
    }
    if (upgrade_start(&m->loop, m->pools, &m->admin.listeners, on_upgraded, m,
                      why, sizeof(why)) != 0) {
        log_error("upgrade: %s", why);
    }
}

void
manager_scale_all(struct manager *m, int by)
{
    for (struct pool *p = m->pools; p != NULL; p = p->following) {
        if (p->state == POOL_SERVING) {
            pool_scale_by(p, by);
        }
    }
}

/* -- start ------------------------------------------------------------------
 */

/* The manager must not outlive a web server that spawned it. Not so when it
 * leads its own session: spawn-fcgi leaves its child behind on purpose. False:
 * it has gone already. A signal that it sent between its fork and our exec was
 * taken by its own handler; but who has got us since is of another session. */
static bool
follow_parent(void)
{
    if (getsid(0) == getpid()) {
        return true;
    }
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    return getsid(getppid()) == getsid(0);
}

static void
on_watchdog(uv_timer_t *timer)
{
    (void)timer;
    notify("WATCHDOG=1");
}

static void
close_any(uv_handle_t *handle, void *arg)
{
    (void)arg;
    if (!uv_is_closing(handle)) {
        uv_close(handle, NULL);
    }
}

static int
serve(struct manager *m, struct config *c)
{
    struct pool *p;
    char why[512];
    int code = manager_watch_signals(m) == 0 ? 0 : MANAGER_EXIT_FAILED;

    manager_set_pidfile(m, c->manager.pidfile);
    if (m->pidfile != NULL &&
        pidfile_check(m->pidfile, why, sizeof(why)) != 0) {
        log_error("pidfile: %s", why);
        return MANAGER_EXIT_CONFIG;
    }
    if (code == 0) {
        code = manager_open_sockets(m, c);
    }
    for (unsigned i = 0; i < c->pools && code == 0; i++) {
        code = manager_add_pool(m, c->pool[i], &p);
        c->pool[i] = NULL; /* taken over */
    }
    if (code != 0) {
        leave_paths(m);
        while (m->pools != NULL) {
            p = m->pools;
            m->pools = p->following;
            pool_free(p);
        }
        return code;
    }
    for (p = m->pools; p != NULL && !m->stopping; p = p->following) {
        pool_start(p);
    }
    if (m->pools != NULL) {
        uv_run(&m->loop, UV_RUN_DEFAULT);
    }
    log_relay_drain();
    access_relay_drain();
    log_info("stopped");
    return m->exit_code;
}

int
manager_run(struct config *c, const char *file, bool inherited)
{
    struct manager *m = calloc(1, sizeof(*m));
    char why[512];
    int code;

    if (m == NULL || uv_loop_init(&m->loop) != 0) {
        log_error("out of memory");
        free(m);
        return MANAGER_EXIT_FAILED;
    }
    m->file = file;
    m->inherited = inherited;
    m->terminal = manager_has_terminal();
    m->settings = c->manager;
    manager_take_log_level(&m->settings);
    m->started_ms = uv_now(&m->loop);
    m->started_at = time(NULL);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (inherited && !follow_parent()) {
        log_info("whoever started this has gone: there is nobody to serve");
        uv_loop_close(&m->loop);
        free(m);
        return MANAGER_EXIT_OK;
    }
    uv_timer_init(&m->loop, &m->deadline);
    m->deadline.data = m;
    uv_timer_init(&m->loop, &m->watchdog);
    uv_timer_init(&m->loop, &m->delay);
    m->delay.data = m;
    if (notify_watchdog_ms() > 0) {
        uv_timer_start(&m->watchdog, on_watchdog, notify_watchdog_ms(),
                       notify_watchdog_ms());
        uv_unref((uv_handle_t *)&m->watchdog);
    }
    if (manager_use_log(m, &m->settings, why, sizeof(why)) != 0) {
        log_error("%s", why);
        code = MANAGER_EXIT_CONFIG;
    } else {
        code = serve(m, c);
    }
    admin_close(&m->admin);
    if (!log_sink_finish(&m->loop, LOG_FLUSH_MS)) {
        manager_set_pidfile(m, NULL);
        _exit(code);
    }
    uv_walk(&m->loop, close_any, NULL);
    uv_run(&m->loop, UV_RUN_DEFAULT);
    uv_loop_close(&m->loop);
    manager_set_pidfile(m, NULL);
    free(m);
    return code;
}
