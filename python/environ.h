/* SPDX-License-Identifier: MIT
 *
 * The parameters of a request as a WSGI environ (PEP 3333, "environ
 * Variables"): a new dict for every request, made from what the thread
 * remembers of earlier ones. Internal to python/. GIL held.
 */
#ifndef FOREBAY_PYTHON_ENVIRON_H
#define FOREBAY_PYTHON_ENVIRON_H

#include <stdint.h>

#include "protocol/buf.h"
#include "protocol/request.h"
#include "python/shape.h"

struct state;

enum { ENVIRON_SHAPES = 8 };

/* What a thread remembers of earlier requests. */
struct environ_cache {
    struct names names;
    uint64_t clock; /* counts all requests */
    unsigned template_version;
    unsigned recent;                        /* the shape of the last request */
    struct shape shape[ENVIRON_SHAPES + 1]; /* the last is in the making */
    struct buf scratch;                     /* of cgi_split_path() */
    struct buf advice;                      /* of advice_look() */
};

/* 0, or -1 with an exception set. */
int environ_cache_init(struct environ_cache *cache,
                       const struct state *s) PY_RAISES_NEG;
void environ_cache_release(struct environ_cache *cache);

/* The environ of a request; wsgi.input is None in it. NULL: with *ret_status 0
 * an exception is set; otherwise that status is to be answered because of
 * *ret_why (a constant sentence). */
PyObject *environ_new(struct environ_cache *cache, struct state *s,
                      const struct request *request, int *ret_status,
                      const char **ret_why);

#endif
