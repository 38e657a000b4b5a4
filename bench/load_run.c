/* SPDX-License-Identifier: MIT
 *
 * See load_run.h.
 */
#include "bench/load_run.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "bench/load_request.h"
#include "bench/load_response.h"

enum {
    EVENTS = 64,
    READ_BYTES = 256 * 1024,
    SWEEP_MS = 100, /* how often timeouts are looked for */
};

struct conn {
    int fd; /* -1: none */
    bool slow;
    bool kept;    /* has answered a request before this one */
    bool busy;    /* a request is under way */
    bool watched; /* is in the epoll set */
    bool waits_to_write;
    size_t sent;
    uint64_t started_ns;
    struct load_request *request; /* borrowed from struct run */
    struct load_response response;
};

struct run {
    const struct load_options *options;
    struct load_report *report;
    struct sockaddr_storage address;
    socklen_t address_len;
    int epoll_fd;
    uint64_t limit; /* requests to begin; set to begun when time is up */
    uint64_t begun; /* requests, without those of the slow connection */
    uint64_t ended;
    uint64_t stop_ns;      /* begin none after this */
    uint64_t last_good_ns; /* when a good answer was whole */
    unsigned conn_count;
    struct conn *conn; /* owned */
    struct load_request fast, slow;
    char *read; /* owned, READ_BYTES */
};

static uint64_t
now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int
find_address(struct run *r, char *why, size_t size)
{
    const char *text = r->options->connect;
    struct sockaddr_un *un = (struct sockaddr_un *)&r->address;
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found;
    const char *colon;
    char host[256];
    int rc;

    if (strncmp(text, "unix:", 5) == 0) {
        text += 5;
    }
    if (text[0] == '/') {
        if (strlen(text) >= sizeof(un->sun_path)) {
            snprintf(why, size, "%s is too long for a unix socket", text);
            return -1;
        }
        un->sun_family = AF_UNIX;
        memcpy(un->sun_path, text, strlen(text) + 1);
        r->address_len = sizeof(*un);
        return 0;
    }
    colon = strrchr(text, ':');
    if (colon == NULL) {
        snprintf(why, size, "%s is neither a path nor host:port", text);
        return -1;
    }
    snprintf(host, sizeof(host), "%.*s", (int)(colon - text), text);
    rc = getaddrinfo(host, colon + 1, &hints, &found);
    if (rc != 0) {
        snprintf(why, size, "%s: %s", text, gai_strerror(rc));
        return -1;
    }
    memcpy(&r->address, found->ai_addr, found->ai_addrlen);
    r->address_len = found->ai_addrlen;
    freeaddrinfo(found);
    return 0;
}

static void
drop(struct conn *c)
{
    if (c->fd >= 0) {
        close(c->fd);
        c->fd = -1;
    }
    c->kept = c->watched = false;
}

static void
note_latency(struct load_latencies *l, uint64_t ns)
{
    if (l->count < l->room) {
        l->ns[l->count++] = ns;
    }
}

/* Say once what a bad answer looks like. */
static void
note_example(struct run *r, const struct conn *c, enum load_result result)
{
    const struct load_response *p = &c->response;
    char *out = r->report->example;
    size_t n = p->head_len < 300 ? p->head_len : 300;

    if (out[0] != '\0') {
        return;
    }
    if (result == LOAD_REFUSED || result == LOAD_CONNECT) {
        snprintf(out, sizeof(r->report->example), "connect: %s",
                 strerror(errno));
        return;
    }
    snprintf(out, sizeof(r->report->example),
             "status %u, %llu bytes of the body, the answer begins: %.*s",
             p->status, (unsigned long long)p->body_bytes, (int)n, p->head);
}

/* The request of c has ended, one way or the other. */
static void
end_request(struct run *r, struct conn *c, enum load_result result)
{
    struct load_report *report = r->report;
    uint64_t now = now_ns(), took_ns = now - c->started_ns, gap_ns;

    c->busy = false;
    if (result != LOAD_OK) {
        note_example(r, c, result);
    }
    if (c->slow) {
        report->slow_failed += result != LOAD_OK;
        if (result == LOAD_OK) {
            note_latency(&report->slow, took_ns);
        }
    } else {
        r->ended++;
        report->result[result]++;
        if (result == LOAD_OK) {
            report->response_bytes += c->response.body_bytes;
            gap_ns = now - r->last_good_ns;
            if (gap_ns > report->longest_gap_ns) {
                report->longest_gap_ns = gap_ns;
            }
            r->last_good_ns = now;
            note_latency(&report->fast, took_ns);
        }
    }
    if (result != LOAD_OK || !r->options->keep || c->response.closes ||
        r->options->protocol == LOAD_SCGI) {
        drop(c);
    } else {
        c->kept = true;
    }
}

/* Have the epoll set tell when the answer comes, or also when more of the
 * request can be sent. */
static int
watch(struct run *r, struct conn *c, bool write)
{
    struct epoll_event e = { .events = EPOLLIN | (write ? EPOLLOUT : 0u),
                             .data.ptr = c };
    int op = c->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

    if (c->watched && c->waits_to_write == write) {
        return 0;
    }
    c->watched = true;
    c->waits_to_write = write;
    return epoll_ctl(r->epoll_fd, op, c->fd, &e);
}

/* A socket that is connected, or will be. LOAD_OK or how it failed. */
static enum load_result
open_conn(struct run *r, struct conn *c)
{
    int family = r->address.ss_family, one = 1, rc;

    c->fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->fd < 0) {
        return LOAD_CONNECT;
    }
    if (family != AF_UNIX) {
        setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    }
    rc = connect(c->fd, (struct sockaddr *)&r->address, r->address_len);
    if (rc < 0 && errno != EINPROGRESS) {
        /* On a unix socket EAGAIN means that the backlog is full. */
        return errno == ECONNREFUSED || errno == EAGAIN ? LOAD_REFUSED
                                                        : LOAD_CONNECT;
    }
    return LOAD_OK;
}

static void begin_request(struct run *r, struct conn *c);

/* The server closed a kept connection before it saw this request: a front end
 * tries again with a new one, and so do we. False when it is no such case. */
static bool
try_again(struct run *r, struct conn *c)
{
    uint64_t started_ns = c->started_ns;

    if (!c->kept || c->response.any) {
        return false;
    }
    r->report->reconnects++;
    drop(c);
    begin_request(r, c);
    c->started_ns = started_ns;
    return true;
}

/* Send what is left of the request, as far as it goes, at once: a server that
 * is woken by the connection should find it there. */
static void
send_request(struct run *r, struct conn *c)
{
    const struct buf *bytes = &c->request->bytes;
    bool full = false;
    ssize_t n;

    while (c->sent < bytes->len && !full) {
        n = send(c->fd, bytes->data + c->sent, bytes->len - c->sent,
                 MSG_NOSIGNAL);
        if (n > 0) {
            c->sent += (size_t)n;
        } else if (errno == EAGAIN || errno == ENOTCONN) {
            full = true;
        } else if (errno == EPIPE && try_again(r, c)) {
            return;
        } else {
            /* It may have answered before it closed: read that. */
            c->sent = bytes->len;
        }
    }
    if (watch(r, c, full) < 0) {
        end_request(r, c, LOAD_CONNECT);
    }
}

static void
begin_request(struct run *r, struct conn *c)
{
    enum load_result result = LOAD_OK;

    c->request = c->slow ? &r->slow : &r->fast;
    load_response_begin(&c->response, r->options, c->request);
    load_request_next_port(c->request);
    c->sent = 0;
    c->busy = true;
    c->started_ns = now_ns();
    if (c->fd < 0) {
        result = open_conn(r, c);
    }
    if (result != LOAD_OK) {
        end_request(r, c, result);
        return;
    }
    send_request(r, c);
}

/* The next request of a connection that has none, if one is due. */
static void
go_on(struct run *r, struct conn *c)
{
    while (!c->busy && !c->slow && r->begun < r->limit) {
        r->begun++;
        begin_request(r, c);
    }
    if (!c->busy && c->slow && r->ended < r->limit) {
        begin_request(r, c);
    }
}

static void
receive(struct run *r, struct conn *c)
{
    ssize_t n;

    do {
        n = recv(c->fd, r->read, READ_BYTES, 0);
        if (n > 0) {
            load_response_feed(&c->response, r->read, (size_t)n);
        } else if (n == 0 || errno != EAGAIN) {
            if (try_again(r, c)) {
                return;
            }
            load_response_eof(&c->response);
        }
    } while (n == READ_BYTES && !c->response.done);
    if (c->response.done) {
        end_request(r, c, c->response.result);
    }
}

static void
handle(struct run *r, struct conn *c, uint32_t events)
{
    if (!c->busy) { /* the server closed an idle kept connection */
        drop(c);
        return;
    }
    if ((events & EPOLLOUT) != 0) {
        send_request(r, c);
    }
    if (c->busy && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) {
        receive(r, c);
    }
}

static void
sweep(struct run *r)
{
    uint64_t now = now_ns(), limit = r->options->timeout_ms * 1000000u;

    for (unsigned i = 0; i < r->conn_count; i++) {
        struct conn *c = &r->conn[i];

        if (c->busy && now - c->started_ns > limit) {
            end_request(r, c, LOAD_TIMEOUT);
        }
        go_on(r, c);
    }
}

static void
serve(struct run *r)
{
    struct epoll_event e[EVENTS];
    uint64_t now = now_ns(), next_sweep_ns = now + SWEEP_MS * 1000000u;
    int n;

    for (unsigned i = 0; i < r->conn_count; i++) {
        go_on(r, &r->conn[i]);
    }
    while (r->ended < r->limit) {
        n = epoll_wait(r->epoll_fd, e, EVENTS, SWEEP_MS);
        now = now_ns();
        if (now > r->stop_ns && r->limit > r->begun) {
            r->limit = r->begun;
        }
        for (int i = 0; i < n; i++) {
            handle(r, e[i].data.ptr, e[i].events);
            go_on(r, e[i].data.ptr);
        }
        if (n == 0 || now > next_sweep_ns) {
            sweep(r);
            next_sweep_ns = now + SWEEP_MS * 1000000u;
        }
    }
}

static int
prepare(struct run *r)
{
    const struct load_options *o = r->options;
    struct load_latencies *fast = &r->report->fast, *slow = &r->report->slow;

    r->conn_count = o->connections + (o->slow_uri != NULL);
    r->conn = calloc(r->conn_count, sizeof(*r->conn));
    r->read = malloc(READ_BYTES);
    fast->room = slow->room = o->requests;
    fast->ns = malloc(fast->room * sizeof(*fast->ns));
    slow->ns = malloc(slow->room * sizeof(*slow->ns));
    r->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (r->conn == NULL || r->read == NULL || fast->ns == NULL ||
        slow->ns == NULL || r->epoll_fd < 0 ||
        load_request_init(&r->fast, o, o->uri) < 0 ||
        load_request_init(&r->slow, o,
                          o->slow_uri != NULL ? o->slow_uri : o->uri) < 0) {
        return -1;
    }
    for (unsigned i = 0; i < r->conn_count; i++) {
        r->conn[i].fd = -1;
        r->conn[i].slow = i == o->connections;
    }
    return 0;
}

int
load_run(const struct load_options *o, struct load_report *ret, char *why,
         size_t size)
{
    struct run r = { .options = o, .report = ret, .epoll_fd = -1 };
    uint64_t began_ns;
    int rc;

    memset(ret, 0, sizeof(*ret));
    rc = find_address(&r, why, size);
    if (rc == 0) {
        rc = prepare(&r);
        if (rc < 0) {
            snprintf(why, size, "not enough memory or descriptors");
        }
    }
    if (rc == 0) {
        began_ns = r.last_good_ns = now_ns();
        r.limit = o->requests;
        r.stop_ns = o->duration_ms > 0 ? began_ns + o->duration_ms * 1000000u
                                       : UINT64_MAX;
        serve(&r);
        ret->begun = r.begun;
        ret->elapsed_ns = now_ns() - began_ns;
    }
    for (unsigned i = 0; r.conn != NULL && i < r.conn_count; i++) {
        drop(&r.conn[i]);
    }
    if (r.epoll_fd >= 0) {
        close(r.epoll_fd);
    }
    load_request_release(&r.fast);
    load_request_release(&r.slow);
    free(r.conn);
    free(r.read);
    return rc;
}
