/* SPDX-License-Identifier: MIT
 *
 * See worker.h.
 */
#include "server/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "python/errors.h"
#include "python/interp.h"
#include "python/module.h"
#include "server/access_log.h"
#include "server/allow.h"
#include "server/channel.h"
#include "server/engine_libfcgi.h"
#include "server/executor.h"
#include "server/log.h"
#include "server/log_pipe.h"
#include "server/lookout.h"
#include "server/overtime.h"
#include "server/responder.h"
#include "server/process_title.h"

/* For the signal handler. */
static struct worker *self;

/* This process is a child that the application has forked. */
static bool forked;

static void
do_nothing(int signo)
{
    (void)signo;
}

bool
worker_is_forked_child(void)
{
    return forked;
}

static void
stop_self(int signo)
{
    (void)signo;
    if (self != NULL) {
        int saved = errno;

        executor_stop(self);
        errno = saved;
    }
}

/* What is ours until a child has given it up. */
static const int our_signals[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT };
static __thread sigset_t mask_before_fork;

/* Nothing of this reaches a child before it has reset it: the worker's handler
 * would stop the worker. */
static void
before_fork(void)
{
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(our_signals) / sizeof(*our_signals); i++) {
        sigaddset(&set, our_signals[i]);
    }
    pthread_sigmask(SIG_BLOCK, &set, &mask_before_fork);
}

static void
after_fork(void)
{
    pthread_sigmask(SIG_SETMASK, &mask_before_fork, NULL);
}

/* A child that the application forks is no worker. It must not keep a peer
 * waiting by the descriptors that it has inherited, and when it comes back from
 * the application (instead of ending itself) it must not go on serving; and it
 * can be ended like any process. */
static void
in_forked_child(void)
{
    struct sigaction action;

    if (self != NULL) {
        executor_forked(self);
        forked = true;
        for (size_t i = 0; i < sizeof(our_signals) / sizeof(*our_signals);
             i++) {
            sigaction(our_signals[i], NULL, &action);
            if (action.sa_handler == do_nothing ||
                action.sa_handler == stop_self) {
                signal(our_signals[i], SIG_DFL);
            }
        }
    }
    after_fork();
}

void
worker_signals(void (*on_term)(int))
{
    static const int quiet[] = { SIGINT, SIGHUP, SIGQUIT };
    static const int normal[] = { SIGCHLD, SIGUSR1,  SIGUSR2, SIGTTIN, SIGTTOU,
                                  SIGALRM, SIGWINCH, SIGTSTP, SIGCONT };
    struct sigaction action = { .sa_flags = SA_RESTART };
    sigset_t none;

    action.sa_handler = do_nothing;
    for (size_t i = 0; i < sizeof(quiet) / sizeof(*quiet); i++) {
        sigaction(quiet[i], &action, NULL);
    }
    action.sa_handler = on_term != NULL ? on_term : do_nothing;
    sigaction(SIGTERM, &action, NULL);
    action.sa_handler = SIG_DFL;
    for (size_t i = 0; i < sizeof(normal) / sizeof(*normal); i++) {
        sigaction(normal[i], &action, NULL);
    }
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, NULL);
    sigaction(SIGXFSZ, &action, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* In a worker that was forked from an application that is imported already:
 * what that has set for signals is left alone, also what it has blocked. */
static void
forked_signals(void (*on_term)(int))
{
    struct sigaction action;

    if (sigaction(SIGTERM, NULL, &action) == 0 &&
        action.sa_handler == do_nothing) {
        action.sa_handler = on_term;
        sigaction(SIGTERM, &action, NULL);
    }
}

int
worker_import(const struct pool_settings *s, const struct app_name *name,
              const struct wsgi_config *config, PyObject **ret_app, char *why,
              size_t size)
{
    char cwd[APP_PATH_MAX];
    const char *version_only = "0123456789.";
    uint64_t interval = s->switch_interval_us;
    struct interp_config start = {
        .virtualenv = s->virtualenv,
        .pythonpath = (const char *const *)s->pythonpath.item,
        .app = s->app,
        .switch_interval_s = (double)interval / 1e6,
    };

    /* python = 3.11 chose this program; a path is the executable itself. */
    if (s->python != NULL && s->python[strspn(s->python, version_only)]) {
        start.python = s->python;
    }
    start.app_dir = name->dir;
    if (name->dir[0] == '\0' && getcwd(cwd, sizeof(cwd)) != NULL) {
        start.app_dir = cwd;
    }
    if (interp_start(&start, why, size) != 0) {
        return -1;
    }
    if (wsgi_setup(config) != 0) {
        errors_describe(why, size);
        return -1;
    }
    return app_import(name, ret_app, why, size);
}

/* Descriptors 0 to 2 are what an application expects, and never a socket. */
static void
take_stdio(int log_fd)
{
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int log;

    if (null >= 0) {
        dup2(null, 0);
        if (null > 2) {
            close(null);
        }
    }
    dup2(log_fd, 1);
    dup2(log_fd, 2);
    log = fcntl(log_fd, F_DUPFD_CLOEXEC, 10);
    if (log >= 0) {
        log_to_manager(log);
    }
    close(log_fd);
}

/* Report why this worker cannot serve, and end. */
static void __attribute__((noreturn))
cannot_serve(const struct worker_start *s, const char *why)
{
    channel_say(s->channel, CHANNEL_WORKER_FAILED, s->slot, getpid(), 0, why);
    _exit(1);
}

/* What a thread runs until the worker stops. */
static void
serve(struct executor *x)
{
    if (x->worker->settings->engine == CONF_ENGINE_LIBFCGI) {
        engine_libfcgi_run(x);
    } else {
        executor_run(x);
    }
}

struct thread_start {
    struct executor *x;
    PyObject *app;
};

static void *
thread_main(void *arg)
{
    struct thread_start start = *(struct thread_start *)arg;

    free(arg);
    if (interp_thread_attach_nogil() != 0) {
        log_error("out of memory: a thread cannot start");
        _exit(1); /* a worker with fewer threads than it says helps nobody */
    }
    start.x->wsgi = wsgi_thread_new(start.app);
    if (start.x->wsgi == NULL) {
        errors_log_exception("starting a thread");
        interp_release();
        return NULL;
    }
    interp_release();
    serve(start.x);
    return NULL;
}

static int
start_threads(struct worker *w, PyObject *app)
{
    if (w->settings->threads > 1 && interp_before_threads() != 0) {
        errors_log_exception("importing threading");
        return ENOMEM;
    }
    for (unsigned i = 1; i < w->settings->threads; i++) {
        struct thread_start *start = malloc(sizeof(*start));
        int rc;

        if (start == NULL) {
            return ENOMEM;
        }
        *start = (struct thread_start){ &w->executor[i], app };
        rc = pthread_create(&w->executor[i].thread, NULL, thread_main, start);
        if (rc != 0) {
            free(start);
            return rc;
        }
    }
    return 0;
}

static struct worker *
new_worker(const struct worker_start *s)
{
    static const enum decoder_kind kinds[] = { DECODER_AUTO, DECODER_FCGI,
                                               DECODER_SCGI, DECODER_UWSGI };
    const struct pool_settings *p = s->settings;
    struct request_limits limits = {
        .params_bytes = p->max_params_size,
        .params_count = p->max_params,
        .body_bytes = p->max_body_size,
        .mpx = 1,
        .max_conns = p->max_connections,
    };
    struct worker *w = calloc(1, sizeof(*w));

    if (w == NULL) {
        return NULL;
    }
    /* One request at a time needs no second thread. To a front end that asks, a
     * connection is good for as many requests as there are threads: with more
     * it opens another one, which an idle worker may have. With reserved slots
     * each request is looked at before it is read. */
    if (p->threads > 1 && p->engine != CONF_ENGINE_LIBFCGI &&
        p->reserved_slots == 0) {
        limits.mpx = DECODER_MAX_MPX;
        limits.max_reqs = p->threads;
    }
    w->executor = calloc(p->threads, sizeof(*w->executor));
    if (w->executor == NULL) {
        free(w);
        return NULL;
    }
    w->settings = p;
    w->slot = s->slot;
    w->channel = s->channel;
    w->board = s->board;
    w->queue_in = s->queue_in;
    w->queue_out = s->queue_out;
    w->kind = kinds[p->protocol];
    memcpy(w->listen_fd, s->listen_fd, s->listen_count * sizeof(int));
    w->listen_count = s->listen_count;
    conntable_init(&w->conns, &limits);
    for (unsigned i = 0; i < p->threads; i++) {
        struct executor *x = &w->executor[i];

        x->worker = w;
        x->score = &s->score[i];
        x->main_thread = i == 0;
        buf_init(&x->scratch, 4096);
        pthread_mutex_init(&x->errors_lock, NULL);
        responder_init_errors(&x->errors);
        atomic_store(&x->score->pid, getpid());
        scoreboard_set(x->score, SCORE_IDLE);
    }
    return w;
}

/* The application object of this worker, called factory and all. */
static PyObject *
make_app(const struct worker_start *s)
{
    char why[CHANNEL_TEXT_MAX];
    PyObject *imported = s->app;
    PyObject *app = NULL;

    if (imported == NULL) {
        if (worker_import(s->settings, s->app_name, s->config, &imported, why,
                          sizeof(why)) != 0) {
            cannot_serve(s, why);
        }
    }
    if (wsgi_setup_worker(s->config) != 0) {
        errors_describe(why, sizeof(why));
        cannot_serve(s, why);
    }
    if (app_make(s->app_name, imported, &app, why, sizeof(why)) != 0) {
        cannot_serve(s, why);
    }
    return app;
}

static void
open_access_log(struct worker *w, const struct worker_start *s)
{
    char why[CHANNEL_TEXT_MAX];

    if (s->access_fd < 0) {
        return;
    }
    w->access =
        access_log_open(s->settings, s->slot, s->access_fd, why, sizeof(why));
    if (w->access == NULL) {
        cannot_serve(s, why);
    }
}

/* Orderly end (wsgi checklist R27): hooks, atexit, flush, _exit. */
static void __attribute__((noreturn)) end_worker(struct worker *w)
{
    for (unsigned i = 1; i < w->settings->threads; i++) {
        pthread_join(w->executor[i].thread, NULL);
    }
    interp_acquire_nogil();
    module_run_worker_exit();
    interp_end();
    access_log_end(w->access);
    _exit(0);
}

void
worker_main(const struct worker_start *s)
{
    char why[CHANNEL_TEXT_MAX];
    struct worker *w;
    PyObject *app;
    int rc;

    process_title_set("forebay: worker %d [%s]", s->slot, s->settings->name);
    take_stdio(s->log_fd);
    if (s->settings->engine == CONF_ENGINE_LIBFCGI) {
        engine_libfcgi_init();
    }
    if (s->app != NULL) {
        forked_signals(stop_self);
    } else {
        worker_signals(stop_self);
    }
    s->config->worker_id = s->slot;
    app = make_app(s);
    w = new_worker(s);
    if (w == NULL) {
        cannot_serve(s, "out of memory");
    }
    open_access_log(w, s);
    if (allow_make(s->settings, &w->allow, why, sizeof(why)) != 0) {
        cannot_serve(s, why);
    }
    /* Handlers run in the main thread; in an epoll set that others share it
     * might not be the one that is woken. */
    w->signal_fd =
        s->settings->threads == 1 || s->settings->engine == CONF_ENGINE_LIBFCGI
            ? interp_signal_fd()
            : -1;
    rc = executor_open(w);
    if (rc < 0) {
        cannot_serve(s, strerror(-rc));
    }
    self = w;
    pthread_atfork(before_fork, after_fork, in_forked_child);
    w->executor[0].thread = pthread_self();
    overtime_setup(w);
    if (module_run_worker_start() != 0) {
        cannot_serve(s, "a worker_start hook of the application failed");
    }
    w->executor[0].wsgi = wsgi_thread_new(app);
    if (w->executor[0].wsgi == NULL) {
        cannot_serve(s, "out of memory");
    }
    rc = start_threads(w, app);
    if (rc != 0) {
        cannot_serve(s, strerror(rc));
    }
    lookout_start(w);
    interp_release();
    rc = channel_say(s->channel, CHANNEL_WORKER_READY, s->slot, getpid(), 0,
                     NULL);
    if (rc < 0) {
        log_error("the template cannot be told that this worker is ready: %s",
                  strerror(-rc));
    }
    serve(&w->executor[0]);
    end_worker(w);
}
