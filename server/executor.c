/* SPDX-License-Identifier: MIT
 *
 * See executor.h. The loop of a thread reads top to bottom in executor_run().
 */
#include "server/executor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "python/interp.h"
#include "server/allow.h"
#include "server/channel.h"
#include "server/clock.h"
#include "server/connection.h"
#include "server/handover.h"
#include "server/log.h"
#include "server/lookout.h"
#include "server/mux.h"
#include "server/reserve.h"
#include "server/scoreboard.h"

/* Events that are not a connection's: the low half of epoll_event.data. A
 * table index never gets that high (CONN_CHUNKS * CONN_PER_CHUNK). */
enum {
    EVENT_WAKE = 0x7ffffff0,
    EVENT_CHANNEL,
    EVENT_QUEUE,
    EVENT_SIGNAL,
    EVENT_RESERVE,
    EVENT_READY,
    EVENT_LISTENER, /* the high half is the number of the listener */
};

/* After EMFILE and the like: how long no connection is accepted. */
enum { PAUSE_MS = 100, TELL_EVERY_MS = 10000 };

/* Events fetched at once while stopping (else one: what is fetched and waits
 * behind a slow request could have been another thread's), and how long a
 * thread then rests between two looks. */
enum { EVENTS = 8, STOP_TICK_MS = 5 };

static int
watch(int epoll_fd, int fd, uint32_t events, uint64_t data)
{
    struct epoll_event ev = { .events = events, .data.u64 = data };

    return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &ev) == 0 ? 0 : -errno;
}

/* One process is woken per connection (EPOLLEXCLUSIVE); level-triggered, so
 * that what one thread leaves wakes the next. */
static int
watch_shared(struct worker *w, int fd, uint64_t data)
{
    int rc = watch(w->epoll_fd, fd, EPOLLIN | EPOLLEXCLUSIVE, data);

    return rc == -EEXIST ? 0 : rc;
}

static int
watch_listeners(struct worker *w)
{
    for (unsigned i = 0; i < w->listen_count; i++) {
        int rc = watch_shared(w, w->listen_fd[i],
                              (uint64_t)i << 32 | EVENT_LISTENER);

        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

static void
unwatch_listeners(struct worker *w)
{
    for (unsigned i = 0; i < w->listen_count; i++) {
        epoll_ctl(w->epoll_fd, EPOLL_CTL_DEL, w->listen_fd[i], NULL);
    }
}

void
executor_watch(struct worker *w)
{
    if (atomic_load(&w->stopping)) {
        return;
    }
    if (!atomic_load(&w->paused)) {
        watch_listeners(w);
    }
    if (w->queue_in >= 0) {
        watch_shared(w, w->queue_in, EVENT_QUEUE);
    }
}

void
executor_unwatch(struct worker *w)
{
    unwatch_listeners(w);
    if (w->queue_in >= 0) {
        epoll_ctl(w->epoll_fd, EPOLL_CTL_DEL, w->queue_in, NULL);
    }
}

bool
executor_is_connection(uint64_t event)
{
    return (uint32_t)event < EVENT_WAKE;
}

int
executor_open(struct worker *w)
{
    int rc;

    atomic_init(&w->stopping, false);
    atomic_init(&w->paused, false);
    atomic_init(&w->siblings, false);
    atomic_init(&w->taken_over, false);
    atomic_init(&w->lookout_started, false);
    atomic_init(&w->lookout_asleep, 0);
    atomic_init(&w->next_sweep_ns, UINT64_MAX);
    pthread_mutex_init(&w->watch_lock, NULL);
    atomic_init(&w->watch_count, 0);
    atomic_init(&w->told_ns, 0);
    atomic_init(&w->spare_fd, open("/dev/null", O_RDONLY | O_CLOEXEC));
    w->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    w->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (w->epoll_fd < 0 || w->wake_fd < 0) {
        return -errno;
    }
    rc = watch(w->epoll_fd, w->wake_fd, EPOLLIN, EVENT_WAKE);
    if (rc == 0) {
        rc = watch(w->epoll_fd, w->channel, EPOLLIN, EVENT_CHANNEL);
    }
    if (rc == 0 && w->queue_in >= 0) {
        rc = watch_shared(w, w->queue_in, EVENT_QUEUE);
    }
    if (rc == 0) {
        rc = mux_open(w);
    }
    if (rc == 0 && w->conns.limits.mpx > 1) {
        rc = watch(w->epoll_fd, w->ready_fd, EPOLLIN, EVENT_READY);
    }
    if (rc == 0 && w->signal_fd >= 0 && w->settings->threads == 1) {
        rc = watch(w->epoll_fd, w->signal_fd, EPOLLIN, EVENT_SIGNAL);
    }
    if (rc == 0) {
        rc = reserve_open(w);
    }
    if (rc == 0 && w->reserve != NULL) {
        rc = watch(w->epoll_fd, reserve_timer(w->reserve), EPOLLIN,
                   EVENT_RESERVE);
    }
    return rc == 0 ? watch_listeners(w) : rc;
}

static void
close_one(struct connection *c, void *ctx)
{
    (void)ctx;
    close(c->fd);
}

void
executor_forked(struct worker *w)
{
    conntable_each_open(&w->conns, close_one, NULL);
    for (unsigned i = 0; i < w->listen_count; i++) {
        close(w->listen_fd[i]);
    }
    if (w->queue_in >= 0) {
        close(w->queue_in);
        close(w->queue_out);
    }
    if (w->reserve != NULL) {
        close(reserve_timer(w->reserve));
    }
    close(w->channel);
    close(w->ready_fd);
    close(w->epoll_fd);
    close(w->wake_fd);
}

void
executor_stop(struct worker *w)
{
    uint64_t one = 1;
    ssize_t rc;

    /* Never read again: it wakes every thread, each time it waits. */
    do {
        rc = write(w->wake_fd, &one, sizeof(one));
    } while (rc < 0 && errno == EINTR);
}

void
executor_deadline(struct worker *w, uint64_t deadline_ns)
{
    uint64_t next =
        atomic_load_explicit(&w->next_sweep_ns, memory_order_relaxed);

    while (deadline_ns < next &&
           !atomic_compare_exchange_weak_explicit(
               &w->next_sweep_ns, &next, deadline_ns, memory_order_relaxed,
               memory_order_relaxed)) {
    }
}

static void
pause_accepting(struct worker *w)
{
    if (!atomic_exchange(&w->paused, true)) {
        unwatch_listeners(w);
    }
    executor_deadline(w, clock_now_ns() + (uint64_t)PAUSE_MS * NS_PER_MS);
}

static void
resume_accepting(struct worker *w)
{
    unsigned open = atomic_load(&w->conns.open);

    if (!atomic_load(&w->paused) || atomic_load(&w->stopping)) {
        return;
    }
    if (open >= w->settings->max_connections) {
        executor_deadline(w, clock_now_ns() + (uint64_t)PAUSE_MS * NS_PER_MS);
        return;
    }
    if (atomic_exchange(&w->paused, false) && watch_listeners(w) < 0) {
        atomic_store(&w->paused, true);
        executor_deadline(w, clock_now_ns() + (uint64_t)PAUSE_MS * NS_PER_MS);
    }
}

/* A new connection for whoever of the siblings is free. False: none waits. */
static bool
pass_on_accepted(struct worker *w, unsigned listener)
{
    int fd = accept4(w->listen_fd[listener], NULL, NULL,
                     SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (fd < 0) {
        return false;
    }
    if ((w->allow == NULL || allow_peer(w->allow, fd)) &&
        handover_send(w->queue_out, fd, w->kind) != 0) {
        log_warnx("no worker could be given a new connection; closed");
    }
    close(fd);
    return true;
}

/* We were woken for what waits there, one process per connection: idle siblings
 * would not hear of it. Without a free descriptor it can be passed on all the
 * same: the one that is kept for this is closed for a moment. */
static void
pass_on_first(struct worker *w)
{
    int spare = atomic_exchange(&w->spare_fd, -1);

    if (spare < 0) {
        return; /* another thread is at it */
    }
    close(spare);
    for (unsigned i = 0; i < w->listen_count && w->queue_out >= 0; i++) {
        pass_on_accepted(w, i);
    }
    atomic_store(&w->spare_fd, open("/dev/null", O_RDONLY | O_CLOEXEC));
}

/* Room for one more in the hand-over queue. */
static bool
queue_has_room(const struct worker *w)
{
    struct pollfd p = { .fd = w->queue_out, .events = POLLOUT };

    return poll(&p, 1, 0) == 1 && (p.revents & POLLOUT) != 0;
}

/* Threads of siblings that have nothing to do; ours are all busy. */
static unsigned
idle_siblings(const struct worker *w)
{
    unsigned idle = 0;

    for (unsigned i = 0; i < w->board->count; i++) {
        idle += atomic_load(&w->board->slot[i].state) == SCORE_IDLE;
    }
    return idle;
}

void
executor_pass_on_wakeups(struct worker *w)
{
    unsigned idle = idle_siblings(w);
    enum decoder_kind kind;
    int fd;

    if (idle == 0 || w->settings->threads == 1 || w->queue_out < 0) {
        return; /* one thread alone takes what it was woken for */
    }
    for (unsigned i = 0; i < w->listen_count; i++) {
        while (idle > 0 && queue_has_room(w) && pass_on_accepted(w, i)) {
            idle--;
        }
    }
    /* One that is put back wakes a sibling, which finds the others. */
    if (handover_receive(w->queue_in, &fd, &kind) == 1) {
        if (handover_send(w->queue_out, fd, kind) != 0) {
            log_warnx("no worker could be given a kept connection; closed");
        }
        close(fd);
    }
}

/* Out of descriptors or memory: the listeners would stay readable and the loop
 * would spin. Wait a little; connections end meanwhile. */
static void
accept_failed(struct worker *w, int error)
{
    if (error == EAGAIN || error == EINTR || error == ECONNABORTED ||
        error == ENOTSOCK /* given up just now */ ||
        error == EINVAL /* the manager gave it up for all of us */) {
        return;
    }
    if (!atomic_load(&w->paused)) {
        uint64_t now = clock_now_ns();
        uint64_t told = atomic_load(&w->told_ns);

        if ((told == 0 || now - told > (uint64_t)TELL_EVERY_MS * NS_PER_MS) &&
            atomic_compare_exchange_strong(&w->told_ns, &told, now)) {
            log_error("cannot accept a connection: %s (%u open); trying again "
                      "every %d ms%s",
                      strerror(error), atomic_load(&w->conns.open), PAUSE_MS,
                      error == EMFILE || error == ENFILE
                          ? ". Raise the limit of open files (LimitNOFILE=, "
                            "ulimit -n) if this repeats"
                          : "");
        }
    }
    pause_accepting(w);
    if ((error == EMFILE || error == ENFILE) && w->settings->workers > 1) {
        pass_on_first(w);
    }
}

/* Returns false when nothing was accepted. */
static bool
accept_one(struct executor *x, unsigned listener)
{
    struct worker *w = x->worker;
    struct connection *c;
    int fd = accept4(w->listen_fd[listener], NULL, NULL,
                     SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (fd < 0) {
        accept_failed(w, errno);
        return false;
    }
    if (w->allow != NULL && !allow_peer(w->allow, fd)) {
        close(fd);
        return true;
    }
    c = conntable_open(&w->conns, fd, w->kind);
    if (c == NULL) {
        close(fd);
        accept_failed(w, ENOMEM);
        return false;
    }
    if (atomic_load_explicit(&w->conns.open, memory_order_relaxed) >=
            w->settings->max_connections &&
        !atomic_load(&w->stopping)) {
        if (!atomic_load(&w->paused)) {
            log_warnx("%u connections are open (max_connections); more wait "
                      "until some end",
                      w->settings->max_connections);
        }
        pause_accepting(w);
        if (w->settings->workers > 1) {
            pass_on_first(w);
        }
    }
    connection_serve(x, c);
    return true;
}

/* A kept connection of another worker. False when the queue is empty. */
static bool
adopt_one(struct executor *x)
{
    struct worker *w = x->worker;
    struct connection *c;
    enum decoder_kind kind;
    int fd, rc;

    rc = w->queue_in >= 0 ? handover_receive(w->queue_in, &fd, &kind) : 0;
    if (rc != 1) {
        if (rc < 0) {
            accept_failed(w, -rc);
        }
        return false;
    }
    c = conntable_open(&w->conns, fd, kind);
    if (c == NULL) {
        close(fd);
        accept_failed(w, ENOMEM);
        return false;
    }
    c->served = true;
    connection_serve(x, c);
    return true;
}

static void
expire_one(struct connection *c, void *ctx)
{
    struct executor *x = ctx;

    connection_expire(x, c, clock_coarse_ns());
}

/* Look at every parked connection whose deadline may have passed, and find the
 * next time to look. One thread does it; the others see a later time. */
static void
sweep(struct executor *x)
{
    struct worker *w = x->worker;
    uint64_t next =
        atomic_load_explicit(&w->next_sweep_ns, memory_order_relaxed);

    if (next > clock_coarse_ns() ||
        !atomic_compare_exchange_strong(&w->next_sweep_ns, &next, UINT64_MAX)) {
        return;
    }
    resume_accepting(w);
    conntable_each_parked(&w->conns, expire_one, x);
    executor_deadline(w, conntable_next_deadline(&w->conns));
}

static int
sweep_timeout_ms(struct worker *w)
{
    uint64_t next =
        atomic_load_explicit(&w->next_sweep_ns, memory_order_relaxed);
    uint64_t now;

    if (next == UINT64_MAX) {
        return -1;
    }
    now = clock_coarse_ns();
    if (next <= now) {
        return 0;
    }
    next = (next - now) / NS_PER_MS + 1;
    return next > 3600000 ? 3600000 : (int)next;
}

/* A pool of programs that follows has made the listener block. */
static bool
has_backlog(int fd)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };

    return poll(&p, 1, 0) == 1;
}

/* From now on the kernel refuses. Another thread may be about to accept there:
 * the number must not become another file's, so something takes its place of
 * which nothing ever comes. */
static void
give_up_listener(int fd)
{
    int nothing = eventfd(0, EFD_CLOEXEC);

    if (nothing < 0 || dup3(nothing, fd, O_CLOEXEC) < 0) {
        close(fd);
    }
    if (nothing >= 0) {
        close(nothing);
    }
}

/* The order to stop, once: take what already waits in the backlog (its clients
 * were told "connected"), bounded; then close what is idle. */
static void
begin_stop(struct executor *x)
{
    struct worker *w = x->worker;
    uint64_t until = clock_now_ns() + (uint64_t)1000 * NS_PER_MS;

    if (atomic_exchange(&w->stopping, true)) {
        return;
    }
    atomic_store(&w->paused, true);
    executor_unwatch(w);
    /* Siblings take what we leave; else the manager's deadline bounds this. */
    for (unsigned i = 0; i < w->listen_count; i++) {
        while ((!atomic_load(&w->siblings) || clock_now_ns() < until) &&
               has_backlog(w->listen_fd[i]) && accept_one(x, i)) {
        }
        give_up_listener(w->listen_fd[i]);
    }
    /* With siblings the queue is theirs; else nobody would look into it. */
    while (!atomic_load(&w->siblings) && adopt_one(x)) {
    }
    conntable_each_parked(&w->conns, expire_one, x);
    executor_deadline(w, conntable_next_deadline(&w->conns));
    executor_stop(w);
    /* A thread of ours may have been woken, instead of a sibling, for what came
     * into the queue just before we left it. One that is put back wakes another
     * worker, which then finds the rest. */
    adopt_one(x);
}

static void
read_order(struct executor *x)
{
    struct channel_message m;
    int fd = -1;
    int rc = channel_receive(x->worker->channel, &m, &fd);

    if (fd >= 0) {
        close(fd);
    }
    if (rc == -EAGAIN) {
        return;
    }
    /* The template is gone, or says so: both mean the end. */
    if (rc <= 0 || m.type == CHANNEL_STOP) {
        atomic_store(&x->worker->siblings, rc == 1 && m.value == 1);
        epoll_ctl(x->worker->epoll_fd, EPOLL_CTL_DEL, x->worker->channel, NULL);
        begin_stop(x);
    }
}

static bool
is_finished(struct worker *w)
{
    return atomic_load(&w->stopping) && atomic_load(&w->conns.open) == 0;
}

/* While stopping, the eventfd is readable for ever; a thread that finds
 * connections of others still open must not spin on it. */
static int
wait_while_stopping(struct worker *w, struct epoll_event *ev)
{
    int n = epoll_wait(w->epoll_fd, ev, EVENTS, 0);

    if (n == 0 || (n == 1 && (uint32_t)ev[0].data.u64 == EVENT_WAKE)) {
        poll(NULL, 0, STOP_TICK_MS);
    }
    return n;
}

/* A request of a shared connection waits for a thread. */
static void
run_ready(struct executor *x)
{
    struct stream *s = NULL;
    uint64_t n;

    if (read(x->worker->ready_fd, &n, sizeof(n)) == (ssize_t)sizeof(n)) {
        s = mux_take_ready(x->worker);
    }
    if (s != NULL) {
        connection_run_stream(x, s);
    }
}

static void
dispatch(struct executor *x, const struct epoll_event *ev)
{
    struct worker *w = x->worker;
    struct connection *c;

    switch ((uint32_t)ev->data.u64) {
    case EVENT_WAKE:
        begin_stop(x);
        return;
    case EVENT_CHANNEL:
        read_order(x);
        return;
    case EVENT_QUEUE:
        adopt_one(x);
        return;
    case EVENT_SIGNAL: /* came after the last look and before epoll_wait() */
        interp_check_signals_nogil();
        return;
    case EVENT_RESERVE:
        reserve_tick(x);
        return;
    case EVENT_READY:
        run_ready(x);
        return;
    case EVENT_LISTENER:
        accept_one(x, (unsigned)(ev->data.u64 >> 32));
        return;
    default:
        c = conntable_claim(&w->conns, ev->data.u64);
        if (c != NULL) {
            c->hangup = (ev->events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
            connection_serve(x, c);
        }
    }
}

void
executor_run(struct executor *x)
{
    struct worker *w = x->worker;

    while (!is_finished(w)) {
        struct epoll_event ev[EVENTS];
        int n;

        if (!atomic_load_explicit(&w->stopping, memory_order_relaxed)) {
            n = epoll_wait(w->epoll_fd, ev, 1, sweep_timeout_ms(w));
        } else {
            n = wait_while_stopping(w, ev);
        }
        if (n < 0 && errno != EINTR) {
            /* The application has closed what is ours (closefrom, closerange):
             * this worker can serve nobody any more. */
            log_error("epoll_wait: %s; this worker ends", strerror(errno));
            _exit(EXIT_FAILURE);
        }
        if (n < 0 && x->main_thread) {
            interp_check_signals_nogil();
        }
        for (int i = 0; i < n; i++) {
            dispatch(x, &ev[i]);
        }
        lookout_end(w);
        if (atomic_load_explicit(&w->next_sweep_ns, memory_order_relaxed) !=
            UINT64_MAX) {
            sweep(x);
        }
    }
}
