/* SPDX-License-Identifier: MIT
 *
 * A generation of a pool: one template process and the workers that it forks,
 * made from one reading of settings and code. Starts it, notes who lives and
 * who died, stops it; how many workers there should be is supervise.h's.
 * Several can be alive at once: a new one beside an old one that finishes.
 *
 * Manager only, on its loop.
 */
#ifndef FOREBAY_SERVER_GENERATION_H
#define FOREBAY_SERVER_GENERATION_H

#include <stdbool.h>
#include <uv.h>

#include "conf/settings.h"
#include "server/backoff.h"
#include "server/executor_limits.h"
#include "server/listener_set.h"
#include "server/memory.h"
#include "server/scoreboard.h"

struct log_sink;
struct log_source;
struct generation;

enum slot_state {
    SLOT_EMPTY,
    SLOT_STARTING, /* ordered, perhaps forked, not ready yet */
    SLOT_READY,
    SLOT_RETIRING, /* told to end; finishes what it has */
};

struct slot {
    enum slot_state state;
    int pid; /* 0 before it was forked */
    uint64_t started_ms;
    uint64_t idle_since_ms; /* 0: it has a request */
    uint64_t limit;         /* requests it may answer; 0: any number */
    uint64_t kill_at_ms;    /* while retiring */
    bool used_up;           /* is to be replaced; another one starts first */
    bool overdue;           /* a request of it is past every deadline */
    bool stopped;           /* found stopped (SIGSTOP); said once */
    struct log_source *log;
    struct memory_use memory; /* as status.c read it last, at memory_ms */
    uint64_t memory_ms;
};

/* What the workers of a pool that are gone leave behind, of all its
 * generations. Only grows. */
struct worker_history {
    struct score_totals answered;
    uint64_t crashed; /* by a signal, or with an exit code */
    uint64_t ended;   /* in order: recycled, not needed, asked to by the
                         application; not those of a generation that stops */
};

/* What the pool hears. All are called from the loop. */
struct generation_events {
    /* The first set of workers is ready: it serves. Once. */
    void (*ready)(struct generation *g, void *ctx);
    /* It said itself why it cannot start; trying again would not help. ended()
     * follows. */
    void (*failed)(struct generation *g, const char *why, void *ctx);
    /* The template has exited. The generation may be freed from here on. */
    void (*ended)(struct generation *g, void *ctx);
};

/* What supervise.c keeps between two looks. */
struct supervision {
    uv_timer_t tick;
    unsigned tick_ms;
    unsigned long looks;
    bool watching;   /* the listeners, since no worker is there to take a
                        connection (ondemand) */
    uv_poll_t *poll; /* polls of them, on poll_fd */
    unsigned polls;
    int poll_fd[EXECUTOR_MAX_LISTENERS];
    struct shed *shed;      /* made when first needed */
    bool shedding;          /* connections are being refused */
    uint64_t congested_ms;  /* since then none is idle and some wait; 0: no */
    uint64_t warned_ms;     /* when that was last said */
    uint64_t hold_until_ms; /* back-off: no start before */
    unsigned target;        /* asked for by `ctl scale`; 0: the settings' */
};

struct generation {
    uv_loop_t *loop;
    struct pool_settings settings;  /* its own copy */
    unsigned long number;           /* the pool's first is 1 */
    struct worker_history *history; /* the pool's; set before the loop runs */
    const struct generation_events *events;
    void *ctx;

    uv_process_t process;
    uv_poll_t poll; /* of channel */
    uv_timer_t respawn;
    uv_timer_t start; /* deadline of the start */
    int channel;
    struct log_source *log;
    struct log_sink *sink, *slow_sink; /* the pool's own log files, or NULL */
    int listen_fd[EXECUTOR_MAX_LISTENERS]; /* the pool's */
    unsigned listeners;
    int queue; /* the pool's: kept connections that nobody has taken yet */
    struct scoreboard score;
    struct slot *slot; /* count of them */
    unsigned count;
    unsigned first; /* workers of the first set */
    struct supervision supervision;
    struct memory_use memory; /* of the template, as in struct slot */
    uint64_t memory_ms;
    struct backoff backoff;
    uint64_t started_ms;
    uint64_t stopped_ms; /* when it was told to */

    bool template_ready;
    bool serving; /* ready() was called */
    bool stopping;
    bool failed;
    bool ended; /* the template has exited */
    int open_handles;
    struct generation *next; /* the pool's list */
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

/* Start one more worker in a free slot. False: there is none, or no template.
 */
bool generation_start_worker(struct generation *g);

/* Let a worker finish what it has and end; siblings, if there are any, take its
 * connections. It is killed after graceful_timeout. */
void generation_retire(struct generation *g, unsigned i);
void generation_kill_worker(struct generation *g, unsigned i);

/* From now on this many workers (`ctl scale`, TTIN, TTOU). 0, or -1 with a
 * sentence. */
int generation_scale(struct generation *g, unsigned workers, char *why,
                     size_t size);

/* How many slots are in a state. */
unsigned generation_count(const struct generation *g, enum slot_state state);

/* After ended(): hand what its workers have counted to the history, close its
 * handles and free it. */
void generation_free(struct generation *g);

#endif
