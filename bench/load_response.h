/* SPDX-License-Identifier: MIT
 *
 * Take an answer apart as it comes and check it. Pure; keeps no pointer into
 * what it is fed.
 */
#ifndef FOREBAY_BENCH_LOAD_RESPONSE_H
#define FOREBAY_BENCH_LOAD_RESPONSE_H

#include "bench/load.h"
#include "bench/load_request.h"

enum { LOAD_HEAD_MAX = 4096 };

/* What comes next of a chunked body (RFC 9112, 7.1). */
enum load_chunk {
    CHUNK_SIZE,      /* digits, maybe an extension, to the end of the line */
    CHUNK_EXTENSION, /* what is left of that line */
    CHUNK_DATA,
    CHUNK_DATA_END,     /* the line end behind the data */
    CHUNK_TRAILER,      /* a line of the trailer, so far empty */
    CHUNK_TRAILER_LINE, /* a line of the trailer */
};

struct load_response {
    const struct load_options *options; /* borrowed */
    const struct load_request *request; /* borrowed */
    enum load_result result;            /* LOAD_OK so far, or what is wrong */
    bool done;                          /* nothing more belongs to it */
    bool closes; /* HTTP: the server will not keep the connection */
    bool any;    /* at least one byte has come */
    bool head_done;
    bool chunked; /* HTTP: Transfer-Encoding */
    enum load_chunk chunk;
    uint64_t chunk_left; /* bytes of the current chunk, or its size so far */
    unsigned status;
    int64_t announced; /* Content-Length, or -1 */
    uint64_t body_bytes;
    size_t head_len;       /* bytes in head */
    unsigned header_len;   /* FastCGI: bytes in header */
    unsigned content_left; /* FastCGI: of the current record */
    unsigned padding_left;
    unsigned char end[8]; /* FastCGI: the END_REQUEST body */
    unsigned char header[8];
    char head[LOAD_HEAD_MAX];
};

void load_response_begin(struct load_response *r, const struct load_options *o,
                         const struct load_request *q);

/* Bytes of the server. Afterwards look at done and result. */
void load_response_feed(struct load_response *r, const char *data, size_t len);

/* The server has closed. Sets done, and result when something is missing. */
void load_response_eof(struct load_response *r);

#endif
