/* SPDX-License-Identifier: MIT
 *
 * The answer that `forebay request` gets: finds the end of its head, its status
 * and whether it is whole, and writes it out. The tool only; knows no protocol
 * but that of the head (RFC 3875, section 6).
 */
#ifndef FOREBAY_SERVER_REQUEST_ANSWER_H
#define FOREBAY_SERVER_REQUEST_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "protocol/buf.h"
#include "server/request_exchange.h"

struct answer {
    FILE *out;    /* NULL until the output is open; borrowed */
    bool include; /* the head goes there too */
    bool verbose; /* the status goes to standard error */

    struct buf head;
    bool in_body; /* the head is whole */
    int status;
    uint64_t body_bytes;
};

void answer_init(struct answer *a);
void answer_release(struct answer *a);
/* Before the next one. */
void answer_clear(struct answer *a);

/* The bytes that came next. 0, or -1: the output cannot be written, or the head
 * is too long, which is a sentence. */
int answer_take(struct answer *a, const char *data, size_t len, char *why,
                size_t size);

/* Write what came of a head that was not finished. */
void answer_show_rest(const struct answer *a);

/* Does the answer hold together? FastCGI's end may come, and SCGI's end-of-file
 * always does, behind a body that was cut. no_body: it was asked for with HEAD.
 * EXCHANGE_OK, or EXCHANGE_BROKEN with a sentence. */
enum exchange_code answer_check(const struct answer *a, bool no_body, char *why,
                                size_t size);

#endif
