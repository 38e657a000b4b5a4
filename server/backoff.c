/* SPDX-License-Identifier: MIT
 *
 * See backoff.h.
 */
#include "server/backoff.h"

uint64_t
backoff_after_end(struct backoff *b, uint64_t lived_ms, uint64_t answered)
{
    uint64_t delay = BACKOFF_DELAY_MS;

    if (lived_ms >= BACKOFF_LIFE_MS || answered > 0) {
        b->quick = 0;
        return 0;
    }
    b->quick++;
    if (b->quick == 1) {
        return 0;
    }
    for (unsigned i = 2; i < b->quick && delay < BACKOFF_MAX_MS; i++) {
        delay *= 2;
    }
    return delay < BACKOFF_MAX_MS ? delay : BACKOFF_MAX_MS;
}

void
backoff_ready(struct backoff *b)
{
    b->quick = 0;
}

bool
backoff_gives_up(const struct backoff *b, unsigned max_failures)
{
    return b->quick >= max_failures;
}
