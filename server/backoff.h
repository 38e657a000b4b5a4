/* SPDX-License-Identifier: MIT
 *
 * Back-off: how long to wait before a worker or template is started
 * again, and when the first start has failed for good. Pure: no clock, no
 * process. Manager.
 */
#ifndef FOREBAY_SERVER_BACKOFF_H
#define FOREBAY_SERVER_BACKOFF_H

#include <stdbool.h>
#include <stdint.h>

struct backoff {
    unsigned quick; /* ends in a row that came too soon */
};

/* A life that is shorter and has answered nothing counts as a quick end. */
enum {
    BACKOFF_LIFE_MS = 1000,
    BACKOFF_DELAY_MS = 100, /* after the second quick end; doubles */
    BACKOFF_MAX_MS = 30000, /* at most */
};

/* A process ended by itself: how many ms to wait before the next one. The first
 * quick end costs nothing: one bad request must not slow a pool down. */
uint64_t backoff_after_end(struct backoff *b, uint64_t lived_ms,
                           uint64_t answered);

/* One became ready: all is well again. */
void backoff_ready(struct backoff *b);

/* Has a pool that never became ready failed often enough to give up? */
bool backoff_gives_up(const struct backoff *b, unsigned max_failures);

#endif
