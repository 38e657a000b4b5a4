/* SPDX-License-Identifier: MIT
 *
 * See template.h. Reads top to bottom: start, import, loop of orders and exits.
 */
#include "server/template.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sysexits.h>
#include <unistd.h>

#include "python/errors.h"
#include "python/interp.h"
#include "python/stream.h"
#include "server/channel.h"
#include "server/log.h"
#include "server/log_pipe.h"
#include "server/nursery.h"
#include "server/own_program.h"
#include "server/process_title.h"
#include "server/warmup.h"
#include "server/worker.h"

struct python_template {
    const struct template_start *start;
    struct pool_settings settings;
    struct app_name app_name;
    struct wsgi_config config;
    struct scoreboard score;
    PyObject *app; /* NULL without preload */
    struct nursery nursery;
};

/* -- start ------------------------------------------------------------------
 */

static int
fail(struct python_template *t, const char *why)
{
    channel_say(t->start->channel, CHANNEL_FAILED, -1, getpid(), 0, why);
    return EX_CONFIG;
}

/* Zero, and the same for all workers. NULL: each says nothing then. */
static _Atomic unsigned *
shared_number(void)
{
    void *p = mmap(NULL, sizeof(_Atomic unsigned), PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    return p == MAP_FAILED ? NULL : p;
}

static void
configure(struct python_template *t)
{
    static const char *const sendfile_headers[] = {
        [CONF_SENDFILE_OFF] = NULL,
        [CONF_SENDFILE_ACCEL] = "X-Accel-Redirect",
        [CONF_SENDFILE_X] = "X-Sendfile",
        [CONF_SENDFILE_LIGHTTPD] = "X-LIGHTTPD-send-file",
    };
    const struct pool_settings *s = &t->settings;

    t->config = (struct wsgi_config){
        .pool = s->name,
        .mount = s->mount != NULL ? s->mount : "",
        .path_from_uri = s->path_source == CONF_PATH_REQUEST_URI,
        .multithread = s->threads > 1,
        .multiprocess = s->workers > 1 || s->max_workers > 1,
        .pass_http_proxy = s->pass_http_proxy,
        .redirect_authorization = s->redirect_authorization,
        .drop_hop_by_hop = s->hop_by_hop == CONF_HOP_DROP,
        .exit_on_system_exit = s->exit_on_system_exit,
        .url_scheme = s->url_scheme == CONF_SCHEME_HTTP    ? "http"
                      : s->url_scheme == CONF_SCHEME_HTTPS ? "https"
                                                           : NULL,
        .server_name = s->server_name,
        .server_port = s->server_port,
        .sendfile_header = sendfile_headers[s->sendfile_header],
        .sendfile_map = (const char *const *)s->sendfile_map.item,
        .max_response_headers = s->max_response_headers,
        .request_timeout_ms = s->request_timeout,
        .learned_names = s->learned_names,
        .advised = shared_number(),
    };
}

/* The import left behind what a fork would break. Start this program again, in
 * this process, without any trace of it; workers then import for themselves. */
static int
start_clean(struct python_template *t, const char *what, const char *found,
            char *why, size_t size)
{
    char **argv = t->start->argv;
    char path[PATH_MAX];
    int last = 0;

    log_warnx("preload: %s left %s behind, which a fork would break; "
              "each worker imports the application for itself (preload = on "
              "forks all the same, preload = off says so from the start)",
              what, found);
    while (argv[last] != NULL) {
        last++;
    }
    argv[last] = strdup("--clean"); /* main() left room for it */
    template_args_set_flag(t->start, 0);
    execv("/proc/self/exe", argv);
    execv(own_program(path, sizeof(path)), argv);
    snprintf(why, size,
             "starting again without preload: %s; say preload = off (in a "
             "chroot without this program it cannot be started again)",
             strerror(errno));
    return -1;
}

static int
preload(struct python_template *t, int log_fd, char *why, size_t size)
{
    char found[1024];
    int own[TEMPLATE_MAX_DESCRIPTORS + 1];
    int n = 0;

    if (worker_import(&t->settings, &t->app_name, &t->config, &t->app, why,
                      size) != 0) {
        return -1;
    }
    template_args_descriptors(t->start, own);
    while (own[n] >= 0) {
        n++;
    }
    own[n++] = log_fd;
    own[n] = -1;
    for (int warm = 0; warm < 2; warm++) {
        if (warm &&
            warmup_run(&t->settings, &t->app_name, t->app, why, size) != 0) {
            return -1;
        }
        if (!interp_unsafe_to_fork(own, found, sizeof(found))) {
            continue;
        }
        if (t->settings.preload == CONF_PRELOAD_AUTO) {
            return start_clean(t, warm ? "a warm-up request" : "the import",
                               found, why, size);
        }
        log_warnx("preload = on: %s left %s behind; workers share it or miss "
                  "it",
                  warm ? "a warm-up request" : "the import", found);
        break;
    }
    interp_freeze();
    return 0;
}

/* -- workers ----------------------------------------------------------------
 */

static pid_t
fork_worker(void *ctx)
{
    struct python_template *t = ctx;

    return t->app != NULL ? interp_fork() : fork();
}

static void
become_worker(void *ctx, int slot, int channel, int log_fd)
{
    struct python_template *t = ctx;
    struct worker_start s = {
        .settings = &t->settings,
        .app_name = &t->app_name,
        .app = t->app,
        .config = &t->config,
        .slot = slot,
        .channel = channel,
        .log_fd = log_fd,
        .queue_in = t->start->queue_in,
        .queue_out = t->start->queue_out,
        .access_fd = t->start->access,
        .listen_fd = t->start->listen_fd,
        .listen_count = t->start->listen_count,
        .board = &t->score,
        .score = &t->score.slot[(unsigned)slot * t->settings.threads],
    };

    close(t->start->scoreboard);
    worker_main(&s);
}

static void
close_listeners(void *ctx)
{
    const struct python_template *t = ctx;

    for (unsigned i = 0; i < t->start->listen_count; i++) {
        close(t->start->listen_fd[i]);
    }
}

static const struct nursery_ops worker_ops = {
    .fork = fork_worker,
    .become = become_worker,
    .stopping = close_listeners,
};

/* -- start ------------------------------------------------------------------
 */

/* Nobody listens to the manager's channel during the import, which may take for
 * ever: should the manager die meanwhile, the kernel ends this process. 0, or
 * -1: it is dead already. */
static int
end_with_manager(int channel, bool on)
{
    char byte;

    prctl(PR_SET_PDEATHSIG, on ? SIGKILL : 0);
    return recv(channel, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0 ? -1 : 0;
}

/* What needs only the settings: `forebay check` asks this much. */
static int
prepare_process(struct python_template *t, char *why, size_t size)
{
    configure(t);
    /* A template that was started again has done this before. */
    if (!t->start->clean &&
        template_args_confine(&t->settings, why, size) != 0) {
        return -1;
    }
    return app_name_parse(t->settings.app, &t->app_name, why, size);
}

static int
prepare(struct python_template *t, char *why, size_t size)
{
    const struct template_start *start = t->start;
    unsigned scores;

    if (template_args_settings(start, &t->settings, why, size) != 0) {
        return -1;
    }
    scores = start->slots * t->settings.threads;
    if (scoreboard_attach(start->scoreboard, scores, &t->score) < 0) {
        snprintf(why, size, "the scoreboard cannot be mapped");
        return -1;
    }
    t->nursery = (struct nursery){
        .ops = &worker_ops,
        .ctx = t,
        .channel = start->channel,
        .slots = start->slots,
        .graceful_ms = t->settings.graceful_timeout,
        .kill_group = t->settings.kill_group,
    };
    if (nursery_init(&t->nursery) != 0) {
        snprintf(why, size, "out of memory");
        return -1;
    }
    return prepare_process(t, why, size);
}

int
template_main(const struct template_start *start)
{
    static const struct stream_writer writer = { log_write_text, log_end_line };
    struct python_template t = { .start = start };
    char why[CHANNEL_TEXT_MAX];
    int log_fd = fcntl(2, F_DUPFD_CLOEXEC, 10);
    struct sigaction chld;

    /* They came through exec; no child of the application gets them. */
    template_args_set_flag(start, FD_CLOEXEC);
    for (unsigned i = 0; i < start->listen_count; i++) {
        int fd = start->listen_fd[i]; /* a pool of programs may have had it */

        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    }
    if (log_fd >= 0) {
        log_to_manager(log_fd);
    }
    errors_set_log(log_text);
    stream_set_writer(&writer);
    worker_signals(NULL);
    if (prepare(&t, why, sizeof(why)) != 0) {
        return fail(&t, why);
    }
    process_title_set("forebay: template [%s]", t.settings.name);
    if (t.settings.preload != CONF_PRELOAD_OFF && !start->clean) {
        if (end_with_manager(start->channel, true) != 0) {
            return EX_UNAVAILABLE;
        }
        if (preload(&t, log_fd, why, sizeof(why)) != 0) {
            return fail(&t, why);
        }
    }
    end_with_manager(start->channel, false);
    /* An application that ignores SIGCHLD would hide the ends of workers, and
     * in workers those of its own programs. */
    sigaction(SIGCHLD, NULL, &chld);
    if (chld.sa_handler == SIG_IGN) {
        signal(SIGCHLD, SIG_DFL);
    }
    channel_say(start->channel, CHANNEL_READY, -1, getpid(), t.app != NULL,
                NULL);
    nursery_run(&t.nursery);
    /* Nothing registered by what was imported runs here: it is the workers'. */
    _exit(0);
}

int
template_check(int settings)
{
    struct template_start start = { .settings = settings };
    struct python_template t = { .start = &start };
    char why[CHANNEL_TEXT_MAX];
    PyObject *app;

    worker_signals(NULL);
    if (template_args_settings(&start, &t.settings, why, sizeof(why)) == 0 &&
        prepare_process(&t, why, sizeof(why)) == 0 &&
        worker_import(&t.settings, &t.app_name, &t.config, &t.app, why,
                      sizeof(why)) == 0 &&
        app_make(&t.app_name, t.app, &app, why, sizeof(why)) == 0) {
        return 0;
    }
    fprintf(stderr, "%s\n", why);
    return EX_CONFIG;
}
