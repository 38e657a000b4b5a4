/* SPDX-License-Identifier: MIT
 *
 * What is said and counted when a worker has ended; whether another one starts
 * is generation.c's. Manager only. i is its slot, status that of waitpid(2).
 */
#ifndef FOREBAY_SERVER_WORKER_END_H
#define FOREBAY_SERVER_WORKER_END_H

#include <stdint.h>

#include "server/generation.h"

/* How many requests it has answered. What it has counted goes into the pool's
 * history. */
uint64_t worker_end_answered(struct generation *g, unsigned i);

/* Has it been of use? As above; an external program counts no requests for us,
 * but many end in order after so many of them (PHP_FCGI_MAX_REQUESTS). */
uint64_t worker_end_merits(struct generation *g, unsigned i, int status);

/* Count the end, and log it with what its threads were doing, which the
 * scoreboard forgets. delay: in ms, before another one starts. */
void worker_end_tell(struct generation *g, unsigned i, int status,
                     uint64_t delay);

#endif
