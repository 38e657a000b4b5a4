/* SPDX-License-Identifier: MIT
 *
 * See shed.h.
 */
#include "server/shed.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/decoder.h"
#include "protocol/fcgi.h"
#include "protocol/response.h"
#include "server/clients.h"
#include "server/executor_limits.h"

enum {
    MAX_CLIENTS = 256,
    MAX_ANSWER = 4096,
    QUESTION_MS = 5000,
    ANSWER_MS = 5000,
};

struct shed {
    struct clients *clients;
    unsigned long refused;
};

static struct decoder *
decoder_of(struct client *c)
{
    static const struct request_limits limits = {
        .params_bytes = 256 * 1024,
        .params_count = 2000,
        .mpx = 1,
        .max_conns = MAX_CLIENTS,
    };

    if (c->data == NULL) {
        c->data = malloc(sizeof(struct decoder));
        if (c->data != NULL) {
            decoder_init(c->data, DECODER_AUTO, &limits);
        }
    }
    return c->data;
}

static void
gone(struct client *c)
{
    if (c->data != NULL) {
        decoder_release(c->data);
        free(c->data);
        c->data = NULL;
    }
}

/* 503, and the end of the request; the connection is not kept. */
static void
refuse(struct client *c, const struct request *r)
{
    struct shed *s = c->ctx;
    char head[FCGI_HEADER_LEN], tail[FCGI_HEADER_LEN + 16];
    struct buf page;
    int rc;

    buf_init(&page, MAX_ANSWER);
    rc = response_simple(&page, 503, false);
    if (rc == 0 && r->protocol == REQUEST_FCGI) {
        fcgi_put_header(head, FCGI_STDOUT, r->id, page.len, 0);
        fcgi_put_header(tail, FCGI_STDOUT, r->id, 0, 0);
        fcgi_put_end(tail + FCGI_HEADER_LEN, r->id, 0, FCGI_REQUEST_COMPLETE);
        rc = buf_append(&c->out, head, sizeof(head));
        rc = rc == 0 ? buf_append(&c->out, page.data, page.len) : rc;
        rc = rc == 0 ? buf_append(&c->out, tail, sizeof(tail)) : rc;
    } else if (rc == 0) {
        rc = buf_append(&c->out, page.data, page.len);
    }
    buf_release(&page);
    if (rc != 0) {
        client_drop(c);
        return;
    }
    s->refused++;
    client_answer(c);
}

static void
input(struct client *c, const char *data, size_t len)
{
    struct decoder *d = decoder_of(c);
    enum decode_event event = d != NULL ? DECODE_REPLY : DECODE_BAD;
    size_t used;

    while (event == DECODE_REPLY) {
        event = decoder_feed(d, data, len, &used);
        data += used;
        len -= used;
        if (event == DECODE_REPLY &&
            client_say(c, d->reply, d->reply_len) != 0) {
            return;
        }
    }
    if (event == DECODE_HEAD) {
        refuse(c, d->req);
    } else if (event != DECODE_MORE) {
        client_drop(c);
    }
}

struct shed *
shed_open(uv_loop_t *loop, const int *listen_fd, unsigned count)
{
    static const struct clients_options options = {
        .max = MAX_CLIENTS,
        .max_question = 1,
        .max_answer = MAX_ANSWER,
        .question_ms = QUESTION_MS,
        .answer_ms = ANSWER_MS,
        .input = input,
        .gone = gone,
    };
    struct listener copy[EXECUTOR_MAX_LISTENERS];
    struct shed *s = calloc(1, sizeof(*s));

    memset(copy, 0, sizeof(copy));
    for (unsigned i = 0; i < count; i++) {
        copy[i].fd = fcntl(listen_fd[i], F_DUPFD_CLOEXEC, 10);
        copy[i].inherited = true; /* the path is the pool's */
    }
    if (s != NULL) {
        s->clients = clients_open(loop, copy, count, &options, s);
    }
    if (s == NULL || s->clients == NULL) {
        free(s);
        return NULL;
    }
    clients_accept(s->clients, false);
    return s;
}

unsigned long
shed_switch(struct shed *s, bool on)
{
    unsigned long refused = s->refused;

    s->refused = 0;
    clients_accept(s->clients, on);
    return refused;
}

void
shed_close(struct shed *s)
{
    if (s != NULL) {
        clients_close(s->clients);
        free(s);
    }
}
