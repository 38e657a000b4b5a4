/* SPDX-License-Identifier: MIT
 *
 * See upgrade.h. What is passed travels as descriptors, named in the variable
 * FOREBAY_UPGRADE: lines of "channel FD", "listen FD OWN SPEC" (OWN is 1 when
 * its path is to be removed at the end), "queue FD FD POOL".
 */
#include "server/upgrade.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "protocol/buf.h"
#include "server/channel.h"
#include "server/log.h"
#include "server/own_program.h"

#define VARIABLE "FOREBAY_UPGRADE"

enum { MAX_POOLS = 64, MAX_FDS = 4 + EXECUTOR_MAX_LISTENERS + 2 * MAX_POOLS };

struct passed_queue {
    char pool[64];
    int fd[2]; /* -1: taken */
};

static struct {
    char **argv;
    char program[4096];

    /* From an old manager. */
    int channel; /* -1: there is none */
    struct listener_set listeners;
    struct passed_queue queue[MAX_POOLS];
    unsigned queues;
} self = { .channel = -1 };

/* To a new manager. */
static struct {
    uv_process_t process;
    uv_poll_t poll;
    int channel;
    bool running; /* it has been started and has not answered */
    bool watched; /* its end has not been seen */
    int open_handles;
    void (*done)(bool ok, void *ctx);
    void *ctx;
} next;

void
upgrade_remember(char **argv)
{
    self.argv = argv;
    own_program(self.program, sizeof(self.program));
}

/* -- the new manager --------------------------------------------------------
 */

static void
take_line(const char *line)
{
    char path[108], text[256], spec[256];
    int a, b, used = 0;

    if (sscanf(line, "channel %d", &a) == 1) {
        self.channel = a;
        fcntl(a, F_SETFD, FD_CLOEXEC);
    } else if (sscanf(line, "listen %d %107[^\t]\t%255[^\t]\t%255[^\n]", &a,
                      path, text, spec) == 4 &&
               self.listeners.count < EXECUTOR_MAX_LISTENERS) {
        unsigned i = self.listeners.count;

        if (listener_adopt(a, strcmp(path, "-") != 0 ? path : NULL, text,
                           &self.listeners.item[i]) == 0) {
            snprintf(self.listeners.spec[i], sizeof(self.listeners.spec[i]),
                     "%s", spec);
            self.listeners.count++;
        }
    } else if (sscanf(line, "queue %d %d %n", &a, &b, &used) == 2 && used > 0 &&
               self.queues < MAX_POOLS) {
        struct passed_queue *q = &self.queue[self.queues++];

        snprintf(q->pool, sizeof(q->pool), "%.*s",
                 (int)strcspn(line + used, "\n"), line + used);
        q->fd[0] = a;
        q->fd[1] = b;
        fcntl(a, F_SETFD, FD_CLOEXEC);
        fcntl(b, F_SETFD, FD_CLOEXEC);
    }
}

void
upgrade_receive(void)
{
    const char *text = getenv(VARIABLE);
    char *copy = text != NULL ? strdup(text) : NULL;
    char *rest = NULL;

    unsetenv(VARIABLE);
    if (copy == NULL) {
        return;
    }
    for (char *line = strtok_r(copy, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        take_line(line);
    }
    free(copy);
}

const struct listener_set *
upgrade_listeners(void)
{
    return &self.listeners;
}

bool
upgrade_queue(const char *pool, int ret[2])
{
    for (unsigned i = 0; i < self.queues; i++) {
        struct passed_queue *q = &self.queue[i];

        if (q->fd[0] >= 0 && strcmp(q->pool, pool) == 0) {
            ret[0] = q->fd[0];
            ret[1] = q->fd[1];
            q->fd[0] = q->fd[1] = -1;
            return true;
        }
    }
    return false;
}

bool
upgrade_is_pending(void)
{
    return self.channel >= 0;
}

static bool
has(const struct listener_set *set, int fd)
{
    for (unsigned i = 0; i < set->count; i++) {
        if (set->item[i].fd == fd) {
            return true;
        }
    }
    return false;
}

static bool
in_use(const struct pool *pools, int fd)
{
    for (; pools != NULL; pools = pools->following) {
        if (has(&pools->listeners, fd)) {
            return true;
        }
    }
    return false;
}

void
upgrade_complete(const struct pool *pools, const struct listener_set *own)
{
    if (self.channel < 0) {
        return;
    }
    for (unsigned i = 0; i < self.queues; i++) {
        if (self.queue[i].fd[0] >= 0) {
            close(self.queue[i].fd[0]);
            close(self.queue[i].fd[1]);
        }
    }
    self.queues = 0;
    for (unsigned i = 0; i < self.listeners.count; i++) {
        if (!in_use(pools, self.listeners.item[i].fd) &&
            !has(own, self.listeners.item[i].fd)) {
            listener_close(&self.listeners.item[i]);
        }
    }
    self.listeners.count = 0;
    channel_say(self.channel, CHANNEL_READY, -1, getpid(), 0, NULL);
    close(self.channel);
    self.channel = -1;
}

/* -- the old manager --------------------------------------------------------
 */

static void
on_handle_closed(uv_handle_t *handle)
{
    (void)handle;
    if (--next.open_handles == 0) {
        close(next.channel);
        next.channel = -1;
    }
}

static void
finish(bool ok)
{
    if (!next.running) {
        return;
    }
    next.running = false;
    next.done(ok, next.ctx);
}

static void
on_exit_of_next(uv_process_t *process, int64_t code, int signal)
{
    next.watched = false;
    if (next.running) {
        log_error("upgrade: the new manager %d ended (%s %lld) before it "
                  "served; this one goes on",
                  process->pid, signal != 0 ? "signal" : "code",
                  signal != 0 ? (long long)signal : (long long)code);
    }
    finish(false);
    next.open_handles = 2;
    uv_close((uv_handle_t *)&next.poll, on_handle_closed);
    uv_close((uv_handle_t *)process, on_handle_closed);
}

static void
on_answer(uv_poll_t *poll, int status, int events)
{
    struct channel_message m;
    int fd = -1;
    int rc = status < 0 ? status : channel_receive(next.channel, &m, &fd);
    (void)events;

    if (fd >= 0) {
        close(fd);
    }
    if (rc == -EAGAIN) {
        return;
    }
    uv_poll_stop(poll);
    if (rc == 1 && m.type == CHANNEL_READY) {
        finish(true);
    }
}

void
upgrade_cancel(void)
{
    if (next.running) {
        uv_process_kill(&next.process, SIGTERM);
    }
}

bool
upgrade_is_next(int pid)
{
    return next.watched && next.process.pid == pid;
}

struct passing {
    uv_stdio_container_t stdio[MAX_FDS];
    int count;
    struct buf text; /* of the variable */
};

static int
pass_fd(struct passing *p, int fd)
{
    p->stdio[p->count].flags = UV_INHERIT_FD;
    p->stdio[p->count].data.fd = fd;
    return p->count++;
}

static void
pass_listeners(struct passing *p, const struct listener_set *set)
{
    char line[1024];

    for (unsigned i = 0; i < set->count && p->count < MAX_FDS - 3; i++) {
        const struct listener *l = &set->item[i];

        snprintf(line, sizeof(line), "listen %d %s\t%s\t%s\n",
                 pass_fd(p, l->fd), l->path[0] != '\0' ? l->path : "-", l->text,
                 set->spec[i]);
        buf_append_str(&p->text, line);
    }
}

static void
pass_pool(struct passing *p, const struct pool *pool)
{
    char line[1024];
    int in;

    pass_listeners(p, &pool->listeners);
    if (p->count < MAX_FDS - 3) {
        in = pass_fd(p, pool->queue[0]);
        snprintf(line, sizeof(line), "queue %d %d %s\n", in,
                 pass_fd(p, pool->queue[1]), pool->settings->name);
        buf_append_str(&p->text, line);
    }
}

static int
spawn(uv_loop_t *loop, struct passing *p)
{
    uv_process_options_t options = {
        .exit_cb = on_exit_of_next,
        .file = self.program,
        .args = self.argv,
        .stdio = p->stdio,
        .stdio_count = p->count,
    };
    int rc;

    /* uv_spawn() hands our environment on; the variable is ours for that
     * moment only. */
    if (buf_append(&p->text, "", 1) != 0 ||
        setenv(VARIABLE, p->text.data, 1) != 0) {
        return -ENOMEM;
    }
    rc = uv_spawn(loop, &next.process, &options);
    unsetenv(VARIABLE);
    return rc;
}

int
upgrade_start(uv_loop_t *loop, const struct pool *pools,
              const struct listener_set *own, void (*done)(bool ok, void *ctx),
              void *ctx, char *why, size_t size)
{
    struct passing p = { .count = 0 };
    char line[64];
    int pair[2], rc;

    if (next.running || next.open_handles > 0) {
        snprintf(why, size, "one is under way already");
        return -1;
    }
    rc = channel_pair(pair);
    if (rc < 0) {
        snprintf(why, size, "%s", strerror(-rc));
        return -1;
    }
    buf_init(&p.text, 65536);
    for (int fd = 0; fd <= 2; fd++) {
        pass_fd(&p, fd);
    }
    snprintf(line, sizeof(line), "channel %d\n", pass_fd(&p, pair[1]));
    buf_append_str(&p.text, line);
    pass_listeners(&p, own);
    for (; pools != NULL; pools = pools->following) {
        pass_pool(&p, pools);
    }
    rc = spawn(loop, &p);
    buf_release(&p.text);
    close(pair[1]);
    if (rc != 0) {
        snprintf(why, size, "%s: %s", self.program, uv_strerror(rc));
        close(pair[0]);
        return -1;
    }
    next.channel = pair[0];
    next.running = next.watched = true;
    next.done = done;
    next.ctx = ctx;
    uv_poll_init(loop, &next.poll, next.channel);
    uv_poll_start(&next.poll, UV_READABLE, on_answer);
    log_info("upgrade: the new manager is process %d", next.process.pid);
    return 0;
}
