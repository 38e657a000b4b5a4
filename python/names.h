/* SPDX-License-Identifier: MIT
 *
 * Parameter names that a thread has seen: each as one interned str, with its
 * class. Internal to python/. GIL held.
 */
#ifndef FOREBAY_PYTHON_NAMES_H
#define FOREBAY_PYTHON_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/cgi.h"
#include "python/pyref.h"

struct name {
    PyObject *text;   /* owned; interned; NULL: the entry is free */
    uint64_t request; /* number of the request that last had it (shape.c) */
    uint32_t hash;
    enum cgi_class class;
};

/* A hash table, open addressing. */
struct names {
    struct name *entry;
    unsigned cap; /* a power of two */
    unsigned count;
    unsigned limit;   /* of count: names come from clients */
    uint64_t request; /* counts the requests whose names were looked up */
};

/* Learn the usual names, and allow so many more. 0, or -1 with an exception
 * set. */
int names_init(struct names *names, unsigned learned) PY_RAISES_NEG;
void names_release(struct names *names);

/* The entry of a name, learned now if need be; valid until the next call. *ret
 * is NULL when it cannot be learned. 0, or -1 with an exception set. */
int names_learn(struct names *names, const char *name, size_t len,
                struct name **ret) PY_RAISES_NEG;

/* A str for a name. Known ones are interned, so that a lookup with a literal of
 * the application finds them by identity. */
PyObject *name_text(const char *name, size_t len, bool intern);

/* cgi_classify(), but for the keys of the server, whose place no parameter may
 * take (PEP 3333, and wsgi checklist B19): CGI_DROP. */
enum cgi_class name_classify(const char *name, size_t len);

#endif
