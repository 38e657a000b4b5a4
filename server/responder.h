/* SPDX-License-Identifier: MIT
 *
 * The server's side of a running request: body bytes for the application as
 * they come, response bytes out as records, waits with deadlines, files by
 * sendfile. Implements struct wsgi_io on a connection.
 *
 * Worker process, by the thread that runs the request; GIL not held in what
 * waits.
 */
#ifndef FOREBAY_SERVER_RESPONDER_H
#define FOREBAY_SERVER_RESPONDER_H

#include "python/io.h"
#include "server/executor.h"
#include "server/mux.h"

struct responder {
    struct wsgi_io io;
    struct executor *x;
    struct connection *c;
    struct request *request;
    struct stream *stream; /* the connection is shared (mux.h); NULL: it is ours
                              alone, */
    bool lends;        /* and may be taken over while the application runs */
    bool lent;         /* as now */
    bool watched;      /* the control thread looks after it (lookout.h) */
    bool turn;         /* shared: it is our turn to write */
    const char *slice; /* body bytes inside x->read, decoded, not taken */
    size_t slice_len;
    uint64_t looked_ns;   /* when the peer was last looked at while writing */
    uint64_t answered_ns; /* when the end was sent, for the access log */
    uint64_t own_bytes;   /* of an answer of the server's own: its body, */
    int own_status;       /* its status, else 0 */
    int error;            /* 0 or the -errno that every later call gets */
    bool eof;             /* the peer ended its side */
    bool data_on;         /* a filter's FCGI_DATA: the slice is of that now, */
    struct buf data;      /* and what had to be taken in early stands here, */
    size_t data_used;     /* so much of it read */
    bool discard;         /* what still comes of the body is not wanted */
    bool dropped;         /* ... although the application might have read it */
    bool begun;           /* bytes of a response were sent */
    bool sending;         /* within a record */
    bool aborted;  /* the peer has given the request up, not the connection */
    bool complete; /* the last byte of the response was sent */
    bool ended;    /* END_REQUEST was sent (SCGI: all was) */
};

/* Of an executor: text for the front end's error log. */
void responder_init_errors(struct buf *errors);

/* Run the request whose head is complete in the application, or answer what
 * it was refused with. stream: of a shared connection, else NULL; r->stream is
 * set on return when it was shared meanwhile: then it is not owned by the
 * caller any more. On return everything that could be sent was sent;
 * r->ended says whether END_REQUEST went with it (if not: the rest of the body
 * must be read first, or the response was broken off). */
void responder_run(struct responder *r, struct executor *x,
                   struct connection *c, struct request *request,
                   struct stream *stream, struct wsgi_outcome *ret);

/* A whole answer of the server's own with this status; as responder_run. */
void responder_answer(struct responder *r, struct executor *x,
                      struct connection *c, struct request *request,
                      struct stream *stream, int status);

/* The whole answer that stands in x->scratch; as responder_run. */
void responder_send_scratch(struct responder *r, struct executor *x,
                            struct connection *c, struct request *request,
                            struct stream *stream);

/* Send END_REQUEST (FastCGI) for a request that was answered before its body
 * had ended. 0 or -errno. */
int responder_end(struct executor *x, struct connection *c,
                  struct request *request, struct stream *stream);

/* Whoever shares the connection of a request that runs: what it has read and
 * not used. It has nothing any more. */
void responder_yield(struct responder *r, struct mux_start *ret);

#endif
