/* SPDX-License-Identifier: MIT
 *
 * The executor threads of a worker and the one epoll set that they share: wait
 * for one event, take the connection, serve it (connection.h), park or close
 * it. K threads are equal; with K = 1 it is the main thread of the process.
 *
 * Worker process. The GIL is held only inside wsgi_run_nogil().
 */
#ifndef FOREBAY_SERVER_EXECUTOR_H
#define FOREBAY_SERVER_EXECUTOR_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "conf/settings.h"
#include "protocol/buf.h"
#include "python/io.h"
#include "server/conntable.h"
#include "server/executor_limits.h"
#include "server/scoreboard.h"

/* A usual head and a body of 64 KB fit. With one thread a head is read first,
 * and what follows it straight to where the application wants it. */
enum {
    EXECUTOR_READ_BYTES = 72 * 1024,
    EXECUTOR_HEAD_BYTES = 8 * 1024,
    EXECUTOR_WATCH = 256
};

struct access_log;
struct allow;
struct reserve;
struct stream;

/* What all threads of a worker share. */
struct worker {
    const struct pool_settings *settings;
    int slot;
    int channel; /* to the template */
    int epoll_fd;
    int wake_fd; /* eventfd: readable for ever once the worker is stopping */
    int listen_fd[EXECUTOR_MAX_LISTENERS];
    unsigned listen_count;
    int signal_fd;        /* readable when a handler of Python must run; -1 */
    _Atomic int spare_fd; /* kept to have one when no other is left */
    _Atomic uint64_t told_ns; /* when it was last said that nothing can be
                                 accepted */
    enum decoder_kind kind;
    struct conntable conns;
    const struct scoreboard *board; /* of the whole generation */
    int queue_in;  /* kept connections of other workers come here; -1: none */
    int queue_out; /* and ours go there */
    struct access_log *access; /* NULL: none */
    struct allow *allow;       /* NULL: every peer may connect */
    struct reserve *reserve;   /* NULL: no slots are reserved */
    int trace_fd;          /* stacks of slow threads are read here; -1: none */
    _Atomic bool stopping; /* no new connections; end when none is left */
    _Atomic bool siblings; /* while stopping: others go on and take our kept
                              connections */
    _Atomic bool taken_over; /* the control thread stands in (lookout.h) */
    _Atomic bool parks;      /* a connection has been parked */
    _Atomic int starved;  /* by how much requests that ended for want of memory
                             outweigh the others (connection.c) */
    _Atomic bool raising; /* a thread raises a timeout (overtime.c) */
    _Atomic bool lookout_started;
    _Atomic uint32_t lookout_asleep; /* a futex */
    _Atomic bool paused;             /* listeners are out of the epoll set */
    _Atomic uint64_t next_sweep_ns;
    int ready_fd; /* counts streams that wait for a thread (mux.h) */
    pthread_mutex_t ready_lock;
    struct stream *ready_first, **ready_last;
    pthread_mutex_t watch_lock;
    uint64_t watch[EXECUTOR_WATCH]; /* events (lookout.h) */
    _Atomic unsigned watch_count;
    struct executor *executor; /* settings->threads of them */
};

/* One thread. */
struct executor {
    struct worker *worker;
    struct wsgi_thread *wsgi;
    struct scoreboard_slot *score;
    bool main_thread; /* signal handlers of Python run here */
    pthread_t thread;
    size_t pos; /* bytes read, not yet decoded: [pos, end) */
    size_t end;
    bool full; /* the last read of the connection brought as much as it could:
                  there may be more */
    bool resumed; /* what it brought was put aside, with a request that has
                     waited since (reserve.h) */
    unsigned long answered;     /* requests, since the start */
    uint64_t traced_ns;         /* request (its begin) whose stack was logged */
    _Atomic uint64_t raised_ns; /* request that was told to end */
    struct buf scratch;         /* answers of the server's own */
    pthread_mutex_t errors_lock;
    struct buf errors; /* FCGI_STDERR records to be sent (fcgi_stderr) */
    char read[EXECUTOR_READ_BYTES];
};

/* Open the epoll set with listeners, channel and wake_fd. 0 or -errno. */
int executor_open(struct worker *w);

/* worker.c: is this process a child that the application has forked? */
bool worker_is_forked_child(void);

/* In a child that the application has forked: none of the server's descriptors
 * stays open, so that no peer waits for the child. */
void executor_forked(struct worker *w);

/* Serve until the worker is stopping and its connections are gone. */
void executor_run(struct executor *x);

/* Finish what is begun, take no more, then let executor_run() of all threads
 * return. Any thread, also from a signal handler (it only writes wake_fd). */
void executor_stop(struct worker *w);

/* The sweep looks no later than at this time. Any thread. */
void executor_deadline(struct worker *w, uint64_t deadline_ns);

/* Take listeners and hand-over queue into the epoll set, or out of it. Any
 * thread. */
void executor_watch(struct worker *w);
void executor_unwatch(struct worker *w);

/* All threads are busy, and the listeners and the hand-over queue have just
 * been taken out of the epoll set: a thread may have been woken for what waits
 * there and have taken another event. The kernel wakes no sibling for it any
 * more; this does. */
void executor_pass_on_wakeups(struct worker *w);

/* Is this event (epoll_event.data) one of a connection? */
bool executor_is_connection(uint64_t event);

#endif
