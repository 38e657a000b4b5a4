/* SPDX-License-Identifier: MIT
 *
 * See warmup.h. The requests have no peer: what is sent is dropped.
 */
#include "server/warmup.h"

#include <stdio.h>
#include <string.h>

#include "python/interp.h"
#include "python/wsgi.h"
#include "server/log.h"

static size_t
no_body(struct wsgi_io *io, const char **ret)
{
    (void)io;
    (void)ret;
    return 0;
}

static void
take_nothing(struct wsgi_io *io, size_t n)
{
    (void)io;
    (void)n;
}

static ssize_t
read_nothing(struct wsgi_io *io, char *out, size_t len)
{
    (void)io;
    (void)out;
    (void)len;
    return 0;
}

static int
drop(struct wsgi_io *io, const struct iovec *iov, int iovcnt, bool last)
{
    (void)io;
    (void)iov;
    (void)iovcnt;
    (void)last;
    return 0;
}

static int64_t
drop_file(struct wsgi_io *io, const struct iovec *head, int fd, off_t offset,
          uint64_t len, bool last)
{
    (void)io;
    (void)head;
    (void)fd;
    (void)offset;
    (void)last;
    return (int64_t)len;
}

static bool
yes(struct wsgi_io *io)
{
    (void)io;
    return true;
}

static const struct wsgi_io_ops nowhere = {
    .body_ready = no_body,
    .body_take = take_nothing,
    .body_read_nogil = read_nothing,
    .write_nogil = drop,
    .sendfile_nogil = drop_file,
    .connected = yes,
};

static int
add(struct request *r, const struct request_limits *limits, const char *name,
    const char *value)
{
    uint32_t at = (uint32_t)r->params.len;
    uint32_t name_len = (uint32_t)strlen(name);
    uint32_t value_len = (uint32_t)strlen(value);

    return buf_append(&r->params, name, name_len) == 0 &&
                   buf_append(&r->params, value, value_len) == 0
               ? request_add_param(r, limits, at, name_len, at + name_len,
                                   value_len)
               : -1;
}

/* The request that a front end would send for GET path. */
static int
fill(struct request *r, const struct request_limits *limits,
     const struct pool_settings *s, const char *path)
{
    const char *query = strchr(path, '?');
    char plain[2048], uri[2048];

    snprintf(plain, sizeof(plain), "%s%.*s", s->mount != NULL ? s->mount : "",
             query != NULL ? (int)(query - path) : (int)strlen(path), path);
    snprintf(uri, sizeof(uri), "%s%s", s->mount != NULL ? s->mount : "", path);
    r->protocol = REQUEST_FCGI;
    r->role = REQUEST_RESPONDER;
    r->active = r->head_done = r->body_done = true;
    return add(r, limits, "REQUEST_METHOD", "GET") == 0 &&
                   add(r, limits, "SCRIPT_NAME", "") == 0 &&
                   add(r, limits, "PATH_INFO", plain) == 0 &&
                   add(r, limits, "REQUEST_URI", uri) == 0 &&
                   add(r, limits, "QUERY_STRING",
                       query != NULL ? query + 1 : "") == 0 &&
                   add(r, limits, "SERVER_NAME", "localhost") == 0 &&
                   add(r, limits, "SERVER_PORT", "80") == 0 &&
                   add(r, limits, "SERVER_PROTOCOL", "HTTP/1.1") == 0 &&
                   add(r, limits, "REMOTE_ADDR", "127.0.0.1") == 0 &&
                   add(r, limits, "HTTP_HOST", "localhost") == 0
               ? 0
               : -1;
}

/* Once fills caches; the interpreter also rewrites code that it has run several
 * times (PEP 659), and what is written before the fork is shared. */
enum { RUNS = 20 };

int
warmup_run(const struct pool_settings *s, const struct app_name *name,
           PyObject *imported, char *why, size_t size)
{
    struct request_limits limits = { .params_bytes = 65536,
                                     .params_count = 100,
                                     .mpx = 1 };
    struct wsgi_thread *thread;
    struct request r;
    PyObject *app;

    if (s->warmup.count == 0) {
        return 0;
    }
    if (app_make(name, imported, &app, why, size) != 0) {
        return -1;
    }
    thread = wsgi_thread_new(app);
    Py_DECREF(app);
    if (thread == NULL) {
        PyErr_Clear();
        snprintf(why, size, "out of memory");
        return -1;
    }
    request_init(&r, &limits);
    for (unsigned i = 0; i < s->warmup.count; i++) {
        struct wsgi_io io = { &nowhere };
        struct wsgi_outcome outcome = { 0 };

        for (int run = 0; run < RUNS; run++) {
            if (fill(&r, &limits, s, s->warmup.item[i]) == 0) {
                interp_release();
                wsgi_run_nogil(thread, &r, &io, &outcome);
                interp_acquire_nogil();
            }
            request_clear(&r);
        }
        log_info("warm-up GET %s: %d", s->warmup.item[i], outcome.status);
    }
    request_release(&r);
    wsgi_thread_free(thread);
    return 0;
}
