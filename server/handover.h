/* SPDX-License-Identifier: MIT
 *
 * Kept connections from one worker to another of the same pool: the descriptor
 * travels over a queue (one SOCK_SEQPACKET pair of the pool) that all its
 * workers, of every generation, read from. What is passed on stands between two
 * requests, so nothing but the descriptor and the protocol need travel.
 *
 * Worker process, any thread; GIL not needed.
 */
#ifndef FOREBAY_SERVER_HANDOVER_H
#define FOREBAY_SERVER_HANDOVER_H

#include "protocol/decoder.h"

/* Put a connection into the queue; the caller closes its own copy when 0 came
 * back. -EAGAIN: the queue is full, it stays where it is. */
int handover_send(int queue, int fd, enum decoder_kind kind);

/* Take one out. 1 with *ret_fd (owned by the caller, non-blocking,
 * close-on-exec) and *ret_kind; 0: nothing there; -errno. */
int handover_receive(int queue, int *ret_fd, enum decoder_kind *ret_kind);

#endif
