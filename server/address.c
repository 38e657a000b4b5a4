/* SPDX-License-Identifier: MIT
 *
 * ADDRESS texts into addresses and back. Any process. Opens nothing; the only
 * thing that may wait is the lookup of a host name.
 */
#include "server/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The last byte of sun_path stays NUL: not every program reads a path that
 * fills it (unix(7), BUGS). */
enum { UNIX_PATH_MAX_LEN = sizeof(((struct sockaddr_un *)0)->sun_path) - 1 };

static int
parse_unix(const char *path, struct address *a, char *why, size_t size)
{
    size_t len = strlen(path);

    if (path[0] != '/') {
        snprintf(why, size,
                 "the socket path in \"%s\" must begin with a slash, as in "
                 "unix:/run/forebay/app.sock",
                 a->text);
        return -1;
    }
    if (len > UNIX_PATH_MAX_LEN) {
        snprintf(why, size,
                 "the socket path \"%s\" is %zu bytes long; the system allows "
                 "%d bytes for a unix socket: choose a shorter path",
                 path, len, (int)UNIX_PATH_MAX_LEN);
        return -1;
    }
    if (path[len - 1] == '/') {
        snprintf(why, size,
                 "\"%s\" names a folder; write the path of the socket itself",
                 path);
        return -1;
    }
    a->kind = ADDRESS_UNIX;
    a->un.sun_family = AF_UNIX;
    memcpy(a->un.sun_path, path, len + 1);
    return 0;
}

/* Digits alone, at most max; -1 for anything else. */
static long
parse_number(const char *text, long max)
{
    long n = 0;

    if (*text == '\0') {
        return -1;
    }
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9') {
            return -1;
        }
        n = n * 10 + (*text - '0');
        if (n > max) {
            return -1;
        }
    }
    return n;
}

static int
parse_fd(const char *text, struct address *a, char *why, size_t size)
{
    long n = parse_number(text, 1048575);

    if (n < 0) {
        snprintf(why, size,
                 "\"%s\": fd: is followed by the number of an open descriptor, "
                 "as in fd:3",
                 a->text);
        return -1;
    }
    a->kind = ADDRESS_FD;
    a->fd = (int)n;
    return 0;
}

static int
parse_systemd(const char *name, struct address *a, char *why, size_t size)
{
    if (strlen(name) >= sizeof(a->name)) {
        snprintf(why, size,
                 "the socket name in \"%s\" is %zu bytes long, %zu are allowed",
                 a->text, strlen(name), sizeof(a->name) - 1);
        return -1;
    }
    a->kind = ADDRESS_SYSTEMD;
    memcpy(a->name, name, strlen(name) + 1);
    return 0;
}

static int
parse_tcp(const char *text, struct address *a, char *why, size_t size)
{
    const char *host = text, *colon;
    size_t len;
    long port;

    if (text[0] == '[') {
        const char *end = strchr(text, ']');

        if (end == NULL || end[1] != ':') {
            snprintf(why, size,
                     "\"%s\": an IPv6 address is written [ADDRESS]:PORT, as in "
                     "[::1]:9000",
                     text);
            return -1;
        }
        host++;
        len = (size_t)(end - host);
        colon = end + 1;
    } else {
        colon = strchr(text, ':');
        if (colon == NULL) {
            snprintf(why, size,
                     "\"%s\" is no address; write unix:/path, host:port, "
                     ":port, [v6]:port, fd:N or systemd[:name]",
                     text);
            return -1;
        }
        if (strchr(colon + 1, ':') != NULL) {
            snprintf(why, size,
                     "\"%s\" has more than one colon; write an IPv6 address in "
                     "brackets, as in [::1]:9000",
                     text);
            return -1;
        }
        len = (size_t)(colon - text);
    }
    if (len >= sizeof(a->host) || (text[0] == '[' && len == 0)) {
        snprintf(why, size, "the host in \"%s\" is %s", text,
                 len == 0 ? "empty" : "too long (127 bytes are allowed)");
        return -1;
    }
    port = parse_number(colon + 1, 65535);
    if (port < 0) {
        snprintf(why, size,
                 "the port in \"%s\" must be a number from 0 to 65535 (0 takes "
                 "any free one)",
                 text);
        return -1;
    }
    a->kind = ADDRESS_TCP;
    memcpy(a->host, host, len);
    a->host[len] = '\0';
    snprintf(a->port, sizeof(a->port), "%u", (unsigned)port & 0xffff);
    return 0;
}

int
address_parse(const char *text, struct address *ret, char *why, size_t size)
{
    struct address a = { .fd = -1 };
    int rc;

    if (text[0] == '\0') {
        snprintf(why, size, "the address is empty");
        return -1;
    }
    if (strlen(text) >= sizeof(a.text)) {
        snprintf(why, size,
                 "the address \"%.40s...\" is %zu bytes long; %zu are allowed, "
                 "and %d for the path of a unix socket",
                 text, strlen(text), sizeof(a.text) - 1,
                 (int)UNIX_PATH_MAX_LEN);
        return -1;
    }
    memcpy(a.text, text, strlen(text) + 1);
    if (text[0] == '/') {
        rc = parse_unix(text, &a, why, size);
    } else if (strncmp(text, "unix:", 5) == 0) {
        rc = parse_unix(text + 5, &a, why, size);
    } else if (strncmp(text, "fd:", 3) == 0) {
        rc = parse_fd(text + 3, &a, why, size);
    } else if (strcmp(text, "systemd") == 0) {
        rc = parse_systemd("", &a, why, size);
    } else if (strncmp(text, "systemd:", 8) == 0) {
        rc = parse_systemd(text + 8, &a, why, size);
    } else {
        rc = parse_tcp(text, &a, why, size);
    }
    if (rc == 0) {
        *ret = a;
    }
    return rc;
}

static void
add_resolved(const struct sockaddr *sa, socklen_t len,
             struct sockaddr_storage *ret, socklen_t *ret_len, unsigned max,
             unsigned *count)
{
    for (unsigned i = 0; i < *count; i++) {
        /* "localhost" often stands in the hosts file more than once. */
        if (ret_len[i] == len && memcmp(&ret[i], sa, len) == 0) {
            return;
        }
    }
    if (*count < max && len <= sizeof(*ret)) {
        memset(&ret[*count], 0, sizeof(*ret));
        memcpy(&ret[*count], sa, len);
        ret_len[*count] = len;
        (*count)++;
    }
}

/* Both families of loopback, or with "*" of every local address: v4 first. */
static int
resolve_local(const struct address *a, struct sockaddr_storage *ret,
              socklen_t *ret_len, unsigned max)
{
    struct sockaddr_in v4 = { .sin_family = AF_INET };
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };
    unsigned count = 0;
    bool any = a->host[0] == '*';

    v4.sin_port = v6.sin6_port = htons((uint16_t)atoi(a->port));
    v4.sin_addr.s_addr = htonl(any ? INADDR_ANY : INADDR_LOOPBACK);
    v6.sin6_addr = any ? in6addr_any : in6addr_loopback;
    add_resolved((struct sockaddr *)&v4, sizeof(v4), ret, ret_len, max, &count);
    add_resolved((struct sockaddr *)&v6, sizeof(v6), ret, ret_len, max, &count);
    return (int)count;
}

static int
resolve_tcp(const struct address *a, int passive, struct sockaddr_storage *ret,
            socklen_t *ret_len, unsigned max, char *why, size_t size)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found = NULL;
    unsigned count = 0;
    int rc;

    if (strcmp(a->host, "*") == 0 && !passive) {
        snprintf(why, size,
                 "\"%s\": * is an address to listen on, not one to "
                 "connect to",
                 a->text);
        return -1;
    }
    if (a->host[0] == '\0' || strcmp(a->host, "*") == 0) {
        return resolve_local(a, ret, ret_len, max);
    }
    hints.ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0);
    rc = getaddrinfo(a->host, a->port, &hints, &found);
    if (rc != 0) {
        snprintf(why, size, "the host \"%s\" in \"%s\" cannot be looked up: %s",
                 a->host, a->text,
                 rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));
        return -1;
    }
    for (struct addrinfo *i = found; i != NULL; i = i->ai_next) {
        if (i->ai_family == AF_INET || i->ai_family == AF_INET6) {
            add_resolved(i->ai_addr, i->ai_addrlen, ret, ret_len, max, &count);
        }
    }
    freeaddrinfo(found);
    if (count == 0) {
        snprintf(why, size, "the host \"%s\" in \"%s\" has no IP address",
                 a->host, a->text);
        return -1;
    }
    return (int)count;
}

int
address_resolve(const struct address *a, int passive,
                struct sockaddr_storage *ret, socklen_t *ret_len, unsigned max,
                char *why, size_t size)
{
    unsigned count = 0;

    switch (a->kind) {
    case ADDRESS_UNIX:
        add_resolved((const struct sockaddr *)&a->un, sizeof(a->un), ret,
                     ret_len, max, &count);
        return (int)count;
    case ADDRESS_TCP:
        return resolve_tcp(a, passive, ret, ret_len, max, why, size);
    case ADDRESS_FD:
    case ADDRESS_SYSTEMD:
        break;
    }
    snprintf(why, size,
             "\"%s\" is a socket that was opened elsewhere; it has no address "
             "to look up",
             a->text);
    return -1;
}

static void
format_unix(const struct sockaddr *sa, socklen_t len, char *out, size_t size)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    size_t path_len;

    if (len > sizeof(un)) {
        len = sizeof(un);
    }
    memcpy(&un, sa, len);
    path_len = len - offsetof(struct sockaddr_un, sun_path);
    if (path_len == 0) {
        snprintf(out, size, "unix:(unnamed)");
    } else if (un.sun_path[0] == '\0') {
        snprintf(out, size, "unix:@%.*s", (int)(path_len - 1), un.sun_path + 1);
    } else {
        snprintf(out, size, "unix:%.*s", (int)path_len, un.sun_path);
    }
}

char *
address_format(const struct sockaddr *sa, socklen_t len, char *out, size_t size)
{
    char host[INET6_ADDRSTRLEN] = "?";

    if (len < sizeof(sa->sa_family)) {
        snprintf(out, size, "(unnamed)");
    } else if (sa->sa_family == AF_UNIX) {
        format_unix(sa, len, out, size);
    } else if (sa->sa_family == AF_INET && len >= sizeof(struct sockaddr_in)) {
        struct sockaddr_in v4;

        memcpy(&v4, sa, sizeof(v4));
        inet_ntop(AF_INET, &v4.sin_addr, host, sizeof(host));
        snprintf(out, size, "%s:%u", host, ntohs(v4.sin_port));
    } else if (sa->sa_family == AF_INET6 &&
               len >= sizeof(struct sockaddr_in6)) {
        struct sockaddr_in6 v6;

        memcpy(&v6, sa, sizeof(v6));
        inet_ntop(AF_INET6, &v6.sin6_addr, host, sizeof(host));
        snprintf(out, size, "[%s]:%u", host, ntohs(v6.sin6_port));
    } else {
        snprintf(out, size, "(address family %d)", (int)sa->sa_family);
    }
    return out;
}
