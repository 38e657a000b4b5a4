/* SPDX-License-Identifier: MIT
 *
 * What forebay-load is asked to do, and what it found. forebay-load sends
 * FastCGI, SCGI or HTTP requests to a server as a front end or a browser would,
 * checks every answer and prints one line of JSON. One process, one thread; not
 * installed.
 */
#ifndef FOREBAY_BENCH_LOAD_H
#define FOREBAY_BENCH_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum load_protocol { LOAD_FCGI, LOAD_SCGI, LOAD_HTTP };

/* How a request can end. Everything but LOAD_OK is a failure. */
enum load_result {
    LOAD_OK,
    LOAD_REFUSED,  /* connect: nobody listens, or the backlog is full */
    LOAD_CONNECT,  /* connect: anything else */
    LOAD_CLOSED,   /* the connection ended before the answer was whole */
    LOAD_TIMEOUT,  /* no whole answer in time */
    LOAD_PROTOCOL, /* the bytes are no answer of the protocol */
    LOAD_STATUS,   /* not the status that was expected */
    LOAD_LENGTH,   /* not the length that was expected or announced */
    LOAD_CONTENT,  /* not the bytes that were expected */
    LOAD_RESULTS,
};

enum { LOAD_MAX_PARAMS = 1024 };

/* Strings are borrowed from the command line. */
struct load_options {
    const char *connect; /* "unix:/path", "/path" or "host:port" */
    enum load_protocol protocol;
    bool keep; /* ask for kept connections */
    unsigned connections;
    uint64_t requests;    /* at most */
    uint64_t duration_ms; /* begin none after so long; 0: no such limit */
    uint64_t timeout_ms;  /* of one request */
    const char *uri;
    const char *slow_uri; /* one more connection asks for this; or NULL */
    const char *method;
    size_t body_bytes;
    const char *param[LOAD_MAX_PARAMS]; /* NAME=VALUE, replaces or is added */
    unsigned param_count;
    unsigned check_status;
    int64_t check_length;     /* of the body; -1: as announced, if it was */
    const char *check_prefix; /* the body begins with it; or NULL */
    bool check_echo;          /* the body is the request's body */
    const char *check_body;   /* the whole body, owned by main; or NULL */
};

/* Latencies in nanoseconds, of good answers, in the order they came. */
struct load_latencies {
    uint64_t *ns; /* owned */
    size_t count;
    size_t room;
};

struct load_report {
    uint64_t result[LOAD_RESULTS]; /* how many requests ended so */
    uint64_t reconnects;     /* kept connections that the server had closed */
    uint64_t response_bytes; /* of the bodies of good answers */
    uint64_t begun;          /* requests, all of which have ended */
    uint64_t elapsed_ns;
    uint64_t longest_gap_ns; /* longest time without the end of a good one */
    struct load_latencies fast;
    struct load_latencies slow; /* of slow_uri */
    uint64_t slow_failed;
    char example[512]; /* what was wrong first, for a person; or "" */
};

#endif
