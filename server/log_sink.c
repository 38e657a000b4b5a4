/* SPDX-License-Identifier: MIT
 *
 * See log_sink.h. The lines of a sink wait in `queue`; when nothing is being
 * written they become the `flight`, which one call of log_target_write() writes
 * as far as it goes. advance() starts that call, on the loop or on the thread
 * pool, and settle() looks what came of it.
 */
#include "server/log_sink.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syslog.h>
#include <unistd.h>

#include "protocol/buf.h"
#include "server/log_target.h"

/* No room: look again, sooner when somebody reads. Failed: try again. */
enum {
    ROOM_MS = 50,
    READ_MS = 2,
    RETRY_MS = 1000,
    KEEP_BYTES = 256 * 1024,
};

struct log_sink {
    struct log_output output;
    struct log_target target; /* of the thread while busy */
    char *name;
    uv_loop_t *loop;
    struct log_sink *next;
    unsigned holders;

    struct buf queue;  /* whole lines */
    struct buf flight; /* whole lines, of which `sent` bytes are written */
    size_t sent;
    unsigned long lost; /* lines dropped and not yet told */
    int failed;         /* error of the last attempt, told; 0: fine */

    bool busy;   /* an attempt is under way */
    bool reopen; /* wanted */
    uv_timer_t retry;
    uv_work_t work;

    /* Of one attempt. */
    bool reopening;
    int reopen_rc;
    char reopen_why[512];
    int rc;
    size_t taken;
};

/* Somebody who waits until all are reopened. */
struct waiter {
    void (*done)(const char *why, void *ctx);
    void *ctx;
    struct waiter *next;
};

static struct log_sink *sinks;
static struct waiter *waiters;
static char reopen_failed[512]; /* since the last time waiters were told */

static void advance(struct log_sink *s);

/* -- telling ----------------------------------------------------------------
 */

static bool
has_room(int fd)
{
    struct pollfd p = { .fd = fd, .events = POLLOUT };

    return poll(&p, 1, 0) == 1 && (p.revents & POLLOUT) != 0;
}

/* What is wrong with this sink, into the log. When it is the log itself that
 * fails, on descriptor 2 as well, if that is another one. */
static void __attribute__((format(printf, 2, 3)))
tell(struct log_sink *s, const char *fmt, ...)
{
    char text[1024];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    log_warnx("log %s: %s", s->name, text);
    if (log_get_output() == &s->output && s->target.fd != STDERR_FILENO &&
        has_room(STDERR_FILENO)) {
        log_set_output(NULL);
        log_warnx("log %s: %s", s->name, text);
        log_set_output(&s->output);
    }
}

static unsigned long
count_lines(const char *data, size_t len)
{
    unsigned long n = 0;
    const char *end;

    while ((end = memchr(data, '\n', len)) != NULL) {
        n++;
        len -= (size_t)(end - data) + 1;
        data = end + 1;
    }
    return n;
}

static unsigned long
lines_left(const struct log_sink *s)
{
    unsigned long n = 0;

    if (s->flight.len > s->sent) {
        n = count_lines(s->flight.data + s->sent, s->flight.len - s->sent);
    }
    return s->queue.len > 0 ? n + count_lines(s->queue.data, s->queue.len) : n;
}

/* -- one attempt ------------------------------------------------------------
 */

static bool
is_empty(const struct log_sink *s)
{
    return s->flight.len == 0 && s->queue.len == 0;
}

static void
empty(struct buf *b)
{
    buf_clear(b);
    if (b->cap > KEEP_BYTES) {
        buf_release(b);
    }
}

static void
prepare(struct log_sink *s)
{
    if (s->flight.len == 0) {
        struct buf spare = s->flight;

        s->flight = s->queue;
        s->queue = spare;
        s->sent = 0;
    }
    s->reopening = s->reopen;
    s->reopen = false;
    s->rc = 0;
    s->taken = 0;
}

/* On the thread pool, or on the loop where nothing takes time. */
static void
attempt(struct log_sink *s)
{
    if (s->reopening) {
        s->reopen_rc = log_target_reopen(&s->target, s->name, s->reopen_why,
                                         sizeof(s->reopen_why));
        if (s->reopen_rc == 0) {
            /* A line that is half in the old file is whole in the new one. */
            const char *end =
                s->sent > 0 ? memrchr(s->flight.data, '\n', s->sent) : NULL;

            s->sent = end != NULL ? (size_t)(end - s->flight.data) + 1 : 0;
        }
    }
    if (s->sent < s->flight.len) {
        s->rc = log_target_write(&s->target, s->flight.data + s->sent,
                                 s->flight.len - s->sent, &s->taken);
    }
}

static void
on_retry(uv_timer_t *timer)
{
    advance(timer->data);
}

static void
reopened(struct log_sink *s)
{
    if (s->reopen_rc == 0) {
        log_debug("log %s: opened anew", s->name);
        return;
    }
    memcpy(reopen_failed, s->reopen_why, sizeof(reopen_failed));
    tell(s, "cannot be opened anew (%s); the old file goes on", s->reopen_why);
}

/* Nothing else takes lines that a broken pipe or a closed terminal refuses. */
static void
drop_all(struct log_sink *s)
{
    s->lost += lines_left(s);
    empty(&s->flight);
    empty(&s->queue);
    s->sent = 0;
}

static void
failed(struct log_sink *s)
{
    if (s->rc == -EAGAIN) {
        uv_timer_start(&s->retry, on_retry, s->taken > 0 ? READ_MS : ROOM_MS,
                       0);
        return;
    }
    if (s->target.fd == STDERR_FILENO && s->target.kind == TARGET_STREAM) {
        drop_all(s);
        return;
    }
    if (s->failed == 0) {
        tell(s, "cannot be written: %s; up to %d MB are kept and tried again",
             strerror(-s->rc), LOG_SINK_QUEUE_MAX >> 20);
    }
    s->failed = s->rc;
    uv_timer_start(&s->retry, on_retry, RETRY_MS, 0);
}

static void
went_well(struct log_sink *s)
{
    unsigned long lost = s->lost;

    if (s->failed != 0) {
        s->failed = 0;
        tell(s, "is written again");
    }
    if (lost > 0 && is_empty(s)) {
        s->lost = 0;
        tell(s, "%lu lines were dropped while it took no more", lost);
    }
}

static void
settle(struct log_sink *s)
{
    s->sent += s->taken;
    if (s->sent == s->flight.len) {
        empty(&s->flight);
        s->sent = 0;
    }
    if (s->reopening) {
        s->reopening = false;
        reopened(s);
    }
    if (s->rc < 0) {
        failed(s);
    } else {
        went_well(s);
    }
}

/* -- the sink goes on -------------------------------------------------------
 */

static void
on_closed(uv_handle_t *handle)
{
    struct log_sink *s = handle->data;

    log_target_close(&s->target);
    buf_release(&s->queue);
    buf_release(&s->flight);
    free(s->name);
    free(s);
}

static void
close_sink(struct log_sink *s)
{
    for (struct log_sink **at = &sinks; *at != NULL; at = &(*at)->next) {
        if (*at == s) {
            *at = s->next;
            break;
        }
    }
    uv_close((uv_handle_t *)&s->retry, on_closed);
}

static bool
is_reopening(void)
{
    for (struct log_sink *s = sinks; s != NULL; s = s->next) {
        if (s->reopen || s->reopening) {
            return true;
        }
    }
    return false;
}

static void
tell_waiters(void)
{
    struct waiter *all = waiters;
    char why[sizeof(reopen_failed)];

    if (is_reopening()) {
        return;
    }
    memcpy(why, reopen_failed, sizeof(why));
    reopen_failed[0] = '\0';
    waiters = NULL;
    while (all != NULL) {
        struct waiter *w = all;

        all = w->next;
        w->done(why[0] != '\0' ? why : NULL, w->ctx);
        free(w);
    }
}

static void
in_thread(uv_work_t *work)
{
    attempt(work->data);
}

static void
on_attempted(uv_work_t *work, int status)
{
    struct log_sink *s = work->data;

    (void)status;
    settle(s);
    s->busy = false;
    advance(s);
    tell_waiters();
}

static void
advance(struct log_sink *s)
{
    while (!s->busy && !uv_is_active((uv_handle_t *)&s->retry) &&
           (s->reopen || !is_empty(s))) {
        s->busy = true;
        prepare(s);
        if ((log_target_is_slow(&s->target) ||
             (s->reopening && s->target.is_path)) &&
            uv_queue_work(s->loop, &s->work, in_thread, on_attempted) == 0) {
            return;
        }
        attempt(s);
        settle(s); /* what it tells may come back to this sink: busy */
        s->busy = false;
    }
    if (s->holders == 0 && !s->busy && is_empty(s)) {
        close_sink(s);
    }
}

/* -- lines come in ----------------------------------------------------------
 */

static int
severity(char level)
{
    switch (level) {
    case 'E':
        return LOG_ERR;
    case 'W':
    case 'S':
        return LOG_WARNING;
    case 'D':
        return LOG_DEBUG;
    default:
        return LOG_INFO;
    }
}

/* With the digit in front of each line. 0 or -1, and then nothing was added. */
static int
add_bare(struct log_sink *s, char level, const char *lines, size_t len)
{
    size_t before = s->queue.len;
    char digit = (char)('0' + severity(level));

    while (len > 0) {
        const char *end = memchr(lines, '\n', len);
        size_t n = end != NULL ? (size_t)(end - lines) + 1 : len;

        if (buf_append(&s->queue, &digit, 1) != 0 ||
            buf_append(&s->queue, lines, n) != 0) {
            s->queue.len = before;
            return -1;
        }
        lines += n;
        len -= n;
    }
    return 0;
}

static void
add(struct log_output *out, char level, const char *lines, size_t len)
{
    struct log_sink *s = (struct log_sink *)out;
    int rc = -1;

    if (s->queue.len + s->flight.len + len <= LOG_SINK_QUEUE_MAX) {
        rc = out->bare ? add_bare(s, level, lines, len)
                       : buf_append(&s->queue, lines, len);
    }
    if (rc != 0) {
        s->lost += count_lines(lines, len);
    }
    advance(s);
}

void
log_sink_add(struct log_sink *s, const char *lines, size_t len)
{
    add(&s->output, 'I', lines, len);
}

struct log_output *
log_sink_output(struct log_sink *s)
{
    return &s->output;
}

/* -- open, reopen, close ----------------------------------------------------
 */

static struct log_sink *
find(const char *name)
{
    for (struct log_sink *s = sinks; s != NULL; s = s->next) {
        if (strcmp(s->name, name) == 0) {
            return s;
        }
    }
    return NULL;
}

struct log_sink *
log_sink_open(uv_loop_t *loop, const char *target, char *why, size_t size)
{
    struct log_sink *s = find(target);

    if (s != NULL) {
        return log_sink_hold(s);
    }
    s = calloc(1, sizeof(*s));
    if (s == NULL || (s->name = strdup(target)) == NULL) {
        snprintf(why, size, "out of memory");
        free(s);
        return NULL;
    }
    if (log_target_open(&s->target, target, why, size) != 0) {
        free(s->name);
        free(s);
        return NULL;
    }
    s->output.write = add;
    s->output.bare = log_target_is_bare(&s->target);
    s->output.coloured = s->target.fd == STDERR_FILENO &&
                         getenv("NO_COLOR") == NULL && isatty(s->target.fd);
    s->loop = loop;
    s->holders = 1;
    s->work.data = s;
    buf_init(&s->queue, LOG_SINK_QUEUE_MAX);
    buf_init(&s->flight, LOG_SINK_QUEUE_MAX);
    uv_timer_init(loop, &s->retry);
    s->retry.data = s;
    s->next = sinks;
    sinks = s;
    return s;
}

struct log_sink *
log_sink_hold(struct log_sink *s)
{
    if (s != NULL) {
        s->holders++;
    }
    return s;
}

void
log_sink_release(struct log_sink *s)
{
    if (s != NULL && --s->holders == 0) {
        advance(s);
    }
}

void
log_sink_reopen(void (*done)(const char *why, void *ctx), void *ctx)
{
    struct waiter *w = done != NULL ? malloc(sizeof(*w)) : NULL;
    struct log_sink *next;

    if (w != NULL) {
        *w = (struct waiter){ done, ctx, waiters };
        waiters = w;
    } else if (done != NULL) {
        done("out of memory", ctx);
    }
    for (struct log_sink *s = sinks; s != NULL; s = next) {
        next = s->next;
        s->reopen = true;
        uv_timer_stop(&s->retry);
        advance(s);
    }
    tell_waiters();
}

/* -- the end ----------------------------------------------------------------
 */

static bool
all_done(void)
{
    for (struct log_sink *s = sinks; s != NULL; s = s->next) {
        if (s->busy || (!is_empty(s) && s->failed == 0)) {
            return false;
        }
    }
    return true;
}

static void
tell_left(const struct log_sink *s)
{
    unsigned long n = s->lost + lines_left(s);

    if (n > 0 && has_room(STDERR_FILENO)) {
        log_warnx("log %s: %lu lines could not be written%s%s", s->name, n,
                  s->failed != 0 ? ": " : "",
                  s->failed != 0 ? strerror(-s->failed) : "");
    }
}

static void
on_limit(uv_timer_t *timer)
{
    *(bool *)timer->data = true;
}

bool
log_sink_finish(uv_loop_t *loop, unsigned timeout_ms)
{
    static uv_timer_t limit; /* closed with the loop */
    bool late = false, whole = true;

    while (waiters != NULL) { /* nobody is there any more to be told */
        struct waiter *w = waiters;

        waiters = w->next;
        free(w);
    }
    uv_timer_init(loop, &limit);
    limit.data = &late;
    uv_timer_start(&limit, on_limit, timeout_ms, 0);
    for (struct log_sink *s = sinks, *next; s != NULL; s = next) {
        next = s->next;
        uv_timer_stop(&s->retry);
        advance(s);
    }
    while (!all_done() && !late) {
        uv_run(loop, UV_RUN_ONCE);
    }
    uv_timer_stop(&limit);
    log_set_output(NULL);
    for (struct log_sink *s = sinks, *next; s != NULL; s = next) {
        next = s->next;
        if (s->busy) {
            whole = false; /* its thread may yet come to an end */
            continue;
        }
        tell_left(s);
        close_sink(s);
    }
    return whole;
}
