/* SPDX-License-Identifier: MIT
 *
 * Short conversations on the manager's loop: a client connects, asks a question
 * of limited size in limited time, is answered, and the connection is closed,
 * or kept for the next one. However many clients there are, however slow or
 * silent, none of them keeps the loop waiting, and what they can make grow has
 * a limit: one client too many takes the place of the oldest that nobody waits
 * for.
 *
 * Manager only. control.c and status_server.c give it a language.
 */
#ifndef FOREBAY_SERVER_CLIENTS_H
#define FOREBAY_SERVER_CLIENTS_H

#include <stdbool.h>
#include <uv.h>

#include "protocol/buf.h"
#include "server/listener.h"

struct client;
struct clients;

struct clients_options {
    unsigned max;        /* clients at once */
    unsigned max_held;   /* of these, how many may wait for an answer */
    size_t max_question; /* bytes that client->in holds */
    size_t max_answer;   /* bytes that client->out holds */
    uint64_t question_ms;
    uint64_t answer_ms; /* to take the answer; as long again to close */
    uint64_t keep_ms;   /* for the next question, after client_answer_keep() */

    /* Bytes came, or with len 0 the client will send no more. Once the question
     * is whole: fill c->out and call client_answer() or client_answer_keep(),
     * or client_hold(), or client_drop(). Not called again until the connection
     * may ask again. */
    void (*input)(struct client *c, const char *data, size_t len);
    /* The client is going: release c->data. May be NULL. */
    void (*gone)(struct client *c);
};

struct client {
    struct clients *clients;
    void *ctx;  /* of clients_open() */
    void *data; /* the language's own; NULL at first */
    int fd;
    struct buf in; /* for the language to collect a question in */
    struct buf out;

    /* clients.c's own. */
    struct client *next;
    int state; /* enum client_state */
    uv_poll_t poll;
    uint64_t deadline_ms; /* UINT64_MAX: none */
    size_t sent;
    size_t dropped; /* bytes read after the question */
    unsigned held;
    bool keep;  /* after the answer that is being sent */
    bool ended; /* its side is shut: no input any more */
};

/* Serve these sockets (taken over, also on failure). NULL: out of memory. */
struct clients *clients_open(uv_loop_t *loop, struct listener *l,
                             unsigned count, const struct clients_options *o,
                             void *ctx);

/* Accept no more for a while, or again; who is there is still served. */
void clients_accept(struct clients *s, bool on);

/* Somebody else accepts from now on: close the sockets, but leave their paths.
 * NULL is fine. */
void clients_hand_over(struct clients *s);

/* Close the sockets and all clients, whatever they wait for, and free it all
 * once the loop has closed the handles. NULL is fine. Nobody may call
 * client_release() afterwards. */
void clients_close(struct clients *s);

/* Something small before the answer, at once: 0, or -1 when the client would
 * have to be waited for, and has been dropped. */
int client_say(struct client *c, const void *data, size_t len);

/* Send c->out and close. */
void client_answer(struct client *c);

/* Send c->out, and let it ask again. True: it is out, c->out is empty. False:
 * not yet; what is in c->in then is given to input() when it is. */
bool client_answer_keep(struct client *c);

/* Close now. */
void client_drop(struct client *c);

/* The answer takes a while: c stays in memory, and without a deadline, until
 * client_release() was called as often; it may be closed before. 0, or -1 when
 * too many are held already. */
int client_hold(struct client *c);
void client_release(struct client *c);

/* Has it been closed (while it was held)? */
bool client_is_closed(const struct client *c);

#endif
