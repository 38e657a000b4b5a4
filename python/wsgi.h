/* SPDX-License-Identifier: MIT
 *
 * One WSGI call: environ, application, start_response, iteration, close
 * (PEP 3333). Bytes come from and go to a struct wsgi_io (io.h) that the
 * server implements; there is no socket in here. Worker process (and the
 * template for warm-up requests).
 */
#ifndef FOREBAY_PYTHON_WSGI_H
#define FOREBAY_PYTHON_WSGI_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "python/io.h"
#include "python/pyref.h"

/* Of a pool, for all its threads; strings are borrowed and live as long. */
struct wsgi_config {
    const char *pool;   /* its name */
    const char *mount;  /* "" or "/x" */
    bool path_from_uri; /* path_source = request_uri */
    bool multithread;
    bool multiprocess;
    bool pass_http_proxy;
    bool redirect_authorization; /* HTTP_AUTHORIZATION from REDIRECT_... */
    bool drop_hop_by_hop;        /* drop with a warning instead of refusing */
    bool exit_on_system_exit;
    const char *url_scheme;  /* "http" or "https" to force, or NULL */
    const char *server_name; /* used when the front end sends none */
    const char *server_port;
    const char *sendfile_header;     /* NULL: files are sent by ourselves */
    const char *const *sendfile_map; /* "/path=/target", NULL behind the last */
    size_t max_response_headers;     /* bytes */
    uint64_t request_timeout_ms;     /* 0: none; for forebay.deadline() */
    unsigned learned_names;          /* limit of cached parameter names */
    int worker_id;
    _Atomic unsigned *advised; /* shared by all processes of the pool: a bit for
                                  each enum advice that was given; or NULL */
};

/* Types, interned names and the environ template of this interpreter. Called
 * once per process after interp_start, GIL held. 0, or -1 with an exception
 * set. config is borrowed for ever. wsgi_setup_worker() is called again in each
 * worker after fork with the worker's own config (worker_id). */
int wsgi_setup(const struct wsgi_config *config);
int wsgi_setup_worker(const struct wsgi_config *config);

/* The state of one executor thread. GIL held. app: a new reference is taken. */
struct wsgi_thread *wsgi_thread_new(PyObject *app);
void wsgi_thread_free(struct wsgi_thread *t);

#endif
