/* SPDX-License-Identifier: MIT
 *
 * One request as every protocol produces it. Any process, GIL not needed;
 * decides nothing about the connection and never logs.
 */
#include "protocol/request.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    /* Memory that is kept from one request to the next. */
    KEEP_PARAMS_BYTES = 16 * 1024,
    KEEP_PARAMS_COUNT = 256,
    KEEP_BODY_BYTES = 16 * 1024,

    FIRST_PARAMS_COUNT = 32,
    /* Offsets into the parameter block are 32 bits wide. */
    MAX_PARAMS_BYTES = 1 << 30,
    MAX_PARAMS_COUNT = 1 << 26,
    /* What may stand in the block beside names and values: 8 bytes of lengths
     * per pair, and behind the last checked pair as much as one record has. */
    PAIR_OVERHEAD = 8,
    BLOCK_SLACK = 65536 + 64,
};

/* The size the parameter block may have. All that is checked pair by pair in
 * request_fits() stays below it. */
static size_t
block_limit(const struct request_limits *limits)
{
    size_t bytes = limits->params_bytes;
    size_t count = limits->params_count;

    if (bytes > MAX_PARAMS_BYTES) {
        bytes = MAX_PARAMS_BYTES;
    }
    if (count > MAX_PARAMS_COUNT) {
        count = MAX_PARAMS_COUNT;
    }
    return bytes + count * PAIR_OVERHEAD + BLOCK_SLACK;
}

static void
reset(struct request *r)
{
    r->protocol = REQUEST_FCGI;
    r->role = REQUEST_RESPONDER;
    r->id = 0;
    r->keep_conn = false;
    r->active = false;
    r->head_done = false;
    r->body_done = false;
    r->data_done = false;
    r->aborted = false;
    r->refuse_status = 0;
    r->refuse_why[0] = '\0';
    r->param_count = 0;
    r->params_parsed = 0;
    r->params_used = 0;
    r->method = -1;
    r->uri = -1;
    r->content_length = -1;
    r->body_seen = 0;
    r->body_given = 0;
    r->kept_used = 0;
}

void
request_init(struct request *r, const struct request_limits *limits)
{
    uint64_t body = limits->body_bytes;

    if (body == 0 || body > SIZE_MAX) {
        body = SIZE_MAX;
    }
    buf_init(&r->params, block_limit(limits));
    buf_init(&r->kept, (size_t)body);
    r->param = NULL;
    r->param_cap = 0;
    reset(r);
}

void
request_release(struct request *r)
{
    if (r == NULL) {
        return;
    }
    buf_release(&r->params);
    buf_release(&r->kept);
    free(r->param);
    r->param = NULL;
    r->param_cap = 0;
    reset(r);
}

static void
clear_or_release(struct buf *b, size_t keep)
{
    if (b->cap > keep) {
        buf_release(b);
    } else {
        buf_clear(b);
    }
}

void
request_clear(struct request *r)
{
    clear_or_release(&r->params, KEEP_PARAMS_BYTES);
    clear_or_release(&r->kept, KEEP_BODY_BYTES);
    if (r->param_cap > KEEP_PARAMS_COUNT) {
        free(r->param);
        r->param = NULL;
        r->param_cap = 0;
    }
    reset(r);
}

bool
request_fits(struct request *r, const struct request_limits *limits,
             const char *name, size_t name_len, uint64_t size)
{
    int shown = name_len > 48 ? 48 : (int)name_len;

    if (r->param_count >= limits->params_count) {
        request_refuse(r, 431,
                       "more than %zu parameters (max_params); the first one "
                       "too many is %.*s",
                       limits->params_count, shown, name);
        return false;
    }
    if (r->params_used > limits->params_bytes ||
        size > limits->params_bytes - r->params_used) {
        request_refuse(r, 431,
                       "parameters over %zu bytes (max_params_size): %.*s of "
                       "%" PRIu64 " bytes comes after %zu bytes of others",
                       limits->params_bytes, shown, name, size, r->params_used);
        return false;
    }
    return true;
}

static int
grow_index(struct request *r)
{
    unsigned cap = r->param_cap == 0 ? FIRST_PARAMS_COUNT : r->param_cap * 2;
    struct request_param *param;

    if (r->param_cap >= MAX_PARAMS_COUNT) {
        return -1;
    }
    param = realloc(r->param, cap * sizeof(*param));
    if (param == NULL) {
        return -1;
    }
    r->param = param;
    r->param_cap = cap;
    return 0;
}

/* -1 when it is no number. One that does not fit is as large as can be: it is
 * over any limit, and no body ever gets there. */
static int64_t
parse_length(const char *s, size_t len)
{
    int64_t n = 0;
    size_t i;

    if (len == 0) {
        return -1;
    }
    for (i = 0; i < len; i++) {
        int digit = s[i] - '0';

        if (digit < 0 || digit > 9) {
            return -1;
        }
        n = n > (INT64_MAX - digit) / 10 ? INT64_MAX : n * 10 + digit;
    }
    return n;
}

static void
note_known(struct request *r, const char *name, size_t name_len,
           const char *value, size_t value_len)
{
    if (name_len == 14) {
        if (memcmp(name, "REQUEST_METHOD", 14) == 0) {
            r->method = (int)r->param_count;
        } else if (memcmp(name, "CONTENT_LENGTH", 14) == 0) {
            r->content_length = parse_length(value, value_len);
        }
    } else if (name_len == 11 && memcmp(name, "REQUEST_URI", 11) == 0) {
        r->uri = (int)r->param_count;
    }
}

int
request_add_param(struct request *r, const struct request_limits *limits,
                  uint32_t name, uint32_t name_len, uint32_t value,
                  uint32_t value_len)
{
    const char *base = r->params.data;
    uint64_t size = (uint64_t)name_len + value_len;
    struct request_param *p;

    /* The limits once more in short: this runs for every parameter. */
    if ((r->param_count >= limits->params_count ||
         r->params_used > limits->params_bytes ||
         size > limits->params_bytes - r->params_used) &&
        !request_fits(r, limits, base + name, name_len, size)) {
        return -1;
    }
    if (r->param_count == r->param_cap && grow_index(r) < 0) {
        request_refuse(r, 503, "out of memory for %u parameters",
                       r->param_count);
        return -1;
    }
    note_known(r, base + name, name_len, base + value, value_len);
    p = &r->param[r->param_count++];
    p->name = name;
    p->name_len = name_len;
    p->value = value;
    p->value_len = value_len;
    r->params_used += (size_t)size;
    return 0;
}

void
request_end_params(struct request *r, const struct request_limits *limits)
{
    r->head_done = true;
    if (r->role == REQUEST_AUTHORIZER) {
        r->body_done = true;
    }
    if (limits->body_bytes > 0 && r->content_length >= 0 &&
        (uint64_t)r->content_length > limits->body_bytes) {
        request_refuse(r, 413,
                       "a body of %" PRId64 " bytes (CONTENT_LENGTH) is over "
                       "%" PRIu64 " bytes (max_body_size)",
                       r->content_length, limits->body_bytes);
    }
}

uint64_t
request_body_room(const struct request *r, const struct request_limits *limits)
{
    uint64_t end = UINT64_MAX;

    if (r->refuse_status != 0) {
        return 0;
    }
    if (r->content_length >= 0) {
        end = (uint64_t)r->content_length;
    } else if (limits->body_bytes > 0) {
        end = limits->body_bytes;
    }
    return end > r->body_seen ? end - r->body_seen : 0;
}

size_t
request_take_body(struct request *r, const struct request_limits *limits,
                  size_t len)
{
    uint64_t room = request_body_room(r, limits);

    r->body_seen += len;
    if (len <= room) {
        return len;
    }
    /* With CONTENT_LENGTH the surplus is no part of the body; it is only
     * dropped (cgi-fcgi sends all of its standard input). */
    if (r->content_length < 0 && r->refuse_status == 0) {
        request_refuse(r, 413,
                       "a body without CONTENT_LENGTH is over %" PRIu64
                       " bytes (max_body_size)",
                       limits->body_bytes);
    }
    return (size_t)room;
}

const char *
request_param(const struct request *r, const char *name, size_t *ret_len)
{
    size_t len = strlen(name);
    unsigned i;

    for (i = r->param_count; i > 0; i--) {
        const struct request_param *p = &r->param[i - 1];

        if (p->name_len == len &&
            memcmp(r->params.data + p->name, name, len) == 0) {
            *ret_len = p->value_len;
            return r->params.data + p->value;
        }
    }
    return NULL;
}

void
request_refuse(struct request *r, int status, const char *fmt, ...)
{
    char text[sizeof(r->refuse_why)];
    va_list ap;

    if (r->refuse_status != 0) {
        return;
    }
    r->refuse_status = status;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    request_escape(r->refuse_why, sizeof(r->refuse_why), text, strlen(text));
}

size_t
request_escape(char *out, size_t size, const char *s, size_t len)
{
    static const char hex[] = "0123456789abcdef";
    size_t n = 0, i;

    for (i = 0; i < len; i++) {
        unsigned char c = (unsigned char)s[i];
        bool plain = c >= 0x20 && c < 0x7f && c != '\\';

        if (n + (plain ? 1 : 4) >= size) {
            break;
        }
        if (plain) {
            out[n++] = (char)c;
        } else {
            out[n++] = '\\';
            out[n++] = 'x';
            out[n++] = hex[c >> 4];
            out[n++] = hex[c & 15];
        }
    }
    out[n] = '\0';
    return n;
}
