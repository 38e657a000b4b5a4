/* SPDX-License-Identifier: MIT
 *
 * `forebay request`: options, output and exit codes. The tool only. What is
 * sent is made in request_message.c, the connection is request_exchange.c.
 */
#include "server/request_client.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
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

static const char usage[] =
    "usage: forebay request [options] URL\n"
    "\n"
    "Send a request to a FastCGI or SCGI application server and print the\n"
    "answer. URL is http://host/path?query or only /path?query.\n"
    "\n"
    "      --connect ADDRESS    where the server listens: unix:/path, /path,\n"
    "                           host:port, [v6]:port; else the URL's "
    "host:port\n"
    "      --scgi               speak SCGI instead of FastCGI\n"
    "      --role ROLE          FastCGI: responder, authorizer or filter\n"
    "  -X, --request METHOD     request method\n"
    "  -I, --head               HEAD, and show the head\n"
    "  -H, --header 'NAME: VALUE'  add a request header; 'NAME:' leaves out a\n"
    "                           default one, 'NAME;' sends it empty\n"
    "  -d, --data DATA|@FILE    send a body (POST); several are joined by '&'\n"
    "  -F, --form NAME=VALUE|NAME=@FILE  send a form with "
    "multipart/form-data;\n"
    "                           @FILE may have ;type=TYPE and ;filename=NAME\n"
    "  -T, --upload-file FILE   send a file (PUT); - is standard input, "
    "without\n"
    "                           a length\n"
    "      --filter-data DATA|@FILE  filter: the FCGI_DATA stream\n"
    "  -P, --param NAME=VALUE   set a CGI parameter; given again for one name "
    "it\n"
    "                           is sent again\n"
    "      --no-param NAME      leave out a parameter\n"
    "      --script-name PATH   SCRIPT_NAME; PATH_INFO is the rest of the "
    "path\n"
    "      --path-info PATH     PATH_INFO as it is\n"
    "      --keep-alive         FastCGI: ask for the connection to be kept\n"
    "      --repeat N           send the request N times\n"
    "      --timeout SECONDS    give up after that time, for each request\n"
    "  -f, --fail               exit with 22 when the status is 400 or more\n"
    "  -i, --include            show the head of the answer, as it came\n"
    "  -o, --output FILE        write the answer to a file\n"
    "  -s, --silent             no sentences about errors\n"
    "  -v, --verbose            show parameters, status and END_REQUEST\n"
    "  -h, --help               this text\n"
    "\n"
    "Exit codes: 0 ok; 2 usage; 7 cannot connect; 22 --fail and status >= "
    "400;\n"
    "23 cannot write the output; 26 cannot read the body; 28 timeout; 56 the\n"
    "answer was broken off, not understood, or refused by a protocol status.\n";

struct client {
    const char *connect;
    const char *method; /* NULL: follows from the body */
    const char *url;
    const char *script_name;
    const char *path_info;
    const char *output; /* NULL: standard output */
    char **header;      /* borrowed from argv, header_count */
    unsigned header_count;
    char **param;
    unsigned param_count;
    char **no_param;
    unsigned no_param_count;
    bool include, head, silent, verbose, fail, upload, data, filter_data;
    unsigned repeat;
    uint64_t timeout_ms; /* 0: none */
    struct form form;

    struct address address;
    struct message message;
    struct exchange exchange;
    struct answer answer;
};

static int __attribute__((format(printf, 3, 4)))
complain(const struct client *c, int code, const char *fmt, ...)
{
    va_list args;

    if (!c->silent) {
        fflush(stdout);
        fprintf(stderr, "forebay request: ");
        va_start(args, fmt);
        vfprintf(stderr, fmt, args);
        va_end(args);
        fputc('\n', stderr);
    }
    return code;
}

/* -- options
 * ------------------------------------------------------------------- */

static int
append(char ***list, unsigned *count, char *item)
{
    char **grown = realloc(*list, (*count + 1) * sizeof(*grown));

    if (grown == NULL) {
        return -1;
    }
    grown[(*count)++] = item;
    *list = grown;
    return 0;
}

/* DATA or @FILE. */
static int
add_data(struct client *c, struct body *body, const char *text)
{
    char why[512] = "out of memory";
    int rc;

    if (text[0] == '@') {
        rc = body_add_file(body, text + 1, why, sizeof(why));
    } else {
        rc = body_add_bytes(body, text, strlen(text));
    }
    return rc == 0 ? 0 : complain(c, EXCHANGE_INPUT, "%s", why);
}

static int
take_role(struct client *c, const char *text)
{
    static const struct {
        const char *name;
        int role;
    } roles[] = {
        { "responder", FCGI_RESPONDER },
        { "authorizer", FCGI_AUTHORIZER },
        { "filter", FCGI_FILTER },
    };

    for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++) {
        if (strcmp(text, roles[i].name) == 0) {
            c->exchange.role = roles[i].role;
            return 0;
        }
    }
    return complain(c, EXCHANGE_USAGE,
                    "--role %s: choose one of responder, authorizer, filter",
                    text);
}

static int
take_repeat(struct client *c, const char *text)
{
    unsigned long n;
    char *end;

    errno = 0;
    n = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || n < 1 ||
        n > 1000000000) {
        return complain(c, EXCHANGE_USAGE,
                        "--repeat %s: write a number from 1 to 1000000000",
                        text);
    }
    c->repeat = (unsigned)n;
    return 0;
}

static int
take_timeout(struct client *c, const char *text)
{
    double seconds;
    char *end;

    seconds = strtod(text, &end);
    if (end == text || *end != '\0' || !(seconds >= 0.001) || seconds > 1e9) {
        return complain(c, EXCHANGE_USAGE,
                        "--timeout %s: write seconds, such as 10 or 0.5", text);
    }
    c->timeout_ms = (uint64_t)(seconds * 1000);
    return 0;
}

enum long_option {
    OPT_CONNECT = 256,
    OPT_SCGI,
    OPT_ROLE,
    OPT_FILTER_DATA,
    OPT_NO_PARAM,
    OPT_SCRIPT_NAME,
    OPT_PATH_INFO,
    OPT_KEEP_ALIVE,
    OPT_REPEAT,
    OPT_TIMEOUT,
};

static const struct option long_options[] = {
    { "connect", required_argument, NULL, OPT_CONNECT },
    { "scgi", no_argument, NULL, OPT_SCGI },
    { "role", required_argument, NULL, OPT_ROLE },
    { "request", required_argument, NULL, 'X' },
    { "head", no_argument, NULL, 'I' },
    { "header", required_argument, NULL, 'H' },
    { "data", required_argument, NULL, 'd' },
    { "form", required_argument, NULL, 'F' },
    { "upload-file", required_argument, NULL, 'T' },
    { "filter-data", required_argument, NULL, OPT_FILTER_DATA },
    { "param", required_argument, NULL, 'P' },
    { "no-param", required_argument, NULL, OPT_NO_PARAM },
    { "script-name", required_argument, NULL, OPT_SCRIPT_NAME },
    { "path-info", required_argument, NULL, OPT_PATH_INFO },
    { "keep-alive", no_argument, NULL, OPT_KEEP_ALIVE },
    { "repeat", required_argument, NULL, OPT_REPEAT },
    { "timeout", required_argument, NULL, OPT_TIMEOUT },
    { "fail", no_argument, NULL, 'f' },
    { "include", no_argument, NULL, 'i' },
    { "output", required_argument, NULL, 'o' },
    { "silent", no_argument, NULL, 's' },
    { "verbose", no_argument, NULL, 'v' },
    { "help", no_argument, NULL, 'h' },
    { NULL, 0, NULL, 0 },
};

/* Options that put something into the body. */
static int
take_body_option(struct client *c, int option, char *value)
{
    char why[512];
    int rc;

    switch (option) {
    case 'd':
        if (c->data && body_add_bytes(&c->message.body, "&", 1) != 0) {
            return complain(c, EXCHANGE_INPUT, "out of memory");
        }
        c->data = true;
        return add_data(c, &c->message.body, value);
    case 'F':
        rc = form_add(&c->form, &c->message.body, value, why, sizeof(why));
        return rc == EXCHANGE_OK ? 0 : complain(c, rc, "%s", why);
    case OPT_FILTER_DATA:
        c->filter_data = true;
        return add_data(c, &c->message.data, value);
    default:
        c->upload = true;
        if (body_add_file(&c->message.body, value, why, sizeof(why)) != 0) {
            return complain(c, EXCHANGE_INPUT, "%s", why);
        }
        return 0;
    }
}

static int
take_value_option(struct client *c, int option, char *value)
{
    int rc = 0;

    switch (option) {
    case OPT_CONNECT:
        c->connect = value;
        break;
    case OPT_ROLE:
        return take_role(c, value);
    case OPT_SCRIPT_NAME:
        c->script_name = value;
        break;
    case OPT_PATH_INFO:
        c->path_info = value;
        break;
    case OPT_REPEAT:
        return take_repeat(c, value);
    case OPT_TIMEOUT:
        return take_timeout(c, value);
    case OPT_NO_PARAM:
        rc = append(&c->no_param, &c->no_param_count, value);
        break;
    case 'X':
        c->method = value;
        break;
    case 'H':
        rc = append(&c->header, &c->header_count, value);
        break;
    case 'P':
        if (value[0] == '=' || strchr(value, '=') == NULL) {
            return complain(c, EXCHANGE_USAGE, "--param %s: write NAME=VALUE",
                            value);
        }
        rc = append(&c->param, &c->param_count, value);
        break;
    case 'o':
        c->output = value;
        break;
    default:
        return take_body_option(c, option, value);
    }
    return rc == 0 ? 0 : complain(c, EXCHANGE_INPUT, "out of memory");
}

/* 0; a positive exit code; -1: --help was printed. */
static int
take_option(struct client *c, int option)
{
    switch (option) {
    case OPT_SCGI:
        c->exchange.scgi = true;
        return 0;
    case OPT_KEEP_ALIVE:
        c->exchange.keep_conn = true;
        return 0;
    case 'I':
        c->head = true;
        c->include = true;
        return 0;
    case 'f':
        c->fail = true;
        return 0;
    case 'i':
        c->include = true;
        return 0;
    case 's':
        c->silent = true;
        return 0;
    case 'v':
        c->verbose = true;
        return 0;
    case 'h':
        fputs(usage, stdout);
        return -1;
    case '?':
        fprintf(stderr, "forebay request: see forebay request --help\n");
        return EXCHANGE_USAGE;
    default:
        return take_value_option(c, option, optarg);
    }
}

static int
check_options(struct client *c)
{
    if (c->url == NULL) {
        return complain(c, EXCHANGE_USAGE,
                        "no URL was given; see forebay request --help");
    }
    if (c->data + c->form.used + c->upload > 1) {
        return complain(c, EXCHANGE_USAGE,
                        "--data, --form and --upload-file "
                        "exclude each other");
    }
    if (c->exchange.scgi &&
        (c->exchange.role != FCGI_RESPONDER || c->exchange.keep_conn)) {
        return complain(c, EXCHANGE_USAGE,
                        "SCGI has neither roles nor kept "
                        "connections");
    }
    if (c->filter_data && c->exchange.role != FCGI_FILTER) {
        return complain(c, EXCHANGE_USAGE, "--filter-data needs --role filter");
    }
    return 0;
}

static int
parse_options(struct client *c, int argc, char **argv)
{
    int option, rc;

    optind = 0; /* glibc: begin anew, main() may have used it */
    while ((option = getopt_long(argc, argv, "X:IH:d:F:T:P:fio:svh",
                                 long_options, NULL)) != -1) {
        rc = take_option(c, option);
        if (rc != 0) {
            return rc;
        }
    }
    if (optind < argc) {
        c->url = argv[optind++];
    }
    if (optind < argc) {
        return complain(c, EXCHANGE_USAGE, "\"%s\" is one argument too many",
                        argv[optind]);
    }
    return check_options(c);
}

/* -- the message
 * ------------------------------------------------------------------ */

static const char *
choose_method(const struct client *c)
{
    if (c->method != NULL) {
        return c->method;
    }
    return c->head                   ? "HEAD"
           : c->upload               ? "PUT"
           : c->data || c->form.used ? "POST"
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
    if (rc == 0 && c->exchange.scgi) {
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
        (m->body.count > 0 || c->exchange.scgi)) {
        snprintf(text, sizeof(text), "%" PRIu64, length);
        rc = message_set(m, "CONTENT_LENGTH", text);
    }
    if (rc == 0 && c->form.used) {
        snprintf(text, sizeof(text), "multipart/form-data; boundary=%s",
                 c->form.boundary);
        rc = message_set(m, "CONTENT_TYPE", text);
    } else if (rc == 0 && c->data) {
        rc =
            message_set(m, "CONTENT_TYPE", "application/x-www-form-urlencoded");
    }
    if (rc == 0 && c->exchange.role == FCGI_FILTER) {
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
    const char *text = c->param[index], *equals = strchr(text, '=');
    size_t len = (size_t)(equals - text);
    char *name = strndup(text, len);
    bool again = false;
    int rc;

    if (name == NULL) {
        return -1;
    }
    for (unsigned i = 0; i < index; i++) {
        again = again || strncmp(c->param[i], text, len + 1) == 0;
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
    const char *text = c->header[index];
    size_t len = strcspn(text, ":;");
    bool again = false;

    for (unsigned i = 0; i < index; i++) {
        again = again || (strcspn(c->header[i], ":;") == len &&
                          strncasecmp(c->header[i], text, len) == 0);
    }
    return message_header(&c->message, text, !again, why, size);
}

static int
build_message(struct client *c, char *host, size_t host_size)
{
    struct message *m = &c->message;
    char why[512] = "out of memory";
    int rc = 0;

    if (c->form.used) {
        rc = form_end(&c->form, &m->body);
    }
    if (rc == 0 && (c->exchange.scgi || c->repeat > 1) &&
        (body_settle(&m->body, why, sizeof(why)) != 0 ||
         body_settle(&m->data, why, sizeof(why)) != 0)) {
        return complain(c, EXCHANGE_INPUT, "%s", why);
    }
    if (rc != 0 || add_defaults(c) != 0) {
        return complain(c, EXCHANGE_INPUT, "%s", why);
    }
    if (message_url(m, c->url, c->script_name, c->path_info, host, host_size,
                    why, sizeof(why)) != 0) {
        return complain(c, EXCHANGE_USAGE, "%s", why);
    }
    if (add_body_params(c) != 0) {
        return complain(c, EXCHANGE_INPUT, "%s", why);
    }
    for (unsigned i = 0; i < c->header_count; i++) {
        if (add_header(c, i, why, sizeof(why)) != 0) {
            return complain(c, EXCHANGE_USAGE, "%s", why);
        }
    }
    for (unsigned i = 0; i < c->param_count; i++) {
        if (add_param(c, i) != 0) {
            return complain(c, EXCHANGE_INPUT, "%s", why);
        }
    }
    for (unsigned i = 0; i < c->no_param_count; i++) {
        message_remove(m, c->no_param[i]);
    }
    return 0;
}

static int
find_address(struct client *c, const char *host)
{
    const char *text = c->connect != NULL ? c->connect : host;
    char why[512];

    if (text[0] == '\0') {
        return complain(c, EXCHANGE_USAGE,
                        "where to? Use --connect ADDRESS, or a URL with a "
                        "port");
    }
    if (address_parse(text, &c->address, why, sizeof(why)) != 0) {
        return complain(c, EXCHANGE_USAGE, "%s", why);
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
        return complain(c, code, "%s", why);
    }
    if (c->fail && c->answer.status >= 400) {
        return complain(c, EXCHANGE_STATUS, "the status is %d",
                        c->answer.status);
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
    uint64_t deadline =
        c->timeout_ms != 0 ? exchange_now_ms() + c->timeout_ms : 0;
    unsigned connections = x->connections;
    enum exchange_code code;

    answer_clear(&c->answer);
    x->why[0] = '\0';
    code = exchange_connect(x, &c->address, deadline);
    if (code != EXCHANGE_OK) {
        return complain(c, code, "%s", x->why);
    }
    if (c->verbose) {
        if (x->connections != connections) {
            fprintf(stderr, "* connection %u\n", x->connections);
        }
        show_params(&c->message);
    }
    code = exchange_run(x, &c->message, deadline);
    if (c->verbose && x->ended && !x->scgi) {
        fprintf(stderr,
                "* END_REQUEST: app status %" PRIu32 ", protocol status %u\n",
                x->app_status, x->protocol_status);
    }
    if (code != EXCHANGE_OK) {
        /* What came of an unfinished head is worth seeing, too. */
        if (code != EXCHANGE_OUTPUT) {
            answer_show_rest(&c->answer);
        }
        return complain(c, code, "%s",
                        x->why[0] != '\0' ? x->why
                                          : "the output cannot be written");
    }
    return check_answer(c);
}

static void
client_release(struct client *c)
{
    free(c->header);
    free(c->param);
    free(c->no_param);
    message_release(&c->message);
    exchange_release(&c->exchange);
    answer_release(&c->answer);
}

static int
open_output(struct client *c)
{
    c->answer.include = c->include;
    c->answer.verbose = c->verbose;
    c->answer.out = stdout;
    if (c->output == NULL || strcmp(c->output, "-") == 0) {
        return 0;
    }
    c->answer.out = fopen(c->output, "we");
    if (c->answer.out == NULL) {
        return complain(c, EXCHANGE_OUTPUT, "cannot write to %s: %s", c->output,
                        strerror(errno));
    }
    return 0;
}

int
request_client_main(int argc, char **argv)
{
    struct client c = { .repeat = 1 };
    char host[300] = "";
    int rc;

    exchange_init(&c.exchange);
    c.exchange.on_stdout = on_stdout;
    c.exchange.on_stderr = on_stderr;
    c.exchange.ctx = &c;
    answer_init(&c.answer);
    rc = parse_options(&c, argc, argv);
    rc = rc != 0 ? rc : build_message(&c, host, sizeof(host));
    rc = rc != 0 ? rc : find_address(&c, host);
    rc = rc != 0 ? rc : open_output(&c);
    for (unsigned i = 0; rc == 0 && i < c.repeat; i++) {
        rc = run_once(&c);
    }
    if (c.answer.out != NULL && c.answer.out != stdout &&
        fclose(c.answer.out) != 0 && rc == 0) {
        rc = complain(&c, EXCHANGE_OUTPUT, "cannot write to %s: %s", c.output,
                      strerror(errno));
    }
    client_release(&c);
    return rc < 0 ? 0 : rc; /* -1: --help */
}
