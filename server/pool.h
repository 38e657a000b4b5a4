/* SPDX-License-Identifier: MIT
 *
 * The policy of a pool: how long to wait before a worker or template is started
 * again, and when the first start has failed for good. Pure: no clock, no
 * process. Manager.
 */
#ifndef FOREBAY_SERVER_POOL_H
#define FOREBAY_SERVER_POOL_H

#include <stdbool.h>
#include <stdint.h>

struct pool_backoff {
    unsigned quick; /* ends in a row that came too soon */
};

/* A life that is shorter and has answered nothing counts as a quick end. */
enum {
    POOL_LIFE_MS = 1000,
    POOL_DELAY_MS = 100,       /* after the second quick end; doubles */
    POOL_DELAY_MAX_MS = 30000, /* at most */
};

/* A process ended by itself: how many ms to wait before the next one. The first
 * quick end costs nothing: one bad request must not slow a pool down. */
uint64_t pool_after_end(struct pool_backoff *b, uint64_t lived_ms,
                        uint64_t answered);

/* One became ready: all is well again. */
void pool_ready(struct pool_backoff *b);

/* Has a pool that never became ready failed often enough to give up? */
bool pool_gives_up(const struct pool_backoff *b, unsigned max_failures);

#endif
