/* SPDX-License-Identifier: MIT
 *
 * forebay-load: options in, one line of JSON out. See load.h.
 */
#include "bench/load.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "bench/load_run.h"

static const char *const result_names[LOAD_RESULTS] = {
    [LOAD_OK] = "ok",           [LOAD_REFUSED] = "refused",
    [LOAD_CONNECT] = "connect", [LOAD_CLOSED] = "closed",
    [LOAD_TIMEOUT] = "timeout", [LOAD_PROTOCOL] = "protocol",
    [LOAD_STATUS] = "status",   [LOAD_LENGTH] = "length",
    [LOAD_CONTENT] = "content",
};

static const char help[] =
    "Usage: forebay-load --connect ADDRESS [options]\n"
    "Sends requests, checks every answer, prints one line of JSON.\n\n"
    "  --connect ADDRESS      unix:/path, /path or host:port\n"
    "  --protocol PROTOCOL    fcgi (default), scgi or http\n"
    "  --keep                 keep connections (FCGI_KEEP_CONN)\n"
    "  -c, --connections N    at the same time (default 1)\n"
    "  -n, --requests N       in all (default 1000)\n"
    "  --duration MS          begin none after so long (-n is a limit still)\n"
    "  --timeout MS           of one request (default 10000)\n"
    "  --uri URI              default /\n"
    "  --slow-uri URI         one more connection asks for this all the time;\n"
    "                         it is counted apart\n"
    "  --method METHOD        default GET, with a body POST\n"
    "  --body-size BYTES      send a body, in records of 32 KB\n"
    "  --param NAME=VALUE     a CGI parameter more, or another value of one\n"
    "  --check-status N       default 200\n"
    "  --check-length BYTES   length of the answer's body\n"
    "  --check-prefix TEXT    what it begins with\n"
    "  --check-echo           it is the request's body\n"
    "  --check-file FILE      it is what the file holds\n\n"
    "Exit status: 0 when every answer was right, 1 when some were not, 2 when "
    "nothing\nwas measured.\n";

enum option_id {
    OPT_CONNECT = 256,
    OPT_PROTOCOL,
    OPT_KEEP,
    OPT_DURATION,
    OPT_TIMEOUT,
    OPT_URI,
    OPT_SLOW_URI,
    OPT_METHOD,
    OPT_BODY_SIZE,
    OPT_PARAM,
    OPT_CHECK_STATUS,
    OPT_CHECK_LENGTH,
    OPT_CHECK_PREFIX,
    OPT_CHECK_ECHO,
    OPT_CHECK_FILE,
};

static const struct option long_options[] = {
    { "connect", required_argument, NULL, OPT_CONNECT },
    { "protocol", required_argument, NULL, OPT_PROTOCOL },
    { "keep", no_argument, NULL, OPT_KEEP },
    { "connections", required_argument, NULL, 'c' },
    { "requests", required_argument, NULL, 'n' },
    { "duration", required_argument, NULL, OPT_DURATION },
    { "timeout", required_argument, NULL, OPT_TIMEOUT },
    { "uri", required_argument, NULL, OPT_URI },
    { "slow-uri", required_argument, NULL, OPT_SLOW_URI },
    { "method", required_argument, NULL, OPT_METHOD },
    { "body-size", required_argument, NULL, OPT_BODY_SIZE },
    { "param", required_argument, NULL, OPT_PARAM },
    { "check-status", required_argument, NULL, OPT_CHECK_STATUS },
    { "check-length", required_argument, NULL, OPT_CHECK_LENGTH },
    { "check-prefix", required_argument, NULL, OPT_CHECK_PREFIX },
    { "check-echo", no_argument, NULL, OPT_CHECK_ECHO },
    { "check-file", required_argument, NULL, OPT_CHECK_FILE },
    { "help", no_argument, NULL, 'h' },
    { NULL, 0, NULL, 0 },
};

_Noreturn static void
refuse(const char *what, const char *value)
{
    fprintf(stderr, "forebay-load: %s: %s\n", what, value);
    exit(2);
}

static uint64_t
number(const char *text, uint64_t min, uint64_t max)
{
    unsigned long long n;
    char *end;

    errno = 0;
    n = strtoull(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || text[0] == '-' ||
        n < min || n > max) {
        refuse("not a number that is possible here", text);
    }
    return n;
}

static enum load_protocol
protocol(const char *text)
{
    if (strcmp(text, "fcgi") == 0) {
        return LOAD_FCGI;
    }
    if (strcmp(text, "scgi") == 0) {
        return LOAD_SCGI;
    }
    if (strcmp(text, "http") == 0) {
        return LOAD_HTTP;
    }
    refuse("no such protocol (fcgi, scgi, http)", text);
}

static void
add_param(struct load_options *o, const char *text)
{
    if (strchr(text, '=') == NULL || o->param_count == LOAD_MAX_PARAMS) {
        refuse("not NAME=VALUE, or too many", text);
    }
    o->param[o->param_count++] = text;
}

/* The whole body is that of the file: its length is checked as well. */
static void
read_body(struct load_options *o, const char *path)
{
    FILE *f = fopen(path, "rb");
    char *body = NULL;
    size_t n = 0;
    long len;

    if (f == NULL || fseek(f, 0, SEEK_END) < 0 || (len = ftell(f)) < 0) {
        refuse(strerror(errno), path);
    }
    rewind(f);
    body = malloc((size_t)len + 1);
    if (body != NULL) {
        n = fread(body, 1, (size_t)len, f);
    }
    if (body == NULL || n != (size_t)len) {
        refuse("cannot be read", path);
    }
    fclose(f);
    free((char *)o->check_body);
    o->check_body = body;
    o->check_length = len;
}

static void
take_check(struct load_options *o, int id, const char *value)
{
    switch (id) {
    case OPT_CHECK_STATUS:
        o->check_status = (unsigned)number(value, 100, 999);
        break;
    case OPT_CHECK_LENGTH:
        o->check_length = (int64_t)number(value, 0, INT64_MAX);
        break;
    case OPT_CHECK_PREFIX:
        o->check_prefix = value;
        break;
    case OPT_CHECK_ECHO:
        o->check_echo = true;
        break;
    case OPT_CHECK_FILE:
        read_body(o, value);
        break;
    default: /* getopt has said what is wrong */
        exit(2);
    }
}

static void
take_option(struct load_options *o, int id, const char *value)
{
    switch (id) {
    case OPT_CONNECT:
        o->connect = value;
        break;
    case OPT_PROTOCOL:
        o->protocol = protocol(value);
        break;
    case OPT_KEEP:
        o->keep = true;
        break;
    case 'c':
        o->connections = (unsigned)number(value, 1, 100000);
        break;
    case 'n':
        o->requests = number(value, 1, UINT64_C(100000000));
        break;
    case OPT_DURATION:
        o->duration_ms = number(value, 1, 3600000);
        break;
    case OPT_TIMEOUT:
        o->timeout_ms = number(value, 1, 3600000);
        break;
    case OPT_URI:
        o->uri = value;
        break;
    case OPT_SLOW_URI:
        o->slow_uri = value;
        break;
    case OPT_METHOD:
        o->method = value;
        break;
    case OPT_BODY_SIZE:
        o->body_bytes = number(value, 0, UINT64_C(1) << 32);
        break;
    case OPT_PARAM:
        add_param(o, value);
        break;
    case 'h':
        fputs(help, stdout);
        exit(0);
    default:
        take_check(o, id, value);
    }
}

static int
by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* The value below which this part of all values is, in microseconds. */
static double
percentile_us(const struct load_latencies *l, double part)
{
    size_t i = (size_t)(part * (double)l->count);

    if (l->count == 0) {
        return 0;
    }
    return (double)l->ns[i < l->count ? i : l->count - 1] / 1000.0;
}

/* The parts, in percent, of which the whole distribution is printed. */
static const double curve[] = {
    0,  1,  5,  10, 20, 25, 30, 40, 50,   60,   66,
    70, 75, 80, 85, 90, 95, 98, 99, 99.5, 99.9, 100
};

static void
print_latencies(const char *name, struct load_latencies *l)
{
    if (l->count > 0) {
        qsort(l->ns, l->count, sizeof(*l->ns), by_size);
    }
    printf(", \"%s\": {\"count\": %zu, \"p50\": %.1f, \"p90\": %.1f, "
           "\"p99\": %.1f, \"max\": %.1f, \"curve\": [",
           name, l->count, percentile_us(l, 0.5), percentile_us(l, 0.9),
           percentile_us(l, 0.99), percentile_us(l, 1.0));
    for (size_t i = 0; i < sizeof(curve) / sizeof(curve[0]); i++) {
        printf("%s[%g, %.1f]", i > 0 ? ", " : "", curve[i],
               percentile_us(l, curve[i] / 100));
    }
    printf("]}");
}

static void
print_report(const struct load_options *o, struct load_report *p)
{
    double seconds = (double)p->elapsed_ns / 1e9;
    const char *comma = "";

    printf("{\"requests\": %llu, \"ok\": %llu, \"failed\": %llu",
           (unsigned long long)p->begun, (unsigned long long)p->result[LOAD_OK],
           (unsigned long long)(p->begun - p->result[LOAD_OK]));
    printf(", \"failures\": {");
    for (int i = LOAD_OK + 1; i < LOAD_RESULTS; i++) {
        if (p->result[i] > 0) {
            printf("%s\"%s\": %llu", comma, result_names[i],
                   (unsigned long long)p->result[i]);
            comma = ", ";
        }
    }
    printf("}, \"reconnects\": %llu, \"seconds\": %.6f, \"rps\": %.1f, "
           "\"body_bytes\": %llu, \"longest_gap_us\": %.1f",
           (unsigned long long)p->reconnects, seconds,
           (double)p->result[LOAD_OK] / seconds,
           (unsigned long long)p->response_bytes,
           (double)p->longest_gap_ns / 1000.0);
    print_latencies("latency_us", &p->fast);
    if (o->slow_uri != NULL) {
        print_latencies("slow_us", &p->slow);
        printf(", \"slow_failed\": %llu", (unsigned long long)p->slow_failed);
    }
    printf("}\n");
    if (p->example[0] != '\0') {
        fprintf(stderr, "forebay-load: the first failure: %s\n", p->example);
    }
}

static void
raise_descriptors(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

int
main(int argc, char **argv)
{
    struct load_options o = {
        .connections = 1,
        .requests = 1000,
        .timeout_ms = 10000,
        .uri = "/",
        .check_status = 200,
        .check_length = -1,
    };
    struct load_report report;
    char why[256];
    int id, rc = 2;

    while ((id = getopt_long(argc, argv, "c:n:h", long_options, NULL)) != -1) {
        take_option(&o, id, optarg);
    }
    if (o.connect == NULL || optind < argc) {
        fputs(help, stderr);
        return 2;
    }
    if (o.method == NULL) {
        o.method = o.body_bytes > 0 ? "POST" : "GET";
    }
    raise_descriptors();
    if (load_run(&o, &report, why, sizeof(why)) == 0) {
        print_report(&o, &report);
        rc = report.result[LOAD_OK] == report.begun ? 0 : 1;
    } else {
        fprintf(stderr, "forebay-load: %s\n", why);
    }
    free(report.fast.ns);
    free(report.slow.ns);
    free((char *)o.check_body);
    return rc;
}
