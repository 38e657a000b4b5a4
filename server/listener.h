/* SPDX-License-Identifier: MIT
 *
 * Listening sockets: open, bind, inherit, give back. Never accepts. Manager
 * only. A unix socket has its mode and owner from the first moment that its
 * path exists; a path on which somebody answers is refused, a stale one
 * replaced by rename(2); only the inode that we made is ever removed.
 */
#ifndef FOREBAY_SERVER_LISTENER_H
#define FOREBAY_SERVER_LISTENER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "server/address.h"

struct listener_options {
    unsigned backlog;
    unsigned mode;  /* of a unix socket */
    unsigned owner; /* uid and gid; (unsigned)-1: unchanged */
    unsigned group;
    bool single; /* one socket is all that can be served: of a name with several
                    addresses the first that can be had; a v6 one takes v4
                    connections as well, where the address allows */
};

struct listener {
    int fd;         /* non-blocking, close-on-exec; -1: none */
    bool inherited; /* fd:N, systemd, descriptor 0: path is not ours */
    char text[256]; /* where it listens, for people */
    char path[108]; /* of a unix socket that we bound, else "" */
    dev_t dev;      /* its inode */
    ino_t ino;
};

/* Open what one address means: usually one listener, for a name with several
 * addresses or systemd more (max at most). Returns how many, or -1 with a
 * sentence in why. Warns in the log when the kernel caps the backlog. */
int listener_open(const struct address *a, const struct listener_options *o,
                  struct listener *ret, unsigned max, char *why, size_t size);

/* Take over a listening socket (descriptor 0 of lighttpd, mod_fcgid,
 * spawn-fcgi). It is moved above 2. */
int listener_inherit(int fd, struct listener *ret, char *why, size_t size);

/* Take over a listening socket of another manager (upgrade.h), which called it
 * text. path (or NULL) is the path of a unix socket that is ours to remove from
 * now on. 0 or -1. */
int listener_adopt(int fd, const char *path, const char *text,
                   struct listener *ret);

/* Is fd a listening stream socket? */
bool listener_is_listening(int fd);

/* A TCP socket that we have bound ourselves? */
bool listener_is_own_tcp(const struct listener *l);

/* No connection is to be made any more, although workers that are busy have the
 * socket open and look at it only when their requests are over: refuse from now
 * on, and close. Only where nobody waits to be accepted any more, unless also
 * those are to be refused. True when that is done. An own TCP socket only: one
 * of somebody else's must go on listening, and for a unix socket it is enough
 * that its path is gone. */
bool listener_refuse(struct listener *l, bool also_waiting);

/* Can nobody find it any more: is its path gone, or another file's? */
bool listener_is_lost(const struct listener *l);

/* Close; remove the path if it is still our inode. NULL or closed is fine. */
void listener_close(struct listener *l);

#endif
