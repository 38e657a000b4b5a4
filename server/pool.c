/* SPDX-License-Identifier: MIT
 *
 * See pool.h.
 */
#include "server/pool.h"

uint64_t
pool_after_end(struct pool_backoff *b, uint64_t lived_ms, uint64_t answered)
{
    uint64_t delay = POOL_DELAY_MS;

    if (lived_ms >= POOL_LIFE_MS || answered > 0) {
        b->quick = 0;
        return 0;
    }
    b->quick++;
    if (b->quick == 1) {
        return 0;
    }
    for (unsigned i = 2; i < b->quick && delay < POOL_DELAY_MAX_MS; i++) {
        delay *= 2;
    }
    return delay < POOL_DELAY_MAX_MS ? delay : POOL_DELAY_MAX_MS;
}

void
pool_ready(struct pool_backoff *b)
{
    b->quick = 0;
}

bool
pool_gives_up(const struct pool_backoff *b, unsigned max_failures)
{
    return b->quick >= max_failures;
}
