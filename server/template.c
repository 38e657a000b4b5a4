/* SPDX-License-Identifier: MIT
 *
 * See template.h. Reads top to bottom: start, import, loop of orders and exits.
 */
#include "server/template.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include "python/errors.h"
#include "python/interp.h"
#include "server/channel.h"
#include "server/clock.h"
#include "server/log.h"
#include "server/privileges.h"
#include "server/warmup.h"
#include "server/worker.h"

struct child {
    pid_t pid; /* 0: free */
    int pidfd;
    int channel; /* -1 once the worker closed it */
};

struct template
{
    const struct template_start *start;
    struct pool_settings settings;
    struct app_name app_name;
    struct wsgi_config config;
    struct scoreboard score;
    PyObject *app;       /* NULL without preload */
    struct child *child; /* start->slots of them */
    unsigned children;
    int channel;
    bool stopping;
    int siblings;        /* value of the last CHANNEL_STOP */
    uint64_t kill_at_ns; /* after the manager is gone; 0: no such time */
};

/* -- start ------------------------------------------------------------------
 */

static int
fail(struct template *t, const char *why)
{
    channel_say(t->channel, CHANNEL_FAILED, -1, getpid(), 0, why);
    return EX_CONFIG;
}

static int
read_settings(struct template *t, char *why, size_t size)
{
    struct conf_error error;
    struct stat st;
    char *text;
    int rc;

    if (fstat(t->start->settings, &st) != 0) {
        snprintf(why, size, "settings: %s", strerror(errno));
        return -1;
    }
    text = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE,
                t->start->settings, 0);
    if (text == MAP_FAILED) {
        snprintf(why, size, "settings: %s", strerror(errno));
        return -1;
    }
    rc = settings_init(&t->settings);
    if (rc == 0) {
        rc = settings_read(&t->settings, text, (size_t)st.st_size, &error);
    }
    munmap(text, (size_t)st.st_size);
    if (rc != 0) {
        snprintf(why, size, "settings: %.490s", error.text);
    }
    return rc;
}

static int
set_environment(const struct pool_settings *s, char *why, size_t size)
{
    for (unsigned i = 0; i < s->env.count; i++) {
        if (putenv(s->env.item[i]) != 0) {
            snprintf(why, size, "env: %s", strerror(errno));
            return -1;
        }
    }
    if (s->umask >= 0) {
        umask((mode_t)s->umask);
    }
    if (s->chdir != NULL && chdir(s->chdir) != 0) {
        snprintf(why, size, "chdir = %s: %s", s->chdir, strerror(errno));
        return -1;
    }
    return 0;
}

/* From here on no privilege of the manager's is left. */
static int
drop_privileges(const struct pool_settings *s, char *why, size_t size)
{
    struct privileges p;

    if (privileges_lookup(s->user, s->group, &p, why, size) != 0 ||
        privileges_drop(&p, why, size) != 0) {
        return -1;
    }
    /* A change of user hides our own /proc/self from us. */
    prctl(PR_SET_DUMPABLE, 1);
    return 0;
}

static void
configure(struct template *t)
{
    const struct pool_settings *s = &t->settings;

    t->config = (struct wsgi_config){
        .pool = s->name,
        .mount = s->mount != NULL ? s->mount : "",
        .path_from_uri = s->path_source == CONF_PATH_REQUEST_URI,
        .multithread = s->threads > 1,
        .multiprocess = s->workers > 1,
        .pass_http_proxy = s->pass_http_proxy,
        .drop_hop_by_hop = s->hop_by_hop == CONF_HOP_DROP,
        .exit_on_system_exit = s->exit_on_system_exit,
        .url_scheme = s->url_scheme == CONF_SCHEME_HTTP    ? "http"
                      : s->url_scheme == CONF_SCHEME_HTTPS ? "https"
                                                           : NULL,
        .server_name = s->server_name,
        .server_port = s->server_port,
        .max_response_headers = s->max_response_headers,
        .learned_names = s->learned_names,
    };
}

/* Every descriptor that the manager gave, -1-terminated. ret has room for
 * EXECUTOR_MAX_LISTENERS + 6. */
static void
own_descriptors(const struct template_start *start, int *ret)
{
    int n = 0;

    ret[n++] = start->channel;
    ret[n++] = start->scoreboard;
    ret[n++] = start->settings;
    for (unsigned i = 0; i < start->listen_count; i++) {
        ret[n++] = start->listen_fd[i];
    }
    if (start->queue_in >= 0) {
        ret[n++] = start->queue_in;
        ret[n++] = start->queue_out;
    }
    ret[n] = -1;
}

/* Whether a program that this process executes gets them. */
static void
set_close_on_exec(const struct template_start *start, int flag)
{
    int fd[EXECUTOR_MAX_LISTENERS + 6];

    own_descriptors(start, fd);
    for (int i = 0; fd[i] >= 0; i++) {
        fcntl(fd[i], F_SETFD, flag);
    }
}

/* The import left behind what a fork would break. Start this program again, in
 * this process, without any trace of it; workers then import for themselves. */
static int
start_clean(struct template *t, const char *found, char *why, size_t size)
{
    char **argv = t->start->argv;
    int last = 0;

    log_warnx("preload: the import left %s behind, which a fork would break; "
              "each worker imports the application for itself (preload = on "
              "forks all the same, preload = off says so from the start)",
              found);
    while (argv[last] != NULL) {
        last++;
    }
    argv[last] = strdup("--clean"); /* main() left room for it */
    set_close_on_exec(t->start, 0);
    execv("/proc/self/exe", argv);
    snprintf(why, size, "starting again without preload: %s", strerror(errno));
    return -1;
}

static int
preload(struct template *t, int log_fd, char *why, size_t size)
{
    char found[1024];
    int own[EXECUTOR_MAX_LISTENERS + 7];
    int n = 0;

    if (worker_import(&t->settings, &t->app_name, &t->config, &t->app, why,
                      size) != 0) {
        return -1;
    }
    own_descriptors(t->start, own);
    while (own[n] >= 0) {
        n++;
    }
    own[n++] = log_fd;
    own[n] = -1;
    if (interp_unsafe_to_fork(own, found, sizeof(found))) {
        if (t->settings.preload == CONF_PRELOAD_AUTO) {
            return start_clean(t, found, why, size);
        }
        log_warnx("preload = on: the import left %s behind; workers share it "
                  "or miss it",
                  found);
    }
    if (warmup_run(&t->settings, &t->app_name, t->app, why, size) != 0) {
        return -1;
    }
    interp_freeze();
    return 0;
}

/* -- workers ----------------------------------------------------------------
 */

/* In the child: nothing of the template stays open. */
static void __attribute__((noreturn))
become_worker(struct template *t, int slot, int channel, int log_fd)
{
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
        .listen_fd = t->start->listen_fd,
        .listen_count = t->start->listen_count,
        .score = &t->score.slot[(unsigned)slot * t->settings.threads],
    };

    for (unsigned i = 0; i < t->start->slots; i++) {
        if (t->child[i].pid != 0) {
            close(t->child[i].pidfd);
            if (t->child[i].channel >= 0) {
                close(t->child[i].channel);
            }
        }
    }
    close(t->channel);
    close(t->start->scoreboard);
    worker_main(&s);
}

static void
spawn(struct template *t, int slot, int log_fd)
{
    struct child *child = &t->child[slot];
    int pair[2];
    pid_t pid;

    if (child->pid != 0 || channel_pair(pair) < 0) {
        channel_say(t->channel, CHANNEL_WORKER_FAILED, slot, 0, 0,
                    "no channel for a worker");
        return;
    }
    pid = t->app != NULL ? interp_fork() : fork();
    if (pid == 0) {
        close(pair[0]);
        become_worker(t, slot, pair[1], log_fd);
    }
    close(pair[1]);
    if (pid < 0) {
        char why[128];

        snprintf(why, sizeof(why), "fork: %s", strerror(errno));
        close(pair[0]);
        channel_say(t->channel, CHANNEL_WORKER_FAILED, slot, 0, 0, why);
        return;
    }
    child->pid = pid;
    child->channel = pair[0];
    child->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    t->children++;
    channel_say(t->channel, CHANNEL_FORKED, slot, pid, 0, NULL);
}

static void
reap(struct template *t, int slot)
{
    struct child *child = &t->child[slot];
    int status;

    if (waitpid(child->pid, &status, WNOHANG) != child->pid) {
        return;
    }
    channel_say(t->channel, CHANNEL_EXITED, slot, child->pid, status, NULL);
    if (child->channel >= 0) {
        close(child->channel);
    }
    close(child->pidfd);
    *child = (struct child){ .pidfd = -1, .channel = -1 };
    t->children--;
}

/* Pass on what a worker says. */
static void
hear_worker(struct template *t, int slot)
{
    struct child *child = &t->child[slot];
    struct channel_message m;
    int fd = -1;
    int rc = channel_receive(child->channel, &m, &fd);

    if (fd >= 0) {
        close(fd);
    }
    if (rc == 1) {
        if (m.type == CHANNEL_WORKER_READY || m.type == CHANNEL_WORKER_FAILED) {
            channel_say(t->channel, m.type, slot, child->pid, m.value, m.text);
        }
    } else if (rc != -EAGAIN) {
        close(child->channel);
        child->channel = -1;
    }
}

static void
stop_worker(struct template *t, int slot)
{
    struct child *child = &t->child[slot];

    if (child->pid != 0 && child->channel >= 0) {
        channel_say(child->channel, CHANNEL_STOP, slot, 0, t->siblings, NULL);
    }
}

static void
for_slots(struct template *t, int slot, void (*fn)(struct template *, int))
{
    if (slot >= 0 && (unsigned)slot < t->start->slots) {
        fn(t, slot);
    } else if (slot == -1) {
        for (unsigned i = 0; i < t->start->slots; i++) {
            fn(t, (int)i);
        }
    }
}

static void
kill_worker(struct template *t, int slot)
{
    if (t->child[slot].pid != 0) {
        kill(t->child[slot].pid, SIGKILL);
    }
}

/* -- orders -----------------------------------------------------------------
 */

static void
manager_gone(struct template *t)
{
    log_warnx("the manager is gone: workers finish what they have and end");
    t->stopping = true;
    t->siblings = 0;
    close(t->channel);
    t->channel = -1;
    t->kill_at_ns =
        clock_now_ns() + t->settings.graceful_timeout * NS_PER_MS + 1;
    for_slots(t, -1, stop_worker);
}

static void
obey(struct template *t)
{
    struct channel_message m;
    int fd = -1;
    int rc = channel_receive(t->channel, &m, &fd);

    if (rc == -EAGAIN) {
        return;
    }
    if (rc <= 0) {
        manager_gone(t);
        return;
    }
    switch (m.type) {
    case CHANNEL_SPAWN:
        if (m.slot >= 0 && (unsigned)m.slot < t->start->slots && fd >= 0) {
            spawn(t, m.slot, fd);
        }
        break;
    case CHANNEL_STOP:
        t->stopping = t->stopping || m.slot == -1;
        t->siblings = m.value;
        for_slots(t, m.slot, stop_worker);
        break;
    case CHANNEL_KILL:
        for_slots(t, m.slot, kill_worker);
        break;
    default:
        log_error("order %d of the manager is not known here", m.type);
    }
    if (fd >= 0) {
        close(fd);
    }
}

static int
wait_timeout_ms(struct template *t)
{
    uint64_t now;

    if (t->kill_at_ns == 0) {
        return -1;
    }
    now = clock_now_ns();
    if (now >= t->kill_at_ns) {
        log_warnx("graceful_timeout has passed: killing %u workers",
                  t->children);
        for_slots(t, -1, kill_worker);
        t->kill_at_ns = 0;
        return -1;
    }
    return (int)((t->kill_at_ns - now) / NS_PER_MS) + 1;
}

/* Two entries a worker (its end, what it says) and one for the manager. */
static void
loop(struct template *t)
{
    unsigned slots = t->start->slots;
    struct pollfd *p = calloc(2 * slots + 1, sizeof(*p));

    if (p == NULL) {
        log_error("out of memory in the template");
        return;
    }
    while (!t->stopping || t->children > 0) {
        for (unsigned i = 0; i < slots; i++) {
            bool used = t->child[i].pid != 0;

            p[2 * i] =
                (struct pollfd){ used ? t->child[i].channel : -1, POLLIN, 0 };
            p[2 * i + 1] =
                (struct pollfd){ used ? t->child[i].pidfd : -1, POLLIN, 0 };
        }
        p[2 * slots] = (struct pollfd){ t->channel, POLLIN, 0 };
        if (poll(p, 2 * slots + 1, wait_timeout_ms(t)) < 0) {
            continue;
        }
        for (unsigned i = 0; i < slots; i++) {
            if (p[2 * i].revents != 0) {
                hear_worker(t, (int)i);
            }
            if (p[2 * i + 1].revents != 0) {
                reap(t, (int)i);
            }
        }
        if (p[2 * slots].revents != 0) {
            obey(t);
        }
    }
    free(p);
}

/* What needs only the settings: `forebay check` asks this much. */
static int
prepare_process(struct template *t, char *why, size_t size)
{
    configure(t);
    /* A template that was started again has done this before. */
    if (!t->start->clean && (drop_privileges(&t->settings, why, size) != 0 ||
                             set_environment(&t->settings, why, size) != 0)) {
        return -1;
    }
    return app_name_parse(t->settings.app, &t->app_name, why, size);
}

static int
prepare(struct template *t, char *why, size_t size)
{
    const struct template_start *start = t->start;
    unsigned scores;

    if (read_settings(t, why, size) != 0) {
        return -1;
    }
    scores = start->slots * t->settings.threads;
    if (scoreboard_attach(start->scoreboard, scores, &t->score) < 0) {
        snprintf(why, size, "the scoreboard cannot be mapped");
        return -1;
    }
    t->child = calloc(start->slots, sizeof(*t->child));
    if (t->child == NULL) {
        snprintf(why, size, "out of memory");
        return -1;
    }
    for (unsigned i = 0; i < start->slots; i++) {
        t->child[i] = (struct child){ .pidfd = -1, .channel = -1 };
    }
    return prepare_process(t, why, size);
}

int
template_main(const struct template_start *start)
{
    struct template t = { .start = start, .channel = start->channel };
    char why[CHANNEL_TEXT_MAX];
    int log_fd = fcntl(2, F_DUPFD_CLOEXEC, 10);

    /* They came through exec; no child of the application gets them. */
    set_close_on_exec(start, FD_CLOEXEC);
    if (log_fd >= 0) {
        log_to_manager(log_fd);
    }
    errors_set_log(log_text);
    worker_signals(NULL);
    if (prepare(&t, why, sizeof(why)) != 0) {
        return fail(&t, why);
    }
    process_title_set("forebay: template [%s]", t.settings.name);
    if (t.settings.preload != CONF_PRELOAD_OFF && !start->clean &&
        preload(&t, log_fd, why, sizeof(why)) != 0) {
        return fail(&t, why);
    }
    channel_say(t.channel, CHANNEL_READY, -1, getpid(), t.app != NULL, NULL);
    loop(&t);
    /* Nothing registered by what was imported runs here: it is the workers'. */
    _exit(0);
}

int
template_check(int settings)
{
    struct template_start start = { .settings = settings };
    struct template t = { .start = &start };
    char why[CHANNEL_TEXT_MAX];
    PyObject *app;

    worker_signals(NULL);
    if (read_settings(&t, why, sizeof(why)) == 0 &&
        prepare_process(&t, why, sizeof(why)) == 0 &&
        worker_import(&t.settings, &t.app_name, &t.config, &t.app, why,
                      sizeof(why)) == 0 &&
        app_make(&t.app_name, t.app, &app, why, sizeof(why)) == 0) {
        return 0;
    }
    fprintf(stderr, "%s\n", why);
    return EX_CONFIG;
}
