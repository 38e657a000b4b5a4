/* SPDX-License-Identifier: MIT
 *
 * Shared by the tests and the fuzz harnesses of protocol/: bytes are fed to a
 * decoder in pieces, and what comes out is written down as a transcript, which
 * must not depend on where the pieces were cut. Every piece is handed over at
 * the very end of a page that is followed by one that cannot be read, and is
 * overwritten after the call.
 *
 * No cmocka in here: what fails, aborts.
 */
#ifndef FOREBAY_TESTS_PROTOCOL_UTIL_H
#define FOREBAY_TESTS_PROTOCOL_UTIL_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "protocol/decoder.h"
#include "protocol/fcgi.h"

#define UTIL_UNUSED __attribute__((unused))

static UTIL_UNUSED void
util_check(bool ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "protocol_util: %s\n", what);
        abort();
    }
}

/* -- a piece of memory with nothing behind it --------------------------------
 */

struct guard {
    char *map;
    size_t size; /* readable bytes; the page behind them is not */
};

static UTIL_UNUSED void
guard_init(struct guard *g, size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    g->size = (size + page) / page * page;
    g->map = mmap(NULL, g->size + page, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    util_check(g->map != MAP_FAILED, "mmap failed");
    util_check(mprotect(g->map + g->size, page, PROT_NONE) == 0,
               "mprotect failed");
}

static UTIL_UNUSED void
guard_release(struct guard *g)
{
    munmap(g->map, g->size + (size_t)sysconf(_SC_PAGESIZE));
    g->map = NULL;
}

/* A copy of len bytes whose last one is the last readable byte. */
static UTIL_UNUSED char *
guard_put(struct guard *g, const void *data, size_t len)
{
    char *p = g->map + g->size - len;

    util_check(len <= g->size, "guard too small");
    if (len > 0) {
        memcpy(p, data, len);
    }
    return p;
}

/* -- text
 * ---------------------------------------------------------------------- */

static UTIL_UNUSED void put_text(struct buf *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static UTIL_UNUSED void
put_text(struct buf *b, const char *fmt, ...)
{
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    util_check(n >= 0 && buf_reserve(b, (size_t)n + 1) == 0, "no memory");
    va_start(ap, fmt);
    vsnprintf(b->data + b->len, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->len += (size_t)n;
}

/* Short bytes escaped; of long ones length and a hash (FNV-1a). */
static UTIL_UNUSED void
put_bytes(struct buf *b, const char *data, size_t len)
{
    char text[4 * 64 + 1];

    if (len <= 64) {
        request_escape(text, sizeof(text), data, len);
        put_text(b, "%s", text);
    } else {
        uint64_t hash = 0xcbf29ce484222325u;
        size_t i;

        for (i = 0; i < len; i++) {
            hash = (hash ^ (unsigned char)data[i]) * 0x100000001b3u;
        }
        put_text(b, "<%zu bytes %016llx>", len, (unsigned long long)hash);
    }
}

/* -- running a decoder
 * --------------------------------------------------------- */

/* When the request counts as answered. */
enum end_when { END_NEVER, END_AT_HEAD, END_AT_BODY_END };

struct run {
    struct decoder d;
    struct guard guard;
    enum end_when end_when;
    bool direct;     /* take body bytes past the decoder where it allows it */
    struct buf out;  /* the transcript */
    struct buf body; /* of body_event, not yet written down */
    int body_event;  /* DECODE_BODY or DECODE_DATA, -1 none */
    unsigned body_id;
    bool stopped; /* DECODE_BAD was seen */
};

static UTIL_UNUSED void
run_init(struct run *run, enum decoder_kind kind,
         const struct request_limits *limits, size_t longest)
{
    memset(run, 0, sizeof(*run));
    decoder_init(&run->d, kind, limits);
    guard_init(&run->guard, longest);
    buf_init(&run->out, SIZE_MAX / 2);
    buf_init(&run->body, SIZE_MAX / 2);
    run->body_event = -1;
}

static UTIL_UNUSED void
run_release(struct run *run)
{
    decoder_release(&run->d);
    guard_release(&run->guard);
    buf_release(&run->out);
    buf_release(&run->body);
}

static UTIL_UNUSED void
run_flush_body(struct run *run)
{
    if (run->body_event >= 0) {
        put_text(&run->out, "%s %u ",
                 run->body_event == DECODE_BODY ? "BODY" : "DATA",
                 run->body_id);
        put_bytes(&run->out, run->body.data, run->body.len);
        put_text(&run->out, "\n");
    }
    run->body_event = -1;
    buf_clear(&run->body);
}

static UTIL_UNUSED void
run_put_body(struct run *run, int event, unsigned id, const char *data,
             size_t len)
{
    if (run->body_event != event || run->body_id != id) {
        run_flush_body(run);
    }
    run->body_event = event;
    run->body_id = id;
    util_check(buf_append(&run->body, data, len) == 0, "no memory");
}

static UTIL_UNUSED void
run_put_refused(struct run *run, const struct request *r)
{
    if (r->refuse_status != 0) {
        put_text(&run->out, "  refused %d: %s\n", r->refuse_status,
                 r->refuse_why);
    }
}

static UTIL_UNUSED void
run_put_head(struct run *run, const struct request *r)
{
    unsigned i;

    put_text(&run->out, "HEAD %u role=%d keep=%d length=%lld%s%s\n", r->id,
             (int)r->role, r->keep_conn, (long long)r->content_length,
             r->body_done ? " body_done" : "", r->aborted ? " aborted" : "");
    for (i = 0; i < r->param_count; i++) {
        const struct request_param *p = &r->param[i];

        put_text(&run->out, "  ");
        put_bytes(&run->out, r->params.data + p->name, p->name_len);
        put_text(&run->out, "=");
        put_bytes(&run->out, r->params.data + p->value, p->value_len);
        put_text(&run->out, "\n");
    }
    run_put_refused(run, r);
}

/* Write down an event; refused: whether its request was refused before. */
static UTIL_UNUSED void
run_event(struct run *run, enum decode_event ev, const char *piece,
          size_t piece_len, bool refused)
{
    struct decoder *d = &run->d;

    if (ev == DECODE_BODY || ev == DECODE_DATA) {
        util_check(d->data >= piece &&
                       d->data + d->data_len <= piece + piece_len,
                   "body bytes are outside the buffer that was fed");
        util_check(d->data_len > 0 || (ev == DECODE_BODY && !refused &&
                                       d->req->refuse_status != 0),
                   "a body event without a byte");
        if (d->data_len > 0) {
            run_put_body(run, (int)ev, d->req->id, d->data, d->data_len);
        }
        if (!refused && d->req->refuse_status != 0) {
            run_flush_body(run);
            run_put_refused(run, d->req);
        }
        return;
    }
    if (ev == DECODE_MORE) {
        return;
    }
    run_flush_body(run);
    if (ev == DECODE_HEAD) {
        run_put_head(run, d->req);
    } else if (ev == DECODE_BODY_END) {
        put_text(&run->out, "BODY_END %u seen=%llu\n", d->req->id,
                 (unsigned long long)d->req->body_seen);
        util_check(d->req->body_done, "BODY_END without body_done");
    } else if (ev == DECODE_DATA_END) {
        put_text(&run->out, "DATA_END %u\n", d->req->id);
    } else if (ev == DECODE_ABORT) {
        put_text(&run->out, "ABORT %u%s\n", d->req->id,
                 d->req->head_done ? "" : " before its head");
    } else if (ev == DECODE_REPLY) {
        char text[4 * DECODER_REPLY_MAX + 1];

        util_check(d->reply_len <= DECODER_REPLY_MAX, "reply too long");
        request_escape(text, sizeof(text), d->reply, d->reply_len);
        put_text(&run->out, "REPLY %s%s\n", text,
                 d->reply_closes ? " closes" : "");
    } else if (ev == DECODE_BUSY) {
        put_text(&run->out, "BUSY %u\n", d->req->id);
        util_check(d->req->body_done, "BUSY with a body that has not ended");
        decoder_end(d, d->req);
    } else if (ev == DECODE_BAD) {
        put_text(&run->out, "BAD %s\n", d->why);
        run->stopped = true;
    }
    if ((ev == DECODE_HEAD && run->end_when == END_AT_HEAD) ||
        (ev == DECODE_BODY_END && run->end_when == END_AT_BODY_END)) {
        decoder_end(d, d->req);
    }
}

/* The active request whose body bytes come next, when run->direct. */
static UTIL_UNUSED size_t
run_direct(struct run *run, const char *data, size_t len)
{
    struct decoder *d = &run->d;
    unsigned i;

    for (i = 0; run->direct && i < DECODER_MAX_MPX && d->slot[i] != NULL; i++) {
        size_t n = decoder_direct(d, d->slot[i]);

        if (n > 0 && len > 0) {
            n = n < len ? n : len;
            run_put_body(run, DECODE_BODY, d->slot[i]->id, data, n);
            decoder_skip(d, d->slot[i], n);
            return n;
        }
    }
    return 0;
}

/* Feed one piece to its end, events and all. */
static UTIL_UNUSED void
run_feed(struct run *run, const char *data, size_t len)
{
    char *p = guard_put(&run->guard, data, len);
    char *start = p;
    size_t left = len;
    enum decode_event ev = DECODE_HEAD;

    while (!run->stopped && ev != DECODE_MORE) {
        bool refused[DECODER_MAX_MPX];
        size_t used, n = run_direct(run, p, left);
        unsigned i;

        p += n;
        left -= n;
        for (i = 0; i < DECODER_MAX_MPX; i++) {
            refused[i] =
                run->d.slot[i] != NULL && run->d.slot[i]->refuse_status != 0;
        }
        ev = decoder_feed(&run->d, p, left, &used);
        util_check(used <= left, "more was taken than there is");
        util_check(ev != DECODE_MORE || used == left, "MORE left bytes over");
        for (i = 0; i < DECODER_MAX_MPX; i++) {
            if (run->d.slot[i] == run->d.req) {
                break;
            }
        }
        run_event(run, ev, p, used, i < DECODER_MAX_MPX && refused[i]);
        p += used;
        left -= used;
    }
    if (len > 0) {
        memset(start, 0xee, len);
    }
}

/* All is fed; the transcript is finished and NUL-terminated. */
static UTIL_UNUSED const char *
run_finish(struct run *run)
{
    run_flush_body(run);
    if (!run->stopped) {
        put_text(&run->out, "%s\n",
                 decoder_is_idle(&run->d) ? "idle" : "not idle");
    }
    return run->out.data;
}

/* -- building FastCGI
 * ------------------------------------------------------------ */

static UTIL_UNUSED void
put_raw(struct buf *b, const void *data, size_t len)
{
    util_check(buf_append(b, data, len) == 0, "no memory");
}

/* One record; the padding is not zero, to be noticed where it is read. */
static UTIL_UNUSED void
put_record(struct buf *b, int type, unsigned id, const void *data, size_t len,
           unsigned padding)
{
    char header[FCGI_HEADER_LEN];
    unsigned i;

    fcgi_put_header(header, type, id, len, padding);
    put_raw(b, header, sizeof(header));
    put_raw(b, data, len);
    for (i = 0; i < padding; i++) {
        put_raw(b, "\xa5", 1);
    }
}

static UTIL_UNUSED void
put_begin(struct buf *b, unsigned id, unsigned role, unsigned flags)
{
    char body[8] = { (char)(role >> 8), (char)role, (char)flags };

    put_record(b, FCGI_BEGIN_REQUEST, id, body, sizeof(body), 0);
}

static UTIL_UNUSED void
put_pair_n(struct buf *b, const char *name, size_t name_len, const char *value,
           size_t value_len)
{
    char lengths[8];
    size_t n = fcgi_put_length(lengths, (uint32_t)name_len);

    n += fcgi_put_length(lengths + n, (uint32_t)value_len);
    put_raw(b, lengths, n);
    put_raw(b, name, name_len);
    put_raw(b, value, value_len);
}

static UTIL_UNUSED void
put_pair(struct buf *b, const char *name, const char *value)
{
    put_pair_n(b, name, strlen(name), value, strlen(value));
}

/* A stream in records of at most step bytes, with its end. */
static UTIL_UNUSED void
put_stream(struct buf *b, int type, unsigned id, const void *data, size_t len,
           size_t step, unsigned padding)
{
    size_t pos, n;

    for (pos = 0; pos < len; pos += n) {
        n = len - pos < step ? len - pos : step;
        put_record(b, type, id, (const char *)data + pos, n, padding);
    }
    put_record(b, type, id, "", 0, padding);
}

/* BEGIN and the parameters "NAME=VALUE" up to a NULL, and their end. */
static UTIL_UNUSED void
put_head(struct buf *b, unsigned id, unsigned flags, ...)
{
    struct buf params;
    const char *text;
    va_list ap;

    buf_init(&params, SIZE_MAX / 2);
    va_start(ap, flags);
    while ((text = va_arg(ap, const char *)) != NULL) {
        const char *eq = strchr(text, '=');

        put_pair_n(&params, text, (size_t)(eq - text), eq + 1, strlen(eq + 1));
    }
    va_end(ap);
    put_begin(b, id, FCGI_RESPONDER, flags);
    put_stream(b, FCGI_PARAMS, id, params.data, params.len, 65535, 0);
    buf_release(&params);
}

#endif
