/* SPDX-License-Identifier: MIT
 *
 * A generation of a pool: one template process and the workers that it forks,
 * made from one reading of settings and code. Starts it, keeps its number of
 * workers, notes who lives and who died, stops it. Several can be alive at
 * once: a new one beside an old one that finishes.
 *
 * Manager only, on its loop.
 */
#ifndef FOREBAY_SERVER_GENERATION_H
#define FOREBAY_SERVER_GENERATION_H

#include <stdbool.h>
#include <uv.h>

#include "conf/settings.h"
#include "server/listener_set.h"
#include "server/backoff.h"
#include "server/scoreboard.h"

struct log_source;
struct generation;

enum slot_state {
    SLOT_EMPTY,
    SLOT_STARTING, /* ordered, perhaps forked, not ready yet */
    SLOT_READY,
};

struct slot {
    enum slot_state state;
    int pid; /* 0 before it was forked */
    uint64_t started_ms;
    struct log_source *log;
};

/* What the manager hears. All are called from the loop. */
struct generation_events {
    /* Every worker of the first set is ready: it serves. Once. */
    void (*ready)(struct generation *g, void *ctx);
    /* It said itself why it cannot start; trying again would not help. ended()
     * follows. */
    void (*failed)(struct generation *g, const char *why, void *ctx);
    /* The template has exited. The generation may be freed from here on. */
    void (*ended)(struct generation *g, void *ctx);
};

struct generation {
    uv_loop_t *loop;
    struct pool_settings settings; /* its own copy */
    const struct generation_events *events;
    void *ctx;

    uv_process_t process;
    uv_poll_t poll; /* of channel */
    uv_timer_t respawn;
    int channel;
    struct log_source *log;
    struct scoreboard score;
    struct slot *slot; /* count of them */
    unsigned count;
    unsigned ready; /* how many are SLOT_READY */
    struct backoff backoff;
    uint64_t started_ms;

    bool template_ready;
    bool serving; /* ready() was called */
    bool stopping;
    bool failed;
    bool ended; /* the template has exited */
    int open_handles;
    struct generation *next; /* the manager's list */
};

/* Start a template with program; s is copied. queue is the pool's hand-over
 * pair (handover.h): where workers read, where they write. 0, or -1 with a
 * sentence in why. */
int generation_start(uv_loop_t *loop, const struct pool_settings *s,
                     const struct listener_set *listeners, const int *queue,
                     const char *program,
                     const struct generation_events *events, void *ctx,
                     struct generation **ret, char *why, size_t size);

/* Workers finish what they have and end, then the template. siblings: another
 * generation goes on and takes their kept connections. */
void generation_stop(struct generation *g, bool siblings);

/* SIGKILL to all workers (by the template), and to the template itself if it
 * does not answer. */
void generation_kill(struct generation *g);
void generation_kill_template(struct generation *g);

/* After ended(): close its handles and free it. */
void generation_free(struct generation *g);

#endif
