/* SPDX-License-Identifier: MIT
 *
 * What python/ keeps per interpreter: types, interned names, the environ
 * template, hooks. There is no static PyObject anywhere (wsgi checklist R6):
 * the state hangs on the interpreter's own dictionary and on the module
 * `forebay`, and every wsgi_thread points to it. Never freed: interpreters are
 * not finalised (R27, R29).
 */
#ifndef FOREBAY_PYTHON_STATE_H
#define FOREBAY_PYTHON_STATE_H

#include <stdatomic.h>

#include "python/pyref.h"
#include "python/wsgi.h"

/* Interned names, as members of struct state and as text. */
#define STATE_NAMES(X)                                                         \
    X(close, "close")                                                          \
    X(dict, "__dict__")                                                        \
    X(file, "file")                                                            \
    X(fileno, "fileno")                                                        \
    X(flush, "flush")                                                          \
    X(raw, "raw")                                                              \
    X(read, "read")                                                            \
    X(tell, "tell")                                                            \
    X(authorization, "HTTP_AUTHORIZATION")                                     \
    X(redirected, "REDIRECT_HTTP_AUTHORIZATION")                               \
    X(path_info, "PATH_INFO")                                                  \
    X(script_name, "SCRIPT_NAME")                                              \
    X(role, "forebay.role")                                                    \
    X(data, "forebay.data")                                                    \
    X(input, "wsgi.input")                                                     \
    X(url_scheme, "wsgi.url_scheme")

#define STATE_MEMBER(name, text) PyObject *name;

struct state {
    /* All owned; set once by state_new() but for the template. */
    struct {
        STATE_NAMES(STATE_MEMBER)
    } name;
    PyTypeObject *input_type;
    PyTypeObject *start_response_type;
    PyTypeObject *write_type;
    PyTypeObject *file_wrapper_type;
    PyTypeObject *file_type;            /* io.FileIO */
    PyTypeObject *buffered_reader_type; /* io.BufferedReader */
    PyTypeObject *buffered_random_type; /* io.BufferedRandom */
    PyTypeObject *bytes_io_type;        /* io.BytesIO */
    PyObject *errors;                   /* wsgi.errors */
    PyObject *empty;                    /* "" */
    PyObject *http, *https;             /* wsgi.url_scheme */
    PyObject *worker_start;             /* list of hooks, in order */
    PyObject *worker_exit;
    PyObject *request_timeout; /* forebay.RequestTimeout */

    /* What every environ begins with (wsgi checklist R17), the mount as str,
     * and a number that changes with them. NULL and 0 before wsgi_setup(). */
    PyObject *template;
    PyObject *mount;
    unsigned template_version;
    const struct wsgi_config *config; /* borrowed; NULL before wsgi_setup() */

    /* Said once per process. */
    atomic_flag warned_bytes;  /* the application returns bytes, no list */
    atomic_flag warned_reason; /* a status without a reason */
    atomic_flag warned_hop;    /* a hop-by-hop header was dropped */
    atomic_flag warned_head;   /* more headers than front ends may take */
};

/* The state of this interpreter, made when it is first asked for, valid as long
 * as it. NULL with an exception set. GIL held. */
struct state *state_get(void);

/* Make the environ template from a configuration. 0, or -1 with an exception
 * set. environ.c. */
int state_set_config(struct state *s, const struct wsgi_config *config);

#endif
