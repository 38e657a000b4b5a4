/* SPDX-License-Identifier: MIT
 *
 * See log_relay.h.
 */
#include "server/log_relay.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "protocol/buf.h"
#include "server/log.h"

enum { READ_BYTES = 65536 };

struct log_source {
    uv_pipe_t pipe;
    uv_timer_t patience; /* for the rest of `line` */
    struct log_source *next;
    struct buf line; /* what came behind the last newline; all that came while
                        the pid is not known */
    char pool[64];
    int pid;                     /* 0: not known yet */
    struct log_sink *log, *slow; /* held, or NULL */
    int open_handles;
};

static struct {
    struct log_source *sources;
    char read[READ_BYTES];
} relay;

static void
emit_text(struct log_source *s, char level, const char *text, size_t len)
{
    struct log_sink *sink = level == 'S' && s->slow != NULL ? s->slow : s->log;
    char who[96];

    snprintf(who, sizeof(who), "%s[%d]", s->pool, s->pid);
    log_relay(sink != NULL ? log_sink_output(sink) : NULL, level, who, text,
              len);
}

/* A line as it came out of the pipe. A message of the server may stand behind a
 * piece of text that the application wrote without a newline. */
static void
emit(struct log_source *s, const char *text, size_t len)
{
    const char *mark = memmem(text, len, LOG_MARK, LOG_MARK_LEN);
    size_t before = mark != NULL ? (size_t)(mark - text) : len;

    if (mark == NULL || len - before <= LOG_MARK_LEN) {
        emit_text(s, 'A', text, len);
        return;
    }
    if (before > 0) {
        emit_text(s, 'A', text, before);
    }
    emit_text(s, mark[LOG_MARK_LEN], mark + LOG_MARK_LEN + 1,
              len - before - LOG_MARK_LEN - 1);
}

static void
emit_rest(struct log_source *s)
{
    if (s->line.len > 0) {
        emit(s, s->line.data, s->line.len);
        buf_clear(&s->line);
    }
    if (s->line.cap > READ_BYTES) {
        buf_release(&s->line);
    }
}

/* Add to the line that is begun, and break it where it is beyond all measure.
 * Returns how many bytes were taken. */
static size_t
add_to_line(struct log_source *s, const char *data, size_t len)
{
    size_t room = LOG_RELAY_LINE_MAX - s->line.len;
    size_t n = len < room ? len : room;

    if (buf_append(&s->line, data, n) != 0) { /* out of memory */
        emit_rest(s);
        emit(s, data, n);
    } else if (n < len) {
        emit_rest(s);
    }
    return n;
}

static void
take(struct log_source *s, const char *data, size_t len)
{
    while (len > 0) {
        const char *end = memchr(data, '\n', len);
        size_t n = end != NULL ? (size_t)(end - data) : len;

        if (end == NULL || s->line.len > 0) {
            size_t used = add_to_line(s, data, n);

            if (used < n || end == NULL) {
                data += used;
                len -= used;
                continue;
            }
            emit_rest(s);
        } else {
            emit(s, data, n);
        }
        data += n + 1;
        len -= n + 1;
    }
}

/* Lines that waited for the pid. */
static void
take_held(struct log_source *s)
{
    struct buf held = s->line;

    buf_init(&s->line, LOG_RELAY_LINE_MAX);
    take(s, held.data, held.len);
    buf_release(&held);
}

/* Somebody wrote without a newline and says no more. */
static void
on_patience(uv_timer_t *timer)
{
    struct log_source *s = timer->data;

    if (s->pid == 0) {
        take_held(s);
    }
    emit_rest(s);
}

static void
on_closed(uv_handle_t *handle)
{
    struct log_source *s = handle->data;

    if (--s->open_handles > 0) {
        return;
    }
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
    if (s->pid == 0) {
        take_held(s);
    }
    emit_rest(s);
    if (!uv_is_closing((uv_handle_t *)&s->pipe)) {
        s->open_handles = 2;
        uv_close((uv_handle_t *)&s->pipe, on_closed);
        uv_close((uv_handle_t *)&s->patience, on_closed);
        log_sink_release(s->log);
        log_sink_release(s->slow);
        s->log = s->slow = NULL;
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
        if (s->pid != 0) {
            take(s, data->base, (size_t)n);
        } else if (buf_append(&s->line, data->base, (size_t)n) != 0) {
            take_held(s);
            take(s, data->base, (size_t)n);
        }
        if (s->line.len > 0) {
            uv_timer_start(&s->patience, on_patience, LOG_RELAY_PATIENCE_MS, 0);
        } else {
            uv_timer_stop(&s->patience);
        }
    } else if (n < 0) {
        close_source(s);
    }
}

struct log_source *
log_source_open(uv_loop_t *loop, int fd, const char *pool, struct log_sink *log,
                struct log_sink *slow)
{
    struct log_source *s = calloc(1, sizeof(*s));

    if (s == NULL) {
        close(fd);
        return NULL;
    }
    buf_init(&s->line, LOG_RELAY_LINE_MAX);
    snprintf(s->pool, sizeof(s->pool), "%s", pool);
    s->log = log_sink_hold(log);
    s->slow = log_sink_hold(slow);
    uv_pipe_init(loop, &s->pipe, 0);
    uv_timer_init(loop, &s->patience);
    s->pipe.data = s->patience.data = s;
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
    /* It may be gone already: a process can end before anybody knows its
     * number. */
    for (struct log_source *each = relay.sources; each != NULL;
         each = each->next) {
        if (each == s) {
            s->pid = pid;
            take_held(s);
        }
    }
}

void
log_relay_drain(void)
{
    for (struct log_source *s = relay.sources; s != NULL; s = s->next) {
        uv_os_fd_t fd;

        if (uv_is_closing((uv_handle_t *)&s->pipe)) {
            continue;
        }
        if (uv_fileno((uv_handle_t *)&s->pipe, &fd) == 0) {
            ssize_t n;

            while ((n = read(fd, relay.read, sizeof(relay.read))) > 0) {
                take(s, relay.read, (size_t)n);
            }
        }
        close_source(s);
    }
}
