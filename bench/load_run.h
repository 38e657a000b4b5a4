/* SPDX-License-Identifier: MIT
 *
 * Keep so many requests under way until enough were answered: one thread, one
 * epoll set; per request one send, one recv, and for a new connection socket,
 * connect, epoll_ctl and close.
 */
#ifndef FOREBAY_BENCH_LOAD_RUN_H
#define FOREBAY_BENCH_LOAD_RUN_H

#include "bench/load.h"

/* Fill *ret. 0, or -1 with a sentence in why: nothing was measured. */
int load_run(const struct load_options *o, struct load_report *ret, char *why,
             size_t size);

#endif
