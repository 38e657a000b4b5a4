/* SPDX-License-Identifier: MIT
 *
 * Parameters of a request that `forebay request` sends, and the bytes in front
 * of its body. The tool only. Knows no file and no socket.
 */
#include "server/request_message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "protocol/fcgi.h"

/* -- parameters
 * ---------------------------------------------------------------- */

void
message_release(struct message *m)
{
    for (unsigned i = 0; i < m->count; i++) {
        free(m->param[i].name);
        free(m->param[i].value);
    }
    free(m->param);
    m->param = NULL;
    m->count = 0;
    body_release(&m->body);
    body_release(&m->data);
}

int
message_add(struct message *m, const char *name, const char *value,
            size_t value_len)
{
    struct message_param *grown, p = { .value_len = value_len };

    grown = realloc(m->param, (m->count + 1) * sizeof(*grown));
    if (grown == NULL) {
        return -1;
    }
    m->param = grown;
    p.name = strdup(name);
    p.value = malloc(value_len + 1);
    if (p.name == NULL || p.value == NULL) {
        free(p.name);
        free(p.value);
        return -1;
    }
    if (value_len > 0) {
        memcpy(p.value, value, value_len);
    }
    p.value[value_len] = '\0';
    m->param[m->count++] = p;
    return 0;
}

void
message_remove(struct message *m, const char *name)
{
    unsigned i = 0;

    while (i < m->count) {
        struct message_param *p = &m->param[i];

        if (strcmp(p->name, name) != 0) {
            i++;
            continue;
        }
        free(p->name);
        free(p->value);
        m->count--;
        memmove(p, p + 1, (m->count - i) * sizeof(*p));
    }
}

int
message_set(struct message *m, const char *name, const char *value)
{
    message_remove(m, name);
    return message_add(m, name, value, strlen(value));
}

const struct message_param *
message_find(const struct message *m, const char *name)
{
    for (unsigned i = 0; i < m->count; i++) {
        if (strcmp(m->param[i].name, name) == 0) {
            return &m->param[i];
        }
    }
    return NULL;
}

int
message_header(struct message *m, const char *header, bool fresh, char *why,
               size_t size)
{
    size_t len = strcspn(header, ":;"), used;
    const char *value = header + len;
    char name[512];

    if (len == 0 || *value == '\0' || len > sizeof(name) - 16) {
        snprintf(why, size, "\"%s\" is not a header: write 'Name: value'",
                 header);
        return -1;
    }
    if (strncasecmp(header, "Content-Type", len) == 0 && len == 12) {
        used = 0;
    } else if (strncasecmp(header, "Content-Length", len) == 0 && len == 14) {
        used = 0;
    } else {
        used = (size_t)snprintf(name, sizeof(name), "HTTP_");
    }
    for (size_t i = 0; i < len; i++) {
        char c = header[i];

        c = c == '-' ? '_' : c >= 'a' && c <= 'z' ? (char)(c - 32) : c;
        name[used++] = c;
    }
    name[used] = '\0';
    if (fresh || *value == ';') {
        message_remove(m, name);
    }
    if (*value == ':') {
        value++;
        value += strspn(value, " \t");
        if (*value == '\0') {
            message_remove(m, name);
            return 0;
        }
    } else {
        value = "";
    }
    if (message_add(m, name, value, strlen(value)) != 0) {
        snprintf(why, size, "out of memory");
        return -1;
    }
    return 0;
}

/* -- the URL
 * ------------------------------------------------------------------- */

struct url {
    bool https;
    char host[256];     /* without port, with the brackets of IPv6 */
    char port[8];       /* "" when there is none */
    const char *target; /* path and query, as written */
    size_t path_len;
};

static int
parse_authority(const char *text, size_t len, struct url *u, char *why,
                size_t size)
{
    const char *colon = NULL;
    size_t host_len = len;

    for (size_t i = 0; i < len; i++) {
        if (text[i] == ']') {
            colon = NULL;
        } else if (text[i] == ':' && colon == NULL) {
            colon = text + i;
        }
    }
    if (text[0] == '[' && memchr(text, ']', len) == NULL) {
        colon = NULL;
        len = 0;
    }
    if (colon != NULL) {
        host_len = (size_t)(colon - text);
    }
    if (len == 0 || host_len == 0 || host_len >= sizeof(u->host) ||
        len - host_len > sizeof(u->port)) {
        snprintf(why, size, "the host in the URL cannot be understood");
        return -1;
    }
    memcpy(u->host, text, host_len);
    u->host[host_len] = '\0';
    if (colon != NULL) {
        memcpy(u->port, colon + 1, len - host_len - 1);
        u->port[len - host_len - 1] = '\0';
    }
    return 0;
}

static int
parse_url(const char *text, struct url *u, char *why, size_t size)
{
    const char *rest = NULL;
    size_t len;

    memset(u, 0, sizeof(*u));
    if (strncasecmp(text, "http://", 7) == 0) {
        rest = text + 7;
    } else if (strncasecmp(text, "https://", 8) == 0) {
        rest = text + 8;
        u->https = true;
    } else if (text[0] == '/' || strcmp(text, "*") == 0) {
        u->target = text;
    } else {
        snprintf(why, size,
                 "\"%s\" is not a URL: write http://host/path or /path", text);
        return -1;
    }
    if (rest != NULL) {
        len = strcspn(rest, "/?#");
        if (parse_authority(rest, len, u, why, size) != 0) {
            return -1;
        }
        u->target = rest + len;
    }
    u->path_len = strcspn(u->target, "?#");
    return 0;
}

static int
hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c = (char)(c | 32);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Percent-decode; what is no escape stays as it is. Returns the length. */
static size_t
decode_path(const char *in, size_t len, char *out)
{
    size_t used = 0;

    for (size_t i = 0; i < len; i++) {
        if (in[i] == '%' && i + 2 < len && hex_digit(in[i + 1]) >= 0 &&
            hex_digit(in[i + 2]) >= 0) {
            out[used++] =
                (char)(hex_digit(in[i + 1]) * 16 + hex_digit(in[i + 2]));
            i += 2;
        } else {
            out[used++] = in[i];
        }
    }
    return used;
}

/* SCRIPT_NAME and PATH_INFO of the decoded path. */
static int
add_paths(struct message *m, const struct url *u, const char *script_name,
          const char *path_info)
{
    size_t len, skip = 0;
    char *path;
    int rc;

    path = malloc(u->path_len + 2);
    if (path == NULL) {
        return -1;
    }
    len = decode_path(u->target, u->path_len, path);
    if (len == 0) {
        path[len++] = '/';
    }
    if (script_name != NULL) {
        skip = strlen(script_name);
        if (len < skip || memcmp(path, script_name, skip) != 0 ||
            (len > skip && path[skip] != '/')) {
            skip = 0;
        }
    }
    rc = message_set(m, "SCRIPT_NAME", script_name ? script_name : "");
    if (rc == 0 && path_info != NULL) {
        rc = message_set(m, "PATH_INFO", path_info);
    } else if (rc == 0) {
        rc = message_add(m, "PATH_INFO", path + skip, len - skip);
    }
    free(path);
    return rc;
}

static int
add_target(struct message *m, const struct url *u)
{
    size_t len = strcspn(u->target, "#");
    const char *query = u->target + u->path_len;
    int rc;

    if (u->path_len == 0) {
        /* "http://host" or "http://host?x" asks for "/" (RFC 9110, 4.2.3). */
        char *uri = malloc(len + 2);

        if (uri == NULL) {
            return -1;
        }
        uri[0] = '/';
        memcpy(uri + 1, u->target, len);
        rc = message_add(m, "REQUEST_URI", uri, len + 1);
        free(uri);
    } else {
        rc = message_add(m, "REQUEST_URI", u->target, len);
    }
    if (rc != 0) {
        return rc;
    }
    if (*query == '?') {
        return message_add(m, "QUERY_STRING", query + 1,
                           strcspn(query + 1, "#"));
    }
    return message_add(m, "QUERY_STRING", "", 0);
}

int
message_url(struct message *m, const char *url, const char *script_name,
            const char *path_info, char *host, size_t host_size, char *why,
            size_t size)
{
    char http_host[300];
    struct url u;
    int rc;

    if (parse_url(url, &u, why, size) != 0) {
        return -1;
    }
    snprintf(http_host, sizeof(http_host), "%s%s%s",
             u.host[0] != '\0' ? u.host : "localhost",
             u.port[0] != '\0' ? ":" : "", u.port);
    snprintf(host, host_size, "%s", u.port[0] != '\0' ? http_host : "");
    rc = add_paths(m, &u, script_name, path_info);
    rc = rc != 0 ? rc : add_target(m, &u);
    rc = rc != 0 ? rc : message_set(m, "HTTP_HOST", http_host);
    rc = rc != 0 ? rc
                 : message_set(m, "SERVER_NAME",
                               u.host[0] != '\0' ? u.host : "localhost");
    rc = rc != 0 ? rc
                 : message_set(m, "SERVER_PORT",
                               u.port[0] != '\0' ? u.port
                               : u.https         ? "443"
                                                 : "80");
    rc = rc != 0 ? rc
                 : message_set(m, "REQUEST_SCHEME", u.https ? "https" : "http");
    if (rc == 0 && u.https) {
        rc = message_set(m, "HTTPS", "on");
    }
    if (rc != 0) {
        snprintf(why, size, "out of memory");
    }
    return rc;
}

/* -- bytes
 * ----------------------------------------------------------------------- */

/* All name-value pairs one behind the other (FastCGI 1.0, section 3.4). */
static int
put_pairs(const struct message *m, struct buf *out)
{
    char length[4] = { 0 };

    for (unsigned i = 0; i < m->count; i++) {
        const struct message_param *p = &m->param[i];
        size_t name_len = strlen(p->name);

        if (buf_append(out, length,
                       fcgi_put_length(length, (uint32_t)name_len)) != 0 ||
            buf_append(out, length,
                       fcgi_put_length(length, (uint32_t)p->value_len)) != 0 ||
            buf_append(out, p->name, name_len) != 0 ||
            buf_append(out, p->value, p->value_len) != 0) {
            return -1;
        }
    }
    return 0;
}

static int
put_record(struct buf *out, int type, unsigned id, const char *data, size_t len)
{
    static const char zeros[8];
    char header[FCGI_HEADER_LEN];
    unsigned padding = (unsigned)(-len & 7);

    fcgi_put_header(header, type, id, len, padding);
    if (buf_append(out, header, sizeof(header)) != 0 ||
        buf_append(out, data, len) != 0) {
        return -1;
    }
    return buf_append(out, zeros, padding);
}

int
message_put_fcgi(const struct message *m, unsigned id, int role, bool keep_conn,
                 struct buf *out)
{
    char begin[sizeof(FCGI_BeginRequestBody)] = { 0, (char)role,
                                                  keep_conn ? FCGI_KEEP_CONN
                                                            : 0 };
    struct buf pairs;
    int rc = -1;

    buf_init(&pairs, SIZE_MAX / 2);
    if (put_pairs(m, &pairs) != 0 ||
        put_record(out, FCGI_BEGIN_REQUEST, id, begin, sizeof(begin)) != 0) {
        goto out;
    }
    for (size_t at = 0; at < pairs.len; at += FCGI_CONTENT_MAX) {
        size_t n = pairs.len - at;

        if (put_record(out, FCGI_PARAMS, id, pairs.data + at,
                       n < FCGI_CONTENT_MAX ? n : FCGI_CONTENT_MAX) != 0) {
            goto out;
        }
    }
    rc = put_record(out, FCGI_PARAMS, id, "", 0);
out:
    buf_release(&pairs);
    return rc;
}

static int
put_scgi_pair(struct buf *out, const struct message_param *p)
{
    if (buf_append(out, p->name, strlen(p->name) + 1) != 0) {
        return -1;
    }
    return buf_append(out, p->value, p->value_len + 1);
}

int
message_put_scgi(const struct message *m, struct buf *out)
{
    const struct message_param *length = message_find(m, "CONTENT_LENGTH");
    struct buf pairs;
    char head[24];
    int rc = -1;

    buf_init(&pairs, SIZE_MAX / 2);
    if (length != NULL && put_scgi_pair(&pairs, length) != 0) {
        goto out;
    }
    for (unsigned i = 0; i < m->count; i++) {
        if (&m->param[i] != length &&
            put_scgi_pair(&pairs, &m->param[i]) != 0) {
            goto out;
        }
    }
    snprintf(head, sizeof(head), "%zu:", pairs.len);
    if (buf_append_str(out, head) == 0 &&
        buf_append(out, pairs.data, pairs.len) == 0) {
        rc = buf_append(out, ",", 1);
    }
out:
    buf_release(&pairs);
    return rc;
}
