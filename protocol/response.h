/* SPDX-License-Identifier: MIT
 *
 * The head of a CGI response: checked status and headers into bytes. Both
 * protocols carry the same bytes. Pure; any process, GIL not needed.
 */
#ifndef FOREBAY_PROTOCOL_RESPONSE_H
#define FOREBAY_PROTOCOL_RESPONSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/buf.h"

enum response_check {
    RESPONSE_OK,
    RESPONSE_NO_REASON, /* fine, but the reason phrase is missing */
    RESPONSE_HOP,       /* a hop-by-hop header: refuse or drop, as configured */
    RESPONSE_LENGTH,    /* fine, and it is Content-Length */
    RESPONSE_BAD,       /* *ret_why says what is wrong (a constant phrase) */
};

/* "404 Not Found": three digits 200-999, a space, a reason without control
 * characters (wsgi checklist F2, F3; RFC 9110 15). *ret_code is set unless BAD.
 * 1xx is refused. */
enum response_check response_check_status(const char *s, size_t len,
                                          int *ret_code, const char **ret_why);

/* One header: name is a token (RFC 9110 5.6.2), value has no control character
 * but HTAB; Status is refused; hop-by-hop names give RESPONSE_HOP. For
 * Content-Length the value must be digits that fit 63 bits: *ret_length. */
enum response_check response_check_header(const char *name, size_t name_len,
                                          const char *value, size_t value_len,
                                          int64_t *ret_length,
                                          const char **ret_why);

/* The reason phrase of a status ("Not Found"); "Unknown" for others. */
const char *response_reason(int code);

/* Append "Status: 404 Not Found\r\n". A status without reason gets one. */
int response_put_status(struct buf *out, const char *s, size_t len);
/* Append "Name: value\r\n"; the caller has checked it. */
int response_put_header(struct buf *out, const char *name, size_t name_len,
                        const char *value, size_t value_len);
/* Append "Content-Length: n\r\n". */
int response_put_length(struct buf *out, uint64_t length);
/* Append the empty line. */
int response_put_end(struct buf *out);

/* A whole answer of the server's own: head and a short text/plain body (no
 * body with head_only). Replaces the contents of out. 0 or -1 (no memory). */
int response_simple(struct buf *out, int code, bool head_only);

/* Statuses that never carry a body: 1xx, 204, 304 (RFC 9110 6.4.1). */
static inline bool
response_is_bodyless(int code)
{
    return code < 200 || code == 204 || code == 304;
}

#endif
