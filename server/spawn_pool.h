/* SPDX-License-Identifier: MIT
 *
 * `forebay spawn --supervise`: the same options as a pool under a manager,
 * which restarts programs that end, obeys signals and `forebay ctl`, and writes
 * a log (multiwatch's job). There is no second supervisor: this makes settings
 * and calls manager_run().
 */
#ifndef FOREBAY_SERVER_SPAWN_POOL_H
#define FOREBAY_SERVER_SPAWN_POOL_H

#include "server/spawn_options.h"
#include "server/spawn_rights.h"

/* name: as in spawn_main(). Without -n it returns when the pool serves, and a
 * process of its own session supervises it; with -n when that has ended. The
 * exit code: that of `forebay serve` (manager.h), 255 for a wrong option. */
int spawn_pool(const char *name, const struct spawn_options *o,
               const struct spawn_rights *rights);

#endif
