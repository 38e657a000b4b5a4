/* SPDX-License-Identifier: MIT
 *
 * Monotonic time in nanoseconds. Any process, any thread.
 */
#ifndef FOREBAY_SERVER_CLOCK_H
#define FOREBAY_SERVER_CLOCK_H

#include <stdint.h>
#include <time.h>

enum { NS_PER_MS = 1000000 };

static inline uint64_t
clock_read(clockid_t which)
{
    struct timespec t;

    clock_gettime(which, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t
clock_now_ns(void)
{
    return clock_read(CLOCK_MONOTONIC);
}

/* Within a few milliseconds, for deadlines; a fifth of the price. */
static inline uint64_t
clock_coarse_ns(void)
{
    return clock_read(CLOCK_MONOTONIC_COARSE);
}

#endif
