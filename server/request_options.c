/* SPDX-License-Identifier: MIT
 *
 * See request_options.h. The tool only.
 */
#include "server/request_options.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fastcgi.h>

#include "server/request_exchange.h"

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

void
request_options_init(struct request_options *o, struct message *m)
{
    memset(o, 0, sizeof(*o));
    o->message = m;
    o->role = FCGI_RESPONDER;
    o->repeat = 1;
}

void
request_options_release(struct request_options *o)
{
    free(o->header);
    free(o->param);
    free(o->no_param);
}

int
request_complain(const struct request_options *o, int code, const char *fmt,
                 ...)
{
    va_list args;

    if (!o->silent) {
        fflush(stdout);
        fprintf(stderr, "forebay request: ");
        va_start(args, fmt);
        vfprintf(stderr, fmt, args);
        va_end(args);
        fputc('\n', stderr);
    }
    return code;
}

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
add_data(struct request_options *o, struct body *body, const char *text)
{
    char why[512] = "out of memory";
    int rc;

    if (text[0] == '@') {
        rc = body_add_file(body, text + 1, why, sizeof(why));
    } else {
        rc = body_add_bytes(body, text, strlen(text));
    }
    return rc == 0 ? 0 : request_complain(o, EXCHANGE_INPUT, "%s", why);
}

static int
take_role(struct request_options *o, const char *text)
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
            o->role = roles[i].role;
            return 0;
        }
    }
    return request_complain(
        o, EXCHANGE_USAGE,
        "--role %s: choose one of responder, authorizer, filter", text);
}

static int
take_repeat(struct request_options *o, const char *text)
{
    unsigned long n;
    char *end;

    errno = 0;
    n = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || n < 1 ||
        n > 1000000000) {
        return request_complain(
            o, EXCHANGE_USAGE,
            "--repeat %s: write a number from 1 to 1000000000", text);
    }
    o->repeat = (unsigned)n;
    return 0;
}

static int
take_timeout(struct request_options *o, const char *text)
{
    double seconds;
    char *end;

    seconds = strtod(text, &end);
    if (end == text || *end != '\0' || !(seconds >= 0.001) || seconds > 1e9) {
        return request_complain(
            o, EXCHANGE_USAGE, "--timeout %s: write seconds, such as 10 or 0.5",
            text);
    }
    o->timeout_ms = (uint64_t)(seconds * 1000);
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
take_body_option(struct request_options *o, int option, char *value)
{
    char why[512];
    int rc;

    switch (option) {
    case 'd':
        if (o->data && body_add_bytes(&o->message->body, "&", 1) != 0) {
            return request_complain(o, EXCHANGE_INPUT, "out of memory");
        }
        o->data = true;
        return add_data(o, &o->message->body, value);
    case 'F':
        rc = form_add(&o->form, &o->message->body, value, why, sizeof(why));
        return rc == EXCHANGE_OK ? 0 : request_complain(o, rc, "%s", why);
    case OPT_FILTER_DATA:
        o->filter_data = true;
        return add_data(o, &o->message->data, value);
    default:
        o->upload = true;
        if (body_add_file(&o->message->body, value, why, sizeof(why)) != 0) {
            return request_complain(o, EXCHANGE_INPUT, "%s", why);
        }
        return 0;
    }
}

static int
take_value_option(struct request_options *o, int option, char *value)
{
    int rc = 0;

    switch (option) {
    case OPT_CONNECT:
        o->connect = value;
        break;
    case OPT_ROLE:
        return take_role(o, value);
    case OPT_SCRIPT_NAME:
        o->script_name = value;
        break;
    case OPT_PATH_INFO:
        o->path_info = value;
        break;
    case OPT_REPEAT:
        return take_repeat(o, value);
    case OPT_TIMEOUT:
        return take_timeout(o, value);
    case OPT_NO_PARAM:
        rc = append(&o->no_param, &o->no_param_count, value);
        break;
    case 'X':
        o->method = value;
        break;
    case 'H':
        rc = append(&o->header, &o->header_count, value);
        break;
    case 'P':
        if (value[0] == '=' || strchr(value, '=') == NULL) {
            return request_complain(o, EXCHANGE_USAGE,
                                    "--param %s: write NAME=VALUE", value);
        }
        rc = append(&o->param, &o->param_count, value);
        break;
    case 'o':
        o->output = value;
        break;
    default:
        return take_body_option(o, option, value);
    }
    return rc == 0 ? 0 : request_complain(o, EXCHANGE_INPUT, "out of memory");
}

/* 0; a positive exit code; -1: --help was printed. */
static int
take_option(struct request_options *o, int option)
{
    switch (option) {
    case OPT_SCGI:
        o->scgi = true;
        return 0;
    case OPT_KEEP_ALIVE:
        o->keep_conn = true;
        return 0;
    case 'I':
        o->head = true;
        o->include = true;
        return 0;
    case 'f':
        o->fail = true;
        return 0;
    case 'i':
        o->include = true;
        return 0;
    case 's':
        o->silent = true;
        return 0;
    case 'v':
        o->verbose = true;
        return 0;
    case 'h':
        fputs(usage, stdout);
        return -1;
    case '?':
        fprintf(stderr, "forebay request: see forebay request --help\n");
        return EXCHANGE_USAGE;
    default:
        return take_value_option(o, option, optarg);
    }
}

static int
check_options(struct request_options *o)
{
    if (o->url == NULL) {
        return request_complain(o, EXCHANGE_USAGE,
                                "no URL was given; see forebay request --help");
    }
    if (o->data + o->form.used + o->upload > 1) {
        return request_complain(o, EXCHANGE_USAGE,
                                "--data, --form and --upload-file "
                                "exclude each other");
    }
    if (o->scgi && (o->role != FCGI_RESPONDER || o->keep_conn)) {
        return request_complain(o, EXCHANGE_USAGE,
                                "SCGI has neither roles nor kept "
                                "connections");
    }
    if (o->filter_data && o->role != FCGI_FILTER) {
        return request_complain(o, EXCHANGE_USAGE,
                                "--filter-data needs --role filter");
    }
    return 0;
}

int
request_options_read(struct request_options *o, int argc, char **argv)
{
    int option, rc;

    optind = 0; /* glibc: begin anew, main() may have used it */
    while ((option = getopt_long(argc, argv, "X:IH:d:F:T:P:fio:svh",
                                 long_options, NULL)) != -1) {
        rc = take_option(o, option);
        if (rc != 0) {
            return rc;
        }
    }
    if (optind < argc) {
        o->url = argv[optind++];
    }
    if (optind < argc) {
        return request_complain(
            o, EXCHANGE_USAGE, "\"%s\" is one argument too many", argv[optind]);
    }
    return check_options(o);
}
