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
#include "server/log_pipe.h"

enum { READ_BYTES = 65536 };

/* The beginning of a line of one thread. */
struct piece {
    struct piece *next;
    struct buf text;
    char id[LOG_ID_LEN];
};

struct log_source {
    uv_pipe_t pipe;
    uv_timer_t patience; /* for the rest of `line` */
    struct log_source *next;
    struct buf line; /* what came behind the last newline; all that came while
                        the pid is not known */
    char pool[64];
    int pid; /* 0: not known yet */
    struct piece *pieces;
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

static struct piece *
find_piece(struct log_source *s, const char *id)
{
    struct piece *p = s->pieces;

    while (p != NULL && memcmp(p->id, id, sizeof(p->id)) != 0) {
        p = p->next;
    }
    return p;
}

static void
end_piece(struct log_source *s, struct piece *piece)
{
    struct piece **at = &s->pieces;

    while (*at != piece) {
        at = &(*at)->next;
    }
    *at = piece->next;
    if (piece->text.len > 0) {
        emit_text(s, 'A', piece->text.data, piece->text.len);
    }
    buf_release(&piece->text);
    free(piece);
}

/* More of the line of a thread: LOG_ID_LEN digits and the text. */
static void
add_piece(struct log_source *s, const char *text, size_t len, bool last)
{
    struct piece *p = find_piece(s, text);

    if (p == NULL && last && len == LOG_ID_LEN) {
        return; /* its beginning was lost */
    }
    if (p == NULL) {
        p = calloc(1, sizeof(*p));
        if (p == NULL) {
            emit_text(s, 'A', text + LOG_ID_LEN, len - LOG_ID_LEN);
            return;
        }
        memcpy(p->id, text, sizeof(p->id));
        buf_init(&p->text, LOG_RELAY_LINE_MAX);
        p->next = s->pieces;
        s->pieces = p;
    }
    text += LOG_ID_LEN;
    len -= LOG_ID_LEN;
    if (buf_append(&p->text, text, len) != 0) { /* too long: it is broken */
        emit_text(s, 'A', p->text.data, p->text.len);
        buf_clear(&p->text);
        buf_append(&p->text, text, len);
    }
    if (last) {
        end_piece(s, p);
    }
}

/* With a level behind it; NULL: there is none. */
static const char *
find_mark(const char *text, size_t len)
{
    return len > LOG_MARK_LEN ? memmem(text, len - 1, LOG_MARK, LOG_MARK_LEN)
                              : NULL;
}

/* A mark, a level, and what follows. */
static void
emit_marked(struct log_source *s, const char *text, size_t len)
{
    char level = text[LOG_MARK_LEN];

    text += LOG_MARK_LEN + 1;
    len -= LOG_MARK_LEN + 1;
    if ((level == 'P' || level == 'Q') && len >= LOG_ID_LEN) {
        add_piece(s, text, len, level == 'Q');
    } else {
        emit_text(s, level, text, len);
    }
}

/* A line as it came out of the pipe. A mark may stand behind text that was
 * written past Python without a newline, or behind what a full pipe has cut. */
static void
emit(struct log_source *s, const char *text, size_t len)
{
    const char *mark = find_mark(text, len);
    size_t n = mark != NULL ? (size_t)(mark - text) : len;

    if (n > 0 || mark == NULL) {
        emit_text(s, 'A', text, n);
    }
    while (mark != NULL) {
        text += n;
        len -= n;
        mark = find_mark(text + LOG_MARK_LEN + 1, len - LOG_MARK_LEN - 1);
        n = mark != NULL ? (size_t)(mark - text) : len;
        emit_marked(s, text, n);
    }
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
    while (s->pieces != NULL) {
        end_piece(s, s->pieces);
    }
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
