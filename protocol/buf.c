/* SPDX-License-Identifier: MIT
 *
 * Growable bytes with a hard limit. Any process, GIL not needed, never logs.
 */
#include "protocol/buf.h"

#include <stdlib.h>
#include <string.h>

/* The first allocation: enough for the parameters of an ordinary request, so
 * that they are not moved while they arrive. */
enum { BUF_FIRST = 2048 };

void
buf_init(struct buf *b, size_t limit)
{
    b->data = NULL;
    b->len = 0;
    b->cap = 0;
    b->limit = limit;
}

void
buf_release(struct buf *b)
{
    if (b == NULL) {
        return;
    }
    free(b->data);
    buf_init(b, b->limit);
}

void
buf_clear(struct buf *b)
{
    b->len = 0;
}

int
buf_reserve(struct buf *b, size_t extra)
{
    size_t need, cap;
    char *data;

    if (extra <= b->cap - b->len) {
        return 0;
    }
    if (b->len > b->limit || extra > b->limit - b->len) {
        return -1;
    }
    need = b->len + extra;
    cap = b->cap < BUF_FIRST / 2 ? BUF_FIRST : b->cap;
    while (cap < need) {
        cap = cap > b->limit / 2 ? b->limit : cap * 2;
    }
    if (cap > b->limit) {
        cap = b->limit;
    }
    data = realloc(b->data, cap);
    if (data == NULL) {
        return -1;
    }
    b->data = data;
    b->cap = cap;
    return 0;
}

int
buf_append(struct buf *b, const void *data, size_t len)
{
    if (buf_reserve(b, len) < 0) {
        return -1;
    }
    if (len > 0) {
        memcpy(b->data + b->len, data, len);
        b->len += len;
    }
    return 0;
}

int
buf_append_str(struct buf *b, const char *s)
{
    return buf_append(b, s, strlen(s));
}
