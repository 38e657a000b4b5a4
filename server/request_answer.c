/* SPDX-License-Identifier: MIT
 *
 * See request_answer.h. The tool only.
 */
#include "server/request_answer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { HEAD_MAX = 1024 * 1024 };

void
answer_init(struct answer *a)
{
    memset(a, 0, sizeof(*a));
    buf_init(&a->head, HEAD_MAX);
}

void
answer_release(struct answer *a)
{
    buf_release(&a->head);
}

void
answer_clear(struct answer *a)
{
    buf_clear(&a->head);
    a->in_body = false;
    a->status = 0;
    a->body_bytes = 0;
}

static int
write_out(const struct answer *a, const char *data, size_t len)
{
    return fwrite(data, 1, len, a->out) == len && fflush(a->out) == 0 ? 0 : -1;
}

/* The value of a header in the answer's head, or NULL. */
static const char *
head_value(const struct buf *head, const char *name, size_t *ret_len)
{
    size_t name_len = strlen(name), at = 0, len;

    while (at < head->len) {
        const char *line = head->data + at;
        const char *end = memchr(line, '\n', head->len - at);

        len = end != NULL ? (size_t)(end - line) : head->len - at;
        at += len + 1;
        if (len > name_len && line[name_len] == ':' &&
            strncasecmp(line, name, name_len) == 0) {
            line += name_len + 1;
            len -= name_len + 1;
            while (len > 0 && (*line == ' ' || *line == '\t')) {
                line++;
                len--;
            }
            while (len > 0 && (line[len - 1] == '\r' || line[len - 1] == ' ')) {
                len--;
            }
            *ret_len = len;
            return line;
        }
    }
    return NULL;
}

/* Length of the head with its empty line, 0 when that has not come yet. Lines
 * end in LF or CR LF (RFC 3875, section 6.2). */
static size_t
head_length(const struct buf *head, size_t from)
{
    const char *p;

    /* An empty line can begin with bytes that came earlier. */
    from = from > 2 ? from - 2 : 0;
    while (from < head->len &&
           (p = memchr(head->data + from, '\n', head->len - from)) != NULL) {
        size_t at = (size_t)(p - head->data), next = at + 1;

        if (at == 0 || (at == 1 && head->data[0] == '\r')) {
            return next;
        }
        if (next < head->len && head->data[next] == '\r') {
            next++;
        }
        if (next < head->len && head->data[next] == '\n') {
            return next + 1;
        }
        from = at + 1;
    }
    return 0;
}

/* The head is whole: status, and out with it if it is wanted. */
static int
take_head(struct answer *a)
{
    const char *value;
    size_t len;

    value = head_value(&a->head, "Status", &len);
    if (value != NULL && len >= 3) {
        a->status = atoi(value);
    } else {
        /* RFC 3875, 6.2.3: a Location alone is a redirect. */
        a->status = head_value(&a->head, "Location", &len) != NULL ? 302 : 200;
    }
    if (a->verbose) {
        fprintf(stderr, "< status %d\n", a->status);
    }
    if (a->include && write_out(a, a->head.data, a->head.len) != 0) {
        return -1;
    }
    return 0;
}

int
answer_take(struct answer *a, const char *data, size_t len, char *why,
            size_t size)
{
    size_t before = a->head.len, head;

    if (a->in_body) {
        a->body_bytes += len;
        return write_out(a, data, len);
    }
    if (buf_append(&a->head, data, len) != 0) {
        snprintf(why, size, "the head of the answer is longer than %d bytes",
                 (int)HEAD_MAX);
        return -1;
    }
    head = head_length(&a->head, before);
    if (head == 0) {
        return 0;
    }
    a->in_body = true;
    len = a->head.len - head;
    a->head.len = head;
    if (take_head(a) != 0) {
        return -1;
    }
    a->body_bytes += len;
    return write_out(a, a->head.data + head, len);
}

void
answer_show_rest(const struct answer *a)
{
    if (!a->in_body) {
        write_out(a, a->head.data, a->head.len);
    }
}

enum exchange_code
answer_check(const struct answer *a, bool no_body, char *why, size_t size)
{
    const char *value;
    char text[24];
    size_t len;

    if (!a->in_body) {
        snprintf(why, size,
                 "the answer has no complete head (%zu bytes came, and no "
                 "empty line)",
                 a->head.len);
        return EXCHANGE_BROKEN;
    }
    value = head_value(&a->head, "Content-Length", &len);
    if (value != NULL && len < sizeof(text) && a->status != 304 && !no_body) {
        snprintf(text, sizeof(text), "%.*s", (int)len, value);
        if (strtoull(text, NULL, 10) != a->body_bytes) {
            snprintf(why, size,
                     "Content-Length is %s, but %" PRIu64 " bytes of body came",
                     text, a->body_bytes);
            return EXCHANGE_BROKEN;
        }
    }
    return EXCHANGE_OK;
}
