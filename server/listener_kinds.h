/* SPDX-License-Identifier: MIT
 *
 * How listeners of the kinds of addresses that have a file of their own are
 * opened, and what all kinds do. For listener.c and its kinds only; arguments
 * and results are those of listener_open().
 */
#ifndef FOREBAY_SERVER_LISTENER_KINDS_H
#define FOREBAY_SERVER_LISTENER_KINDS_H

#include <stddef.h>

#include "server/address.h"
#include "server/listener.h"

/* One socket. 0, or -1 with a sentence. */
int listener_open_unix(const struct address *a,
                       const struct listener_options *o, struct listener *ret,
                       char *why, size_t size);

/* Without a name: all that nobody has asked for by name before. Returns how
 * many, or -1 with a sentence. */
int listener_open_systemd(const struct address *a, struct listener *ret,
                          unsigned max, char *why, size_t size);

/* Above 2, close-on-exec, non-blocking; the old number is closed, or for 0 to 2
 * given to /dev/null so that nothing else is ever opened there. Returns the new
 * one or -1 with errno. */
int listener_settle_fd(int fd);

/* The kernel cuts the backlog without a word; say it once. */
void listener_warn_backlog(unsigned backlog);

#endif
