/* SPDX-License-Identifier: MIT
 *
 * server/request_answer.c: heads in pieces, statuses, and answers that are not
 * whole.
 */
#include "tests/unit_server/unit.h"

#include "server/request_answer.h"

static char why[512];

struct printed {
    char *text;
    size_t len;
};

static void
start(struct answer *a, struct printed *p, bool include)
{
    answer_init(a);
    a->out = open_memstream(&p->text, &p->len);
    assert_non_null(a->out);
    a->include = include;
}

static void
finish(struct answer *a, struct printed *p)
{
    assert_int_equal(fclose(a->out), 0);
    free(p->text);
    answer_release(a);
}

struct answer_case {
    const char *head, *body; /* given; the head with its empty line */
    int status;              /* expected */
};

static const struct answer_case cases[] = {
    { "Content-Type: text/plain\r\n\r\n", "hello", 200 },
    { "Status: 404 Not Found\r\nX: y\r\n\r\n", "\r\n\r\n", 404 },
    { "X: y\nstatus:  503 \n\n", "", 503 },
    { "Location: /there\r\n\r\n", "", 302 },
    { "Status: 201 Created\r\nLocation: /there\n\n", "a", 201 },
    { "\r\n", "no field", 200 },
    { "\n", "no field", 200 },
    { "Content-Length: 5\r\n\n", "\nhell", 200 },
};

static void
expect(const struct answer_case *t, const struct answer *a,
       const struct printed *p, bool include)
{
    size_t head_len = include ? strlen(t->head) : 0;

    assert_true(a->in_body);
    assert_int_equal(a->status, t->status);
    assert_int_equal(a->body_bytes, strlen(t->body));
    assert_int_equal(p->len, head_len + strlen(t->body));
    assert_memory_equal(p->text, t->head, head_len);
    assert_string_equal(p->text + head_len, t->body);
    assert_int_equal(answer_check(a, false, why, sizeof(why)), EXCHANGE_OK);
}

static void
test_pieces(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases) * 2; i++) {
        const struct answer_case *t = &cases[i / 2];
        char text[128];
        size_t len =
            (size_t)snprintf(text, sizeof(text), "%s%s", t->head, t->body);

        /* Cut at each offset; 0 is at once. */
        for (size_t cut = 0; cut < len; cut++) {
            struct printed p;
            struct answer a;

            start(&a, &p, i % 2);
            assert_int_equal(answer_take(&a, text, cut, why, sizeof(why)), 0);
            assert_int_equal(
                answer_take(&a, text + cut, len - cut, why, sizeof(why)), 0);
            expect(t, &a, &p, i % 2);
            finish(&a, &p);
        }
    }
}

static void
test_byte_by_byte(void **state)
{
    struct printed p;
    struct answer a;

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[128];
        size_t len = (size_t)snprintf(text, sizeof(text), "%s%s", cases[i].head,
                                      cases[i].body);

        start(&a, &p, true);
        for (size_t at = 0; at < len; at++) {
            assert_int_equal(answer_take(&a, text + at, 1, why, sizeof(why)),
                             0);
        }
        expect(&cases[i], &a, &p, true);
        finish(&a, &p);
    }
}

static void
test_not_whole(void **state)
{
    static const char cut[] = "Content-Length: 6\r\n\r\nhello";
    struct printed p;
    struct answer a;

    (void)state;
    start(&a, &p, false);
    assert_int_equal(answer_take(&a, cut, 20, why, sizeof(why)), 0);
    assert_int_equal(answer_check(&a, false, why, sizeof(why)),
                     EXCHANGE_BROKEN);
    assert_contains(why, "20 bytes came");
    answer_show_rest(&a);
    assert_int_equal(p.len, 20);

    /* The next one on the same connection begins afresh. */
    answer_clear(&a);
    assert_int_equal(answer_take(&a, cut, sizeof(cut) - 1, why, sizeof(why)),
                     0);
    answer_show_rest(&a);
    assert_string_equal(p.text + 20, "hello");
    assert_int_equal(answer_check(&a, false, why, sizeof(why)),
                     EXCHANGE_BROKEN);
    assert_contains(why, "Content-Length is 6, but 5 bytes");
    assert_int_equal(answer_check(&a, true, why, sizeof(why)), EXCHANGE_OK);
    a.status = 304;
    assert_int_equal(answer_check(&a, false, why, sizeof(why)), EXCHANGE_OK);
    finish(&a, &p);
}

static void
test_endless_head(void **state)
{
    char line[1024];
    struct printed p;
    struct answer a;
    int rc = 0;

    (void)state;
    memset(line, 'x', sizeof(line));
    line[sizeof(line) - 1] = '\n';
    start(&a, &p, false);
    for (int i = 0; rc == 0 && i < 4096; i++) {
        rc = answer_take(&a, line, sizeof(line), why, sizeof(why));
    }
    assert_int_equal(rc, -1);
    assert_contains(why, "the head of the answer is longer than");
    finish(&a, &p);
}

static void
test_output_fails(void **state)
{
    struct answer a;

    (void)state;
    answer_init(&a);
    a.out = fopen("/dev/full", "we");
    assert_non_null(a.out);
    why[0] = '\0';
    assert_int_equal(answer_take(&a, "A: b\n\nbody", 10, why, sizeof(why)), -1);
    assert_string_equal(why, "");
    fclose(a.out);
    answer_release(&a);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_byte_by_byte),
        cmocka_unit_test(test_not_whole),
        cmocka_unit_test(test_endless_head),
        cmocka_unit_test(test_output_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
