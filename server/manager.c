/* SPDX-License-Identifier: MIT
 *
 * See manager.h. Reads top to bottom: stop, events of a generation, signals,
 * start.
 */
#include "server/manager.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "server/executor_limits.h"
#include "server/generation.h"
#include "server/listener.h"
#include "server/log.h"
#include "server/log_relay.h"
#include "server/pool.h"
#include "server/privileges.h"
#include "server/venv.h"

enum manager_state {
    MANAGER_STARTING, /* nothing has served yet: a failure ends it */
    MANAGER_SERVING,
    MANAGER_STOPPING,
};

/* After the workers were killed: until the template is killed as well. */
enum { KILL_GRACE_MS = 5000, LOG_FLUSH_MS = 1000 };

struct manager {
    uv_loop_t loop;
    const struct pool_settings *settings;
    char program[VENV_PATH_MAX];
    bool inherited;
    enum manager_state state;
    int exit_code;
    int stop_orders;

    struct listener listener[EXECUTOR_MAX_LISTENERS];
    unsigned listeners;

    struct generation *current;
    struct generation *all; /* current one and those that finish */
    struct pool_backoff backoff;
    uv_timer_t restart;  /* of a template that died */
    uv_timer_t deadline; /* of the stop */
    uv_signal_t signal[12];
    unsigned signals;
};

static void start_generation(struct manager *m);

/* -- stop -------------------------------------------------------------------
 */

static void
close_any(uv_handle_t *handle, void *arg)
{
    (void)arg;
    if (!uv_is_closing(handle)) {
        uv_close(handle, NULL);
    }
}

static void
end_loop(struct manager *m)
{
    uv_timer_stop(&m->restart);
    uv_timer_stop(&m->deadline);
    for (unsigned i = 0; i < m->signals; i++) {
        uv_signal_stop(&m->signal[i]);
    }
    uv_stop(&m->loop);
}

static void
on_stop_deadline(uv_timer_t *timer)
{
    struct manager *m = timer->data;

    if (m->stop_orders < 2) {
        log_warnx("graceful_timeout has passed: ending the workers that are "
                  "left");
        m->stop_orders = 2;
        for (struct generation *g = m->all; g != NULL; g = g->next) {
            generation_kill(g);
        }
        uv_timer_start(timer, on_stop_deadline, KILL_GRACE_MS, 0);
        return;
    }
    for (struct generation *g = m->all; g != NULL; g = g->next) {
        generation_kill_template(g);
    }
}

/* Once: finish what runs. Twice: at once. New connections are refused from now
 * on, those in the backlog are still served. */
static void
stop(struct manager *m, int code, const char *why)
{
    if (m->state != MANAGER_STOPPING) {
        m->state = MANAGER_STOPPING;
        m->exit_code = code;
        m->stop_orders = 1;
        log_info("%s: stopping; requests in flight have %llu s", why,
                 (unsigned long long)m->settings->graceful_timeout / 1000);
        uv_timer_stop(&m->restart);
        for (unsigned i = 0; i < m->listeners; i++) {
            listener_close(&m->listener[i]);
        }
        for (struct generation *g = m->all; g != NULL; g = g->next) {
            generation_stop(g);
        }
        uv_timer_start(&m->deadline, on_stop_deadline,
                       m->settings->graceful_timeout, 0);
        if (m->all == NULL) {
            end_loop(m);
        }
        return;
    }
    if (m->stop_orders < 2) {
        log_warnx("%s again: stopping at once", why);
        uv_timer_start(&m->deadline, on_stop_deadline, 0, 0);
    }
}

/* -- what generations report ------------------------------------------------
 */

static void
on_ready(struct generation *g, void *ctx)
{
    struct manager *m = ctx;
    const struct pool_settings *s = m->settings;
    char where[512] = "";
    size_t used = 0;

    for (unsigned i = 0; i < m->listeners && used < sizeof(where) - 1; i++) {
        used += (size_t)snprintf(where + used, sizeof(where) - used, "%s%s",
                                 i > 0 ? ", " : "", m->listener[i].text);
    }
    m->state = MANAGER_SERVING;
    pool_ready(&m->backoff);
    log_info("pool %s: ready: %u worker%s of %u thread%s on %s (template %d)",
             s->name, g->count, g->count == 1 ? "" : "s", s->threads,
             s->threads == 1 ? "" : "s", where, g->process.pid);
}

static void
on_failed(struct generation *g, const char *why, void *ctx)
{
    struct manager *m = ctx;

    log_error("pool %s cannot start: %s", m->settings->name, why);
    if (m->state == MANAGER_STARTING) {
        stop(m, MANAGER_EXIT_FAILED, "nothing to serve");
    } else {
        generation_stop(g);
    }
}

static void
on_restart(uv_timer_t *timer)
{
    start_generation(timer->data);
}

static void
forget(struct manager *m, struct generation *g)
{
    for (struct generation **p = &m->all; *p != NULL; p = &(*p)->next) {
        if (*p == g) {
            *p = g->next;
            break;
        }
    }
    if (m->current == g) {
        m->current = NULL;
    }
}

static void
on_ended(struct generation *g, void *ctx)
{
    struct manager *m = ctx;
    uint64_t lived = uv_now(&m->loop) - g->started_ms;
    bool was_current = m->current == g;
    uint64_t delay;

    forget(m, g);
    generation_free(g);
    if (m->state == MANAGER_STOPPING) {
        if (m->all == NULL) {
            end_loop(m);
        }
        return;
    }
    if (!was_current) {
        return;
    }
    delay = pool_after_end(&m->backoff, lived, 0);
    if (m->state == MANAGER_STARTING &&
        pool_gives_up(&m->backoff, m->settings->max_start_failures)) {
        log_error("pool %s cannot start: its template ended %u times",
                  m->settings->name, m->backoff.quick);
        stop(m, MANAGER_EXIT_FAILED, "nothing to serve");
        return;
    }
    log_warnx("pool %s: a new template starts%s", m->settings->name,
              delay > 0 ? " after a pause" : "");
    uv_timer_start(&m->restart, on_restart, delay, 0);
}

static const struct generation_events generation_events = {
    .ready = on_ready,
    .failed = on_failed,
    .ended = on_ended,
};

static void
start_generation(struct manager *m)
{
    struct generation *g;
    char why[512];

    if (generation_start(&m->loop, m->settings, m->listener, m->listeners,
                         m->program, &generation_events, m, &g, why,
                         sizeof(why)) != 0) {
        log_error("pool %s: %s", m->settings->name, why);
        if (m->state == MANAGER_STARTING) {
            stop(m, MANAGER_EXIT_CONFIG, "nothing to serve");
        } else {
            uv_timer_start(&m->restart, on_restart, POOL_DELAY_MAX_MS, 0);
        }
        return;
    }
    g->next = m->all;
    m->all = g;
    m->current = g;
}

/* -- signals ----------------------------------------------------------------
 */

static bool
is_ours(const struct manager *m, pid_t pid)
{
    for (const struct generation *g = m->all; g != NULL; g = g->next) {
        if (!g->ended && g->process.pid == pid) {
            return true;
        }
    }
    return false;
}

/* As subreaper (or PID 1) the manager inherits what its workers leave behind.
 * Only the templates have a meaning, and libuv waits for those by number; the
 * rest is reaped without a word. */
static void
reap_strangers(struct manager *m)
{
    for (;;) {
        siginfo_t info = { 0 };

        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
            info.si_pid == 0 || is_ours(m, info.si_pid)) {
            return;
        }
        waitpid(info.si_pid, NULL, WNOHANG);
        log_debug("reaped process %d, left behind by a worker", info.si_pid);
    }
}

static void
on_signal(uv_signal_t *handle, int signo)
{
    struct manager *m = handle->data;

    switch (signo) {
    case SIGTERM:
        stop(m, MANAGER_EXIT_OK, "SIGTERM");
        break;
    case SIGINT:
        stop(m, MANAGER_EXIT_OK, "SIGINT");
        break;
    case SIGQUIT:
        stop(m, MANAGER_EXIT_OK, "SIGQUIT");
        break;
    case SIGUSR1:
        if (m->inherited) { /* lighttpd's and mod_fcgid's graceful stop */
            stop(m, MANAGER_EXIT_OK, "SIGUSR1");
        }
        break;
    case SIGCHLD:
        reap_strangers(m);
        break;
    default:
        log_debug("signal %d (%s) is ignored", signo, strsignal(signo));
    }
}

static int
watch_signals(struct manager *m)
{
    static const int signals[] = {
        SIGTERM, SIGINT,  SIGQUIT, SIGHUP,  SIGUSR1,
        SIGUSR2, SIGTTIN, SIGTTOU, SIGCHLD, SIGWINCH
    };

    /* Broken pipes are errors of a call, not the end. */
    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++) {
        uv_signal_t *handle = &m->signal[m->signals];
        int rc = uv_signal_init(&m->loop, handle);

        if (rc == 0) {
            handle->data = m;
            m->signals++;
            rc = uv_signal_start(handle, on_signal, signals[i]);
        }
        if (rc != 0) {
            return rc;
        }
        uv_unref((uv_handle_t *)handle);
    }
    return 0;
}

/* -- start ------------------------------------------------------------------
 */

static int
open_listeners(struct manager *m, char *why, size_t size)
{
    const struct pool_settings *s = m->settings;
    struct listener_options o = {
        .backlog = s->backlog,
        .mode = (unsigned)s->socket_mode,
        .owner = (unsigned)-1,
        .group = (unsigned)-1,
    };
    uid_t uid;
    gid_t gid;

    if (m->inherited) {
        m->listeners = 1;
        return listener_inherit(0, &m->listener[0], why, size);
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
        n = listener_open(&a, &o, m->listener + m->listeners,
                          EXECUTOR_MAX_LISTENERS - m->listeners, why, size);
        if (n < 0) {
            return -1;
        }
        m->listeners += (unsigned)n;
    }
    return 0;
}

/* The manager must not outlive a web server that spawned it. Not so when it
 * leads its own session: spawn-fcgi leaves its child behind on purpose. */
static void
follow_parent(void)
{
    if (getsid(0) != getpid()) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
    }
}

static int
prepare(struct manager *m, char *why, size_t size)
{
    const struct pool_settings *s = m->settings;
    struct python_version wanted;
    struct privileges p;

    if (venv_wanted(s->python, s->virtualenv, &wanted, why, size) != 0 ||
        venv_find_worker(&wanted, m->program, sizeof(m->program), why, size) !=
            0 ||
        privileges_lookup(s->user, s->group, &p, why, size) != 0) {
        return MANAGER_EXIT_CONFIG;
    }
    return open_listeners(m, why, size) == 0 ? 0 : MANAGER_EXIT_UNAVAILABLE;
}

int
manager_run(const struct pool_settings *s, bool inherited)
{
    struct manager *m = calloc(1, sizeof(*m));
    char why[1024] = "out of memory";
    int code = MANAGER_EXIT_FAILED;

    if (m == NULL || uv_loop_init(&m->loop) != 0) {
        log_error("%s", why);
        free(m);
        return code;
    }
    m->settings = s;
    m->inherited = inherited;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (inherited) {
        follow_parent();
    }
    uv_timer_init(&m->loop, &m->restart);
    uv_timer_init(&m->loop, &m->deadline);
    m->restart.data = m->deadline.data = m;
    log_relay_start(&m->loop);
    code = prepare(m, why, sizeof(why));
    if (code == 0 && watch_signals(m) != 0) {
        snprintf(why, sizeof(why), "signals cannot be watched");
        code = MANAGER_EXIT_FAILED;
    }
    if (code == 0) {
        start_generation(m);
        uv_run(&m->loop, UV_RUN_DEFAULT);
        code = m->exit_code;
        log_relay_drain();
        log_info("stopped");
    } else {
        log_error("%s", why);
    }
    for (unsigned i = 0; i < m->listeners; i++) {
        listener_close(&m->listener[i]);
    }
    log_relay_finish(LOG_FLUSH_MS);
    uv_walk(&m->loop, close_any, NULL);
    uv_run(&m->loop, UV_RUN_DEFAULT);
    uv_loop_close(&m->loop);
    free(m);
    return code;
}
