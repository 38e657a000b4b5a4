/* SPDX-License-Identifier: MIT
 *
 * See manager.h. Reads top to bottom: stop, what the pool reports, signals,
 * start.
 */
#include "server/manager.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "server/access_relay.h"
#include "server/admin.h"
#include "server/log.h"
#include "server/log_relay.h"
#include "server/log_sink.h"
#include "server/notify.h"
#include "server/pidfile.h"
#include "server/pool.h"
#include "server/upgrade.h"

/* After the workers were killed: until the templates are killed as well. */
enum { KILL_GRACE_MS = 5000, LOG_FLUSH_MS = 1000 };

struct manager {
    uv_loop_t loop;
    struct pool *pools; /* a list, by their `following` */
    struct manager_settings settings;
    struct log_sink *log; /* held */
    const char *file;     /* of the configuration, or NULL */
    char *pidfile; /* owned; there once the first start went well, or NULL */
    bool inherited;
    bool terminal; /* a controlling one */
    bool stopping;
    bool draining;      /* stopping, without a deadline so far */
    bool ordered;       /* somebody has asked for the stop */
    unsigned reloading; /* reloads that have not ended */
    bool hurried;       /* a second order to stop came, or the deadline */
    bool started;       /* every pool of the first start has served */
    int exit_code;
    uv_timer_t deadline; /* of the stop */
    uv_timer_t delay;    /* before it */
    uv_timer_t watchdog; /* systemd's */
    uv_signal_t signal[12];
    unsigned signals;

    struct admin admin;
    struct control_handlers handlers;
    uint64_t started_ms;
    time_t started_at;
    char reload_failure[800]; /* of the file; "": it was read */
    uint64_t reload_failed_ms;
};

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

/* Once: finish what runs. Twice: at once. */
static void
stop(struct manager *m, int code, const char *why)
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

/* From now on the number is to be there, or nowhere. */
static void
set_pidfile(struct manager *m, const char *path)
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

/* The command line's level is stronger. */
static void
take_log_level(const struct manager_settings *s)
{
    enum log_level level;

    if (s->log_level != NULL && log_level_named(s->log_level, &level) == 0) {
        log_suggest_level(level);
    }
}

/* Send the manager's lines to where these settings say. 0, or -1 with a
 * sentence in why, and they go where they went before. */
static int
use_log(struct manager *m, const struct manager_settings *s, char *why,
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

/* timeout_ms 0: none. */
static void
drain(struct manager *m, uint64_t timeout_ms)
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
        stop(m, MANAGER_EXIT_FAILED, "nothing is served without it");
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

/* Open a pool with these settings (taken over) and put it into the list. 0 or
 * an exit code; what was wrong has been logged. */
static int
add_pool(struct manager *m, struct pool_settings *s, struct pool **ret)
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

/* -- reload -----------------------------------------------------------------
 */

static struct pool *
find_pool(struct manager *m, const char *name)
{
    for (struct pool *p = m->pools; p != NULL; p = p->following) {
        if (p->state != POOL_STOPPING && strcmp(p->settings->name, name) == 0) {
            return p;
        }
    }
    return NULL;
}

static bool
is_configured(const struct config *c, const char *name)
{
    for (unsigned i = 0; i < c->pools; i++) {
        if (strcmp(c->pool[i]->name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* The pool that is to go on as this new one: the file no longer has its name,
 * and it listens where the new one is to. Started beside it, that would find
 * the address in use. */
static struct pool *
find_renamed(struct manager *m, const struct config *c,
             const struct pool_settings *s)
{
    for (struct pool *p = m->pools; p != NULL; p = p->following) {
        if (p->state == POOL_SERVING && !p->renamed &&
            !is_configured(c, p->settings->name) && pool_listens_at(p, s)) {
            return p;
        }
    }
    return NULL;
}

/* Before anything else changes: which pools have another name now. */
static void
note_renamed(struct manager *m, const struct config *c, const char *only)
{
    for (struct pool *p = m->pools; p != NULL; p = p->following) {
        p->renamed = false;
    }
    for (unsigned i = 0; i < c->pools; i++) {
        const struct pool_settings *s = c->pool[i];
        struct pool *p = NULL;

        if ((only == NULL || strcmp(s->name, only) == 0) &&
            find_pool(m, s->name) == NULL) {
            p = find_renamed(m, c, s);
        }
        if (p != NULL) {
            p->renamed = true;
            log_info("pool %s: goes on as pool %s, on the same socket",
                     p->settings->name, s->name);
        }
    }
}

static struct pool *
take_renamed(struct manager *m, const struct pool_settings *s)
{
    for (struct pool *p = m->pools; p != NULL; p = p->following) {
        if (p->renamed && pool_listens_at(p, s)) {
            p->renamed = false;
            return p;
        }
    }
    return NULL;
}

/* A reload of one or several pools, and who waits for its end. */
struct reloading {
    struct manager *m;
    control_done done; /* NULL: nobody waits */
    void *who;
    unsigned pools; /* that have not ended theirs, and one more until all have
                       been told */
    char why[800];  /* what was refused first; "": nothing */
};

/* systemd hears of the end of a reload when all its pools have ended theirs. */
static void
on_reloaded(struct pool *p, const char *why, void *ctx)
{
    struct reloading *r = ctx;
    struct manager *m = r->m;

    if (why != NULL && r->why[0] == '\0') {
        snprintf(r->why, sizeof(r->why), "pool %s: %s", p->settings->name, why);
    }
    if (--r->pools > 0) {
        return;
    }
    if (--m->reloading == 0 && !m->stopping) {
        notify("READY=1");
    }
    if (r->done != NULL) {
        r->done(r->why[0] != '\0' ? r->why : NULL, r->who);
    }
    free(r);
}

static void
reload_pool(struct pool *p, struct pool_settings *s, struct reloading *r)
{
    r->pools++;
    pool_reload(p, s, on_reloaded, r);
}

static void
start_new_pool(struct pool_settings *s, struct reloading *r)
{
    char name[128];
    struct pool *p;

    snprintf(name, sizeof(name), "%s", s->name);
    if (add_pool(r->m, s, &p) == 0) {
        r->pools++;
        pool_when_serving(p, on_reloaded, r);
        pool_start(p);
    } else if (r->why[0] == '\0') {
        snprintf(r->why, sizeof(r->why),
                 "pool %s cannot be opened; the log says why", name);
    }
}

/* Pools that the file no longer names end; the others reload; new ones start.
 * With a name, only that pool. */
static void
apply(struct manager *m, struct config *c, const char *only,
      struct reloading *r)
{
    struct pool *next;

    note_renamed(m, c, only);
    for (struct pool *p = m->pools; p != NULL && only == NULL; p = next) {
        next = p->following;
        if (p->state != POOL_STOPPING && !p->renamed &&
            !is_configured(c, p->settings->name)) {
            log_info("pool %s: no longer in %s; it ends", p->settings->name,
                     m->file);
            pool_stop(p);
        }
    }
    for (unsigned i = 0; i < c->pools; i++) {
        struct pool_settings *s = c->pool[i];
        struct pool *p = find_pool(m, s->name);

        if (only != NULL && strcmp(s->name, only) != 0) {
            continue; /* config_release() frees it */
        }
        c->pool[i] = NULL; /* taken over */
        p = p != NULL ? p : take_renamed(m, s);
        if (p != NULL) {
            reload_pool(p, s, r);
        } else {
            start_new_pool(s, r);
        }
    }
}

/* What a reload does not change. */
static void
tell_unchanged(const struct manager *m, const char *name, const char *is,
               const char *becomes)
{
    if (strcmp(is != NULL ? is : "", becomes != NULL ? becomes : "") != 0) {
        log_warnx("%s is another one in %s now; that takes a restart", name,
                  m->file);
    }
}

static void
reload_file(struct manager *m, const char *only, struct reloading *r)
{
    struct conf_error error;
    struct config c;
    char why[512];

    if (config_read(m->file, &c, &error) != 0) {
        conf_error_format(&error, m->reload_failure, sizeof(m->reload_failure));
        m->reload_failed_ms = uv_now(&m->loop);
        log_error("reload refused: %s; everything serves on as it was",
                  m->reload_failure);
        snprintf(r->why, sizeof(r->why), "%s", m->reload_failure);
        return;
    }
    m->reload_failure[0] = '\0';
    if (only != NULL && !is_configured(&c, only)) {
        snprintf(r->why, sizeof(r->why), "there is no pool %s in %s", only,
                 m->file);
    }
    take_log_level(&c.manager);
    if (use_log(m, &c.manager, why, sizeof(why)) != 0) {
        log_error("reload: %s; the log stays where it is", why);
    }
    set_pidfile(m, c.manager.pidfile);
    tell_unchanged(m, "control", m->settings.control, c.manager.control);
    tell_unchanged(m, "status_listen", m->settings.status_listen,
                   c.manager.status_listen);
    apply(m, &c, only, r);
    config_release(&c);
}

/* Without a file: the same settings again, the code anew. */
static void
reload_code(struct manager *m, const char *only, struct reloading *r)
{
    bool found = false;

    for (struct pool *p = m->pools; p != NULL; p = p->following) {
        if (p->state != POOL_STOPPING &&
            (only == NULL || strcmp(p->settings->name, only) == 0)) {
            reload_pool(p, NULL, r);
            found = true;
        }
    }
    if (!found) {
        snprintf(r->why, sizeof(r->why), "there is no pool %s",
                 only != NULL ? only : "");
    }
}

/* done (NULL: nobody waits) may be called at once. */
static void
reload(struct manager *m, const char *only, control_done done, void *who)
{
    struct reloading *r = calloc(1, sizeof(*r));

    if (m->stopping || r == NULL) {
        if (done != NULL) {
            done(r != NULL ? "forebay is being stopped" : "out of memory", who);
        }
        free(r);
        return;
    }
    *r = (struct reloading){ .m = m, .done = done, .who = who, .pools = 1 };
    m->reloading++;
    notify_reloading();
    if (m->file != NULL) {
        reload_file(m, only, r);
    } else {
        reload_code(m, only, r);
    }
    on_reloaded(NULL, NULL, r);
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

static void
upgrade(struct manager *m)
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

static void
scale_all(struct manager *m, int by)
{
    for (struct pool *p = m->pools; p != NULL; p = p->following) {
        if (p->state == POOL_SERVING) {
            pool_scale_by(p, by);
        }
    }
}

/* -- forebay ctl ------------------------------------------------------------
 */

static int
ctl_status(void *ctx, enum status_format format, struct buf *out)
{
    struct manager *m = ctx;
    const struct status_manager self = {
        .started_ms = m->started_ms,
        .started_at = m->started_at,
        .stopping = m->stopping,
        .reload_failure =
            m->reload_failure[0] != '\0' ? m->reload_failure : NULL,
        .reload_failed_ms = m->reload_failed_ms,
    };

    return status_write(m->pools, &self, format, out);
}

static void
ctl_reload(void *ctx, const char *pool, control_done done, void *who)
{
    reload(ctx, pool, done, who);
}

static void
ctl_stop(void *ctx)
{
    stop(ctx, MANAGER_EXIT_OK, "forebay ctl stop");
}

struct draining {
    control_done done;
    void *who;
};

static void
on_drained(struct pool *p, const char *why, void *ctx)
{
    struct draining *d = ctx;
    (void)p;

    d->done(why, d->who);
    free(d);
}

static void
ctl_drain(void *ctx, const char *pool, uint64_t timeout_ms, control_done done,
          void *who)
{
    struct pool *p;
    struct draining *d;
    char why[256];

    if (pool == NULL) {
        drain(ctx, timeout_ms);
        return;
    }
    p = find_pool(ctx, pool);
    d = malloc(sizeof(*d));
    if (p == NULL || d == NULL) {
        snprintf(why, sizeof(why), "there is no pool %s", pool);
        done(p != NULL ? "out of memory" : why, who);
        free(d);
        return;
    }
    *d = (struct draining){ done, who };
    log_info("pool %s: draining: no new connections; its end comes with the "
             "last request%s",
             pool, timeout_ms > 0 ? ", or when the time is up" : "");
    pool_when_gone(p, on_drained, d);
    pool_drain(p, timeout_ms);
}

static void
ctl_log_reopen(void *ctx, control_done done, void *who)
{
    (void)ctx;
    log_sink_reopen(done, who);
}

static int
ctl_scale(void *ctx, const char *pool, char sign, unsigned number, char *why,
          size_t size)
{
    struct pool *p = find_pool(ctx, pool);
    unsigned now;

    if (p == NULL || p->current == NULL) {
        snprintf(why, size,
                 p == NULL ? "there is no pool %s"
                           : "pool %s has no template right now",
                 pool);
        return -1;
    }
    now = status_wanted(p);
    if (sign == '+') {
        number += now;
    } else if (sign == '-') {
        number = now > number ? now - number : 0;
    }
    return generation_scale(p->current, number, why, size);
}

/* The sockets of the manager itself. 0 or an exit code. */
static int
open_sockets(struct manager *m, const struct config *c)
{
    char why[1024];

    m->handlers = (struct control_handlers){
        .ctx = m,
        .status = ctl_status,
        .reload = ctl_reload,
        .stop = ctl_stop,
        .drain = ctl_drain,
        .scale = ctl_scale,
        .log_reopen = ctl_log_reopen,
    };
    if (admin_check(&m->settings, why, sizeof(why)) != 0) {
        log_error("%s", why);
        return MANAGER_EXIT_CONFIG;
    }
    if (admin_open(&m->admin, &m->loop, &m->settings, c->pool[0], &m->handlers,
                   why, sizeof(why)) != 0) {
        log_error("%s", why);
        return MANAGER_EXIT_UNAVAILABLE;
    }
    return 0;
}

/* -- signals ----------------------------------------------------------------
 */

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
    stop(timer->data, MANAGER_EXIT_OK, "SIGTERM, stop_delay has passed");
}

/* A balancer that was told at the same moment still sends for a while: go on
 * accepting until stop_delay has passed. A second TERM ends that. */
static void
stop_later(struct manager *m)
{
    if (m->settings.stop_delay == 0 || m->stopping || !m->started ||
        uv_is_active((uv_handle_t *)&m->delay)) {
        uv_timer_stop(&m->delay);
        stop(m, MANAGER_EXIT_OK, "SIGTERM");
        return;
    }
    log_info("SIGTERM: accepting for another %llu s (stop_delay)",
             (unsigned long long)m->settings.stop_delay / 1000);
    uv_timer_start(&m->delay, on_stop_delay, m->settings.stop_delay, 0);
}

static bool
has_terminal(void)
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
    bool lost = m->terminal && !has_terminal();

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
        stop(m, MANAGER_EXIT_OK, "SIGINT");
        break;
    case SIGQUIT:
        stop(m, MANAGER_EXIT_OK, "SIGQUIT");
        break;
    case SIGHUP:
        if (lost_terminal(m)) {
            log_info("the terminal is gone; serving on without it");
        } else {
            reload(m, NULL, NULL, NULL);
        }
        break;
    case SIGUSR1:
        if (m->inherited) { /* lighttpd's and mod_fcgid's graceful stop */
            stop(m, MANAGER_EXIT_OK, "SIGUSR1");
        } else {
            log_sink_reopen(NULL, NULL);
        }
        break;
    case SIGUSR2:
        upgrade(m);
        break;
    case SIGTTIN:
        scale_all(m, 1);
        break;
    case SIGTTOU:
        scale_all(m, -1);
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
    int code = watch_signals(m) == 0 ? 0 : MANAGER_EXIT_FAILED;

    set_pidfile(m, c->manager.pidfile);
    if (m->pidfile != NULL &&
        pidfile_check(m->pidfile, why, sizeof(why)) != 0) {
        log_error("pidfile: %s", why);
        return MANAGER_EXIT_CONFIG;
    }
    if (code == 0) {
        code = open_sockets(m, c);
    }
    for (unsigned i = 0; i < c->pools && code == 0; i++) {
        code = add_pool(m, c->pool[i], &p);
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
    m->terminal = has_terminal();
    m->settings = c->manager;
    take_log_level(&m->settings);
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
    if (use_log(m, &m->settings, why, sizeof(why)) != 0) {
        log_error("%s", why);
        code = MANAGER_EXIT_CONFIG;
    } else {
        code = serve(m, c);
    }
    admin_close(&m->admin);
    if (!log_sink_finish(&m->loop, LOG_FLUSH_MS)) {
        set_pidfile(m, NULL);
        _exit(code);
    }
    uv_walk(&m->loop, close_any, NULL);
    uv_run(&m->loop, UV_RUN_DEFAULT);
    uv_loop_close(&m->loop);
    set_pidfile(m, NULL);
    free(m);
    return code;
}
