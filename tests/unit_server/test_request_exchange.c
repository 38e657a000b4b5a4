/* SPDX-License-Identifier: MIT
 *
 * server/request_exchange.c against peers that misbehave: a thread plays the
 * server.
 */
#include "tests/unit_server/unit.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "protocol/fcgi.h"
#include "server/request_exchange.h"

enum { BIG = 4 * 1024 * 1024, PATIENCE_MS = 60000 };

/* The server: one listening socket, a thread that accepts once and plays. */
struct play {
    struct address address;
    int listen_fd;
    pthread_t thread;
    void (*act)(int fd);
};

/* What the client gave out. */
struct got {
    struct buf out, err;
};

static int
on_out(void *ctx, const char *data, size_t len)
{
    return buf_append(&((struct got *)ctx)->out, data, len);
}

static int
on_err(void *ctx, const char *data, size_t len)
{
    return buf_append(&((struct got *)ctx)->err, data, len);
}

static void *
run_play(void *arg)
{
    struct play *p = arg;
    int fd = accept(p->listen_fd, NULL, NULL);

    if (fd >= 0) {
        p->act(fd);
        close(fd);
    }
    return NULL;
}

static void
begin_play(struct play *p, void **state, void (*act)(int fd))
{
    char *path = unit_path(state, "s"), why[256];

    unlink(path);
    assert_int_equal(address_parse(path, &p->address, why, sizeof(why)), 0);
    p->listen_fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(p->listen_fd, (struct sockaddr *)&p->address.un,
                          sizeof(p->address.un)),
                     0);
    assert_int_equal(listen(p->listen_fd, 5), 0);
    p->act = act;
    assert_int_equal(pthread_create(&p->thread, NULL, run_play, p), 0);
    free(path);
}

static void
end_play(struct play *p)
{
    pthread_join(p->thread, NULL);
    close(p->listen_fd);
}

static void
got_init(struct got *g, struct exchange *x)
{
    buf_init(&g->out, SIZE_MAX / 2);
    buf_init(&g->err, SIZE_MAX / 2);
    exchange_init(x);
    x->on_stdout = on_out;
    x->on_stderr = on_err;
    x->ctx = g;
}

static void
got_release(struct got *g, struct exchange *x)
{
    buf_release(&g->out);
    buf_release(&g->err);
    exchange_release(x);
}

static uint64_t
soon(unsigned ms)
{
    return exchange_now_ms() + ms;
}

/* -- what the server does
 * ------------------------------------------------------ */

static void
send_all(int fd, const char *data, size_t len)
{
    ssize_t n;

    while (len > 0 && (n = send(fd, data, len, MSG_NOSIGNAL)) > 0) {
        data += n;
        len -= (size_t)n;
    }
}

static void
send_record(int fd, int type, unsigned id, const char *data, size_t len,
            unsigned padding)
{
    char head[FCGI_HEADER_LEN], zeros[256] = { 0 };

    fcgi_put_header(head, type, id, len, padding);
    send_all(fd, head, sizeof(head));
    send_all(fd, data, len);
    send_all(fd, zeros, padding);
}

static void
send_end(int fd, uint32_t app_status, unsigned protocol_status)
{
    char record[16];

    fcgi_put_end(record, 1, app_status, protocol_status);
    send_all(fd, record, sizeof(record));
}

/* Read one record; its type, 0 at the end. */
static int
read_record(int fd, char *content, size_t *ret_len)
{
    unsigned char head[FCGI_HEADER_LEN];
    size_t len;

    if (recv(fd, head, sizeof(head), MSG_WAITALL) != sizeof(head)) {
        return 0;
    }
    len = (size_t)head[4] << 8 | head[5];
    *ret_len = len;
    len += head[6];
    /* Asking for no bytes would wait for some. */
    if (len > 0 && recv(fd, content, len, MSG_WAITALL) != (ssize_t)len) {
        return 0;
    }
    return head[1];
}

/* Read a request up to its empty STDIN; body bytes, or -1. */
static long
read_request(int fd)
{
    static __thread char content[66000];
    long body = 0;
    size_t len;
    int type;

    while ((type = read_record(fd, content, &len)) != 0) {
        if (type == FCGI_STDIN && len == 0) {
            return body;
        }
        body += type == FCGI_STDIN ? (long)len : 0;
    }
    return -1;
}

static void
send_big_answer(int fd)
{
    char *data = calloc(1, 65528);

    send_record(fd, FCGI_STDOUT, 1, "\n", 1, 7);
    for (int i = 0; i < BIG / 65528; i++) {
        send_record(fd, FCGI_STDOUT, 1, data, 65528, 0);
    }
    free(data);
}

static void
answer_then_read(int fd)
{
    long body;

    send_big_answer(fd);
    body = read_request(fd);
    send_end(fd, (uint32_t)body, FCGI_REQUEST_COMPLETE);
}

static void
read_then_answer(int fd)
{
    long body = read_request(fd);

    send_big_answer(fd);
    send_end(fd, (uint32_t)body, FCGI_REQUEST_COMPLETE);
}

/* Every record in pieces of one byte, with padding, empty records between. */
static void
answer_in_pieces(int fd)
{
    char bytes[200];
    size_t used = 0;

    read_request(fd);
    fcgi_put_header(bytes, FCGI_STDOUT, 1, 3, 5);
    memcpy(bytes + 8, "\nab", 3);
    memset(bytes + 11, 0, 5);
    used = 16;
    fcgi_put_header(bytes + used, FCGI_STDERR, 1, 4, 0);
    memcpy(bytes + used + 8, "oops", 4);
    used += 12;
    fcgi_put_header(bytes + used, FCGI_GET_VALUES_RESULT, 0, 1, 255);
    send_all(fd, bytes, used);
    memset(bytes + used + 8, 0, 50);
    for (int i = 0; i < 8; i++) {
        send_all(fd, bytes + used + i, 1);
    }
    for (int i = 0; i < 256; i++) {
        send_all(fd, "", 1);
    }
    send_record(fd, FCGI_STDOUT, 1, "", 0, 1);
    fcgi_put_header(bytes, FCGI_STDOUT, 1, 2, 0);
    memcpy(bytes + 8, "cd", 2);
    fcgi_put_end(bytes + 10, 1, 0x01020304, FCGI_REQUEST_COMPLETE);
    for (size_t i = 0; i < 26; i++) {
        send_all(fd, bytes + i, 1);
    }
}

static void
break_off(int fd)
{
    read_request(fd);
    send_record(fd, FCGI_STDOUT, 1, "Status: 200\n\nhalf", 17, 0);
}

static void
break_off_in_record(int fd)
{
    char bytes[20];

    read_request(fd);
    fcgi_put_header(bytes, FCGI_STDOUT, 1, 100, 0);
    send_all(fd, bytes, 8);
}

static void
overload(int fd)
{
    read_request(fd);
    send_end(fd, 0, FCGI_OVERLOADED);
}

static void
speak_http(int fd)
{
    static const char text[] = "HTTP/1.1 400 Bad Request\r\n\r\n";

    read_request(fd);
    send_all(fd, text, sizeof(text) - 1);
}

static void
other_id(int fd)
{
    read_request(fd);
    send_record(fd, FCGI_STDOUT, 2, "\n", 1, 0);
}

static void
bad_type(int fd)
{
    read_request(fd);
    send_record(fd, 12, 1, "", 0, 0);
}

static void
short_end(int fd)
{
    read_request(fd);
    send_record(fd, FCGI_END_REQUEST, 1, "1234", 4, 0);
}

static void
talk_on(int fd)
{
    char bytes[24];

    read_request(fd);
    fcgi_put_end(bytes, 1, 0, 0);
    memset(bytes + 16, 'x', 8);
    send_all(fd, bytes, sizeof(bytes));
}

static void
stay_silent(int fd)
{
    char c;

    while (recv(fd, &c, 1, 0) > 0) {
    }
}

/* Answers to the first request before its body is there; then the next one on
 * the same connection must begin with a clean record. */
static void
answer_early_twice(int fd)
{
    static char content[66000];
    unsigned begun = 0;
    size_t len;
    int type;

    while ((type = read_record(fd, content, &len)) != 0) {
        if (type == FCGI_BEGIN_REQUEST) {
            begun++;
        }
        if (type == FCGI_PARAMS && len == 0) {
            send_record(fd, FCGI_STDOUT, 1, "\nx", 2, 0);
            send_end(fd, begun, FCGI_REQUEST_COMPLETE);
        }
        if (type < FCGI_BEGIN_REQUEST || type > FCGI_MAXTYPE) {
            return; /* what came is no record */
        }
    }
}

static void
hang_up_early(int fd)
{
    static char content[66000];
    size_t len;
    int type;

    while ((type = read_record(fd, content, &len)) != 0) {
        if (type == FCGI_PARAMS && len == 0) {
            break;
        }
    }
    send_record(fd, FCGI_STDOUT, 1, "\n413", 4, 0);
    send_end(fd, 0, FCGI_REQUEST_COMPLETE);
    shutdown(fd, SHUT_WR);
}

/* -- the tests
 * --------------------------------------------------------------------- */

static enum exchange_code
run(struct play *p, struct exchange *x, struct message *m, uint64_t deadline)
{
    enum exchange_code code = exchange_connect(x, &p->address, deadline);

    return code != EXCHANGE_OK ? code : exchange_run(x, m, deadline);
}

/* A body as large as no socket buffer. */
static void
add_big_body(struct message *m)
{
    char *data = calloc(1, BIG);

    assert_int_equal(body_add_bytes(&m->body, data, BIG), 0);
    free(data);
}

/* Both sides write first, or one after the other: nobody waits for ever. */
static void
test_no_deadlock(void **state)
{
    void (*const acts[])(int) = { answer_then_read, read_then_answer };

    for (size_t i = 0; i < COUNT(acts); i++) {
        struct message m = { 0 };
        struct exchange x;
        struct got g;
        struct play p;

        begin_play(&p, state, acts[i]);
        got_init(&g, &x);
        add_big_body(&m);
        assert_int_equal(run(&p, &x, &m, soon(PATIENCE_MS)), EXCHANGE_OK);
        assert_true(x.ended);
        assert_int_equal(x.app_status, BIG);
        assert_int_equal(g.out.len, 1 + (size_t)(BIG / 65528) * 65528);
        end_play(&p);
        message_release(&m);
        got_release(&g, &x);
    }
}

static void
test_pieces(void **state)
{
    struct message m = { 0 };
    struct exchange x;
    struct got g;
    struct play p;

    begin_play(&p, state, answer_in_pieces);
    got_init(&g, &x);
    assert_int_equal(run(&p, &x, &m, soon(PATIENCE_MS)), EXCHANGE_OK);
    assert_int_equal(g.out.len, 5);
    assert_memory_equal(g.out.data, "\nabcd", 5);
    assert_int_equal(g.err.len, 4);
    assert_memory_equal(g.err.data, "oops", 4);
    assert_int_equal(x.app_status, 0x01020304);
    assert_int_equal(x.fd, -1); /* nobody asked to keep it */
    end_play(&p);
    got_release(&g, &x);
}

static void
test_bad_answers(void **state)
{
    static const struct {
        void (*act)(int);
        const char *part;
    } cases[] = {
        { break_off, "without an END_REQUEST" },
        { break_off_in_record, "without an END_REQUEST" },
        { overload, "FCGI_OVERLOADED" },
        { speak_http, "not FastCGI" },
        { other_id, "request 2, which was never begun" },
        { bad_type, "type 12" },
        { short_end, "too short" },
        { talk_on, "behind its END_REQUEST" },
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct message m = { 0 };
        struct exchange x;
        struct got g;
        struct play p;

        begin_play(&p, state, cases[i].act);
        got_init(&g, &x);
        x.keep_conn = true;
        assert_int_equal(run(&p, &x, &m, soon(PATIENCE_MS)), EXCHANGE_BROKEN);
        assert_contains(x.why, cases[i].part);
        assert_int_equal(x.fd, -1);
        end_play(&p);
        got_release(&g, &x);
    }
}

static void
test_timeout(void **state)
{
    struct message m = { 0 };
    struct exchange x;
    struct got g;
    struct play p;

    begin_play(&p, state, stay_silent);
    got_init(&g, &x);
    assert_int_equal(run(&p, &x, &m, soon(30)), EXCHANGE_TIMEOUT);
    assert_contains(x.why, "in time");
    end_play(&p);
    got_release(&g, &x);
}

/* The answer comes before the body was taken: the record that was begun is
 * finished, the rest of the body is not sent, the connection stays usable. */
static void
test_early_answers(void **state)
{
    struct message m = { 0 };
    struct exchange x;
    struct got g;
    struct play p;

    begin_play(&p, state, answer_early_twice);
    got_init(&g, &x);
    x.keep_conn = true;
    add_big_body(&m);
    for (uint32_t i = 1; i <= 3; i++) {
        assert_int_equal(run(&p, &x, &m, soon(PATIENCE_MS)), EXCHANGE_OK);
        assert_int_equal(x.app_status, i);
        assert_int_equal(x.connections, 1);
        assert_true(x.fd >= 0);
    }
    assert_memory_equal(g.out.data, "\nx\nx\nx", 6);
    exchange_release(&x);
    end_play(&p);
    message_release(&m);
    got_release(&g, &x);

    /* A peer that answers and hangs up while we still send. */
    begin_play(&p, state, hang_up_early);
    got_init(&g, &x);
    add_big_body(&m);
    assert_int_equal(run(&p, &x, &m, soon(PATIENCE_MS)), EXCHANGE_OK);
    assert_memory_equal(g.out.data, "\n413", 4);
    end_play(&p);
    message_release(&m);
    got_release(&g, &x);
}

static void
test_no_connection(void **state)
{
    char *path = unit_path(state, "none"), why[256];
    struct address a;
    struct exchange x;
    struct got g;
    int fd;

    got_init(&g, &x);
    assert_int_equal(address_parse(path, &a, why, sizeof(why)), 0);
    assert_int_equal(exchange_connect(&x, &a, 0), EXCHANGE_NO_CONNECTION);
    assert_contains(x.why, path);
    assert_contains(x.why, "no such socket");

    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a.un, sizeof(a.un)), 0);
    assert_int_equal(exchange_connect(&x, &a, 0), EXCHANGE_NO_CONNECTION);
    assert_contains(x.why, "nobody listens");

    /* A full queue is waited for, until the deadline. */
    assert_int_equal(listen(fd, 0), 0);
    {
        int c = socket(AF_UNIX, SOCK_STREAM, 0);

        assert_int_equal(connect(c, (struct sockaddr *)&a.un, sizeof(a.un)), 0);
        assert_int_equal(exchange_connect(&x, &a, soon(30)), EXCHANGE_TIMEOUT);
        close(c);
    }
    close(fd);
    assert_int_equal(x.connections, 0);

    assert_int_equal(address_parse("fd:3", &a, why, sizeof(why)), 0);
    assert_int_equal(exchange_connect(&x, &a, 0), EXCHANGE_NO_CONNECTION);
    got_release(&g, &x);
    free(path);
}

/* -- SCGI
 * -------------------------------------------------------------------------- */

static void
scgi_answer(int fd)
{
    static char data[65536];
    size_t len = 0;
    ssize_t n;

    /* Writes first; the head and BIG bytes of body follow. */
    for (int i = 0; i < BIG / 65536; i++) {
        send_all(fd, data, sizeof(data));
    }
    while (len < BIG && (n = recv(fd, data, sizeof(data), 0)) > 0) {
        len += (size_t)n;
    }
}

static void
scgi_reset(int fd)
{
    /* Closing with input unread is a reset. */
    char c;

    recv(fd, &c, 1, MSG_PEEK);
    send_all(fd, "Status: 200", 11);
}

static void
test_scgi(void **state)
{
    struct message m = { 0 };
    struct exchange x;
    struct got g;
    struct play p;

    begin_play(&p, state, scgi_answer);
    got_init(&g, &x);
    x.scgi = true;
    add_big_body(&m);
    message_add(&m, "CONTENT_LENGTH", "4194304", 7);
    assert_int_equal(run(&p, &x, &m, soon(PATIENCE_MS)), EXCHANGE_OK);
    assert_true(x.ended);
    assert_int_equal(g.out.len, BIG);
    end_play(&p);
    got_release(&g, &x);

    begin_play(&p, state, scgi_reset);
    got_init(&g, &x);
    x.scgi = true;
    assert_int_equal(run(&p, &x, &m, soon(PATIENCE_MS)), EXCHANGE_BROKEN);
    assert_contains(x.why, "reset");
    end_play(&p);
    message_release(&m);
    got_release(&g, &x);
}

/* The output cannot be written: give up at once. */
static int
refuse_output(void *ctx, const char *data, size_t len)
{
    (void)ctx;
    (void)data;
    (void)len;
    return -1;
}

static void
test_output_fails(void **state)
{
    struct message m = { 0 };
    struct exchange x;
    struct got g;
    struct play p;

    begin_play(&p, state, break_off);
    got_init(&g, &x);
    x.on_stdout = refuse_output;
    assert_int_equal(run(&p, &x, &m, soon(PATIENCE_MS)), EXCHANGE_OUTPUT);
    end_play(&p);
    got_release(&g, &x);
}

#define IN_FOLDER(f)                                                           \
    cmocka_unit_test_setup_teardown(f, unit_make_folder, unit_remove_folder)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_no_deadlock),   IN_FOLDER(test_pieces),
        IN_FOLDER(test_bad_answers),   IN_FOLDER(test_timeout),
        IN_FOLDER(test_early_answers), IN_FOLDER(test_no_connection),
        IN_FOLDER(test_scgi),          IN_FOLDER(test_output_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
