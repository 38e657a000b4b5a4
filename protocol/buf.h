/* SPDX-License-Identifier: MIT
 *
 * Growable bytes with a hard limit. Any process, GIL not needed, never logs.
 */
#ifndef FOREBAY_PROTOCOL_BUF_H
#define FOREBAY_PROTOCOL_BUF_H

#include <stddef.h>

struct buf {
    char *data;   /* owned; NULL while cap is 0 */
    size_t len;   /* bytes in use */
    size_t cap;   /* bytes allocated */
    size_t limit; /* len never grows beyond it */
};

/* Empty, with room for nothing; grows up to limit bytes. */
void buf_init(struct buf *b, size_t limit);

/* Free the memory; the buffer stays usable (empty, same limit). NULL is fine.
 */
void buf_release(struct buf *b);

/* Forget the contents, keep the memory. */
void buf_clear(struct buf *b);

/* Make room for extra more bytes behind len. 0, or -1 when the limit or the
 * memory does not allow it (nothing changes then). */
int buf_reserve(struct buf *b, size_t extra);

/* Append bytes. 0 or -1 as buf_reserve. */
int buf_append(struct buf *b, const void *data, size_t len);
int buf_append_str(struct buf *b, const char *s);

#endif
