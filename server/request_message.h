/* SPDX-License-Identifier: MIT
 *
 * What `forebay request` sends: CGI parameters and a body that comes from
 * memory and files. The tool only; opens files, no sockets.
 */
#ifndef FOREBAY_SERVER_REQUEST_MESSAGE_H
#define FOREBAY_SERVER_REQUEST_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "protocol/buf.h"

/* Bytes in memory, or a file. */
struct body_part {
    char *data;   /* owned; NULL: a file */
    uint64_t len; /* of a file that is no regular one: not known */
    int fd;       /* owned; -1: memory */
    bool regular; /* its length is known and it can be read again */
};

/* Parts one behind the other, and how far they have been read. */
struct body {
    struct body_part *part;
    unsigned count;
    unsigned at;     /* part that is being read */
    uint64_t offset; /* in it */
    bool ended;      /* all was read */
};

struct message_param {
    char *name;  /* owned */
    char *value; /* owned; may hold NUL bytes */
    size_t value_len;
};

struct message {
    struct message_param *param;
    unsigned count;
    struct body body; /* FCGI_STDIN */
    struct body data; /* FCGI_DATA of the filter role */
};

void body_release(struct body *b);
/* Append bytes (copied). 0 or -1 (no memory). */
int body_add_bytes(struct body *b, const void *data, size_t len);
/* Append a file; "-" is descriptor 0. 0, or -1 with a sentence. */
int body_add_file(struct body *b, const char *path, char *why, size_t size);
/* All bytes together; false when a part's length is not known. */
bool body_length(const struct body *b, uint64_t *ret);
/* Read parts of unknown length into memory: for SCGI, which needs the length
 * first, and for sending a body again. 0, or -1 with a sentence. */
int body_settle(struct body *b, char *why, size_t size);
void body_rewind(struct body *b);
/* The descriptor to wait for before body_read(), or -1: it does not wait. */
int body_wait_fd(const struct body *b);
/* Up to len bytes; 0: the end (b->ended); -1 with errno. A regular file that
 * has become shorter gives EIO. */
ssize_t body_read(struct body *b, char *out, size_t len);

void message_release(struct message *m);
/* Add a parameter, whatever else has the name. 0 or -1 (no memory). */
int message_add(struct message *m, const char *name, const char *value,
                size_t value_len);
/* The same, after all others of this name were removed. */
int message_set(struct message *m, const char *name, const char *value);
void message_remove(struct message *m, const char *name);
const struct message_param *message_find(const struct message *m,
                                         const char *name);

/* "Name: value" of -H: HTTP_NAME, or CONTENT_TYPE and CONTENT_LENGTH. "Name:"
 * removes it, "Name;" sends it empty; the first of a name replaces a default,
 * when fresh says so. 0, or -1 with a sentence. */
int message_header(struct message *m, const char *header, bool fresh, char *why,
                   size_t size);

/* The parameters that follow from a URL: "http://host:port/path?query" or
 * "/path?query". script_name, path_info: NULL, or what to say instead. host has
 * host_size bytes for "host:port" to connect to, "" when the URL has none with
 * a port. 0, or -1 with a sentence. */
int message_url(struct message *m, const char *url, const char *script_name,
                const char *path_info, char *host, size_t host_size, char *why,
                size_t size);

/* The bytes that come before the body. FastCGI: BEGIN_REQUEST (role, flags) and
 * PARAMS; SCGI: the netstring, with CONTENT_LENGTH first. 0 or -1 (no memory).
 */
int message_put_fcgi(const struct message *m, unsigned id, int role,
                     bool keep_conn, struct buf *out);
int message_put_scgi(const struct message *m, struct buf *out);

#endif
