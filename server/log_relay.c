/* SPDX-License-Identifier: MIT
 *
 * See log_relay.h.
 */
#include "server/log_relay.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "protocol/buf.h"
#include "server/clock.h"
#include "server/log.h"

/* POLLOUT on a pipe promises room for this much (pipe(7), PIPE_BUF). */
enum { WRITE_BYTES = 4096, RETRY_MS = 50, READ_BYTES = 65536 };

struct log_source {
    uv_pipe_t pipe;
    struct log_source *next;
    struct buf line; /* what came behind the last newline */
    char pool[64];
    int pid;
};

static struct {
    uv_timer_t retry;
    struct buf queue;
    size_t written;     /* bytes at the front of queue */
    unsigned long lost; /* lines dropped and not yet told */
    struct log_source *sources;
    bool running;
    char read[READ_BYTES];
} relay;

/* -- out --------------------------------------------------------------------
 */

static void
write_queue(void)
{
    while (relay.written < relay.queue.len) {
        struct pollfd p = { .fd = STDERR_FILENO, .events = POLLOUT };
        size_t n = relay.queue.len - relay.written;
        ssize_t rc;

        if (poll(&p, 1, 0) == 0) {
            return;
        }
        n = n < WRITE_BYTES ? n : WRITE_BYTES;
        rc = write(STDERR_FILENO, relay.queue.data + relay.written, n);
        if (rc < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        }
        /* A broken log (full disk, closed pipe) costs these bytes, never the
         * service. */
        relay.written += rc > 0 ? (size_t)rc : n;
    }
    buf_clear(&relay.queue);
    relay.written = 0;
}

static void
on_retry(uv_timer_t *timer)
{
    write_queue();
    if (relay.queue.len == 0) {
        unsigned long lost = relay.lost;

        uv_timer_stop(timer);
        relay.lost = 0;
        if (lost > 0) {
            log_warnx("the log was not read: %lu messages were dropped", lost);
        }
    }
}

static void
enqueue(const char *data, size_t len)
{
    if (relay.written > LOG_RELAY_QUEUE_MAX / 2) {
        memmove(relay.queue.data, relay.queue.data + relay.written,
                relay.queue.len - relay.written);
        relay.queue.len -= relay.written;
        relay.written = 0;
    }
    if (buf_append(&relay.queue, data, len) != 0) {
        relay.lost++;
    }
    write_queue();
    if (relay.queue.len > 0 && !uv_is_active((uv_handle_t *)&relay.retry)) {
        uv_timer_start(&relay.retry, on_retry, RETRY_MS, RETRY_MS);
    }
}

void
log_relay_start(uv_loop_t *loop)
{
    buf_init(&relay.queue, LOG_RELAY_QUEUE_MAX);
    uv_timer_init(loop, &relay.retry);
    relay.running = true;
    log_set_output(enqueue);
}

void
log_relay_finish(unsigned timeout_ms)
{
    uint64_t until = clock_now_ns() + (uint64_t)timeout_ms * NS_PER_MS;

    if (!relay.running) {
        return;
    }
    write_queue();
    while (relay.queue.len > 0 && clock_now_ns() < until) {
        struct pollfd p = { .fd = STDERR_FILENO, .events = POLLOUT };

        poll(&p, 1, RETRY_MS);
        write_queue();
    }
    log_set_output(NULL);
    buf_release(&relay.queue);
    uv_close((uv_handle_t *)&relay.retry, NULL);
    relay.running = false;
}

/* -- in ---------------------------------------------------------------------
 */

static void
emit(struct log_source *s, const char *text, size_t len)
{
    char who[96];

    snprintf(who, sizeof(who), "%s[%d]", s->pool, s->pid);
    if (len >= 2 && text[0] == LOG_MARK) {
        log_relay(text[1], who, text + 2, len - 2);
    } else {
        log_relay('A', who, text, len);
    }
}

static void
take(struct log_source *s, const char *data, size_t len)
{
    while (len > 0) {
        const char *end = memchr(data, '\n', len);
        size_t n = end != NULL ? (size_t)(end - data) : len;

        if (end != NULL && s->line.len == 0) {
            emit(s, data, n);
        } else {
            size_t room = LOG_RELAY_LINE_MAX - s->line.len;
            size_t part = n < room ? n : room;

            if (buf_append(&s->line, data, part) != 0) {
                buf_clear(&s->line);
            }
            if (end != NULL || part < n) {
                emit(s, s->line.data, s->line.len);
                buf_clear(&s->line);
            }
            if (part < n) { /* a line beyond all measure: go on behind it */
                data += part;
                len -= part;
                continue;
            }
        }
        n += end != NULL;
        data += n;
        len -= n;
    }
    if (s->line.len == 0 && s->line.cap > READ_BYTES) {
        buf_release(&s->line);
    }
}

static void
on_closed(uv_handle_t *handle)
{
    struct log_source *s = handle->data;

    for (struct log_source **p = &relay.sources; *p != NULL; p = &(*p)->next) {
        if (*p == s) {
            *p = s->next;
            break;
        }
    }
    buf_release(&s->line);
    free(s);
}

static void
close_source(struct log_source *s)
{
    if (s->line.len > 0) {
        emit(s, s->line.data, s->line.len);
        buf_clear(&s->line);
    }
    if (!uv_is_closing((uv_handle_t *)&s->pipe)) {
        uv_close((uv_handle_t *)&s->pipe, on_closed);
    }
}

static void
on_alloc(uv_handle_t *handle, size_t size, uv_buf_t *ret)
{
    (void)handle;
    (void)size;
    *ret = uv_buf_init(relay.read, sizeof(relay.read));
}

static void
on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *data)
{
    struct log_source *s = stream->data;

    if (n > 0) {
        take(s, data->base, (size_t)n);
    } else if (n < 0) {
        close_source(s);
    }
}

struct log_source *
log_source_open(uv_loop_t *loop, int fd, const char *pool)
{
    struct log_source *s = calloc(1, sizeof(*s));

    if (s == NULL) {
        close(fd);
        return NULL;
    }
    buf_init(&s->line, LOG_RELAY_LINE_MAX);
    snprintf(s->pool, sizeof(s->pool), "%s", pool);
    uv_pipe_init(loop, &s->pipe, 0);
    s->pipe.data = s;
    s->next = relay.sources;
    relay.sources = s;
    if (uv_pipe_open(&s->pipe, fd) != 0 ||
        uv_read_start((uv_stream_t *)&s->pipe, on_alloc, on_read) != 0) {
        close_source(s);
        return NULL;
    }
    return s;
}

void
log_source_pid(struct log_source *s, int pid)
{
    if (s != NULL) {
        s->pid = pid;
    }
}

void
log_relay_drain(void)
{
    for (struct log_source *s = relay.sources; s != NULL; s = s->next) {
        uv_os_fd_t fd;

        if (uv_fileno((uv_handle_t *)&s->pipe, &fd) == 0) {
            ssize_t n;

            while ((n = read(fd, relay.read, sizeof(relay.read))) > 0) {
                take(s, relay.read, (size_t)n);
            }
        }
        close_source(s);
    }
}
