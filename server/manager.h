/* SPDX-License-Identifier: MIT
 *
 * The manager: runs the pools of a configuration (pool.h) on one libuv loop and
 * obeys signals and `forebay ctl`. No Python, no request bytes.
 */
#ifndef FOREBAY_SERVER_MANAGER_H
#define FOREBAY_SERVER_MANAGER_H

#include <stdbool.h>

#include "conf/config.h"

/* Exit codes of `forebay serve` (sysexits.h where one fits). */
enum {
    MANAGER_EXIT_OK = 0,
    MANAGER_EXIT_FAILED = 1, /* an application cannot be started */
    MANAGER_EXIT_USAGE = 64,
    MANAGER_EXIT_UNAVAILABLE = 69, /* an address cannot be listened on */
    MANAGER_EXIT_CONFIG = 78,      /* settings, users, virtualenv, worker */
};

/* Run the pools of c (taken over) until told to stop; the exit code. file: read
 * again at a reload, or NULL when the settings came from the command line.
 * inherited: the listening socket is descriptor 0 and the process belongs to
 * whoever started it (lighttpd bin-path, mod_fcgid, spawn-fcgi). Reasons are in
 * the log. */
int manager_run(struct config *c, const char *file, bool inherited);

#endif
