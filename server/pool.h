/* SPDX-License-Identifier: MIT
 *
 * One pool under the manager: its settings, its listening sockets, the
 * generation that serves, the one that is to follow it and those that finish.
 * Start, reload, stop; what happens when a template dies.
 *
 * Manager only, on its loop.
 */
#ifndef FOREBAY_SERVER_POOL_H
#define FOREBAY_SERVER_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "conf/settings.h"
#include "server/autoreload.h"
#include "server/backoff.h"
#include "server/generation.h"
#include "server/listener_set.h"
#include "server/venv.h"

struct pool;

enum pool_state {
    POOL_STARTING, /* nothing has served yet: a failure is final */
    POOL_SERVING,
    POOL_STOPPING,
};

struct pool_events {
    /* It serves for the first time. */
    void (*serving)(struct pool *p, void *ctx);
    /* The first start has failed for good; why has been logged. */
    void (*failed)(struct pool *p, void *ctx);
    /* Its last process is gone. Only while stopping. */
    void (*stopped)(struct pool *p, void *ctx);
};

/* Told once when a reload has ended. why is NULL when the new generation
 * serves, else a sentence, and the old one serves on. */
typedef void (*pool_reloaded)(struct pool *p, const char *why, void *ctx);

/* Somebody who waits for the end of a reload. */
struct pool_waiter {
    pool_reloaded done;
    void *ctx;
    bool again; /* asked while another reload was under way: not for that one */
    struct pool_waiter *next;
};

struct pool {
    uv_loop_t *loop;
    const struct pool_events *events;
    void *ctx;
    enum pool_state state;
    struct pool_settings *settings; /* owned */
    bool inherited;                 /* listens on descriptor 0 */
    char program[VENV_PATH_MAX];    /* forebay-worker-3.x */

    struct listener_set listeners;
    struct listener_set parting; /* given up, but open in busy workers */
    uint64_t parting_ms;         /* since then */

    int queue[2]; /* hand-over of kept connections */

    struct generation *current; /* serves, or is the first to start */
    struct generation *next;    /* starts beside current: a reload */
    struct generation *all;     /* these and those that finish */
    struct backoff backoff;
    uv_timer_t restart; /* after a template has died */
    uv_timer_t kill;    /* deadline of generations that finish */
    uv_timer_t part;    /* looks at parting */
    unsigned timers;    /* of these three, to be closed before p is freed */

    /* A reload under way: what the pool has once it went well. */
    struct pool_settings *next_settings; /* owned; NULL: the same again */
    struct listener_set next_listeners;
    bool reload_again; /* asked for while one was under way, */
    struct pool_settings *again_settings; /* with these, owned, or NULL */
    struct pool_waiter *waiters;
    bool handed_over;         /* a new manager has its sockets and its queue */
    struct pool_waiter *gone; /* wait for its end */
    bool draining;            /* stops without the usual deadline, */
    uint64_t drain_ms;        /* but with this one, if it is not 0 */

    /* For the status. */
    struct worker_history history;
    unsigned long generations; /* started so far */
    unsigned long reloads;     /* that went well, */
    unsigned long refused;     /* and that did not */
    unsigned long lost;        /* templates that died while they served */
    char reload_failure[512];  /* of the last reload; "": it went well */
    uint64_t reload_failed_ms;

    struct autoreload *autoreload; /* NULL: off */
    bool renamed;                  /* manager.c: goes on under another name */

    struct pool *following; /* the manager's list */
};

/* Find the worker program, open the sockets. s is taken over. 0, or an exit
 * code of `forebay serve` (manager.h) with a sentence in why; pool_close() is
 * due in either case. */
int pool_open(struct pool *p, uv_loop_t *loop, struct pool_settings *s,
              bool inherited, const struct pool_events *events, void *ctx,
              char *why, size_t size);

/* Start its first generation. */
void pool_start(struct pool *p);

/* Start a new generation beside the one that serves, switch when it is ready.
 * s (taken over) are its settings, NULL: those it has. Reloads asked for while
 * one is under way become one more, with the last settings. done may be
 * NULL. */
void pool_reload(struct pool *p, struct pool_settings *s, pool_reloaded done,
                 void *ctx);

/* Tell done once the pool serves, or cannot start. Before pool_start(). */
void pool_when_serving(struct pool *p, pool_reloaded done, void *ctx);

/* Workers finish what they have and end; new connections are refused, those in
 * the backlog still served. p may be gone on return (stopped() was called). */
void pool_stop(struct pool *p);

/* The same when a new manager serves on the same sockets and takes the kept
 * connections. */
void pool_hand_over(struct pool *p);

/* One worker more or less, where the number is fixed. */
void pool_scale_by(struct pool *p, int by);

/* As pool_stop(), but requests in flight have this long; 0: as long as they
 * like. */
void pool_drain(struct pool *p, uint64_t timeout_ms);

/* Tell done, with no why, when the pool's last process is gone. */
void pool_when_gone(struct pool *p, pool_reloaded done, void *ctx);

/* Kill what is left; the second time the templates as well. */
void pool_kill(struct pool *p, bool templates);

/* Does it listen on one of the addresses that s names? */
bool pool_listens_at(const struct pool *p, const struct pool_settings *s);

/* Is this one of its template processes? */
bool pool_has_template(const struct pool *p, int pid);

/* Close the sockets, free the settings; nothing runs any more. Its timers are
 * closed with the loop or by pool_free(). */
void pool_close(struct pool *p);

/* The same, and free p itself (which malloc made) once the loop has closed its
 * timers. */
void pool_free(struct pool *p);

#endif
