/* SPDX-License-Identifier: MIT
 *
 * See status_server.h. The first byte of a connection decides: a letter is
 * HTTP, which is taken apart here; the rest goes to the decoder that workers
 * use for FastCGI and SCGI.
 */
#include "server/status_server.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "protocol/decoder.h"
#include "protocol/fcgi.h"
#include "protocol/response.h"
#include "server/clients.h"
#include "server/executor_limits.h"
#include "server/log.h"

enum {
    MAX_CLIENTS = 32,
    MAX_ANSWER = 16 * 1024 * 1024,
    MAX_HEAD = 16 * 1024, /* of an HTTP request */
    MAX_PARAMS = 64 * 1024,
    QUESTION_MS = 5000,
    ANSWER_MS = 10000,
    KEEP_MS = 60000,
};

/* What is asked for. Points into the client's bytes. */
struct question {
    const char *method;
    size_t method_len;
    const char *path;
    size_t path_len;
    const char *query;
    size_t query_len;
};

enum framing { HTTP, SCGI, FASTCGI };

/* -- what is answered -------------------------------------------------------
 */

static bool
is(const char *s, size_t len, const char *word)
{
    return len == strlen(word) && memcmp(s, word, len) == 0;
}

/* Does the query have this word, by itself or as a name? */
static bool
query_has(const struct question *q, const char *word)
{
    const char *at = q->query, *end = q->query + q->query_len;

    while (at < end) {
        const char *next = memchr(at, '&', (size_t)(end - at));
        size_t len = (size_t)((next != NULL ? next : end) - at);
        const char *equals = memchr(at, '=', len);

        if (is(at, equals != NULL ? (size_t)(equals - at) : len, word)) {
            return true;
        }
        at += len + 1;
    }
    return false;
}

/* Only the last part of the path counts: a front end may have these pages below
 * any path. */
static void
last_part(const struct question *q, const char **ret, size_t *ret_len)
{
    const char *slash =
        q->path_len > 0 ? memrchr(q->path, '/', q->path_len) : NULL;

    *ret = slash != NULL ? slash + 1 : q->path;
    *ret_len = q->path_len - (size_t)(*ret - q->path);
}

/* The page into body. Its status code. */
static int
make_page(const struct status_source *source, const struct question *q,
          const char **ret_type, struct buf *body)
{
    enum status_format format = STATUS_TABLE;
    const char *page;
    size_t len;

    *ret_type = status_media_type(STATUS_TABLE);
    if (!is(q->method, q->method_len, "GET") &&
        !is(q->method, q->method_len, "HEAD")) {
        buf_append_str(body, "Only GET and HEAD are answered here.\n");
        return 405;
    }
    last_part(q, &page, &len);
    if (is(page, len, "ping")) {
        return buf_append_str(body, "pong\n") == 0 ? 200 : 503;
    }
    if (is(page, len, "metrics")) {
        format = STATUS_METRICS;
    } else if (!is(page, len, "status")) {
        buf_append_str(body, "There are /status, /status?json, /metrics and "
                             "/ping.\n");
        return 404;
    } else if (query_has(q, "json")) {
        format = STATUS_JSON;
    }
    if (source->write(source->ctx, format, body) != 0) {
        buf_clear(body);
        return 503;
    }
    *ret_type = status_media_type(format);
    return 200;
}

/* -- how it is wrapped ------------------------------------------------------
 */

/* One STDOUT stream and END_REQUEST (FastCGI 1.0, 5.3 and 5.5). */
static int
append_records(struct buf *out, unsigned id, const char *data, size_t len)
{
    char head[FCGI_HEADER_LEN], end[sizeof(FCGI_EndRequestRecord)];

    for (;;) {
        size_t n = len < FCGI_CONTENT_MAX ? len : FCGI_CONTENT_MAX;

        fcgi_put_header(head, FCGI_STDOUT, id, n, 0);
        if (buf_append(out, head, sizeof(head)) != 0 ||
            (n > 0 && buf_append(out, data, n) != 0)) {
            return -1;
        }
        if (n == 0) {
            break; /* that was the end of the stream */
        }
        data += n;
        len -= n;
    }
    fcgi_put_end(end, id, 0, FCGI_REQUEST_COMPLETE);
    return buf_append(out, end, sizeof(end));
}

static int
append_head(struct buf *out, enum framing framing, int code, const char *type,
            size_t length)
{
    char head[512];

    snprintf(head, sizeof(head),
             "%s %d %s\r\n"
             "%s"
             "%s"
             "Content-Type: %s\r\n"
             "Content-Length: %zu\r\n"
             "Cache-Control: no-store\r\n"
             "X-Content-Type-Options: nosniff\r\n"
             "\r\n",
             framing == HTTP ? "HTTP/1.1" : "Status:", code,
             response_reason(code),
             framing == HTTP ? "Connection: close\r\n" : "",
             code == 405 ? "Allow: GET, HEAD\r\n" : "", type, length);
    return buf_append_str(out, head);
}

/* The page into c->out. False: out of memory, and the client is dropped. */
static bool
put_page(struct client *c, enum framing framing, unsigned id, int code,
         const char *type, const struct buf *body, bool head_only)
{
    struct buf plain;
    int rc;

    buf_init(&plain, MAX_ANSWER);
    rc = append_head(&plain, framing, code, type, body->len);
    if (rc == 0 && !head_only && body->len > 0) {
        rc = buf_append(&plain, body->data, body->len);
    }
    if (rc == 0) {
        rc = framing == FASTCGI
                 ? append_records(&c->out, id, plain.data, plain.len)
                 : buf_append(&c->out, plain.data, plain.len);
    }
    buf_release(&plain);
    if (rc != 0) {
        client_drop(c);
    }
    return rc == 0;
}

static bool
put_answer(struct client *c, enum framing framing, unsigned id,
           const struct question *q)
{
    struct buf body;
    const char *type;
    bool done;
    int code;

    buf_init(&body, MAX_ANSWER);
    code = make_page(c->ctx, q, &type, &body);
    done = put_page(c, framing, id, code, type, &body,
                    is(q->method, q->method_len, "HEAD"));
    buf_release(&body);
    return done;
}

static void
refuse_http(struct client *c, int code)
{
    struct buf body;

    buf_init(&body, 256);
    if (buf_append_str(&body, response_reason(code)) != 0 ||
        buf_append_str(&body, "\n") != 0) {
        client_drop(c);
    } else if (put_page(c, HTTP, 0, code, status_media_type(STATUS_TABLE),
                        &body, false)) {
        client_answer(c);
    }
    buf_release(&body);
}

/* -- HTTP -------------------------------------------------------------------
 */

/* The path and the query of a request target. */
static void
split_target(const char *target, size_t len, struct question *q)
{
    const char *end = target + len, *mark;

    /* absolute-form (RFC 9112, 3.2.2): the authority means nothing here */
    if (len > 7 && strncasecmp(target, "http://", 7) == 0) {
        target = memchr(target + 7, '/', len - 7);
        target = target != NULL ? target : end;
    }
    mark = memchr(target, '?', (size_t)(end - target));
    q->path = target;
    q->path_len = (size_t)((mark != NULL ? mark : end) - target);
    q->query = mark != NULL ? mark + 1 : end;
    q->query_len = (size_t)(end - q->query);
}

/* "GET /status HTTP/1.1" (RFC 9112, 3). False: it is none of 1.x. */
static bool
parse_request_line(const char *line, size_t len, struct question *q)
{
    const char *target = memchr(line, ' ', len), *version;

    if (target == NULL || target == line) {
        return false;
    }
    q->method = line;
    q->method_len = (size_t)(target - line);
    target++;
    version = memchr(target, ' ', len - q->method_len - 1);
    if (version == NULL || version == target) {
        return false;
    }
    split_target(target, (size_t)(version - target), q);
    version++;
    len -= (size_t)(version - line);
    return len == 8 && memcmp(version, "HTTP/1.", 7) == 0 &&
           isdigit((unsigned char)version[7]);
}

/* Lines end with CR LF, or with LF alone (RFC 9112, 2.2). */
static bool
head_is_whole(const struct buf *in)
{
    return memmem(in->data, in->len, "\n\r\n", 3) != NULL ||
           memmem(in->data, in->len, "\n\n", 2) != NULL;
}

static void
input_http(struct client *c, const char *data, size_t len)
{
    struct question q;
    const char *newline;
    size_t n;

    if (buf_append(&c->in, data, len) != 0) {
        refuse_http(c, 431);
        return;
    }
    if (!head_is_whole(&c->in)) {
        return;
    }
    newline = memchr(c->in.data, '\n', c->in.len);
    n = (size_t)(newline - c->in.data);
    if (n > 0 && newline[-1] == '\r') {
        n--;
    }
    if (!parse_request_line(c->in.data, n, &q)) {
        refuse_http(c, 400);
        return;
    }
    if (put_answer(c, HTTP, 0, &q)) {
        client_answer(c);
    }
}

/* -- FastCGI and SCGI -------------------------------------------------------
 */

/* The path as whoever sends it: PATH_INFO, else SCRIPT_NAME, else REQUEST_URI.
 * Only its last part matters, so that it does not have to be put together. */
static struct question
question_of(const struct request *r)
{
    struct question q = { "", 0, "", 0, "", 0 };
    static const char *const names[] = { "PATH_INFO", "SCRIPT_NAME",
                                         "DOCUMENT_URI", "REQUEST_URI" };
    const char *value;
    size_t len;

    value = request_param(r, "REQUEST_METHOD", &len);
    if (value != NULL) {
        q.method = value;
        q.method_len = len;
    }
    for (int i = 0; i < 4 && q.path_len == 0; i++) {
        value = request_param(r, names[i], &len);
        if (value != NULL) {
            split_target(value, len, &q);
        }
    }
    value = request_param(r, "QUERY_STRING", &len);
    if (value != NULL) {
        q.query = value;
        q.query_len = len;
    }
    return q;
}

static struct decoder *
decoder_of(struct client *c)
{
    static const struct request_limits limits = {
        .params_bytes = MAX_PARAMS,
        .params_count = 1000,
        .mpx = 1,
        .max_conns = MAX_CLIENTS,
    };

    if (c->data == NULL) {
        struct decoder *d = malloc(sizeof(*d));

        if (d != NULL) {
            decoder_init(d, DECODER_AUTO, &limits);
        }
        c->data = d;
    }
    return c->data;
}

static void
gone(struct client *c)
{
    if (c->data != NULL) {
        decoder_release(c->data);
        free(c->data);
        c->data = NULL;
    }
}

static bool
put_request_answer(struct client *c, const struct request *r)
{
    enum framing framing = r->protocol == REQUEST_FCGI ? FASTCGI : SCGI;
    struct question q = question_of(r);
    struct buf body;

    if (r->refuse_status == 0) {
        return put_answer(c, framing, r->id, &q);
    }
    buf_init(&body, 1);
    return put_page(c, framing, r->id, r->refuse_status,
                    status_media_type(STATUS_TABLE), &body, false);
}

/* A body means nothing here; on a kept connection its end is waited for, since
 * some front ends use the connection again as soon as they have the answer.
 * True: go on with what follows. */
static bool
answer_request(struct client *c, struct decoder *d)
{
    struct request *r = d->req;
    bool keep = r->keep_conn;

    if (keep && r->content_length > 0 && !r->body_done) {
        return true;
    }
    if (!put_request_answer(c, r)) {
        return false;
    }
    if (!keep) {
        client_answer(c);
        return false;
    }
    decoder_end(d, r);
    return client_answer_keep(c);
}

/* False: no more of it can be taken now. */
static bool
on_event(struct client *c, struct decoder *d, enum decode_event event)
{
    switch (event) {
    case DECODE_HEAD:
    case DECODE_BODY_END:
        return answer_request(c, d);
    case DECODE_REPLY:
        if (client_say(c, d->reply, d->reply_len) == 0 && d->reply_closes) {
            client_answer(c); /* with nothing more */
            return false;
        }
        return !client_is_closed(c);
    case DECODE_BAD:
        log_debug("status_listen: connection closed: %s", d->why);
        client_drop(c);
        return false;
    case DECODE_ABORT:
        client_drop(c);
        return false;
    case DECODE_MORE:
        return false;
    default:
        return true;
    }
}

static void
input_cgi(struct client *c, const char *data, size_t len)
{
    struct decoder *d = decoder_of(c);
    enum decode_event event;
    size_t used;

    if (d == NULL) {
        client_drop(c);
        return;
    }
    do {
        event = decoder_feed(d, data, len, &used);
        data += used;
        len -= used;
    } while (on_event(c, d, event));
    /* It waits until the answer is out. */
    if (len > 0 && c->keep && buf_append(&c->in, data, len) != 0) {
        client_drop(c);
    }
}

/* -- connections ------------------------------------------------------------
 */

static void
input(struct client *c, const char *data, size_t len)
{
    if (len == 0) {
        return; /* half a question */
    }
    if (c->data == NULL && (c->in.len > 0 || isalpha((unsigned char)*data))) {
        input_http(c, data, len);
    } else {
        input_cgi(c, data, len);
    }
}

struct clients *
status_server_open(uv_loop_t *loop, struct listener *l, unsigned count,
                   const struct status_source *source)
{
    static const struct clients_options options = {
        .max = MAX_CLIENTS,
        .max_question = MAX_HEAD,
        .max_answer = MAX_ANSWER,
        .question_ms = QUESTION_MS,
        .answer_ms = ANSWER_MS,
        .keep_ms = KEEP_MS,
        .input = input,
        .gone = gone,
    };

    return clients_open(loop, l, count, &options, (void *)source);
}
