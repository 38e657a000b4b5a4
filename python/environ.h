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
#include "protocol/cgi.h"
#include "protocol/request.h"
#include "python/pyref.h"

struct state;

enum {
    ENVIRON_SHAPES = 8,
    /* Larger requests are not remembered. */
    ENVIRON_SHAPE_PARAMS = 128,
    ENVIRON_SHAPE_BYTES = 16 * 1024,
};

/* A parameter name that was seen before. */
struct environ_name {
    PyObject *text;   /* owned; interned; NULL: the entry is free */
    uint64_t request; /* number of the request that last had it ... */
    uint32_t index;   /* ... at this place */
    uint32_t hash;
    enum cgi_class class;
};

/* What becomes of a parameter. */
enum environ_use {
    ENVIRON_SKIP, /* not in environ */
    ENVIRON_SET,  /* there under its name */
    ENVIRON_PATH, /* SCRIPT_NAME, PATH_INFO: go into cgi_split_path() */
};

/* One parameter of a shape. */
struct environ_slot {
    PyObject *name_text;  /* owned */
    PyObject *value_text; /* owned; the last value; NULL when skipped */
    enum cgi_class class;
    enum environ_use use;
};

/* The parameters that front end and client send again and again: the same names
 * in the same order, the same ones empty. dict is the environ of the last such
 * request without what belongs to a request alone; the next one changes the
 * values that differ and copies it. */
struct environ_shape {
    uint64_t signature;
    uint64_t used;  /* when: cache->clock; 0: the shape is free */
    unsigned count; /* of parameters */
    unsigned cap;   /* room in slot and param */
    struct environ_slot *slot;
    struct request_param *param; /* where they stood in the last request */
    char *block;                 /* and its bytes */
    size_t block_cap;
    PyObject *dict;
    /* Places of parameters that others depend on, or -1. */
    int method, script_name, path_info, document_uri, request_uri, https,
        scheme;
    bool path_stale; /* an input of SCRIPT_NAME and PATH_INFO changed */
    bool scheme_stale;
    bool keep; /* it may serve another request */
};

struct environ_cache {
    struct environ_name *name; /* open addressing */
    unsigned name_cap;         /* a power of two */
    unsigned name_count;
    unsigned name_limit;
    uint64_t request; /* counts the requests that made a shape */
    uint64_t clock;   /* counts all requests */
    unsigned template_version;
    unsigned recent; /* the shape of the last request */
    struct environ_shape shape[ENVIRON_SHAPES + 1]; /* the last is the one in
                                                       the making */
    struct buf scratch;                             /* of cgi_split_path() */
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
