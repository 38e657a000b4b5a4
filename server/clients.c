/* SPDX-License-Identifier: MIT
 *
 * See clients.h. A client's states, in their order:
 *
 *   ASKING     its bytes are given to the language; after a kept answer again
 *   HELD       has asked; the answer is not there, or the language wants the
 *              connection open although the answer is out
 *   ANSWERING  takes the answer
 *   LINGERING  our side is shut; until its end of file, since closing with
 *              unread input makes the kernel throw the answer away
 *   CLOSED     closed; stays in memory while it is held
 */
#include "server/clients.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/executor_limits.h"
#include "server/log.h"

enum client_state { ASKING, HELD, ANSWERING, LINGERING, CLOSED };

/* How often deadlines are looked at, and a listener that has run into a limit
 * of the system is tried again. */
enum { TICK_MS = 250, READ_BYTES = 4096, MAX_DROPPED = 1024 * 1024 };

struct clients {
    uv_loop_t *loop;
    struct clients_options options;
    void *ctx;
    struct client *first; /* the newest */
    unsigned count;       /* not closed */
    unsigned held;
    struct listener listener[EXECUTOR_MAX_LISTENERS];
    uv_poll_t poll[EXECUTOR_MAX_LISTENERS];
    unsigned listeners;
    bool paused; /* nothing is accepted until the next tick */
    bool closing;
    uv_timer_t tick;
    unsigned handles; /* that the loop has not closed yet, clients' included */
};

static void on_tick(uv_timer_t *timer);
static void on_connection(uv_poll_t *poll, int status, int events);
static void on_client(uv_poll_t *poll, int status, int events);

/* -- memory -----------------------------------------------------------------
 */

static void
on_handle_closed(uv_handle_t *handle)
{
    struct clients *s = handle->data;

    if (--s->handles == 0) {
        free(s);
    }
}

static void
free_client(struct client *c)
{
    struct clients *s = c->clients;

    for (struct client **at = &s->first; *at != NULL; at = &(*at)->next) {
        if (*at == c) {
            *at = c->next;
            break;
        }
    }
    buf_release(&c->in);
    buf_release(&c->out);
    free(c);
    if (--s->handles == 0) {
        free(s);
    }
}

/* The loop has let go of the handle. */
static void
on_client_closed(uv_handle_t *handle)
{
    struct client *c = handle->data;

    c->fd = -1;
    if (c->held == 0) {
        free_client(c);
    }
}

void
client_drop(struct client *c)
{
    struct clients *s = c->clients;

    if (c->state == CLOSED) {
        return;
    }
    c->state = CLOSED;
    s->count--;
    uv_close((uv_handle_t *)&c->poll, on_client_closed);
    close(c->fd);
    if (s->options.gone != NULL) {
        s->options.gone(c);
    }
    buf_release(&c->in);
    buf_release(&c->out);
}

bool
client_is_closed(const struct client *c)
{
    return c->state == CLOSED;
}

/* -- deadlines --------------------------------------------------------------
 */

static void
set_deadline(struct client *c, uint64_t ms)
{
    c->deadline_ms = uv_now(c->clients->loop) + ms;
}

static void
start_ticking(struct clients *s)
{
    if (!uv_is_active((uv_handle_t *)&s->tick)) {
        uv_timer_start(&s->tick, on_tick, TICK_MS, TICK_MS);
    }
}

static void
listen_again(struct clients *s)
{
    for (unsigned i = 0; i < s->listeners; i++) {
        uv_poll_start(&s->poll[i], UV_READABLE, on_connection);
    }
    s->paused = false;
}

static void
on_tick(uv_timer_t *timer)
{
    struct clients *s = timer->data;

    for (struct client *c = s->first; c != NULL; c = c->next) {
        if (c->state != CLOSED && c->deadline_ms <= uv_now(s->loop)) {
            client_drop(c);
        }
    }
    if (s->paused) {
        listen_again(s);
    }
    if (s->count == 0 && !s->paused) {
        uv_timer_stop(timer);
    }
}

/* -- a client ---------------------------------------------------------------
 */

/* Input; or, once its end was read, only that the client is gone altogether
 * (which comes unasked with whatever is watched). */
static void
watch_input(struct client *c)
{
    uv_poll_start(&c->poll, c->ended ? UV_PRIORITIZED : UV_READABLE, on_client);
}

static void
linger(struct client *c)
{
    if (shutdown(c->fd, SHUT_WR) != 0 || c->ended) {
        client_drop(c);
        return;
    }
    c->state = LINGERING;
    set_deadline(c, c->clients->options.answer_ms);
    watch_input(c);
}

static void
ask_again(struct client *c)
{
    buf_clear(&c->out);
    c->sent = 0;
    c->keep = false;
    c->state = ASKING;
    set_deadline(c, c->clients->options.keep_ms);
    watch_input(c);
}

/* The answer is out. */
static void
answered(struct client *c)
{
    if (c->keep && !c->ended) {
        ask_again(c);
        return;
    }
    if (c->held == 0) {
        linger(c);
        return;
    }
    c->state = HELD;
    c->deadline_ms = UINT64_MAX;
    watch_input(c);
}

static void
send_more(struct client *c)
{
    while (c->sent < c->out.len) {
        ssize_t n = send(c->fd, c->out.data + c->sent, c->out.len - c->sent,
                         MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && errno == EAGAIN) {
            uv_poll_start(&c->poll, UV_WRITABLE, on_client);
            return;
        }
        if (n < 0) {
            client_drop(c);
            return;
        }
        c->sent += (size_t)n;
    }
    answered(c);
}

int
client_say(struct client *c, const void *data, size_t len)
{
    if (send(c->fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)len) {
        return 0;
    }
    client_drop(c);
    return -1;
}

void
client_answer(struct client *c)
{
    if (c->state != ASKING && c->state != HELD) {
        return;
    }
    c->state = ANSWERING;
    set_deadline(c, c->clients->options.answer_ms);
    send_more(c);
}

bool
client_answer_keep(struct client *c)
{
    c->keep = true;
    client_answer(c);
    return c->state == ASKING;
}

/* The answer is out at last. What came behind its question has waited. */
static void
go_on(struct client *c)
{
    char bytes[READ_BYTES];
    size_t n = c->in.len;

    if (n > 0 && n <= sizeof(bytes)) {
        memcpy(bytes, c->in.data, n);
        buf_clear(&c->in);
        c->clients->options.input(c, bytes, n);
    }
}

int
client_hold(struct client *c)
{
    struct clients *s = c->clients;

    if (s->held >= s->options.max_held) {
        return -1;
    }
    s->held++;
    c->held++;
    if (c->state == ASKING) {
        c->state = HELD;
        c->deadline_ms = UINT64_MAX;
    }
    return 0;
}

void
client_release(struct client *c)
{
    c->clients->held--;
    c->held--;
    if (c->held > 0) {
        return;
    }
    if (c->state == CLOSED) {
        /* Else the loop still has the handle, and frees it afterwards. */
        if (c->fd < 0) {
            free_client(c);
        }
    } else if (c->state == HELD) {
        linger(c);
    }
}

/* Input of a client that has asked: only its end means something. One that is
 * held may have shut its side and wait for the answer all the same. */
static void
drop_input(struct client *c, ssize_t n)
{
    c->dropped += n > 0 ? (size_t)n : 0;
    if (n == 0 && c->state == HELD && !c->ended) {
        c->ended = true;
        watch_input(c);
    } else if (n <= 0 || c->dropped > MAX_DROPPED) {
        client_drop(c);
    }
}

static void
input_ended(struct client *c)
{
    c->ended = true;
    c->clients->options.input(c, NULL, 0);
    if (c->state == ASKING) {
        client_drop(c); /* half a question */
    } else if (c->state == HELD) {
        watch_input(c);
    }
}

static void
on_client(uv_poll_t *poll, int status, int events)
{
    struct client *c = poll->data;
    char bytes[READ_BYTES];
    ssize_t n;

    if (c->state == CLOSED) {
        return;
    }
    if (status == 0 && (events & UV_WRITABLE) != 0 && c->state == ANSWERING) {
        send_more(c);
        if (c->state == ASKING) {
            go_on(c);
        }
        return;
    }
    n = status < 0 ? -1 : recv(c->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (n < 0 && status == 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (c->state != ASKING) {
        drop_input(c, n);
    } else if (n > 0) {
        c->clients->options.input(c, bytes, (size_t)n);
    } else if (n == 0) {
        input_ended(c);
    } else {
        client_drop(c);
    }
}

/* -- connections ------------------------------------------------------------
 */

/* Room for one more: the oldest goes, rather one that has its answer than one
 * that has not asked, and rather that than one that reads. Not one that is
 * held; there are fewer of those than clients. */
static void
make_room(struct clients *s)
{
    static const enum client_state order[] = { LINGERING, ASKING, ANSWERING };

    for (int i = 0; i < 3 && s->count >= s->options.max; i++) {
        struct client *oldest = NULL;

        for (struct client *c = s->first; c != NULL; c = c->next) {
            if (c->state == (int)order[i]) {
                oldest = c;
            }
        }
        if (oldest != NULL) {
            client_drop(oldest);
        }
    }
}

static int
add_client(struct clients *s, int fd)
{
    struct client *c = calloc(1, sizeof(*c));

    if (c == NULL || uv_poll_init(s->loop, &c->poll, fd) != 0) {
        free(c);
        return -1;
    }
    c->clients = s;
    c->ctx = s->ctx;
    c->fd = fd;
    c->poll.data = c;
    buf_init(&c->in, s->options.max_question);
    buf_init(&c->out, s->options.max_answer);
    c->next = s->first;
    s->first = c;
    s->count++;
    s->handles++;
    set_deadline(c, s->options.question_ms);
    uv_unref((uv_handle_t *)&c->poll);
    uv_poll_start(&c->poll, UV_READABLE, on_client);
    start_ticking(s);
    return 0;
}

static void
on_connection(uv_poll_t *poll, int status, int events)
{
    struct clients *s = poll->data;
    int fd = accept4(s->listener[poll - s->poll].fd, NULL, NULL,
                     SOCK_NONBLOCK | SOCK_CLOEXEC);
    (void)status;
    (void)events;

    if (fd >= 0) {
        make_room(s);
        if (add_client(s, fd) != 0) {
            close(fd);
        }
        return;
    }
    if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) {
        return;
    }
    /* Out of descriptors or memory: the listener would stay readable. */
    log_warn("cannot accept a connection on %s; trying again in %d ms",
             s->listener[poll - s->poll].text, TICK_MS);
    s->paused = true;
    for (unsigned i = 0; i < s->listeners; i++) {
        uv_poll_stop(&s->poll[i]);
    }
    start_ticking(s);
}

struct clients *
clients_open(uv_loop_t *loop, struct listener *l, unsigned count,
             const struct clients_options *o, void *ctx)
{
    struct clients *s = calloc(1, sizeof(*s));

    if (s == NULL || uv_timer_init(loop, &s->tick) != 0) {
        free(s);
        for (unsigned i = 0; i < count; i++) {
            listener_close(&l[i]);
        }
        return NULL;
    }
    s->loop = loop;
    s->options = *o;
    s->ctx = ctx;
    s->tick.data = s;
    s->handles = 1;
    uv_unref((uv_handle_t *)&s->tick);
    for (unsigned i = 0; i < count; i++) {
        uv_poll_t *poll = &s->poll[s->listeners];

        if (uv_poll_init(loop, poll, l[i].fd) != 0) {
            listener_close(&l[i]);
            continue;
        }
        s->listener[s->listeners++] = l[i];
        s->handles++;
        poll->data = s;
        uv_unref((uv_handle_t *)poll);
        uv_poll_start(poll, UV_READABLE, on_connection);
    }
    return s;
}

void
clients_accept(struct clients *s, bool on)
{
    if (on) {
        listen_again(s);
        return;
    }
    for (unsigned i = 0; i < s->listeners; i++) {
        uv_poll_stop(&s->poll[i]);
    }
    s->paused = false;
}

void
clients_hand_over(struct clients *s)
{
    for (unsigned i = 0; s != NULL && i < s->listeners; i++) {
        s->listener[i].path[0] = '\0';
        uv_poll_stop(&s->poll[i]);
        listener_close(&s->listener[i]);
    }
    if (s != NULL) {
        s->paused = false; /* for good */
    }
}

void
clients_close(struct clients *s)
{
    if (s == NULL || s->closing) {
        return;
    }
    s->closing = true;
    for (struct client *c = s->first, *next; c != NULL; c = next) {
        next = c->next;
        c->held = 0;
        if (c->fd < 0) {
            free_client(c);
        } else {
            client_drop(c); /* the loop frees it */
        }
    }
    for (unsigned i = 0; i < s->listeners; i++) {
        uv_close((uv_handle_t *)&s->poll[i], on_handle_closed);
        listener_close(&s->listener[i]);
    }
    uv_close((uv_handle_t *)&s->tick, on_handle_closed);
}
