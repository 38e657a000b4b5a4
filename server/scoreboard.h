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

/* Latencies: SCORE_BOUNDS of them, and one more for what is above the last. */
enum { SCORE_LINE_MAX = 200, SCORE_BOUNDS = 15, SCORE_BUCKETS };

struct scoreboard_slot {
    _Atomic uint32_t sequence; /* odd while the owner writes */
    _Atomic uint32_t state;
    _Atomic int32_t pid;
    _Atomic uint16_t ordinary; /* runs what reserved slots are kept from */
    _Atomic uint16_t held;     /* of the worker's first thread: connections
                                  that the worker holds back (reserve.h) */
    _Atomic uint64_t since_ns; /* monotonic: state was entered */
    _Atomic uint64_t
        begun_ns; /* monotonic: the current request began; 0 none */
    _Atomic uint64_t requests; /* answered since the worker started */
    _Atomic uint64_t failures; /* of these, the application failed */
    char line[SCORE_LINE_MAX]; /* "GET /path", cut, as the peer sent it;
                                  under sequence */
    _Atomic uint64_t time_ns;  /* that the requests took, together */
    _Atomic uint64_t bucket[SCORE_BUCKETS]; /* how many of them took up to
                                  scoreboard_bound_us[i], and longer than
                                  the bound before */
} __attribute__((aligned(128)));

/* Upper bounds of the buckets but the last, in microseconds. */
extern const uint32_t scoreboard_bound_us[SCORE_BOUNDS];

/* What several slots have counted, or slots whose owners are gone. */
struct score_totals {
    uint64_t requests;
    uint64_t failures;
    uint64_t time_ns;
    uint64_t bucket[SCORE_BUCKETS]; /* each by itself, not cumulative */
};

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
 * state changes, it ends (counted, with the time since it began; idle). */
void scoreboard_begin(struct scoreboard_slot *s, const char *method,
                      size_t method_len, const char *uri, size_t uri_len,
                      uint64_t now_ns);
void scoreboard_set(struct scoreboard_slot *s, enum scoreboard_state state);
void scoreboard_end(struct scoreboard_slot *s, bool failed);

/* Reader: a copy of the line; out is terminated. False: the owner is, or died,
 * in the middle of writing it, so that it may be of two requests. */
bool scoreboard_line(const struct scoreboard_slot *s, char *out, size_t size);

/* Reader: add what the slot has counted to *sum. */
void scoreboard_add(const struct scoreboard_slot *s, struct score_totals *sum);
/* The same, and the slot begins anew: only when its owner is gone. Returns how
 * many requests it had answered. */
uint64_t scoreboard_take(struct scoreboard_slot *s, struct score_totals *sum);
void score_totals_add(struct score_totals *sum, const struct score_totals *t);

#endif
