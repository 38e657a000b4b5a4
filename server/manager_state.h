/* SPDX-License-Identifier: MIT
 *
 * What the files of the manager share: its state, and the orders that signals,
 * `forebay ctl` and reloads give it. For manager*.c only, which all run on its
 * loop.
 */
#ifndef FOREBAY_SERVER_MANAGER_STATE_H
#define FOREBAY_SERVER_MANAGER_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <uv.h>

#include "conf/config.h"
#include "server/admin.h"
#include "server/control.h"
#include "server/manager.h"
#include "server/pool.h"

struct log_sink;

struct manager {
    uv_loop_t loop;
    struct pool *pools; /* a list, by their `following` */
    struct manager_settings settings;
    struct log_sink *log; /* held */
    const char *file;     /* of the configuration, or NULL */
    char *pidfile; /* owned; there once the first start went well, or NULL */
    bool inherited;
    bool terminal; /* a controlling one */
    bool stopping;
    bool draining;      /* stopping, without a deadline so far */
    bool ordered;       /* somebody has asked for the stop */
    unsigned reloading; /* reloads that have not ended */
    bool hurried;       /* a second order to stop came, or the deadline */
    bool started;       /* every pool of the first start has served */
    int exit_code;
    uv_timer_t deadline; /* of the stop */
    uv_timer_t delay;    /* before it */
    uv_timer_t watchdog; /* systemd's */
    uv_signal_t signal[12];
    unsigned signals;

    struct admin admin;
    struct control_handlers handlers;
    uint64_t started_ms;
    time_t started_at;
    char reload_failure[800]; /* of the file; "": it was read */
    uint64_t reload_failed_ms;
};

/* -- manager.c --------------------------------------------------------------
 */

/* Once: finish what runs. Twice: at once. why begins the line of the log. */
void manager_stop(struct manager *m, int code, const char *why);
/* End with the last request; timeout_ms 0: whenever that is. */
void manager_drain(struct manager *m, uint64_t timeout_ms);
/* A new manager takes over (SIGUSR2). */
void manager_upgrade(struct manager *m);
/* One worker more or fewer in every pool that serves. */
void manager_scale_all(struct manager *m, int by);

/* Open a pool with these settings (taken over) and put it into the list. 0 or
 * an exit code; what was wrong has been logged. */
int manager_add_pool(struct manager *m, struct pool_settings *s,
                     struct pool **ret);
/* One that is not stopping, or NULL. */
struct pool *manager_find_pool(struct manager *m, const char *name);

/* From now on the number is to be there, or (NULL) nowhere. */
void manager_set_pidfile(struct manager *m, const char *path);
/* The command line's level is stronger. */
void manager_take_log_level(const struct manager_settings *s);
/* Send the manager's lines to where these settings say. 0, or -1 with a
 * sentence in why, and they go where they went before. */
int manager_use_log(struct manager *m, const struct manager_settings *s,
                    char *why, size_t size);

/* -- manager_reload.c -------------------------------------------------------
 */

/* The configuration again, or without a file the code: of all pools or only
 * one. done (NULL: nobody waits) may be called at once. */
void manager_reload(struct manager *m, const char *only, control_done done,
                    void *who);

/* -- manager_ctl.c ----------------------------------------------------------
 */

/* The sockets of the manager itself. 0 or an exit code. */
int manager_open_sockets(struct manager *m, const struct config *c);

/* -- manager_signals.c ------------------------------------------------------
 */

/* 0, or a libuv error that was logged. */
int manager_watch_signals(struct manager *m);
/* Has this process a controlling terminal? */
bool manager_has_terminal(void);

#endif
