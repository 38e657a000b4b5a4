/* SPDX-License-Identifier: MIT
 *
 * See load_request.h. FastCGI is framed as nginx does it: one BEGIN_REQUEST,
 * the parameters padded to 8 bytes, the body in records of 32 KB.
 */
#include "bench/load_request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/fcgi.h"

enum {
    REQUEST_ID = 1,
    BODY_RECORD = 32 * 1024,
    PORT_FIRST = 32768,
    PORT_LAST = 60999,
};

/* What the other functions of this file work on. */
struct builder {
    const struct load_options *options;
    struct buf *out;
    int rc;         /* -1 once memory ran out */
    size_t port_at; /* as in struct load_request */
};

/* Headers of a browser; the same for all three protocols. */
static const struct {
    const char *header, *variable, *value;
} headers[] = {
    { "Host", "HTTP_HOST", "www.example.com" },
    { "Connection", "HTTP_CONNECTION", "keep-alive" },
    { "User-Agent", "HTTP_USER_AGENT",
      "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 "
      "Firefox/128.0" },
    { "Accept", "HTTP_ACCEPT",
      "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8" },
    { "Accept-Language", "HTTP_ACCEPT_LANGUAGE", "en-US,en;q=0.5" },
    { "Accept-Encoding", "HTTP_ACCEPT_ENCODING", "gzip, deflate, br" },
    { "Referer", "HTTP_REFERER", "http://www.example.com/" },
    { "Cookie", "HTTP_COOKIE",
      "sessionid=k2xv8w1r5s0m3q7d9f4g6h1j2l5n8b3c; theme=dark" },
    { "Upgrade-Insecure-Requests", "HTTP_UPGRADE_INSECURE_REQUESTS", "1" },
};

static void
put(struct builder *b, const void *data, size_t len)
{
    if (buf_append(b->out, data, len) < 0) {
        b->rc = -1;
    }
}

static void
put_text(struct builder *b, const char *text)
{
    put(b, text, strlen(text));
}

static void
put_pair(struct builder *b, const char *name, size_t name_len,
         const char *value)
{
    size_t value_len = strlen(value), n;
    char length[8];

    if (b->options->protocol == LOAD_SCGI) {
        put(b, name, name_len);
        put(b, "", 1);
    } else {
        n = fcgi_put_length(length, (uint32_t)name_len);
        n += fcgi_put_length(length + n, (uint32_t)value_len);
        put(b, length, n);
        put(b, name, name_len);
    }
    if (strncmp(name, "REMOTE_PORT", name_len) == 0 && value_len == 5) {
        b->port_at = b->out->len;
    }
    put(b, value, value_len);
    if (b->options->protocol == LOAD_SCGI) {
        put(b, "", 1);
    }
}

/* Unless the command line has another value for it. */
static void
put_param(struct builder *b, const char *name, const char *value)
{
    const struct load_options *o = b->options;
    size_t len = strlen(name);

    for (unsigned i = 0; i < o->param_count; i++) {
        if (strncmp(o->param[i], name, len) == 0 && o->param[i][len] == '=') {
            return;
        }
    }
    put_pair(b, name, len, value);
}

static void
put_extra_params(struct builder *b)
{
    const struct load_options *o = b->options;

    for (unsigned i = 0; i < o->param_count; i++) {
        const char *equals = strchr(o->param[i], '=');

        put_pair(b, o->param[i], (size_t)(equals - o->param[i]), equals + 1);
    }
}

/* The parameters of nginx's fastcgi_params, with the path in PATH_INFO. */
static void
put_params(struct builder *b, const char *uri)
{
    const struct load_options *o = b->options;
    const char *query = strchr(uri, '?');
    char path[1024], length[24] = "";

    snprintf(path, sizeof(path), "%.*s", (int)strcspn(uri, "?"), uri);
    if (o->body_bytes > 0 || o->protocol == LOAD_SCGI) {
        snprintf(length, sizeof(length), "%zu", o->body_bytes);
    }
    if (o->protocol == LOAD_SCGI) {
        put_param(b, "CONTENT_LENGTH", length);
        put_param(b, "SCGI", "1");
    }
    put_param(b, "QUERY_STRING", query != NULL ? query + 1 : "");
    put_param(b, "REQUEST_METHOD", o->method);
    put_param(b, "CONTENT_TYPE",
              o->body_bytes > 0 ? "application/octet-stream" : "");
    if (o->protocol != LOAD_SCGI) {
        put_param(b, "CONTENT_LENGTH", length);
    }
    put_param(b, "SCRIPT_NAME", "");
    put_param(b, "PATH_INFO", path);
    put_param(b, "REQUEST_URI", uri);
    put_param(b, "DOCUMENT_URI", path);
    put_param(b, "DOCUMENT_ROOT", "/var/www/html");
    put_param(b, "SERVER_PROTOCOL", "HTTP/1.1");
    put_param(b, "REQUEST_SCHEME", "http");
    put_param(b, "GATEWAY_INTERFACE", "CGI/1.1");
    put_param(b, "SERVER_SOFTWARE", "nginx/1.22.1");
    put_param(b, "REMOTE_ADDR", "192.0.2.10");
    put_param(b, "REMOTE_PORT", "32768");
    put_param(b, "SERVER_ADDR", "192.0.2.1");
    put_param(b, "SERVER_PORT", "80");
    put_param(b, "SERVER_NAME", "www.example.com");
    put_param(b, "REDIRECT_STATUS", "200");
    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
        put_param(b, headers[i].variable, headers[i].value);
    }
    put_extra_params(b);
}

static void
put_record(struct builder *b, int type, const char *content, size_t len)
{
    static const char zero[8];
    unsigned padding = (unsigned)(8 - len % 8) % 8;
    char header[FCGI_HEADER_LEN];

    fcgi_put_header(header, type, REQUEST_ID, len, padding);
    put(b, header, sizeof(header));
    if (len > 0) {
        put(b, content, len);
    }
    put(b, zero, padding);
}

/* Parameters may be longer than one record. */
static void
put_params_records(struct builder *b, const char *uri)
{
    struct buf params, *out = b->out;
    size_t n;

    buf_init(&params, SIZE_MAX);
    b->out = &params;
    put_params(b, uri);
    b->out = out;
    if (b->rc == 0 && params.len <= FCGI_CONTENT_MAX && b->port_at > 0) {
        b->port_at += out->len + FCGI_HEADER_LEN;
    } else {
        b->port_at = 0;
    }
    for (size_t done = 0; b->rc == 0 && done < params.len; done += n) {
        n = params.len - done;
        n = n < FCGI_CONTENT_MAX ? n : FCGI_CONTENT_MAX;
        put_record(b, FCGI_PARAMS, params.data + done, n);
    }
    buf_release(&params);
    put_record(b, FCGI_PARAMS, NULL, 0);
}

static void
build_fcgi(struct builder *b, const char *uri, const char *body)
{
    size_t left = b->options->body_bytes, n;
    char begin[FCGI_HEADER_LEN + sizeof(FCGI_BeginRequestBody)] = { 0 };

    fcgi_put_header(begin, FCGI_BEGIN_REQUEST, REQUEST_ID,
                    sizeof(FCGI_BeginRequestBody), 0);
    begin[FCGI_HEADER_LEN + 1] = FCGI_RESPONDER;
    begin[FCGI_HEADER_LEN + 2] = b->options->keep ? FCGI_KEEP_CONN : 0;
    put(b, begin, sizeof(begin));
    put_params_records(b, uri);
    while (left > 0) {
        n = left < BODY_RECORD ? left : BODY_RECORD;
        put_record(b, FCGI_STDIN, body, n);
        body += n;
        left -= n;
    }
    put_record(b, FCGI_STDIN, NULL, 0);
}

static void
build_scgi(struct builder *b, const char *uri, const char *body)
{
    struct buf params, *out = b->out;
    char length[24];

    buf_init(&params, SIZE_MAX);
    b->out = &params;
    put_params(b, uri);
    b->out = out;
    snprintf(length, sizeof(length), "%zu:", params.len);
    put_text(b, length);
    b->port_at += out->len;
    put(b, params.data, params.len);
    put_text(b, ",");
    put(b, body, b->options->body_bytes);
    buf_release(&params);
}

static void
build_http(struct builder *b, const char *uri, const char *body)
{
    const struct load_options *o = b->options;
    char line[1200];

    snprintf(line, sizeof(line), "%s %s HTTP/1.1\r\n", o->method, uri);
    put_text(b, line);
    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
        bool connection = strcmp(headers[i].header, "Connection") == 0;

        snprintf(line, sizeof(line), "%s: %s\r\n", headers[i].header,
                 connection && !o->keep ? "close" : headers[i].value);
        put_text(b, line);
    }
    if (o->body_bytes > 0) {
        snprintf(line, sizeof(line),
                 "Content-Type: application/octet-stream\r\n"
                 "Content-Length: %zu\r\n",
                 o->body_bytes);
        put_text(b, line);
    }
    put_text(b, "\r\n");
    put(b, body, o->body_bytes);
}

/* Bytes that repeat at no power of two, so that a lost piece shows. */
static char *
make_body(size_t len)
{
    char *body = malloc(len + 1);

    for (size_t i = 0; body != NULL && i < len; i++) {
        body[i] = (char)('!' + i % 89);
    }
    return body;
}

int
load_request_init(struct load_request *q, const struct load_options *o,
                  const char *uri)
{
    struct builder b = { .options = o, .out = &q->bytes };
    char *body = make_body(o->body_bytes);

    buf_init(&q->bytes, SIZE_MAX);
    q->body = body;
    q->body_bytes = o->body_bytes;
    if (body == NULL) {
        return -1;
    }
    switch (o->protocol) {
    case LOAD_FCGI:
        build_fcgi(&b, uri, body);
        break;
    case LOAD_SCGI:
        build_scgi(&b, uri, body);
        break;
    case LOAD_HTTP:
        build_http(&b, uri, body);
        break;
    }
    q->port_at = b.port_at;
    return b.rc;
}

void
load_request_release(struct load_request *q)
{
    buf_release(&q->bytes);
    free((char *)q->body);
    q->body = NULL;
}

void
load_request_next_port(struct load_request *q)
{
    static unsigned port = PORT_FIRST;
    unsigned n = port;

    if (q->port_at == 0) {
        return;
    }
    for (int i = 4; i >= 0; i--) {
        q->bytes.data[q->port_at + (size_t)i] = (char)('0' + n % 10);
        n /= 10;
    }
    port = port < PORT_LAST ? port + 1 : PORT_FIRST;
}
