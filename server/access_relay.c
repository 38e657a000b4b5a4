/* SPDX-License-Identifier: MIT
 *
 * See access_relay.h. When the pipe becomes readable it is left alone for a
 * moment, so that a busy pool costs the manager some wake-ups per second and
 * not one for each request.
 */
#include "server/access_relay.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    GATHER_MS = 5,
    PIPE_BYTES = 1024 * 1024, /* what the kernel allows everybody */
    READ_BYTES = 64 * 1024,
};

struct access_source {
    uv_poll_t poll;
    uv_timer_t gather;
    int fd;
    int open_handles;
    struct log_sink *sink; /* held */
    size_t rest;           /* bytes of a line that is not complete, in data */
    struct access_source *next;
    char data[READ_BYTES];
};

static struct access_source *sources;

static void
on_closed(uv_handle_t *handle)
{
    struct access_source *s = handle->data;

    if (--s->open_handles == 0) {
        close(s->fd);
        free(s);
    }
}

static void
close_source(struct access_source *s)
{
    for (struct access_source **at = &sources; *at != NULL; at = &(*at)->next) {
        if (*at == s) {
            *at = s->next;
            break;
        }
    }
    log_sink_release(s->sink);
    s->open_handles = 2;
    uv_close((uv_handle_t *)&s->poll, on_closed);
    uv_close((uv_handle_t *)&s->gather, on_closed);
}

/* Pass on what is in the pipe, as whole lines. False at its end. */
static bool
take(struct access_source *s)
{
    for (size_t total = 0; total < PIPE_BYTES;) {
        ssize_t n = read(s->fd, s->data + s->rest, sizeof(s->data) - s->rest);
        size_t have, whole;
        const char *end;

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return n < 0 && errno == EAGAIN;
        }
        total += (size_t)n;
        have = s->rest + (size_t)n;
        end = memrchr(s->data, '\n', have);
        whole = end != NULL ? (size_t)(end - s->data) + 1 : 0;
        if (whole == 0 && have == sizeof(s->data)) {
            whole = have; /* no line of ours */
        }
        if (whole > 0) {
            log_sink_add(s->sink, s->data, whole);
        }
        s->rest = have - whole;
        memmove(s->data, s->data + whole, s->rest);
    }
    return true;
}

static void on_readable(uv_poll_t *poll, int status, int events);

static void
on_gathered(uv_timer_t *timer)
{
    struct access_source *s = timer->data;

    if (!take(s) || uv_poll_start(&s->poll, UV_READABLE, on_readable) != 0) {
        close_source(s);
    }
}

static void
on_readable(uv_poll_t *poll, int status, int events)
{
    struct access_source *s = poll->data;

    (void)status;
    (void)events;
    uv_poll_stop(poll);
    uv_timer_start(&s->gather, on_gathered, GATHER_MS, 0);
}

int
access_relay_open(uv_loop_t *loop, struct log_sink *sink, int *ret_fd)
{
    struct access_source *s = calloc(1, sizeof(*s));
    int fd[2], rc;

    if (s == NULL) {
        return -ENOMEM;
    }
    if (pipe2(fd, O_CLOEXEC | O_NONBLOCK) != 0) {
        rc = -errno;
        free(s);
        return rc;
    }
    fcntl(fd[1], F_SETPIPE_SZ, PIPE_BYTES);
    s->fd = fd[0];
    rc = uv_poll_init(loop, &s->poll, s->fd);
    if (rc != 0) {
        close(fd[0]);
        close(fd[1]);
        free(s);
        return rc;
    }
    uv_timer_init(loop, &s->gather);
    s->poll.data = s->gather.data = s;
    s->sink = log_sink_hold(sink);
    s->next = sources;
    sources = s;
    rc = uv_poll_start(&s->poll, UV_READABLE, on_readable);
    if (rc != 0) {
        close(fd[1]);
        close_source(s);
        return rc;
    }
    *ret_fd = fd[1];
    return 0;
}

void
access_relay_drain(void)
{
    for (struct access_source *s = sources, *next; s != NULL; s = next) {
        next = s->next;
        take(s);
        close_source(s);
    }
}
