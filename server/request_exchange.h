/* SPDX-License-Identifier: MIT
 *
 * One connection of `forebay request` to an application server: sends a message
 * and reads the answer at the same time, so that neither side can block the
 * other. The tool only.
 */
#ifndef FOREBAY_SERVER_REQUEST_EXCHANGE_H
#define FOREBAY_SERVER_REQUEST_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/buf.h"
#include "server/address.h"
#include "server/request_message.h"

/* Exit codes of the tool; the numbers are curl's. */
enum exchange_code {
    EXCHANGE_OK = 0,
    EXCHANGE_USAGE = 2,
    EXCHANGE_NO_CONNECTION = 7,
    EXCHANGE_STATUS = 22, /* --fail and a status of 400 or more */
    EXCHANGE_OUTPUT = 23, /* the output cannot be written */
    EXCHANGE_INPUT = 26,  /* the body cannot be read */
    EXCHANGE_TIMEOUT = 28,
    EXCHANGE_BROKEN = 56, /* broken off, not understood, or refused */
};

/* A record on its way in. */
struct exchange_record {
    unsigned char header[8];
    unsigned header_len;
    size_t content_left;
    unsigned padding_left;
    unsigned char small[16]; /* of END_REQUEST and management records */
    unsigned small_len;
};

struct exchange {
    bool scgi;
    int role; /* FastCGI: FCGI_RESPONDER ... */
    bool keep_conn;
    unsigned connections; /* made so far */

    int fd;         /* -1: not connected */
    struct buf out; /* bytes to send, from out_sent on */
    size_t out_sent;
    struct exchange_record in;

    /* Bytes of FCGI_STDOUT (or of the SCGI answer) and FCGI_STDERR. 0, or -1:
     * give up (EXCHANGE_OUTPUT). */
    int (*on_stdout)(void *ctx, const char *data, size_t len);
    int (*on_stderr)(void *ctx, const char *data, size_t len);
    void *ctx;

    /* The answer. */
    bool ended; /* END_REQUEST, or end-of-file with SCGI */
    uint32_t app_status;
    unsigned protocol_status;
    char why[512]; /* a sentence when the code is not OK */
};

void exchange_init(struct exchange *x);
void exchange_release(struct exchange *x);

/* Connect unless a kept connection is there. deadline_ms: monotonic, 0 none. */
enum exchange_code exchange_connect(struct exchange *x, const struct address *a,
                                    uint64_t deadline_ms);

/* Send m and read the answer to its end. */
enum exchange_code exchange_run(struct exchange *x, struct message *m,
                                uint64_t deadline_ms);

/* Milliseconds of the monotonic clock. */
uint64_t exchange_now_ms(void);

#endif
