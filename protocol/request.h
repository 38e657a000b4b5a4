/* SPDX-License-Identifier: MIT
 *
 * One request as every protocol produces it: parameters, role, what is known
 * of the body. Filled by a decoder, read by everyone else. Any process, GIL not
 * needed, never logs.
 *
 * Memory: a request owns its parameter block, its index and the body bytes
 * that were kept; request_clear() keeps the memory for the next request,
 * request_release() frees it.
 */
#ifndef FOREBAY_PROTOCOL_REQUEST_H
#define FOREBAY_PROTOCOL_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/buf.h"

enum request_protocol { REQUEST_FCGI, REQUEST_SCGI, REQUEST_UWSGI };

/* The numbers are those of the FastCGI specification, section 5.1. */
enum request_role {
    REQUEST_RESPONDER = 1,
    REQUEST_AUTHORIZER = 2,
    REQUEST_FILTER = 3,
};

/* What a peer may make grow; from the pool's settings. */
struct request_limits {
    size_t params_bytes; /* names and values of one request together */
    size_t params_count; /* number of parameters */
    uint64_t body_bytes; /* body of one request; 0: no limit */
    unsigned mpx;        /* concurrent requests on one connection, >= 1 */
    unsigned max_conns;  /* told in FCGI_GET_VALUES_RESULT */
    unsigned max_reqs;   /* the same; 0: as max_conns */
};

/* Offsets into params.data; the value stands right behind the name (FastCGI)
 * or one byte behind it (SCGI, a NUL between). Neither is NUL-terminated. */
struct request_param {
    uint32_t name;
    uint32_t name_len;
    uint32_t value;
    uint32_t value_len;
};

struct request {
    enum request_protocol protocol;
    enum request_role role;
    uint16_t id;    /* FastCGI request id; 0 with SCGI */
    uint8_t slot;   /* its place among those of its decoder, for ever */
    bool keep_conn; /* the peer wants the connection kept (FCGI_KEEP_CONN) */
    bool active;    /* between BEGIN and request_clear() */
    bool head_done; /* all parameters are here */
    bool body_done; /* the end of the body was seen (FastCGI: the empty STDIN
                       record; SCGI: CONTENT_LENGTH bytes) */
    bool data_done; /* filter role: the end of FCGI_DATA was seen */
    bool aborted;   /* FCGI_ABORT_REQUEST was received */

    int refuse_status;    /* 0, or answer this HTTP status without calling
                             the application */
    char refuse_why[160]; /* for the log, escaped, names what was too much */

    struct buf params;           /* the names and values */
    struct request_param *param; /* param_count entries */
    unsigned param_count;
    unsigned param_cap;
    uint32_t params_parsed; /* bytes of params that were taken apart; what is
                               behind them is the beginning of a pair */
    size_t params_used;     /* bytes of all names and values together */

    /* Well-known parameters, as index into param, or -1. The last one counts
     * when a name comes several times. */
    int method;             /* REQUEST_METHOD */
    int uri;                /* REQUEST_URI */
    int64_t content_length; /* CONTENT_LENGTH; -1 absent, "", negative, no
                               number: then the body ends where STDIN ends */
    uint64_t body_seen;     /* body bytes decoded so far, surplus included */
    uint64_t body_given;    /* of these, handed to whoever wanted them (the
                               application, the kept bytes below) */

    struct buf kept;  /* body bytes that came before somebody wanted them */
    size_t kept_used; /* of these, already read */
};

void request_init(struct request *r, const struct request_limits *limits);
void request_release(struct request *r);

/* Ready for the next request of the connection; big buffers are given back,
 * small ones kept. */
void request_clear(struct request *r);

/* Whether one more pair of size bytes (name and value together) keeps within
 * the limits; if not, the request is refused with 431. name is for the message,
 * and may be cut. */
bool request_fits(struct request *r, const struct request_limits *limits,
                  const char *name, size_t name_len, uint64_t size);

/* Record the pair whose name_len and value_len bytes stand at offset name (and
 * value) of r->params. 0, or -1 over the limits or out of memory (refuse_status
 * is then set). Notes the well-known names. */
int request_add_param(struct request *r, const struct request_limits *limits,
                      uint32_t name, uint32_t name_len, uint32_t value,
                      uint32_t value_len);

/* All parameters are here: sets head_done, and refuses with 413 a request whose
 * CONTENT_LENGTH is over the limit. An authorizer has no body (FastCGI 1.0,
 * section 6.3): its body_done is set as well. */
void request_end_params(struct request *r, const struct request_limits *limits);

/* How many of the body bytes that come next may be given to the application:
 * not past CONTENT_LENGTH, not over the limit, none of a refused request.
 * UINT64_MAX when nothing bounds them. */
uint64_t request_body_room(const struct request *r,
                           const struct request_limits *limits);

/* len body bytes arrived: adds them to body_seen and returns how many of them,
 * from the first, may be given to the application. Refuses with 413 a body that
 * grows over the limit. Does not touch body_given. */
size_t request_take_body(struct request *r, const struct request_limits *limits,
                         size_t len);

/* The last value of a parameter, not NUL-terminated, or NULL. */
const char *request_param(const struct request *r, const char *name,
                          size_t *ret_len);

/* Mark the request as not to be run: status is 400, 413, 431 ...; the first
 * reason wins. why is copied, cut and escaped. */
void request_refuse(struct request *r, int status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Bytes from outside as text for a log: what is not printable ASCII, and the
 * backslash, becomes \xNN. Cut to size, NUL-terminated; returns the length. */
size_t request_escape(char *out, size_t size, const char *s, size_t len);

#endif
