/* SPDX-License-Identifier: MIT
 *
 * See generation.h. How its template is started is template_launch.c, what is
 * said of a worker that has ended worker_end.c.
 */
#include "server/generation.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/access_format.h"
#include "server/access_relay.h"
#include "server/channel.h"
#include "server/log.h"
#include "server/log_relay.h"
#include "server/log_sink.h"
#include "server/scaling.h"
#include "server/supervise.h"
#include "server/template_launch.h"
#include "server/worker_end.h"

/* Workers that are ordered at once. */
enum { ORDERS_MAX = 32 };

static const char *
name(const struct generation *g)
{
    return g->settings.name;
}

static bool
send_order(struct generation *g, enum channel_type type, int slot, int value,
           int fd)
{
    struct channel_message m = {
        .version = CHANNEL_VERSION, .type = type, .slot = slot, .value = value
    };
    int rc = g->ended ? 0 : channel_send(g->channel, &m, fd);

    if (rc == -EPIPE || rc == -ECONNRESET) {
        /* It has just ended; that is told when its process is reaped. */
        log_debug("pool %s: template %d hears no orders any more", name(g),
                  g->process.pid);
    } else if (rc < 0) {
        log_error("pool %s: order %d to template %d: %s", name(g), type,
                  g->process.pid, strerror(-rc));
    }
    return rc == 0;
}

/* -- workers ----------------------------------------------------------------
 */

static bool
start_worker(struct generation *g, unsigned i)
{
    struct slot *slot = &g->slot[i];
    int pipe_fd[2];

    if (pipe2(pipe_fd, O_CLOEXEC) != 0) {
        log_error("pool %s: a worker's log pipe: %s", name(g), strerror(errno));
        return false;
    }
    *slot = (struct slot){
        .state = SLOT_STARTING,
        .started_ms = uv_now(g->loop),
        .limit = scaling_request_limit(&g->settings, (uint32_t)uv_hrtime()),
        .log = log_source_open(g->loop, pipe_fd[0], name(g), g->sink,
                               g->slow_sink),
    };
    if (!send_order(g, CHANNEL_SPAWN, (int)i, 0, pipe_fd[1])) {
        slot->state = SLOT_EMPTY;
    }
    close(pipe_fd[1]);
    return slot->state == SLOT_STARTING;
}

/* Ordered and not forked yet. The channel holds so many messages and no more,
 * and an order that does not fit is lost; the rest follows when these are
 * forked. */
static bool
has_too_many_orders(const struct generation *g)
{
    unsigned n = 0;

    for (unsigned i = 0; i < g->count; i++) {
        n += g->slot[i].state == SLOT_STARTING && g->slot[i].pid == 0;
    }
    return n >= ORDERS_MAX;
}

bool
generation_start_worker(struct generation *g)
{
    if (!g->template_ready || g->stopping || has_too_many_orders(g)) {
        return false;
    }
    for (unsigned i = 0; i < g->count; i++) {
        if (g->slot[i].state == SLOT_EMPTY) {
            return start_worker(g, i);
        }
    }
    return false;
}

unsigned
generation_count(const struct generation *g, enum slot_state state)
{
    unsigned n = 0;

    for (unsigned i = 0; i < g->count; i++) {
        n += g->slot[i].state == state;
    }
    return n;
}

/* Is there another worker, now or soon, that takes what this one has? On
 * demand the last one goes without a successor. */
static bool
has_siblings(const struct generation *g, unsigned i)
{
    for (unsigned other = 0; other < g->count; other++) {
        enum slot_state state = g->slot[other].state;

        if (other != i && (state == SLOT_STARTING || state == SLOT_READY)) {
            return true;
        }
    }
    return g->settings.scaling != CONF_SCALING_ONDEMAND;
}

void
generation_retire(struct generation *g, unsigned i)
{
    struct slot *slot = &g->slot[i];

    if (slot->state == SLOT_READY || slot->state == SLOT_STARTING) {
        slot->state = SLOT_RETIRING;
        slot->kill_at_ms = uv_now(g->loop) + g->settings.graceful_timeout;
        send_order(g, CHANNEL_STOP, (int)i, has_siblings(g, i), -1);
    }
}

void
generation_kill_worker(struct generation *g, unsigned i)
{
    send_order(g, CHANNEL_KILL, (int)i, 0, -1);
}

/* Workers of the first set that are missing; later supervise.c decides. */
static void
start_first(uv_timer_t *timer)
{
    struct generation *g = timer->data;
    unsigned live =
        generation_count(g, SLOT_STARTING) + generation_count(g, SLOT_READY);

    if (g->serving) {
        supervise_now(g);
        return;
    }
    while (live < g->first && generation_start_worker(g)) {
        live++;
    }
}

int
generation_scale(struct generation *g, unsigned workers, char *why, size_t size)
{
    if (g->settings.scaling != CONF_SCALING_STATIC) {
        snprintf(why, size,
                 "the number of workers follows scaling, min_workers and "
                 "max_workers here");
        return -1;
    }
    if (workers < 1 || workers > scaling_most(&g->settings)) {
        snprintf(why, size, "1 to %u workers are possible (max_workers)",
                 scaling_most(&g->settings));
        return -1;
    }
    log_info("pool %s: %u workers from now on", name(g), workers);
    g->supervision.target = workers;
    supervise_now(g);
    return 0;
}

static void
worker_exited(struct generation *g, unsigned i, int status)
{
    struct slot *slot = &g->slot[i];
    uint64_t lived = uv_now(g->loop) - slot->started_ms;
    bool served = slot->state == SLOT_READY || slot->state == SLOT_RETIRING;
    /* A start that fails slowly is a failed start. */
    uint64_t delay = backoff_after_end(&g->backoff, served ? lived : 0,
                                       worker_end_merits(g, i, status));

    worker_end_tell(g, i, status, delay);
    *slot = (struct slot){ .state = SLOT_EMPTY };
    if (g->stopping) {
        return;
    }
    if (!g->serving &&
        backoff_gives_up(&g->backoff, g->settings.max_start_failures)) {
        if (!g->failed) {
            g->failed = true;
            g->events->failed(g, "its workers end before they are ready",
                              g->ctx);
        }
        return;
    }
    g->supervision.hold_until_ms = uv_now(g->loop) + delay;
    uv_timer_start(&g->respawn, start_first, delay, 0);
}

/* The first set is complete (with ondemand at once: it is empty). */
static void
check_first(struct generation *g)
{
    if (g->serving || g->stopping ||
        generation_count(g, SLOT_READY) < g->first) {
        return;
    }
    g->serving = true;
    uv_timer_stop(&g->start);
    backoff_ready(&g->backoff);
    g->events->ready(g, g->ctx);
    supervise_begin(g);
}

static void
worker_ready(struct generation *g, unsigned i)
{
    if (g->slot[i].state == SLOT_STARTING) {
        g->slot[i].state = SLOT_READY;
    }
    check_first(g);
    supervise_now(g);
}

/* A worker says that it cannot serve. At the first start that is final, later
 * its end is followed by another attempt after a pause. */
static void
worker_failed(struct generation *g, unsigned i, const struct channel_message *m)
{
    log_error("pool %s: worker %d (slot %u) cannot serve: %s", name(g), m->pid,
              i, m->text);
    if (m->pid == 0) { /* it was not even forked */
        uint64_t delay =
            backoff_after_end(&g->backoff, 0, 0) + BACKOFF_DELAY_MS;

        g->slot[i].state = SLOT_EMPTY;
        if (!g->serving && !g->failed &&
            backoff_gives_up(&g->backoff, g->settings.max_start_failures)) {
            g->failed = true;
            g->events->failed(g, m->text, g->ctx);
            return;
        }
        g->supervision.hold_until_ms = uv_now(g->loop) + delay;
        uv_timer_start(&g->respawn, start_first, delay, 0);
    } else if (!g->serving && !g->failed) {
        g->failed = true;
        g->events->failed(g, m->text, g->ctx);
    }
}

/* start_timeout has passed and it does not serve yet: the template hangs in its
 * import, or workers do. */
static void
on_start_deadline(uv_timer_t *timer)
{
    struct generation *g = timer->data;
    uint64_t seconds = g->settings.start_timeout / 1000;

    if (!g->template_ready) {
        log_error("pool %s: template %d is not ready after %llu s "
                  "(start_timeout): it is killed",
                  name(g), g->process.pid, (unsigned long long)seconds);
        uv_process_kill(&g->process, SIGKILL);
        return;
    }
    for (unsigned i = 0; i < g->count; i++) {
        if (g->slot[i].state == SLOT_STARTING) {
            log_error("pool %s: worker %d is not ready after %llu s "
                      "(start_timeout): it is killed",
                      name(g), g->slot[i].pid, (unsigned long long)seconds);
            generation_kill_worker(g, i);
        }
    }
}

/* -- what the template says -------------------------------------------------
 */

static void
hear(struct generation *g, const struct channel_message *m)
{
    unsigned i = (unsigned)m->slot;

    if (m->type == CHANNEL_READY) {
        g->template_ready = true;
        log_debug("pool %s: template %d is ready%s", name(g), m->pid,
                  m->value != 0 ? "" : ", workers import for themselves");
        uv_timer_start(&g->start, on_start_deadline, g->settings.start_timeout,
                       g->settings.start_timeout);
        start_first(&g->respawn);
        check_first(g);
        return;
    }
    if (m->type == CHANNEL_FAILED) {
        g->failed = true;
        g->events->failed(g, m->text, g->ctx);
        return;
    }
    if (m->slot < 0 || i >= g->count) {
        log_error("pool %s: message %d about slot %d makes no sense", name(g),
                  m->type, m->slot);
        return;
    }
    switch (m->type) {
    case CHANNEL_FORKED:
        g->slot[i].pid = m->pid;
        log_source_pid(g->slot[i].log, m->pid);
        if (!uv_is_active((uv_handle_t *)&g->respawn)) {
            start_first(&g->respawn); /* the next orders */
        }
        break;
    case CHANNEL_WORKER_READY:
        worker_ready(g, i);
        break;
    case CHANNEL_WORKER_FAILED:
        worker_failed(g, i, m);
        break;
    case CHANNEL_EXITED:
        worker_exited(g, i, m->value);
        break;
    default:
        log_error("pool %s: message %d is not known here", name(g), m->type);
    }
}

static void
on_channel(uv_poll_t *poll, int status, int events)
{
    struct generation *g = poll->data;
    (void)events;

    for (;;) {
        struct channel_message m;
        int fd = -1;
        int rc = status < 0 ? status : channel_receive(g->channel, &m, &fd);

        if (fd >= 0) {
            close(fd);
        }
        if (rc == 1) {
            hear(g, &m);
        } else {
            if (rc != -EAGAIN) { /* closed: the exit will be reported */
                uv_poll_stop(poll);
            }
            return;
        }
    }
}

static void
on_template_exit(uv_process_t *process, int64_t code, int signal)
{
    struct generation *g = process->data;

    /* What it said last may still be unread. */
    on_channel(&g->poll, 0, UV_READABLE);
    g->ended = true;
    uv_poll_stop(&g->poll);
    uv_timer_stop(&g->respawn);
    uv_timer_stop(&g->start);
    supervise_end(g);
    if (signal != 0) {
        log_error("pool %s: template %d was killed by signal %d (%s)", name(g),
                  process->pid, signal, strsignal(signal));
    } else if (code != 0 && !g->failed) {
        log_error("pool %s: template %d exited with code %lld", name(g),
                  process->pid, (long long)code);
    }
    g->events->ended(g, g->ctx);
}

/* -- start ------------------------------------------------------------------
 */

/* The files that this pool's settings name. access: the workers' end of the
 * access log's pipe, or -1. 0, or -1 with a sentence in why. */
static int
open_logs(struct generation *g, int *ret_access, char *why, size_t size)
{
    const struct pool_settings *s = &g->settings;
    struct log_sink *access;
    int rc;

    *ret_access = -1;
    if (s->log != NULL &&
        (g->sink = log_sink_open(g->loop, s->log, why, size)) == NULL) {
        return -1;
    }
    if (s->slow_log != NULL && (g->slow_sink = log_sink_open(
                                    g->loop, s->slow_log, why, size)) == NULL) {
        return -1;
    }
    if (s->access_log == NULL || s->command != NULL) {
        return 0;
    }
    if (access_format_check(s->access_format, why, size) != 0 ||
        (access = log_sink_open(g->loop, s->access_log, why, size)) == NULL) {
        return -1;
    }
    rc = access_relay_open(g->loop, access, ret_access);
    log_sink_release(access);
    if (rc != 0) {
        snprintf(why, size, "access_log: %s", strerror(-rc));
        return -1;
    }
    return 0;
}

static void
release_logs(struct generation *g)
{
    log_sink_release(g->sink);
    log_sink_release(g->slow_sink);
    g->sink = g->slow_sink = NULL;
}

static void
free_memory(struct generation *g)
{
    scoreboard_release(&g->score);
    settings_release(&g->settings);
    free(g->slot);
    free(g);
}

static struct generation *
allocate(uv_loop_t *loop, const struct pool_settings *s,
         const struct generation_events *events, void *ctx)
{
    struct generation *g = calloc(1, sizeof(*g));

    if (g == NULL) {
        return NULL;
    }
    g->loop = loop;
    g->events = events;
    g->ctx = ctx;
    g->channel = -1;
    g->score.fd = -1;
    if (settings_copy(&g->settings, s) != 0) {
        free(g);
        return NULL;
    }
    g->count = scaling_slots(s);
    g->first = scaling_initial(s);
    g->slot = calloc(g->count, sizeof(*g->slot));
    g->started_ms = uv_now(loop);
    if (g->slot == NULL ||
        scoreboard_create(g->count * s->threads, &g->score) < 0) {
        free_memory(g);
        return NULL;
    }
    return g;
}

static void
on_abandoned(uv_handle_t *handle)
{
    free_memory(handle->data);
}

/* It could not be started. The loop knows its process handle even if there is
 * no process. */
static void
abandon(struct generation *g)
{
    release_logs(g);
    if (g->process.data != NULL) {
        uv_close((uv_handle_t *)&g->process, on_abandoned);
    } else {
        free_memory(g);
    }
}

int
generation_start(uv_loop_t *loop, const struct pool_settings *s,
                 const struct listener_set *listeners, const int *queue,
                 const char *program, const struct generation_events *events,
                 void *ctx, struct generation **ret, char *why, size_t size)
{
    struct generation *g = allocate(loop, s, events, ctx);
    int access = -1, rc;

    if (g == NULL) {
        snprintf(why, size, "out of memory");
        return -1;
    }
    rc = open_logs(g, &access, why, size);
    if (rc == 0) {
        rc = template_launch(g, listeners, queue, program, access,
                             on_template_exit);
        if (rc != 0) {
            snprintf(why, size, "cannot start %s: %s", program,
                     uv_strerror(rc));
        }
    }
    if (access >= 0) {
        close(access);
    }
    if (rc != 0) {
        abandon(g);
        return -1;
    }
    g->listeners = listeners->count;
    g->queue = queue[0];
    for (unsigned i = 0; i < listeners->count; i++) {
        g->listen_fd[i] = listeners->item[i].fd;
    }
    uv_timer_init(loop, &g->respawn);
    uv_timer_init(loop, &g->start);
    g->start.data = g;
    uv_timer_start(&g->start, on_start_deadline, s->start_timeout, 0);
    supervise_init(g);
    g->respawn.data = g;
    uv_poll_init(loop, &g->poll, g->channel);
    g->poll.data = g;
    uv_poll_start(&g->poll, UV_READABLE, on_channel);
    *ret = g;
    return 0;
}

/* -- end --------------------------------------------------------------------
 */

void
generation_stop(struct generation *g, bool siblings)
{
    if (!g->stopping) {
        g->stopping = true;
        g->stopped_ms = uv_now(g->loop);
        uv_timer_stop(&g->respawn);
        supervise_end(g);
        send_order(g, CHANNEL_STOP, -1, siblings, -1);
    }
}

void
generation_kill(struct generation *g)
{
    send_order(g, CHANNEL_KILL, -1, 0, -1);
}

void
generation_kill_template(struct generation *g)
{
    if (!g->ended) {
        uv_process_kill(&g->process, SIGKILL);
    }
}

static void
on_handle_closed(uv_handle_t *handle)
{
    struct generation *g = handle->data;

    if (--g->open_handles == 0) {
        for (unsigned i = 0; i < g->supervision.polls; i++) {
            close(g->supervision.poll_fd[i]);
        }
        free(g->supervision.poll);
        close(g->channel);
        free_memory(g);
    }
}

void
generation_free(struct generation *g)
{
    /* Workers that outlive their template finish uncounted from here on. */
    for (unsigned i = 0; i < g->count; i++) {
        worker_end_answered(g, i);
    }
    release_logs(g);
    g->open_handles = 5 + (int)g->supervision.polls;
    uv_close((uv_handle_t *)&g->process, on_handle_closed);
    uv_close((uv_handle_t *)&g->poll, on_handle_closed);
    uv_close((uv_handle_t *)&g->respawn, on_handle_closed);
    uv_close((uv_handle_t *)&g->start, on_handle_closed);
    uv_close((uv_handle_t *)&g->supervision.tick, on_handle_closed);
    for (unsigned i = 0; i < g->supervision.polls; i++) {
        uv_close((uv_handle_t *)&g->supervision.poll[i], on_handle_closed);
    }
}
