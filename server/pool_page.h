/* SPDX-License-Identifier: MIT
 *
 * Pages that a worker answers itself on the pool's sockets, without calling the
 * application: ping_path ("pong") and status_path (what every worker of this
 * generation does, from the scoreboard). They wait for a free worker like any
 * request; the manager's own status_listen does not.
 *
 * Worker process, any executor thread; GIL not needed.
 */
#ifndef FOREBAY_SERVER_POOL_PAGE_H
#define FOREBAY_SERVER_POOL_PAGE_H

#include <stdbool.h>

#include "server/executor.h"

/* Is this request for one of them? Then out holds the whole response. */
bool pool_page(const struct worker *w, const struct request *r,
               struct buf *out);

#endif
