/* SPDX-License-Identifier: MIT
 *
 * A worker's life, from the fork to _exit: descriptors, signals, application,
 * threads, serving, orderly end.
 *
 * Runs in the child that the template forked.
 */
#ifndef FOREBAY_SERVER_WORKER_H
#define FOREBAY_SERVER_WORKER_H

#include <stdbool.h>

#include "conf/settings.h"
#include "python/app.h"
#include "python/wsgi.h"
#include "server/scoreboard.h"

struct worker_start {
    const struct pool_settings *settings;
    const struct app_name *app_name;
    PyObject *app; /* imported in the template, borrowed; NULL: the worker
                      starts Python and imports for itself */
    struct wsgi_config *config; /* worker_id is filled in by the worker */
    int slot;
    int channel; /* to the template */
    int log_fd;  /* pipe to the manager: becomes descriptors 1 and 2 */
    int queue_in, queue_out; /* handover.h */
    int access_fd;           /* pipe of the access log, -1: none */
    const int *listen_fd;
    unsigned listen_count;
    const struct scoreboard *board; /* of the whole generation */
    struct scoreboard_slot *score;  /* settings->threads of them */
};

/* Never returns. With s->app the GIL is held. */
void worker_main(const struct worker_start *s) __attribute__((noreturn));

/* Start Python for this pool and import the application; leaves the GIL held.
 * 0, or -1 with a sentence in why (the traceback, if any, has been logged).
 * Template (preload) or worker. */
int worker_import(const struct pool_settings *s, const struct app_name *name,
                  const struct wsgi_config *config, PyObject **ret_app,
                  char *why, size_t size);

/* Signals of a process that runs Python: TERM calls on_term (may be NULL), INT,
 * HUP and QUIT do nothing (orders come over the channel), PIPE and XFSZ are
 * ignored, CHLD is default; nothing is blocked. Handlers, not SIG_IGN, so that
 * programs that the application starts get the defaults. */
void worker_signals(void (*on_term)(int));

#endif
