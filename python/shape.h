/* SPDX-License-Identifier: MIT
 *
 * The shape of a request: which parameters it has, in which order. Requests of
 * one front end and client differ in a few values only; what is the same is
 * kept as Python objects. Internal to python/. GIL held.
 */
#ifndef FOREBAY_PYTHON_SHAPE_H
#define FOREBAY_PYTHON_SHAPE_H

#include "protocol/request.h"
#include "python/names.h"

struct state;

/* Larger requests are not remembered. */
enum { SHAPE_PARAMS = 128, SHAPE_BYTES = 16 * 1024 };

/* What becomes of a parameter. */
enum slot_use {
    SLOT_SKIP, /* not in environ */
    SLOT_SET,  /* there under its name */
    SLOT_PATH, /* SCRIPT_NAME, PATH_INFO: go into cgi_split_path() */
};

/* One parameter. */
struct slot {
    PyObject *name_text;  /* owned */
    PyObject *value_text; /* owned; the last value; NULL when skipped */
    enum cgi_class class;
    enum slot_use use;
};

/* The same names in the same order, the same ones empty. dict is the environ of
 * the last such request without what belongs to a request alone; the next one
 * changes the values that differ and copies it. */
struct shape {
    uint64_t signature; /* for whoever keeps shapes */
    uint64_t used;      /* likewise: when; 0: the shape is free */
    unsigned count;     /* of parameters */
    unsigned cap;       /* room in slot and param */
    struct slot *slot;
    struct request_param *param; /* where they stood in the last request ... */
    char *block;                 /* ... and its bytes */
    size_t block_cap;
    PyObject *dict;
    /* Places of parameters that others depend on, or -1. */
    int method, script_name, path_info, document_uri, request_uri, https,
        scheme;
    bool path_stale; /* an input of SCRIPT_NAME and PATH_INFO has changed */
    bool scheme_stale;
    bool keep; /* it may serve another request */
};

/* Empty a shape; its memory is kept, or not. */
void shape_clear(struct shape *shape);
void shape_release(struct shape *shape);

/* Make the shape of a request from scratch. 0, or -1 with an exception set. */
int shape_fill(struct shape *shape, struct names *names, const struct state *s,
               const struct request *r) PY_RAISES_NEG;

/* Bring a shape up to a request. 1; 0 when the request is of another shape; -1
 * with an exception set. With 0 and -1 the shape is spoiled if *ret_changed. */
int shape_update(struct shape *shape, const struct request *r,
                 bool *ret_changed) PY_RAISES_NEG;

/* Requests of one shape have the same; others hardly ever do. */
uint64_t shape_signature(const struct request *r);

#endif
