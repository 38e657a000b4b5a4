/* SPDX-License-Identifier: MIT
 *
 * See request_compose.h. The tool only.
 */
#include "server/request_compose.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <fastcgi.h>

#include "server/request_exchange.h"

const char *
request_method(const struct request_options *o)
{
    if (o->method != NULL) {
        return o->method;
    }
    return o->head                   ? "HEAD"
           : o->upload               ? "PUT"
           : o->data || o->form.used ? "POST"
                                     : "GET";
}

/* What a front end says of itself and the client. */
static int
add_defaults(const struct request_options *o)
{
    static const char *const pairs[][2] = {
        { "SERVER_PROTOCOL", "HTTP/1.1" },
        { "SERVER_ADDR", "127.0.0.1" },
        { "REMOTE_ADDR", "127.0.0.1" },
        { "REMOTE_PORT", "49152" },
        { "GATEWAY_INTERFACE", "CGI/1.1" },
        { "SERVER_SOFTWARE", "forebay-request/" FOREBAY_VERSION },
        { "HTTP_USER_AGENT", "forebay-request/" FOREBAY_VERSION },
        { "HTTP_ACCEPT", "*/*" },
    };
    struct message *m = o->message;
    int rc;

    rc = message_set(m, "REQUEST_METHOD", request_method(o));
    for (size_t i = 0; rc == 0 && i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        rc = message_set(m, pairs[i][0], pairs[i][1]);
    }
    if (rc == 0 && o->scgi) {
        rc = message_set(m, "SCGI", "1");
    }
    return rc;
}

/* CONTENT_LENGTH and CONTENT_TYPE, and of a filter what it says of its data. */
static int
add_body_params(const struct request_options *o)
{
    struct message *m = o->message;
    char text[128];
    uint64_t length;
    int rc = 0;

    if (body_length(&m->body, &length) && (m->body.count > 0 || o->scgi)) {
        snprintf(text, sizeof(text), "%" PRIu64, length);
        rc = message_set(m, "CONTENT_LENGTH", text);
    }
    if (rc == 0 && o->form.used) {
        snprintf(text, sizeof(text), "multipart/form-data; boundary=%s",
                 o->form.boundary);
        rc = message_set(m, "CONTENT_TYPE", text);
    } else if (rc == 0 && o->data) {
        rc =
            message_set(m, "CONTENT_TYPE", "application/x-www-form-urlencoded");
    }
    if (rc == 0 && o->role == FCGI_FILTER) {
        if (body_length(&m->data, &length)) {
            snprintf(text, sizeof(text), "%" PRIu64, length);
            rc = message_set(m, "FCGI_DATA_LENGTH", text);
        }
        if (rc == 0) {
            rc = message_set(m, "FCGI_DATA_LAST_MOD", "0");
        }
    }
    return rc;
}

/* -P of one name again is sent again; the first replaces a default. */
static int
add_param(const struct request_options *o, unsigned index)
{
    const char *text = o->param[index], *equals = strchr(text, '=');
    size_t len = (size_t)(equals - text);
    char *name = strndup(text, len);
    bool again = false;
    int rc;

    if (name == NULL) {
        return -1;
    }
    for (unsigned i = 0; i < index; i++) {
        again = again || strncmp(o->param[i], text, len + 1) == 0;
    }
    if (!again) {
        message_remove(o->message, name);
    }
    rc = message_add(o->message, name, equals + 1, strlen(equals + 1));
    free(name);
    return rc;
}

static int
add_header(const struct request_options *o, unsigned index, char *why,
           size_t size)
{
    const char *text = o->header[index];
    size_t len = strcspn(text, ":;");
    bool again = false;

    for (unsigned i = 0; i < index; i++) {
        again = again || (strcspn(o->header[i], ":;") == len &&
                          strncasecmp(o->header[i], text, len) == 0);
    }
    return message_header(o->message, text, !again, why, size);
}

int
request_compose(const struct request_options *o, char *host, size_t host_size)
{
    struct message *m = o->message;
    char why[512] = "out of memory";
    int rc = 0;

    if (o->form.used) {
        rc = form_end(&o->form, &m->body);
    }
    if (rc == 0 && (o->scgi || o->repeat > 1) &&
        (body_settle(&m->body, why, sizeof(why)) != 0 ||
         body_settle(&m->data, why, sizeof(why)) != 0)) {
        return request_complain(o, EXCHANGE_INPUT, "%s", why);
    }
    if (rc != 0 || add_defaults(o) != 0) {
        return request_complain(o, EXCHANGE_INPUT, "%s", why);
    }
    if (message_url(m, o->url, o->script_name, o->path_info, host, host_size,
                    why, sizeof(why)) != 0) {
        return request_complain(o, EXCHANGE_USAGE, "%s", why);
    }
    if (add_body_params(o) != 0) {
        return request_complain(o, EXCHANGE_INPUT, "%s", why);
    }
    for (unsigned i = 0; i < o->header_count; i++) {
        if (add_header(o, i, why, sizeof(why)) != 0) {
            return request_complain(o, EXCHANGE_USAGE, "%s", why);
        }
    }
    for (unsigned i = 0; i < o->param_count; i++) {
        if (add_param(o, i) != 0) {
            return request_complain(o, EXCHANGE_INPUT, "%s", why);
        }
    }
    for (unsigned i = 0; i < o->no_param_count; i++) {
        message_remove(m, o->no_param[i]);
    }
    return 0;
}
