/* SPDX-License-Identifier: MIT
 *
 * How much memory a process uses, from /proc. Does not log. Manager.
 */
#ifndef FOREBAY_SERVER_MEMORY_H
#define FOREBAY_SERVER_MEMORY_H

#include <stdint.h>

struct memory_use {
    uint64_t rss; /* bytes; shared pages count in full */
    uint64_t pss; /* bytes; a page that n processes share counts 1/n. 0: the
                     kernel does not say (another user's process) */
};

/* 0, or -errno (the process is gone) with *ret zero. Reading the PSS makes the
 * kernel walk all pages of the process: some milliseconds for a big one. */
int memory_read(int pid, struct memory_use *ret);

#endif
