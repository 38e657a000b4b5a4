/* SPDX-License-Identifier: MIT
 *
 * Replacing the running binary (SIGUSR2): the manager executes itself again
 * with its listening sockets and hand-over queues; when the pools of the new
 * one serve it says so, and the old one stops gracefully. A new one that ends
 * before that changes nothing.
 *
 * Manager only.
 */
#ifndef FOREBAY_SERVER_UPGRADE_H
#define FOREBAY_SERVER_UPGRADE_H

#include <stdbool.h>
#include <uv.h>

#include "server/pool.h"

/* main(): how this process was started, to be started so again. argv must
 * stay. */
void upgrade_remember(char **argv);

/* The new manager: take what an old one has passed, if one has. */
void upgrade_receive(void);
/* Its listening sockets (empty: there is no old one), and the queue of a pool:
 * true with ret filled in, owned by the caller. */
const struct listener_set *upgrade_listeners(void);
bool upgrade_queue(const char *pool, int ret[2]);
/* Is there an old one that has not been told yet? Then what stands at the paths
 * of sockets is still its own. */
bool upgrade_is_pending(void);
/* Tell the old one that the pools serve; what neither they nor the manager's
 * own sockets have taken is closed. */
void upgrade_complete(const struct pool *pools, const struct listener_set *own);

/* The old manager: start the new one, which gets the sockets of the pools and
 * its own, the manager's. done is called once: ok, it serves, and
 * this manager should stop (without removing its socket paths); else it has
 * ended and everything is as before. 0, or -1 with a sentence in why. */
int upgrade_start(uv_loop_t *loop, const struct pool *pools,
                  const struct listener_set *own,
                  void (*done)(bool ok, void *ctx), void *ctx, char *why,
                  size_t size);

/* The old manager is told to stop: so is a new one that does not serve yet. */
void upgrade_cancel(void);

/* Is this the new manager? Its end is upgrade.c's to see. */
bool upgrade_is_next(int pid);

#endif
