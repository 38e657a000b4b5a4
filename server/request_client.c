/* SPDX-License-Identifier: MIT
 *
 * `forebay request`: what is sent, output and exit codes. The tool only. The
 * command line is request_options.c, the connection request_exchange.c, what
 * comes back request_answer.c.
 */
#include "server/request_client.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <fastcgi.h>

#include "server/request_answer.h"
#include "server/request_exchange.h"
#include "server/request_form.h"
#include "server/request_message.h"
#include "server/request_options.h"

struct client {
    struct request_options options;
    struct address address;
    struct message message;
    struct exchange exchange;
    struct answer answer;
};

/* -- the message
 * ------------------------------------------------------------------ */

static const char *
choose_method(const struct client *c)
{
    if (c->options.method != NULL) {
        return c->options.method;
    }
    return c->options.head                           ? "HEAD"
           : c->options.upload                       ? "PUT"
           : c->options.data || c->options.form.used ? "POST"
                                                     : "GET";
}

/* What a front end says of itself and the client. */
static int
add_defaults(struct client *c)
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
    struct message *m = &c->message;
    int rc;

    rc = message_set(m, "REQUEST_METHOD", choose_method(c));
    for (size_t i = 0; rc == 0 && i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        rc = message_set(m, pairs[i][0], pairs[i][1]);
    }
    if (rc == 0 && c->options.scgi) {
        rc = message_set(m, "SCGI", "1");
    }
    return rc;
}

/* CONTENT_LENGTH and CONTENT_TYPE, and of a filter what it says of its data. */
static int
add_body_params(struct client *c)
{
    struct message *m = &c->message;
    char text[128];
    uint64_t length;
    int rc = 0;

    if (body_length(&m->body, &length) &&
        (m->body.count > 0 || c->options.scgi)) {
        snprintf(text, sizeof(text), "%" PRIu64, length);
        rc = message_set(m, "CONTENT_LENGTH", text);
    }
    if (rc == 0 && c->options.form.used) {
        snprintf(text, sizeof(text), "multipart/form-data; boundary=%s",
                 c->options.form.boundary);
        rc = message_set(m, "CONTENT_TYPE", text);
    } else if (rc == 0 && c->options.data) {
        rc =
            message_set(m, "CONTENT_TYPE", "application/x-www-form-urlencoded");
    }
    if (rc == 0 && c->options.role == FCGI_FILTER) {
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
add_param(struct client *c, unsigned index)
{
    const char *text = c->options.param[index], *equals = strchr(text, '=');
    size_t len = (size_t)(equals - text);
    char *name = strndup(text, len);
    bool again = false;
    int rc;

    if (name == NULL) {
        return -1;
    }
    for (unsigned i = 0; i < index; i++) {
        again = again || strncmp(c->options.param[i], text, len + 1) == 0;
    }
    if (!again) {
        message_remove(&c->message, name);
    }
    rc = message_add(&c->message, name, equals + 1, strlen(equals + 1));
    free(name);
    return rc;
}

static int
add_header(struct client *c, unsigned index, char *why, size_t size)
{
    const char *text = c->options.header[index];
    size_t len = strcspn(text, ":;");
    bool again = false;

    for (unsigned i = 0; i < index; i++) {
        again = again || (strcspn(c->options.header[i], ":;") == len &&
                          strncasecmp(c->options.header[i], text, len) == 0);
    }
    return message_header(&c->message, text, !again, why, size);
}

static int
build_message(struct client *c, char *host, size_t host_size)
{
    struct message *m = &c->message;
    char why[512] = "out of memory";
    int rc = 0;

    if (c->options.form.used) {
        rc = form_end(&c->options.form, &m->body);
    }
    if (rc == 0 && (c->options.scgi || c->options.repeat > 1) &&
        (body_settle(&m->body, why, sizeof(why)) != 0 ||
         body_settle(&m->data, why, sizeof(why)) != 0)) {
        return request_complain(&c->options, EXCHANGE_INPUT, "%s", why);
    }
    if (rc != 0 || add_defaults(c) != 0) {
        return request_complain(&c->options, EXCHANGE_INPUT, "%s", why);
    }
    if (message_url(m, c->options.url, c->options.script_name,
                    c->options.path_info, host, host_size, why,
                    sizeof(why)) != 0) {
        return request_complain(&c->options, EXCHANGE_USAGE, "%s", why);
    }
    if (add_body_params(c) != 0) {
        return request_complain(&c->options, EXCHANGE_INPUT, "%s", why);
    }
    for (unsigned i = 0; i < c->options.header_count; i++) {
        if (add_header(c, i, why, sizeof(why)) != 0) {
            return request_complain(&c->options, EXCHANGE_USAGE, "%s", why);
        }
    }
    for (unsigned i = 0; i < c->options.param_count; i++) {
        if (add_param(c, i) != 0) {
            return request_complain(&c->options, EXCHANGE_INPUT, "%s", why);
        }
    }
    for (unsigned i = 0; i < c->options.no_param_count; i++) {
        message_remove(m, c->options.no_param[i]);
    }
    return 0;
}

static int
find_address(struct client *c, const char *host)
{
    const char *text = c->options.connect != NULL ? c->options.connect : host;
    char why[512];

    if (text[0] == '\0') {
        return request_complain(
            &c->options, EXCHANGE_USAGE,
            "where to? Use --connect ADDRESS, or a URL with a "
            "port");
    }
    if (address_parse(text, &c->address, why, sizeof(why)) != 0) {
        return request_complain(&c->options, EXCHANGE_USAGE, "%s", why);
    }
    return 0;
}

/* -- the answer
 * --------------------------------------------------------------------- */

static int
on_stdout(void *ctx, const char *data, size_t len)
{
    struct client *c = ctx;

    return answer_take(&c->answer, data, len, c->exchange.why,
                       sizeof(c->exchange.why));
}

static int
on_stderr(void *ctx, const char *data, size_t len)
{
    (void)ctx;
    return fwrite(data, 1, len, stderr) == len ? 0 : -1;
}

static int
check_answer(const struct client *c)
{
    enum exchange_code code;
    char why[512];

    code = answer_check(&c->answer, strcmp(choose_method(c), "HEAD") == 0, why,
                        sizeof(why));
    if (code != EXCHANGE_OK) {
        answer_show_rest(&c->answer);
        return request_complain(&c->options, code, "%s", why);
    }
    if (c->options.fail && c->answer.status >= 400) {
        return request_complain(&c->options, EXCHANGE_STATUS,
                                "the status is %d", c->answer.status);
    }
    return 0;
}

static void
show_params(const struct message *m)
{
    for (unsigned i = 0; i < m->count; i++) {
        fprintf(stderr, "> %s=", m->param[i].name);
        fwrite(m->param[i].value, 1, m->param[i].value_len, stderr);
        fputc('\n', stderr);
    }
}

static int
run_once(struct client *c)
{
    struct exchange *x = &c->exchange;
    uint64_t deadline = c->options.timeout_ms != 0
                            ? exchange_now_ms() + c->options.timeout_ms
                            : 0;
    unsigned connections = x->connections;
    enum exchange_code code;

    answer_clear(&c->answer);
    x->why[0] = '\0';
    code = exchange_connect(x, &c->address, deadline);
    if (code != EXCHANGE_OK) {
        return request_complain(&c->options, code, "%s", x->why);
    }
    if (c->options.verbose) {
        if (x->connections != connections) {
            fprintf(stderr, "* connection %u\n", x->connections);
        }
        show_params(&c->message);
    }
    code = exchange_run(x, &c->message, deadline);
    if (c->options.verbose && x->ended && !x->scgi) {
        fprintf(stderr,
                "* END_REQUEST: app status %" PRIu32 ", protocol status %u\n",
                x->app_status, x->protocol_status);
    }
    if (code != EXCHANGE_OK) {
        /* What came of an unfinished head is worth seeing, too. */
        if (code != EXCHANGE_OUTPUT) {
            answer_show_rest(&c->answer);
        }
        return request_complain(
            &c->options, code, "%s",
            x->why[0] != '\0' ? x->why : "the output cannot be written");
    }
    return check_answer(c);
}

static void
client_release(struct client *c)
{
    request_options_release(&c->options);
    message_release(&c->message);
    exchange_release(&c->exchange);
    answer_release(&c->answer);
}

static int
open_output(struct client *c)
{
    c->answer.include = c->options.include;
    c->answer.verbose = c->options.verbose;
    c->answer.out = stdout;
    if (c->options.output == NULL || strcmp(c->options.output, "-") == 0) {
        return 0;
    }
    c->answer.out = fopen(c->options.output, "we");
    if (c->answer.out == NULL) {
        return request_complain(&c->options, EXCHANGE_OUTPUT,
                                "cannot write to %s: %s", c->options.output,
                                strerror(errno));
    }
    return 0;
}

int
request_client_main(int argc, char **argv)
{
    struct client c = { 0 };
    char host[300] = "";
    int rc;

    exchange_init(&c.exchange);
    c.exchange.on_stdout = on_stdout;
    c.exchange.on_stderr = on_stderr;
    c.exchange.ctx = &c;
    answer_init(&c.answer);
    request_options_init(&c.options, &c.message);
    rc = request_options_read(&c.options, argc, argv);
    c.exchange.scgi = c.options.scgi;
    c.exchange.role = c.options.role;
    c.exchange.keep_conn = c.options.keep_conn;
    rc = rc != 0 ? rc : build_message(&c, host, sizeof(host));
    rc = rc != 0 ? rc : find_address(&c, host);
    rc = rc != 0 ? rc : open_output(&c);
    for (unsigned i = 0; rc == 0 && i < c.options.repeat; i++) {
        rc = run_once(&c);
    }
    if (c.answer.out != NULL && c.answer.out != stdout &&
        fclose(c.answer.out) != 0 && rc == 0) {
        rc = request_complain(&c.options, EXCHANGE_OUTPUT,
                              "cannot write to %s: %s", c.options.output,
                              strerror(errno));
    }
    client_release(&c);
    return rc < 0 ? 0 : rc; /* -1: --help */
}
