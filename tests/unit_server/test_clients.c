/* SPDX-License-Identifier: MIT
 *
 * server/clients.c, and the two languages on top of it: control.c and
 * status_server.c. A loop and its clients in one process; a round of the loop
 * waits for TICK_MS at most.
 */
#include "tests/unit_server/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "server/clients.h"
#include "server/control.h"
#include "server/status_server.h"

enum { TICK_MS = 5, BIG = 4 * 1024 * 1024, MAX = 64, MAX_HELD = 32 };

struct world {
    uv_loop_t loop;
    uv_timer_t tick; /* a round of the loop ends */
    char path[108];
    char *folder;
    struct clients *clients;

    struct control_handlers handlers;
    struct status_source source;
    control_done done[MAX];
    void *who[MAX];
    unsigned waiting;
    char last[256]; /* what a handler was called with */
    bool big;       /* the status is */
};

/* -- the manager's part -----------------------------------------------------
 */

static void
on_tick(uv_timer_t *timer)
{
    (void)timer;
}

static int
give_status(void *ctx, enum status_format format, struct buf *out)
{
    static const char *const words[] = { "table\n", "{}\n", "metrics\n" };
    struct world *w = ctx;

    if (w->big) {
        if (buf_reserve(out, BIG) != 0) {
            return -1;
        }
        memset(out->data + out->len, 'x', BIG);
        out->len += BIG;
    }
    return buf_append_str(out, words[format]);
}

static void
keep(void *ctx, const char *pool, control_done done, void *who)
{
    struct world *w = ctx;

    snprintf(w->last, sizeof(w->last), "%s", pool != NULL ? pool : "(all)");
    w->done[w->waiting] = done;
    w->who[w->waiting++] = who;
}

static void
keep_drain(void *ctx, const char *pool, uint64_t timeout_ms, control_done done,
           void *who)
{
    struct world *w = ctx;

    keep(ctx, pool, done, who);
    snprintf(w->last, sizeof(w->last), "drain %s %u",
             pool != NULL ? pool : "(all)", (unsigned)timeout_ms);
}

static void
note_stop(void *ctx)
{
    struct world *w = ctx;

    snprintf(w->last, sizeof(w->last), "stop");
}

static int
note_scale(void *ctx, const char *pool, char sign, unsigned n, char *why,
           size_t size)
{
    struct world *w = ctx;

    snprintf(w->last, sizeof(w->last), "%s %c %u", pool, sign, n);
    snprintf(why, size, "no more than 5 are possible");
    return n > 5 ? -1 : 0;
}

static void
refuse_reopen(void *ctx, control_done done, void *who)
{
    (void)ctx;
    done("/var/log/forebay.log:\nthe disk is full", who);
}

static struct world *
begin(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    char *path = unit_path(state, "c");

    assert_non_null(w);
    snprintf(w->path, sizeof(w->path), "%s", path);
    free(path);
    assert_int_equal(uv_loop_init(&w->loop), 0);
    uv_timer_init(&w->loop, &w->tick);
    uv_timer_start(&w->tick, on_tick, TICK_MS, TICK_MS);
    w->handlers = (struct control_handlers){
        .ctx = w,
        .status = give_status,
        .reload = keep,
        .drain = keep_drain,
        .stop = note_stop,
        .scale = note_scale,
    };
    w->source = (struct status_source){ .ctx = w, .write = give_status };
    return w;
}

static struct listener
listen_at(struct world *w)
{
    struct listener l;
    struct address a;
    char why[512];

    assert_int_equal(address_parse(w->path, &a, why, sizeof(why)), 0);
    assert_int_equal(
        listener_open(&a, &control_rights, &l, 1, why, sizeof(why)), 1);
    return l;
}

static struct world *
begin_control(void **state)
{
    struct world *w = begin(state);
    struct listener l = listen_at(w);

    w->clients = control_open(&w->loop, &l, 1, &w->handlers);
    assert_non_null(w->clients);
    return w;
}

/* Every handle is closed, or the loop would not. */
static void
end(struct world *w)
{
    clients_close(w->clients);
    uv_close((uv_handle_t *)&w->tick, NULL);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w->loop), 0);
    assert_int_equal(access(w->path, F_OK), -1);
    free(w);
}

/* -- a client ---------------------------------------------------------------
 */

static int
dial(struct world *w)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);

    snprintf(un.sun_path, sizeof(un.sun_path), "%s", w->path);
    while (connect(fd, (struct sockaddr *)&un, sizeof(un)) != 0) {
        assert_int_equal(errno, EAGAIN); /* the backlog is full */
        uv_run(&w->loop, UV_RUN_ONCE);
    }
    return fd;
}

static void
say(struct world *w, int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, data, len, MSG_NOSIGNAL);

        if (n < 0 && errno != EAGAIN) {
            return; /* closed: the answer tells */
        }
        if (n > 0) {
            data += n;
            len -= (size_t)n;
        }
        uv_run(&w->loop, UV_RUN_NOWAIT);
    }
}

/* Everything up to the end of the connection, which the client closes. */
static char *
hear(struct world *w, int fd)
{
    struct buf in;

    buf_init(&in, 2 * BIG);
    for (;;) {
        ssize_t n;

        assert_int_equal(buf_reserve(&in, 65536), 0);
        n = recv(fd, in.data + in.len, 65536, 0);
        if (n > 0) {
            in.len += (size_t)n;
        } else if (n == 0 || errno != EAGAIN) {
            break;
        } else {
            uv_run(&w->loop, UV_RUN_ONCE);
        }
    }
    close(fd);
    assert_int_equal(buf_append(&in, "", 1), 0);
    return in.data;
}

static bool
is_open(int fd)
{
    char byte;

    return recv(fd, &byte, 1, MSG_PEEK) < 0 && errno == EAGAIN;
}

static void
check(struct world *w, const char *line, const char *answer)
{
    int fd = dial(w);
    char *found;

    say(w, fd, line, strlen(line));
    found = hear(w, fd);
    assert_string_equal(found, answer);
    free(found);
}

static void
check_begins(struct world *w, const char *line, size_t len, const char *begins)
{
    int fd = dial(w);
    char *found;

    say(w, fd, line, len);
    found = hear(w, fd);
    found[strlen(found) < strlen(begins) ? 0 : strlen(begins)] = '\0';
    assert_string_equal(found, begins);
    free(found);
}

/* -- the control socket -----------------------------------------------------
 */

static void
test_commands(void **state)
{
    struct world *w = begin_control(state);
    struct stat st;

    assert_int_equal(stat(w->path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    check(w, "ping\n", "ok\npong\n");
    check(w, " ping \r\n", "ok\npong\n");
    check(w, "status\n", "ok\ntable\n");
    check(w, "status json\n", "ok\n{}\n");
    check(w, "metrics\n", "ok\nmetrics\n");
    check(w, "scale shop 3\n", "ok\n");
    assert_string_equal(w->last, "shop = 3");
    check(w, "scale shop +2\n", "ok\n");
    assert_string_equal(w->last, "shop + 2");
    check(w, "scale shop -1\n", "ok\n");
    assert_string_equal(w->last, "shop - 1");
    check(w, "scale shop 6\n", "error: no more than 5 are possible\n");
    check(w, "log-reopen\n",
          "error: the log is no file, there is nothing to reopen\n");
    w->handlers.log_reopen = refuse_reopen;
    check(w, "log-reopen\n", "error: /var/log/forebay.log: the disk is full\n");
    end(w);
}

static void
test_wrong_commands(void **state)
{
    static const char *const wrong[] = {
        "\n",
        "  \n",
        "nonsense\n",
        "pingpong\n",
        "ping x\n",
        "status yaml\n",
        "status json x\n",
        "scale\n",
        "scale shop\n",
        "scale shop x\n",
        "scale shop 1x\n",
        "scale shop +\n",
        "stop now\n",
        "reload a b\n",
        "scale a 1 2 3 4\n",
        "scale shop 99999999999999999999\n",
        "scale shop +-1\n",
    };
    struct world *w = begin_control(state);
    char big[2 * CONTROL_LINE_MAX];

    for (size_t i = 0; i < COUNT(wrong); i++) {
        check_begins(w, wrong[i], strlen(wrong[i]), "error: ");
    }
    memset(big, 'p', sizeof(big));
    check_begins(w, big, sizeof(big), "error: a command has 1024 bytes");
    check_begins(w, "ping\0\n", 6, "error: a command has no NUL");
    assert_int_equal(w->waiting, 0);
    assert_string_equal(w->last, "");
    end(w);
}

/* However a line is cut, and with the end of the input instead of a newline. */
static void
test_pieces(void **state)
{
    static const char line[] = "status json\n";
    struct world *w = begin_control(state);
    char *found;
    int fd;

    for (size_t cut = 1; cut < strlen(line); cut++) {
        fd = dial(w);
        say(w, fd, line, cut);
        say(w, fd, line + cut, strlen(line) - cut);
        found = hear(w, fd);
        assert_string_equal(found, "ok\n{}\n");
        free(found);
    }
    fd = dial(w);
    say(w, fd, "ping", 4);
    shutdown(fd, SHUT_WR);
    found = hear(w, fd);
    assert_string_equal(found, "ok\npong\n");
    free(found);
    fd = dial(w); /* says nothing at all */
    shutdown(fd, SHUT_WR);
    found = hear(w, fd);
    assert_string_equal(found, "");
    free(found);
    end(w);
}

static int
ask_and_wait(struct world *w, const char *line)
{
    unsigned before = w->waiting;
    int fd = dial(w);

    say(w, fd, line, strlen(line));
    while (w->waiting == before) {
        uv_run(&w->loop, UV_RUN_ONCE);
    }
    assert_true(is_open(fd));
    return fd;
}

static void
test_waiting(void **state)
{
    struct world *w = begin_control(state);
    int fd[4];
    char *found;

    fd[0] = ask_and_wait(w, "reload\n");
    assert_string_equal(w->last, "(all)");
    fd[1] = ask_and_wait(w, "reload shop\n");
    assert_string_equal(w->last, "shop");
    fd[2] = ask_and_wait(w, "drain shop timeout=1500\n");
    assert_string_equal(w->last, "drain shop 1500");
    check(w, "drain shop timeout=soon\n",
          "error: usage: drain [POOL] [timeout=MS]\n");
    fd[3] = ask_and_wait(w, "reload shop\n");
    shutdown(fd[3], SHUT_WR); /* it waits all the same */
    check(w, "ping\n", "ok\npong\n");

    w->done[1]("pool shop:\nit is broken", w->who[1]);
    w->done[0](NULL, w->who[0]);
    w->done[3](NULL, w->who[3]);
    found = hear(w, fd[0]);
    assert_string_equal(found, "ok\n");
    free(found);
    found = hear(w, fd[1]);
    assert_string_equal(found, "error: pool shop: it is broken\n");
    free(found);
    found = hear(w, fd[3]);
    assert_string_equal(found, "ok\n");
    free(found);

    /* Who left before the end is not missed. */
    close(fd[2]);
    check(w, "ping\n", "ok\npong\n");
    w->done[2](NULL, w->who[2]);
    end(w);
}

static void
test_stop(void **state)
{
    struct world *w = begin_control(state);
    char bytes[64];
    int fd = dial(w);
    ssize_t n;

    say(w, fd, "stop\n", 5);
    while ((n = recv(fd, bytes, sizeof(bytes), 0)) < 0) {
        uv_run(&w->loop, UV_RUN_ONCE);
    }
    assert_int_equal(n, 3);
    assert_memory_equal(bytes, "ok\n", 3);
    assert_string_equal(w->last, "stop");
    check(w, "ping\n", "ok\npong\n");
    assert_true(is_open(fd));
    say(w, fd, "more\n", 5);
    assert_true(is_open(fd)); /* until the end of it all */
    close(ask_and_wait(w, "reload\n"));
    end(w);
    assert_false(is_open(fd));
    close(fd);
}

/* Another manager has the socket: who is connected is served to the end, nobody
 * else is, and the path stays. */
static void
test_hand_over(void **state)
{
    struct world *w = begin_control(state);
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    int waiting = ask_and_wait(w, "reload\n"), late;
    char *found;

    clients_hand_over(w->clients);
    clients_hand_over(NULL);
    w->done[0](NULL, w->who[0]);
    found = hear(w, waiting);
    assert_string_equal(found, "ok\n");
    free(found);
    assert_int_equal(access(w->path, F_OK), 0);
    late = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(un.sun_path, sizeof(un.sun_path), "%s", w->path);
    assert_int_equal(connect(late, (struct sockaddr *)&un, sizeof(un)), -1);
    assert_int_equal(errno, ECONNREFUSED);
    close(late);
    unlink(w->path);
    end(w);
}

/* So many may wait; one more is told so, and others are served. */
static void
test_too_many_wait(void **state)
{
    struct world *w = begin_control(state);
    int fd[MAX_HELD];

    for (int i = 0; i < MAX_HELD; i++) {
        fd[i] = ask_and_wait(w, "reload\n");
    }
    check_begins(w, "reload\n", 7, "error: 32 commands wait");
    check(w, "ping\n", "ok\npong\n");
    for (int i = 0; i < MAX_HELD; i++) {
        close(fd[i]);
    }
    check(w, "ping\n", "ok\npong\n");
    end(w); /* with all of them still held */
}

/* Clients that say nothing: the oldest make room. */
static void
test_many_silent(void **state)
{
    struct world *w = begin_control(state);
    int fd[2 * MAX];
    unsigned open = 0;

    for (int i = 0; i < 2 * MAX; i++) {
        fd[i] = dial(w);
        uv_run(&w->loop, UV_RUN_NOWAIT);
    }
    check(w, "ping\n", "ok\npong\n");
    for (int i = 0; i < 2 * MAX; i++) {
        open += is_open(fd[i]);
    }
    assert_true(open < MAX);
    assert_false(is_open(fd[0]));
    assert_true(is_open(fd[2 * MAX - 1]));
    for (int i = 0; i < 2 * MAX; i++) {
        close(fd[i]);
    }
    end(w);
}

/* A client that does not read keeps nobody waiting, and gets its answer whole
 * when it does. */
static void
test_slow_reader(void **state)
{
    struct world *w = begin_control(state);
    int fd = dial(w);
    char *found;

    w->big = true;
    say(w, fd, "status\n", 7);
    for (int i = 0; i < 10; i++) {
        uv_run(&w->loop, UV_RUN_ONCE);
    }
    w->big = false;
    check(w, "status\n", "ok\ntable\n");
    found = hear(w, fd);
    assert_int_equal(strlen(found), 3 + BIG + 6);
    assert_memory_equal(found, "ok\nxxx", 6);
    assert_string_equal(found + 3 + BIG, "table\n");
    free(found);
    end(w);
}

/* -- deadlines --------------------------------------------------------------
 */

static void
echo_big(struct client *c, const char *data, size_t len)
{
    struct world *w = c->ctx;

    (void)data;
    if (len > 0) {
        give_status(w, STATUS_TABLE, &c->out);
        client_answer(c);
    }
}

static void
test_deadlines(void **state)
{
    static const struct clients_options options = {
        .max = 4,
        .max_question = 100,
        .max_answer = 2 * BIG,
        .question_ms = 20,
        .answer_ms = 20,
        .input = echo_big,
    };
    struct world *w = begin(state);
    struct listener l = listen_at(w);
    char *found;
    int silent, deaf, polite;

    w->clients = clients_open(&w->loop, &l, 1, &options, w);
    assert_non_null(w->clients);

    silent = dial(w);
    found = hear(w, silent);
    assert_string_equal(found, "");
    free(found);

    /* Takes no answer: closed before it is out. */
    w->big = true;
    deaf = dial(w);
    say(w, deaf, "x", 1);
    for (struct pollfd p = { .fd = deaf, .events = POLLRDHUP };
         poll(&p, 1, 0) == 0;) {
        uv_run(&w->loop, UV_RUN_ONCE);
    }
    found = hear(w, deaf);
    assert_true(strlen(found) < BIG);
    free(found);

    /* Takes the answer and does not close. */
    w->big = false;
    polite = dial(w);
    say(w, polite, "x", 1);
    for (struct pollfd p = { .fd = polite, .events = 0 };
         poll(&p, 1, 0) == 0;) { /* POLLHUP: closed altogether */
        uv_run(&w->loop, UV_RUN_ONCE);
    }
    found = hear(w, polite);
    assert_string_equal(found, "table\n");
    free(found);
    end(w);
}

/* -- HTTP -------------------------------------------------------------------
 */

static const struct {
    const char *request, *begins, *ends;
} http_cases[] = {
    { "GET /ping HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK\r\n",
      "\r\n\r\npong\n" },
    { "GET /ping HTTP/1.0\n\n", "HTTP/1.1 200 OK\r\n", "\r\n\r\npong\n" },
    { "HEAD /ping HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\n", "\r\n\r\n" },
    { "GET /status HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\n",
      "\r\n\r\ntable\n" },
    { "GET /status?json HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\n",
      "\r\n\r\n{}\n" },
    { "GET /status?a=b&json=1 HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\n",
      "\r\n\r\n{}\n" },
    { "GET /status?a=json&jsonx HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\n",
      "\r\n\r\ntable\n" },
    { "GET /status? HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\n",
      "\r\n\r\ntable\n" },
    { "GET /-/deep/metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\n",
      "\r\n\r\nmetrics\n" },
    { "GET http://host:1/metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\n",
      "\r\n\r\nmetrics\n" },
    { "GET http://host HTTP/1.1\r\n\r\n", "HTTP/1.1 404 Not Found\r\n", "\n" },
    { "GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 404 Not Found\r\n", "\n" },
    { "GET /statusx HTTP/1.1\r\n\r\n", "HTTP/1.1 404 Not Found\r\n", "\n" },
    { "GET status HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\n", "table\n" },
    { "POST /status HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
      "HTTP/1.1 405 Method Not Allowed\r\nConnection: close\r\nAllow: GET, "
      "HEAD\r\n",
      "\n" },
    { "GET /ping\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n", "\n" },
    { "GET /ping HTTP/2.0\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n", "\n" },
    { "GET /ping HTTP/1.1 x\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n", "\n" },
    { "GET  HTTP/1.1\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n", "\n" },
    { "GET\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n", "\n" },
    { "x\n\n", "HTTP/1.1 400 Bad Request\r\n", "\n" },
};

static struct world *
begin_status(void **state)
{
    struct world *w = begin(state);
    struct listener l = listen_at(w);

    w->clients = status_server_open(&w->loop, &l, 1, &w->source);
    assert_non_null(w->clients);
    return w;
}

static void
check_http(struct world *w, const char *request, size_t cut, const char *begins,
           const char *ends)
{
    size_t len = strlen(request);
    int fd = dial(w);
    char *found;

    cut = cut < len ? cut : len;
    say(w, fd, request, cut);
    uv_run(&w->loop, UV_RUN_NOWAIT);
    say(w, fd, request + cut, len - cut);
    found = hear(w, fd);
    if (strncmp(found, begins, strlen(begins)) != 0 ||
        strlen(found) < strlen(ends) ||
        strcmp(found + strlen(found) - strlen(ends), ends) != 0) {
        fail_msg("\"%s\" (cut at %zu) is answered \"%s\"", request, cut, found);
    }
    free(found);
}

static void
test_http(void **state)
{
    struct world *w = begin_status(state);

    for (size_t i = 0; i < COUNT(http_cases); i++) {
        size_t len = strlen(http_cases[i].request);

        for (size_t cut = 1; cut <= len; cut += cut < 4 ? 1 : len / 5) {
            check_http(w, http_cases[i].request, cut, http_cases[i].begins,
                       http_cases[i].ends);
        }
    }
    end(w);
}

static void
test_http_limits(void **state)
{
    struct world *w = begin_status(state);
    char *found, big[40000];
    int fd;

    memset(big, 'a', sizeof(big));
    memcpy(big, "GET /", 5);
    fd = dial(w);
    say(w, fd, big, sizeof(big));
    found = hear(w, fd);
    assert_int_equal(strncmp(found, "HTTP/1.1 431 ", 13), 0);
    free(found);
    /* TLS, and nothing that anybody understands: closed without a word. */
    fd = dial(w);
    say(w, fd, "\x16\x03\x01\x02", 4);
    found = hear(w, fd);
    assert_string_equal(found, "");
    free(found);
    /* A big answer comes whole. */
    w->big = true;
    check_http(w, "GET /ping HTTP/1.1\r\n\r\n", 5, "HTTP/1.1 200", "pong\n");
    check_http(w, "GET /status HTTP/1.1\r\n\r\n", 5, "HTTP/1.1 200",
               "xtable\n");
    end(w);
}

#define TEST(f)                                                                \
    cmocka_unit_test_setup_teardown(f, unit_make_folder, unit_remove_folder)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_commands),      TEST(test_wrong_commands),
        TEST(test_pieces),        TEST(test_waiting),
        TEST(test_stop),          TEST(test_hand_over),
        TEST(test_too_many_wait), TEST(test_many_silent),
        TEST(test_slow_reader),   TEST(test_deadlines),
        TEST(test_http),          TEST(test_http_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
