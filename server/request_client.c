/* SPDX-License-Identifier: MIT
 *
 * `forebay request`: one request after the other, what is shown, and the exit
 * code. The tool only. The command line is read in request_options.c, what is
 * sent made in request_compose.c; the connection is request_exchange.c, and
 * what comes back goes to request_answer.c.
 */
#include "server/request_client.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "server/request_answer.h"
#include "server/request_compose.h"
#include "server/request_exchange.h"
#include "server/request_message.h"
#include "server/request_options.h"

struct client {
    struct request_options options;
    struct address address;
    struct message message;
    struct exchange exchange;
    struct answer answer;
};

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

    code = answer_check(&c->answer,
                        strcmp(request_method(&c->options), "HEAD") == 0, why,
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
    rc = rc != 0 ? rc : request_compose(&c.options, host, sizeof(host));
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
