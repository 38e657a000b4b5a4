/* SPDX-License-Identifier: MIT
 *
 * What `forebay request` sends: CGI parameters and a body. The tool only; no
 * sockets.
 */
#ifndef FOREBAY_SERVER_REQUEST_MESSAGE_H
#define FOREBAY_SERVER_REQUEST_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "protocol/buf.h"
#include "server/request_body.h"

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
