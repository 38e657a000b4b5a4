/* SPDX-License-Identifier: MIT
 *
 * A line of the access log while it is written: bytes and numbers behind one
 * another, those from outside escaped. Any process, any thread, never waits.
 * For access_format.c and access_json.c.
 */
#ifndef FOREBAY_SERVER_ACCESS_LINE_H
#define FOREBAY_SERVER_ACCESS_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/access_format.h"

struct access_line {
    char *out;
    size_t len;
    size_t limit; /* of len; a newline fits behind it */
};

/* Bytes from outside. */
struct access_span {
    const char *data;
    size_t len;
};

/* What does not fit is cut. */
void access_put(struct access_line *l, const char *data, size_t len);
void access_put_str(struct access_line *l, const char *text);
void access_put_number(struct access_line *l, uint64_t n);

/* All of it, or nothing and no more: for an escape. */
void access_put_whole(struct access_line *l, const char *data, size_t len);

/* Outside bytes; what is not plain becomes \xNN. */
void access_put_escaped(struct access_line *l, struct access_span s);
/* "-" for what is not there or empty. */
void access_put_field(struct access_line *l, struct access_span s);

/* Printable ASCII but the quotation mark and the backslash? */
bool access_is_plain(unsigned char c);
/* The sixteen digits. */
extern const char access_hex[];

/* A parameter of the request; data is NULL when it has none. */
struct access_span access_param(const struct access_entry *e, const char *name);

#endif
