/* SPDX-License-Identifier: MIT
 *
 * One shared mapping per pool, one slot per executor thread (DESIGN: what every
 * worker does right now). A slot is written by its owner alone, under a
 * sequence count, and never locked by readers. The manager reads it: the
 * request line of a worker that died, status, deadlines.
 */
#ifndef FOREBAY_SERVER_SCOREBOARD_H
#define FOREBAY_SERVER_SCOREBOARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum scoreboard_state {
    SCORE_FREE, /* no worker */
    SCORE_STARTING,
    SCORE_IDLE,
    SCORE_READING, /* waits for or reads a request body */
    SCORE_RUNNING, /* in the application */
    SCORE_WRITING,
    SCORE_AFTER, /* after_response work */
    SCORE_DRAINING,
};

enum { SCORE_LINE_MAX = 200 };

struct scoreboard_slot {
    _Atomic uint32_t sequence; /* odd while the owner writes */
    _Atomic uint32_t state;
    _Atomic int32_t pid;
    _Atomic uint64_t since_ns; /* monotonic: state was entered */
    _Atomic uint64_t
        begun_ns; /* monotonic: the current request began; 0 none */
    _Atomic uint64_t requests; /* answered since the worker started */
    _Atomic uint64_t failures; /* of these, the application failed */
    char line[SCORE_LINE_MAX]; /* "GET /path", cut, as the peer sent it;
                                  under sequence */
} __attribute__((aligned(128)));

struct scoreboard {
    struct scoreboard_slot *slot; /* count of them, shared memory */
    unsigned count;
    int fd; /* memfd, or -1 */
    size_t bytes;
};

/* Manager: make one. 0 or -errno. */
int scoreboard_create(unsigned count, struct scoreboard *ret);
/* Template: map what the manager made; fd then belongs to *ret. */
int scoreboard_attach(int fd, unsigned count, struct scoreboard *ret);
void scoreboard_release(struct scoreboard *s);

/* Owner: a request begins (its line is written; running, since now_ns), its
 * state changes, it ends (counted; idle). */
void scoreboard_begin(struct scoreboard_slot *s, const char *method,
                      size_t method_len, const char *uri, size_t uri_len,
                      uint64_t now_ns);
void scoreboard_set(struct scoreboard_slot *s, enum scoreboard_state state);
void scoreboard_end(struct scoreboard_slot *s, bool failed);

/* Reader: a copy of the line; out is terminated. False: the owner is, or died,
 * in the middle of writing it, so that it may be of two requests. */
bool scoreboard_line(const struct scoreboard_slot *s, char *out, size_t size);

#endif
