/* SPDX-License-Identifier: MIT
 *
 * The manager's control socket, for `forebay ctl`: a unix socket that only the
 * manager's user may open. A client sends one line,
 *
 *     ping | status | status json | metrics | reload [POOL] | stop |
 *     drain [POOL] [timeout=MS] | scale POOL N|+N|-N | log-reopen
 *
 * and is answered "ok" or "error: " and a sentence; behind "ok" text may
 * follow. The end of the connection ends the answer. reload is answered when it
 * has ended; after stop and drain the connection ends when what was stopped has
 * ended.
 *
 * Manager only, on its loop.
 */
#ifndef FOREBAY_SERVER_CONTROL_H
#define FOREBAY_SERVER_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "protocol/buf.h"
#include "server/listener.h"
#include "server/status.h"

/* Somebody who waits: told once. why is NULL, or a sentence: what was asked for
 * did not come about. */
typedef void (*control_done)(const char *why, void *who);

/* What the manager does. A handler that is NULL is answered "error". Those that
 * return int: 0, or -1 with a sentence in why. */
struct control_handlers {
    void *ctx;
    int (*status)(void *ctx, enum status_format format, struct buf *out);
    /* pool NULL: all of them, as the configuration file says now. done may be
     * called at once. */
    void (*reload)(void *ctx, const char *pool, control_done done, void *who);
    /* Stop the manager; the connection ends with it. */
    void (*stop)(void *ctx);
    /* Let a pool finish, for so long at most (0: without a deadline); done when
     * it is gone. pool NULL: the manager, as stop. */
    void (*drain)(void *ctx, const char *pool, uint64_t timeout_ms,
                  control_done done, void *who);
    void (*log_reopen)(void *ctx, control_done done, void *who);
    /* sign is '=', '+' or '-'. */
    int (*scale)(void *ctx, const char *pool, char sign, unsigned number,
                 char *why, size_t size);
};

enum { CONTROL_LINE_MAX = 1024, CONTROL_SCALE_MAX = 4096 };

struct clients;

/* Of its socket: only the user of the manager may open it. */
extern const struct listener_options control_rights;

/* Serve on these sockets (taken over, also on failure); h is borrowed. NULL:
 * out of memory. clients_close() ends it; whoever waits is cut off. */
struct clients *control_open(uv_loop_t *loop, struct listener *l,
                             unsigned count, const struct control_handlers *h);

#endif
