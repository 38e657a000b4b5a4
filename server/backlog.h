/* SPDX-License-Identifier: MIT
 *
 * How many connections wait to be accepted: of a unix socket asked from the
 * kernel by sock_diag(7), of a TCP socket by TCP_INFO. Never blocks, does not
 * log. Any process that has the socket.
 */
#ifndef FOREBAY_SERVER_BACKLOG_H
#define FOREBAY_SERVER_BACKLOG_H

#include <stdbool.h>

struct backlog {
    bool known; /* the kernel has told */
    unsigned waiting;
    unsigned limit; /* as the kernel has cut it (net.core.somaxconn) */
};

/* 0, or -errno with *ret not known: no listening socket, of another kind, or a
 * kernel without unix_diag. */
int backlog_read(int fd, struct backlog *ret);

#endif
