/* SPDX-License-Identifier: MIT
 *
 * ADDRESS: unix:/path | /path | host:port | :port | [v6]:port | fd:N |
 * systemd[:name]. Parsing and naming only. Any process.
 */
#ifndef FOREBAY_SERVER_ADDRESS_H
#define FOREBAY_SERVER_ADDRESS_H

#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

enum address_kind {
    ADDRESS_UNIX,
    ADDRESS_TCP,
    ADDRESS_FD,
    ADDRESS_SYSTEMD,
};

enum { ADDRESS_MAX_RESOLVED = 8 };

struct address {
    enum address_kind kind;
    char text[256];        /* as the user wrote it */
    struct sockaddr_un un; /* ADDRESS_UNIX */
    char host[128];        /* ADDRESS_TCP; "" is loopback for ":port" */
    char port[16];
    int fd;        /* ADDRESS_FD */
    char name[64]; /* ADDRESS_SYSTEMD; "" is all of them */
};

/* 0, or -1 with one sentence in why (which limit, how long, what is allowed). A
 * unix path that does not fit sun_path is refused with both lengths. */
int address_parse(const char *text, struct address *ret, char *why,
                  size_t size);

/* Resolve a TCP address (numeric or by name). Returns how many, or -1. */
int address_resolve(const struct address *a, int passive,
                    struct sockaddr_storage *ret, socklen_t *ret_len,
                    unsigned max, char *why, size_t size);

/* "unix:/run/x.sock", "127.0.0.1:9000", "[::1]:9000" of a bound or connected
 * socket. Returns out. */
char *address_format(const struct sockaddr *sa, socklen_t len, char *out,
                     size_t size);

#endif
