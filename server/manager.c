/* SPDX-License-Identifier: MIT
 *
 * See manager.h. Reads top to bottom: stop, what the pool reports, signals,
 * start.
 */
#include "server/manager.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "server/log.h"
#include "server/log_relay.h"
#include "server/pool.h"

/* After the workers were killed: until the templates are killed as well. */
enum { KILL_GRACE_MS = 5000, LOG_FLUSH_MS = 1000 };

struct manager {
    uv_loop_t loop;
    struct pool pool;
    bool inherited;
    bool stopping;
    bool hurried; /* a second order to stop came, or the deadline */
    int exit_code;
    uv_timer_t deadline; /* of the stop */
    uv_signal_t signal[12];
    unsigned signals;
};

/* -- stop -------------------------------------------------------------------
 */

static void
on_stop_deadline(uv_timer_t *timer)
{
    struct manager *m = timer->data;

    if (!m->hurried) {
        m->hurried = true;
        pool_kill(&m->pool, false);
        uv_timer_start(timer, on_stop_deadline, KILL_GRACE_MS, 0);
        return;
    }
    pool_kill(&m->pool, true);
}

/* Once: finish what runs. Twice: at once. */
static void
stop(struct manager *m, int code, const char *why)
{
    uint64_t grace = m->pool.settings->graceful_timeout;

    if (!m->stopping) {
        m->stopping = true;
        m->exit_code = code;
        log_info("%s: stopping; requests in flight have %llu s", why,
                 (unsigned long long)grace / 1000);
        uv_timer_start(&m->deadline, on_stop_deadline, grace, 0);
        pool_stop(&m->pool);
    } else if (!m->hurried) {
        log_warnx("%s again: stopping at once", why);
        uv_timer_start(&m->deadline, on_stop_deadline, 0, 0);
    }
}

/* -- what the pool reports --------------------------------------------------
 */

static void
on_serving(struct pool *p, void *ctx)
{
    (void)p;
    (void)ctx;
}

static void
on_failed(struct pool *p, void *ctx)
{
    (void)p;
    stop(ctx, MANAGER_EXIT_FAILED, "nothing to serve");
}

static void
on_stopped(struct pool *p, void *ctx)
{
    struct manager *m = ctx;
    (void)p;

    uv_timer_stop(&m->deadline);
    uv_stop(&m->loop);
}

static const struct pool_events pool_events = {
    .serving = on_serving,
    .failed = on_failed,
    .stopped = on_stopped,
};

/* -- signals ----------------------------------------------------------------
 */

/* As subreaper (or PID 1) the manager inherits what its workers leave behind.
 * Only the templates have a meaning, and libuv waits for those by number; the
 * rest is reaped without a word. */
static void
reap_strangers(struct manager *m)
{
    for (;;) {
        siginfo_t info = { 0 };

        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
            info.si_pid == 0 || pool_has_template(&m->pool, info.si_pid)) {
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
    case SIGHUP:
        if (!m->stopping) {
            pool_reload(&m->pool, NULL, NULL);
        }
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
            log_error("signal %d cannot be watched: %s", signals[i],
                      uv_strerror(rc));
            return rc;
        }
        uv_unref((uv_handle_t *)handle);
    }
    return 0;
}

/* -- start ------------------------------------------------------------------
 */

/* The manager must not outlive a web server that spawned it. Not so when it
 * leads its own session: spawn-fcgi leaves its child behind on purpose. */
static void
follow_parent(void)
{
    if (getsid(0) != getpid()) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
    }
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
serve(struct manager *m, struct pool_settings *s)
{
    char why[1024];
    int code = pool_open(&m->pool, &m->loop, s, m->inherited, &pool_events, m,
                         why, sizeof(why));

    if (code != 0) {
        log_error("pool %s: %s", s->name, why);
        return code;
    }
    if (watch_signals(m) != 0) {
        return MANAGER_EXIT_FAILED;
    }
    pool_start(&m->pool);
    uv_run(&m->loop, UV_RUN_DEFAULT);
    log_relay_drain();
    log_info("stopped");
    return m->exit_code;
}

int
manager_run(struct pool_settings *s, bool inherited)
{
    struct manager *m = calloc(1, sizeof(*m));
    int code;

    if (m == NULL || uv_loop_init(&m->loop) != 0) {
        log_error("out of memory");
        free(m);
        return MANAGER_EXIT_FAILED;
    }
    m->inherited = inherited;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (inherited) {
        follow_parent();
    }
    uv_timer_init(&m->loop, &m->deadline);
    m->deadline.data = m;
    log_relay_start(&m->loop);
    code = serve(m, s);
    pool_close(&m->pool);
    log_relay_finish(LOG_FLUSH_MS);
    uv_walk(&m->loop, close_any, NULL);
    uv_run(&m->loop, UV_RUN_DEFAULT);
    uv_loop_close(&m->loop);
    free(m);
    return code;
}
