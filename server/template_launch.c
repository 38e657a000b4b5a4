/* SPDX-License-Identifier: MIT
 *
 * See template_launch.h. Manager only.
 */
#include "server/template_launch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "server/channel.h"
#include "server/log.h"
#include "server/log_relay.h"

/* The descriptors of a template, as its arguments name them. */
enum {
    FD_CHANNEL = 3,
    FD_SCOREBOARD,
    FD_SETTINGS,
    FD_QUEUE_IN,
    FD_QUEUE_OUT,
    FD_LISTEN
};

/* Room behind the arguments for the title that ps shows. */
#define TITLE_ROOM                                                             \
    "----------------------------------------------------------------"

/* The settings as a file in memory. The descriptor, or -errno. */
static int
settings_memory(const struct pool_settings *s)
{
    int fd = memfd_create("forebay-settings", MFD_CLOEXEC);
    int copy = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : -1;
    FILE *out = copy >= 0 ? fdopen(copy, "w") : NULL;
    int rc = -1;

    if (out != NULL) {
        rc = settings_write(s, out);
        rc = fclose(out) == 0 ? rc : -1;
    } else if (copy >= 0) {
        close(copy);
    }
    if (rc != 0 && fd >= 0) {
        close(fd);
        return -ENOMEM;
    }
    return fd;
}

struct spawn_args {
    char text[9][512];
    char *argv[13];
    int args;
    uv_stdio_container_t stdio[FD_LISTEN + EXECUTOR_MAX_LISTENERS + 1];
    int count;
};

static void
build_args(struct generation *g, const struct listener_set *listeners,
           const int *queue, int channel, int settings, int log, int access,
           struct spawn_args *a)
{
    size_t used = 0;
    const int fds[] = { -1,          log,      log,      channel,
                        g->score.fd, settings, queue[0], queue[1] };

    a->count = FD_LISTEN;
    for (int i = 0; i < FD_LISTEN; i++) {
        a->stdio[i].flags = fds[i] < 0 ? UV_IGNORE : UV_INHERIT_FD;
        a->stdio[i].data.fd = fds[i];
    }
    snprintf(a->text[0], sizeof(a->text[0]), "--channel=%d", FD_CHANNEL);
    snprintf(a->text[1], sizeof(a->text[1]), "--scoreboard=%d", FD_SCOREBOARD);
    snprintf(a->text[2], sizeof(a->text[2]), "--settings=%d", FD_SETTINGS);
    snprintf(a->text[3], sizeof(a->text[3]), "--slots=%u", g->count);
    used = (size_t)snprintf(a->text[4], sizeof(a->text[4]), "--listen=");
    for (unsigned i = 0; i < listeners->count; i++) {
        used += (size_t)snprintf(a->text[4] + used, sizeof(a->text[4]) - used,
                                 "%s%d", i > 0 ? "," : "", a->count);
        a->stdio[a->count].flags = UV_INHERIT_FD;
        a->stdio[a->count].data.fd = listeners->item[i].fd;
        a->count++;
    }
    snprintf(a->text[5], sizeof(a->text[5]), "--log-level=%d",
             (int)log_get_level());
    snprintf(a->text[6], sizeof(a->text[6]), "--queue-in=%d", FD_QUEUE_IN);
    snprintf(a->text[7], sizeof(a->text[7]), "--queue-out=%d", FD_QUEUE_OUT);
    a->args = 8;
    if (access >= 0) {
        snprintf(a->text[8], sizeof(a->text[8]), "--access=%d", a->count);
        a->stdio[a->count].flags = UV_INHERIT_FD;
        a->stdio[a->count].data.fd = access;
        a->count++;
        a->args++;
    }
}

static int
spawn_template(struct generation *g, const char *program, uv_exit_cb on_exit,
               struct spawn_args *a)
{
    uv_process_options_t options = {
        .exit_cb = on_exit,
        .file = program,
        .args = a->argv,
        .stdio = a->stdio,
        .stdio_count = a->count,
    };
    int n = 0;

    a->argv[n++] = (char *)program;
    if (g->settings.command != NULL) {
        a->argv[n++] = (char *)"program-template";
    }
    for (int i = 0; i < a->args; i++) {
        a->argv[n++] = a->text[i];
    }
    a->argv[n++] = (char *)TITLE_ROOM;
    a->argv[n] = NULL;
    g->process.data = g;
    return uv_spawn(g->loop, &g->process, &options);
}

static void
close_all(int *fd, int count)
{
    for (int i = 0; i < count; i++) {
        if (fd[i] >= 0) {
            close(fd[i]);
        }
    }
}

int
template_launch(struct generation *g, const struct listener_set *listeners,
                const int *queue, const char *program, int access,
                uv_exit_cb on_exit)
{
    struct spawn_args args;
    int pair[2] = { -1, -1 }, log[2] = { -1, -1 };
    int settings = settings_memory(&g->settings);
    int rc = settings < 0 ? settings : channel_pair(pair);
    int theirs[3];

    if (rc == 0 && pipe2(log, O_CLOEXEC) != 0) {
        rc = -errno;
    }
    if (rc == 0) {
        g->log = log_source_open(g->loop, log[0], g->settings.name, g->sink,
                                 g->slow_sink);
        build_args(g, listeners, queue, pair[1], settings, log[1], access,
                   &args);
        rc = spawn_template(g, program, on_exit, &args);
    }
    theirs[0] = settings;
    theirs[1] = pair[1];
    theirs[2] = log[1];
    close_all(theirs, 3);
    if (rc != 0) {
        close_all(pair, 1);
        return rc;
    }
    g->channel = pair[0];
    log_source_pid(g->log, g->process.pid);
    return 0;
}
