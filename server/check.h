/* SPDX-License-Identifier: MIT
 *
 * `forebay check`: everything that can be known before starting, one plain
 * sentence each. Runs no application code itself; the import is tried by the
 * worker program, as the pool's user.
 */
#ifndef FOREBAY_SERVER_CHECK_H
#define FOREBAY_SERVER_CHECK_H

#include "conf/config.h"

/* Print what was found. 0 when the pool can start, MANAGER_EXIT_CONFIG when
 * something is wrong. */
int check_run(const struct pool_settings *s);

/* The same of all pools of a configuration, each under its name. */
int check_config(const struct config *c);

#endif
