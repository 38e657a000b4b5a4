/* SPDX-License-Identifier: MIT
 *
 * See load_response.h.
 */
#include "bench/load_response.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "protocol/fcgi.h"

static void
fail(struct load_response *r, enum load_result why)
{
    if (r->result == LOAD_OK) {
        r->result = why;
    }
    r->done = true;
    r->closes = true;
}

void
load_response_begin(struct load_response *r, const struct load_options *o,
                    const struct load_request *q)
{
    r->options = o;
    r->request = q;
    r->result = LOAD_OK;
    r->done = r->closes = r->any = r->head_done = r->chunked = false;
    r->chunk = CHUNK_SIZE;
    r->chunk_left = 0;
    r->status = 0;
    r->announced = -1;
    r->body_bytes = 0;
    r->head_len = 0;
    r->header_len = r->content_left = r->padding_left = 0;
}

/* The value of a header line, or NULL when the line is another header. */
static const char *
header_value(const char *line, size_t len, const char *name)
{
    size_t n = strlen(name);

    if (len <= n || strncasecmp(line, name, n) != 0 || line[n] != ':') {
        return NULL;
    }
    line += n + 1;
    return line + strspn(line, " ");
}

static void
take_line(struct load_response *r, const char *line, size_t len)
{
    const char *value;

    if ((value = header_value(line, len, "Status")) != NULL) {
        r->status = (unsigned)strtoul(value, NULL, 10);
    } else if ((value = header_value(line, len, "Content-Length")) != NULL) {
        r->announced = strtoll(value, NULL, 10);
    } else if ((value = header_value(line, len, "Connection")) != NULL) {
        r->closes = strncasecmp(value, "close", 5) == 0;
    } else if (r->options->protocol == LOAD_HTTP &&
               (value = header_value(line, len, "Transfer-Encoding")) != NULL) {
        r->chunked = strncasecmp(value, "chunked", 7) == 0;
    }
}

/* head ends with an empty line. */
static void
parse_head(struct load_response *r, size_t len)
{
    const char *line = r->head, *stop = r->head + len - 2, *end;

    r->head_done = true;
    r->status = 200; /* "If no Status is given, 200" (RFC 3875, 6.3.3) */
    if (r->options->protocol == LOAD_HTTP) {
        if (len < 12 || strncmp(line, "HTTP/1.", 7) != 0) {
            fail(r, LOAD_PROTOCOL);
            return;
        }
        r->status = (unsigned)strtoul(line + 9, NULL, 10);
    } else if (len > 12 && strncmp(line, "HTTP/1.", 7) == 0) {
        r->status = (unsigned)strtoul(line + 9, NULL, 10);
    }
    while (line < stop) {
        end = memchr(line, '\n', (size_t)(stop - line));
        if (end == NULL) {
            break;
        }
        take_line(r, line, (size_t)(end - line));
        line = end + 1;
    }
}

static void
check_body(struct load_response *r, const char *data, size_t len)
{
    const char *prefix = r->options->check_prefix;
    size_t prefix_len = prefix != NULL ? strlen(prefix) : 0;
    size_t at = (size_t)r->body_bytes, n;

    if (at < prefix_len) {
        n = prefix_len - at < len ? prefix_len - at : len;
        if (memcmp(prefix + at, data, n) != 0) {
            fail(r, LOAD_CONTENT);
        }
    }
    if (r->options->check_echo) {
        n = r->request->body_bytes;
        if (at + len > n || memcmp(r->request->body + at, data, len) != 0) {
            fail(r, LOAD_CONTENT);
        }
    }
    if (r->options->check_body != NULL) {
        n = (size_t)r->options->check_length;
        if (at + len > n ||
            memcmp(r->options->check_body + at, data, len) != 0) {
            fail(r, LOAD_CONTENT);
        }
    }
    r->body_bytes += len;
}

/* Everything of the answer is here. */
static void
finish(struct load_response *r)
{
    const struct load_options *o = r->options;
    bool has_body = strcmp(o->method, "HEAD") != 0;

    r->done = true;
    if (r->result != LOAD_OK) {
        return;
    }
    if (!r->head_done) {
        fail(r, LOAD_PROTOCOL);
    } else if (r->status != o->check_status) {
        fail(r, LOAD_STATUS);
    } else if ((has_body && r->announced >= 0 &&
                (uint64_t)r->announced != r->body_bytes) ||
               (o->check_length >= 0 &&
                (uint64_t)o->check_length != r->body_bytes)) {
        fail(r, LOAD_LENGTH);
    } else if (o->check_prefix != NULL &&
               r->body_bytes < strlen(o->check_prefix)) {
        fail(r, LOAD_CONTENT);
    }
}

/* The next digit of a chunk's size, or the end of the line. */
static void
chunk_size(struct load_response *r, char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = c != '\0' ? strchr(digits, c | 0x20) : NULL;

    if (r->chunk == CHUNK_SIZE && at != NULL && c != '\r' && c != '\n') {
        r->chunk_left = r->chunk_left * 16 + (uint64_t)(at - digits);
        if (r->chunk_left > INT64_MAX / 16) {
            fail(r, LOAD_PROTOCOL);
        }
    } else if (c == '\n') {
        r->chunk = r->chunk_left > 0 ? CHUNK_DATA : CHUNK_TRAILER;
    } else if (c == ';' || c == '\r' || r->chunk == CHUNK_EXTENSION) {
        r->chunk = CHUNK_EXTENSION;
    } else {
        fail(r, LOAD_PROTOCOL);
    }
}

/* A byte that is no data of a chunk. */
static void
chunk_byte(struct load_response *r, char c)
{
    switch (r->chunk) {
    case CHUNK_SIZE:
    case CHUNK_EXTENSION:
        chunk_size(r, c);
        break;
    case CHUNK_DATA_END:
        if (c == '\n') {
            r->chunk = CHUNK_SIZE;
        } else if (c != '\r') {
            fail(r, LOAD_PROTOCOL);
        }
        break;
    case CHUNK_TRAILER:
        if (c == '\n') {
            finish(r);
        } else if (c != '\r') {
            r->chunk = CHUNK_TRAILER_LINE;
        }
        break;
    case CHUNK_TRAILER_LINE:
        if (c == '\n') {
            r->chunk = CHUNK_TRAILER;
        }
        break;
    case CHUNK_DATA:
        break;
    }
}

static void
take_chunks(struct load_response *r, const char *data, size_t len)
{
    size_t n;

    while (len > 0 && !r->done) {
        n = 1;
        if (r->chunk == CHUNK_DATA) {
            n = r->chunk_left < len ? (size_t)r->chunk_left : len;
            check_body(r, data, n);
            r->chunk_left -= n;
            if (r->chunk_left == 0) {
                r->chunk = CHUNK_DATA_END;
            }
        } else {
            chunk_byte(r, *data);
        }
        data += n;
        len -= n;
    }
}

/* Bytes of the CGI or HTTP response, without any framing of FastCGI. */
static void
take_content(struct load_response *r, const char *data, size_t len)
{
    size_t before = r->head_len, n = sizeof(r->head) - before, used;
    const char *end;

    if (!r->head_done) {
        n = n < len ? n : len;
        memcpy(r->head + before, data, n);
        r->head_len += n;
        end = memmem(r->head, r->head_len, "\r\n\r\n", 4);
        if (end == NULL) {
            if (r->head_len == sizeof(r->head)) {
                fail(r, LOAD_PROTOCOL);
            }
            return;
        }
        used = (size_t)(end + 4 - r->head);
        parse_head(r, used);
        data += used - before;
        len -= used - before;
    }
    if (r->chunked) {
        take_chunks(r, data, len);
    } else if (len > 0) {
        check_body(r, data, len);
    }
}

static void
record_header(struct load_response *r)
{
    const unsigned char *h = r->header;

    if (h[0] != FCGI_VERSION_1 || (h[2] << 8 | h[3]) != 1 ||
        (h[1] != FCGI_STDOUT && h[1] != FCGI_STDERR &&
         h[1] != FCGI_END_REQUEST)) {
        fail(r, LOAD_PROTOCOL);
        return;
    }
    r->content_left = (unsigned)h[4] << 8 | h[5];
    r->padding_left = h[6];
    if (h[1] == FCGI_END_REQUEST && r->content_left != sizeof(r->end)) {
        fail(r, LOAD_PROTOCOL);
    }
}

static void
record_content(struct load_response *r, const char *data, size_t n)
{
    unsigned type = r->header[1];

    if (type == FCGI_STDOUT) {
        take_content(r, data, n);
    } else if (type == FCGI_END_REQUEST) {
        memcpy(r->end + sizeof(r->end) - r->content_left, data, n);
    }
    r->content_left -= (unsigned)n;
}

/* The record is whole. */
static void
record_end(struct load_response *r)
{
    r->header_len = 0;
    if (r->header[1] == FCGI_END_REQUEST) {
        if (r->end[4] != FCGI_REQUEST_COMPLETE) {
            fail(r, LOAD_PROTOCOL);
        }
        finish(r);
    }
}

static void
feed_fcgi(struct load_response *r, const char *data, size_t len)
{
    size_t n;

    while (len > 0 && !r->done) {
        if (r->header_len < sizeof(r->header)) {
            n = sizeof(r->header) - r->header_len;
            n = n < len ? n : len;
            memcpy(r->header + r->header_len, data, n);
            r->header_len += (unsigned)n;
            if (r->header_len == sizeof(r->header)) {
                record_header(r);
            }
        } else if (r->content_left > 0) {
            n = r->content_left < len ? r->content_left : len;
            record_content(r, data, n);
        } else {
            n = r->padding_left < len ? r->padding_left : len;
            r->padding_left -= (unsigned)n;
        }
        data += n;
        len -= n;
        if (r->header_len == sizeof(r->header) && r->content_left == 0 &&
            r->padding_left == 0 && !r->done) {
            record_end(r);
        }
    }
    if (len > 0 && r->result == LOAD_OK) {
        fail(r, LOAD_PROTOCOL); /* bytes behind the end */
    }
}

/* nginx does not wait for the end of an SCGI connection either when it knows
 * the length. */
static void
feed_plain(struct load_response *r, const char *data, size_t len)
{
    take_content(r, data, len);
    if (r->done || !r->head_done) {
        return;
    }
    if (strcmp(r->options->method, "HEAD") == 0 ||
        (r->announced >= 0 && r->body_bytes >= (uint64_t)r->announced)) {
        finish(r);
    }
}

void
load_response_feed(struct load_response *r, const char *data, size_t len)
{
    r->any = true;
    switch (r->options->protocol) {
    case LOAD_FCGI:
        feed_fcgi(r, data, len);
        break;
    case LOAD_SCGI:
    case LOAD_HTTP:
        feed_plain(r, data, len);
        break;
    }
}

void
load_response_eof(struct load_response *r)
{
    bool ended_by_close = r->options->protocol == LOAD_SCGI ||
                          (r->options->protocol == LOAD_HTTP && r->head_done &&
                           r->announced < 0 && !r->chunked);

    if (r->done) {
        return;
    }
    if (!r->any || !ended_by_close) {
        fail(r, LOAD_CLOSED);
        return;
    }
    finish(r);
}
