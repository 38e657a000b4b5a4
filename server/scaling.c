/* SPDX-License-Identifier: MIT
 *
 * See scaling.h.
 */
#include "server/scaling.h"

#include <stddef.h>

/* At most so many are started at once: a burst must not become a fork bomb. */
enum { STEP_MAX = 32 };

/* Room for `ctl scale` and TTIN beyond workers, where nothing bounds them. */
enum { HEADROOM = 64 };

static unsigned
most(const struct pool_settings *s)
{
    return s->max_workers > 0 ? s->max_workers : s->workers;
}

unsigned
scaling_most(const struct pool_settings *s)
{
    if (s->scaling == CONF_SCALING_STATIC && s->max_workers <= s->workers) {
        return s->workers + HEADROOM;
    }
    return most(s) > s->workers ? most(s) : s->workers;
}

unsigned
scaling_slots(const struct pool_settings *s)
{
    return scaling_most(s) + s->max_recycling;
}

unsigned
scaling_initial(const struct pool_settings *s)
{
    switch (s->scaling) {
    case CONF_SCALING_DYNAMIC:
        return s->workers < s->min_workers ? s->min_workers
               : s->workers > most(s)      ? most(s)
                                           : s->workers;
    case CONF_SCALING_ONDEMAND:
        return s->min_workers;
    default:
        return s->workers;
    }
}

static int
grow(unsigned by, unsigned room)
{
    by = by < room ? by : room;
    return by < STEP_MAX ? (int)by : STEP_MAX;
}

/* Between two bounds: enough idle ones for the next moment, and not many more
 * than that for long. */
static int
step_between(const struct pool_settings *s, const struct scaling_view *v,
             unsigned least, unsigned spare)
{
    unsigned top = most(s);
    unsigned room = v->live < top ? top - v->live : 0;
    unsigned coming = v->idle + v->starting;

    if (v->live < least) {
        return grow(least - v->live, room);
    }
    if (coming < spare) {
        return grow(spare - coming, room);
    }
    if (v->waiting && coming == 0) {
        return grow(1, room);
    }
    return 0;
}

/* Workers whose threads are kept for short requests are none to spare. */
static unsigned
reserved(const struct pool_settings *s)
{
    return (s->reserved_slots + s->threads - 1) / s->threads;
}

int
scaling_step(const struct pool_settings *s, unsigned target,
             const struct scaling_view *v)
{
    unsigned wanted = target > 0 ? target : s->workers;
    bool bored = v->idle > 0 && v->longest_idle_ms >= s->idle_timeout;
    int step;

    switch (s->scaling) {
    case CONF_SCALING_DYNAMIC:
        step = step_between(s, v, s->min_workers, s->min_spare + reserved(s));
        if (step == 0 && bored && v->idle > s->max_spare + reserved(s) &&
            v->live > s->min_workers) {
            return -1;
        }
        return step;
    case CONF_SCALING_ONDEMAND:
        step = step_between(s, v, s->min_workers, 0);
        return step == 0 && bored && !v->waiting && v->live > s->min_workers
                   ? -1
                   : step;
    default:
        if (v->live < wanted) {
            return (int)(wanted - v->live);
        }
        return v->live > wanted ? -1 : 0;
    }
}

const char *
scaling_used_up(const struct pool_settings *s, const struct scaling_worker *w)
{
    if (w->limit > 0 && w->requests >= w->limit) {
        return "it has answered max_requests";
    }
    /* One that has not done anything would be followed by its like. */
    if (s->max_worker_memory > 0 && w->requests > 0 &&
        w->memory_bytes > s->max_worker_memory) {
        return "it has grown over max_worker_memory";
    }
    if (s->max_worker_age > 0 && w->age_ms >= s->max_worker_age) {
        return "it has reached max_worker_age";
    }
    return NULL;
}

uint64_t
scaling_request_limit(const struct pool_settings *s, uint32_t dice)
{
    if (s->max_requests == 0) {
        return 0;
    }
    return s->max_requests +
           (s->max_requests_jitter > 0
                ? dice % ((uint64_t)s->max_requests_jitter + 1)
                : 0);
}
