/* SPDX-License-Identifier: MIT
 *
 * Messages between manager, template and workers: fixed size, versioned,
 * checked on receipt, over SOCK_SEQPACKET pairs, with at most one descriptor.
 * No process orders another by a signal. A process whose parent's end closes
 * ends itself.
 */
#ifndef FOREBAY_SERVER_CHANNEL_H
#define FOREBAY_SERVER_CHANNEL_H

#include <stdint.h>

enum channel_type {
    /* manager -> template */
    CHANNEL_SPAWN = 1, /* slot; the descriptor is the worker's log pipe */
    CHANNEL_STOP,      /* slot: that worker finishes what it has and ends;
                          slot -1: all, then the template itself. value 1:
                          other workers go on and take its connections */
    CHANNEL_KILL,      /* slot: SIGKILL; -1: all */

    /* template -> manager */
    CHANNEL_READY = 32,    /* imported (value 1: and workers are forked from
                              it; 0: workers import for themselves) */
    CHANNEL_FAILED,        /* cannot start; text is the sentence */
    CHANNEL_FORKED,        /* slot, pid */
    CHANNEL_WORKER_READY,  /* slot, pid */
    CHANNEL_WORKER_FAILED, /* slot, pid; text: why it cannot serve */
    CHANNEL_EXITED,        /* slot, pid, value: wait status */
};

enum { CHANNEL_VERSION = 1, CHANNEL_TEXT_MAX = 512 };

struct channel_message {
    uint16_t version;
    uint16_t type;
    int32_t slot;
    int32_t pid;
    int32_t value;
    char text[CHANNEL_TEXT_MAX]; /* NUL-terminated */
};

/* A connected pair, close-on-exec, non-blocking. 0 or -errno. */
int channel_pair(int ret[2]);

/* Send one message; fd -1: no descriptor goes with it (the caller keeps its
 * own copy otherwise). 0 or -errno (-EAGAIN: the peer's queue is full). */
int channel_send(int channel, const struct channel_message *m, int fd);
/* The same, built from its parts. text may be NULL. */
int channel_say(int channel, enum channel_type type, int slot, int pid,
                int value, const char *text);

/* Receive one. 1: *ret is set, *ret_fd is -1 or a new close-on-exec descriptor
 * (owned by the caller); 0: the other end closed; -EAGAIN: nothing there;
 * other -errno. A message of the wrong size or version is -EPROTO. */
int channel_receive(int channel, struct channel_message *ret, int *ret_fd);

#endif
