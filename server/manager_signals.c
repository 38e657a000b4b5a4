/* SPDX-License-Identifier: MIT
 *
 * What each signal means to the manager. Manager only, on its loop: libuv calls
 * between two events, so nothing here is a signal handler.
 */
#include "server/manager_state.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/log.h"
#include "server/log_sink.h"
#include "server/upgrade.h"

/* As subreaper (or PID 1) the manager inherits what its workers leave behind.
 * Only the templates and the manager of an upgrade have a meaning, and libuv
 * waits for those by number; the rest is reaped without a word. */
static bool
is_ours(const struct manager *m, int pid)
{
    if (upgrade_is_next(pid)) {
        return true;
    }
    for (const struct pool *p = m->pools; p != NULL; p = p->following) {
        if (pool_has_template(p, pid)) {
            return true;
        }
    }
    return false;
}

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
on_stop_delay(uv_timer_t *timer)
{
    manager_stop(timer->data, MANAGER_EXIT_OK,
                 "SIGTERM, stop_delay has passed");
}

/* A balancer that was told at the same moment still sends for a while: go on
 * accepting until stop_delay has passed. A second TERM ends that. */
static void
stop_later(struct manager *m)
{
    if (m->settings.stop_delay == 0 || m->stopping || !m->started ||
        uv_is_active((uv_handle_t *)&m->delay)) {
        uv_timer_stop(&m->delay);
        manager_stop(m, MANAGER_EXIT_OK, "SIGTERM");
        return;
    }
    log_info("SIGTERM: accepting for another %llu s (stop_delay)",
             (unsigned long long)m->settings.stop_delay / 1000);
    uv_timer_start(&m->delay, on_stop_delay, m->settings.stop_delay, 0);
}

bool
manager_has_terminal(void)
{
    int fd = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);

    if (fd >= 0) {
        close(fd);
    }
    return fd >= 0;
}

/* The kernel sends HUP as well, when the terminal goes in which this process
 * was started: once. */
static bool
lost_terminal(struct manager *m)
{
    bool lost = m->terminal && !manager_has_terminal();

    m->terminal = m->terminal && !lost;
    return lost;
}

static void
on_signal(uv_signal_t *handle, int signo)
{
    struct manager *m = handle->data;

    switch (signo) {
    case SIGTERM:
        if (m->inherited && m->ordered) {
            /* mod_fcgid sends it each second; lighttpd sends it and goes, and
             * the kernel says so by the same signal (follow_parent). Neither
             * means that the request which runs is to be broken off. */
            log_info("SIGTERM again: finishing what is left");
        } else {
            stop_later(m);
        }
        break;
    case SIGINT:
        manager_stop(m, MANAGER_EXIT_OK, "SIGINT");
        break;
    case SIGQUIT:
        manager_stop(m, MANAGER_EXIT_OK, "SIGQUIT");
        break;
    case SIGHUP:
        if (lost_terminal(m)) {
            log_info("the terminal is gone; serving on without it");
        } else {
            manager_reload(m, NULL, NULL, NULL);
        }
        break;
    case SIGUSR1:
        if (m->inherited) { /* lighttpd's and mod_fcgid's graceful stop */
            manager_stop(m, MANAGER_EXIT_OK, "SIGUSR1");
        } else {
            log_sink_reopen(NULL, NULL);
        }
        break;
    case SIGUSR2:
        manager_upgrade(m);
        break;
    case SIGTTIN:
        manager_scale_all(m, 1);
        break;
    case SIGTTOU:
        manager_scale_all(m, -1);
        break;
    case SIGCHLD:
        reap_strangers(m);
        break;
    default:
        log_debug("signal %d (%s) is ignored", signo, strsignal(signo));
    }
}

int
manager_watch_signals(struct manager *m)
{
    static const int signals[] = {
        SIGTERM, SIGINT,  SIGQUIT, SIGHUP,  SIGUSR1,
        SIGUSR2, SIGTTIN, SIGTTOU, SIGCHLD, SIGWINCH
    };

    /* Broken pipes and files that may not grow are errors of a call, not the
     * end. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
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
