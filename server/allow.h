/* SPDX-License-Identifier: MIT
 *
 * Which peers may connect over TCP: the setting allow, and the environment's
 * FCGI_WEB_SERVER_ADDRS (FastCGI 1.0, section 3.2). Who comes over a unix
 * socket has been let in by its mode.
 *
 * Worker process; GIL not needed.
 */
#ifndef FOREBAY_SERVER_ALLOW_H
#define FOREBAY_SERVER_ALLOW_H

#include <stdbool.h>
#include <stddef.h>

#include "conf/settings.h"

struct allow;

/* *ret is NULL when everybody may. 0, or -1 with a sentence. It lives as long
 * as the process. */
int allow_make(const struct pool_settings *s, struct allow **ret, char *why,
               size_t size);

/* May the peer of this accepted socket? Warns (now and then) when not. Any
 * thread. */
bool allow_peer(struct allow *a, int fd);

#endif
