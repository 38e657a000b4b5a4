/* SPDX-License-Identifier: MIT
 *
 * protocol/scgi.c: netstring rules to the letter, every case at once, byte by
 * byte and cut at each offset.
 */
#include "protocol_check.h"

/* A netstring around a block written with '|' for NUL, and what follows it. */
static void
put_scgi(struct buf *b, const char *block, const char *body)
{
    size_t len = strlen(block), i;

    put_text(b, "%zu:", len);
    for (i = 0; i < len; i++) {
        put_raw(b, block[i] == '|' ? "" : block + i, 1);
    }
    put_text(b, ",%s", body);
}

static void
check_scgi(const struct setup *s, const char *block, const char *body,
           const char *expected)
{
    struct buf in;

    buf_init(&in, SIZE_MAX);
    put_scgi(&in, block, body);
    check(s, &in, expected);
}

/* The example of the SCGI specification. */
static void
test_example(void **state)
{
    static const char request[] = "70:CONTENT_LENGTH\0"
                                  "27\0"
                                  "SCGI\0"
                                  "1\0"
                                  "REQUEST_METHOD\0"
                                  "POST\0"
                                  "REQUEST_URI\0"
                                  "/deepthought\0"
                                  ",What is the answer to life?";
    struct setup s = setup_of(DECODER_AUTO);

    (void)state;
    check_bytes(&s, request, sizeof(request) - 1,
                "HEAD 0 role=1 keep=0 length=27\n"
                "  CONTENT_LENGTH=27\n"
                "  SCGI=1\n"
                "  REQUEST_METHOD=POST\n"
                "  REQUEST_URI=/deepthought\n"
                "BODY 0 What is the answer to life?\n"
                "BODY_END 0 seen=27\n"
                "not idle\n");
}

static void
test_no_body(void **state)
{
    struct setup s = setup_of(DECODER_SCGI);

    (void)state;
    check_scgi(&s, "CONTENT_LENGTH|0|SCGI|1|A||", "",
               "HEAD 0 role=1 keep=0 length=0\n"
               "  CONTENT_LENGTH=0\n"
               "  SCGI=1\n"
               "  A=\n"
               "BODY_END 0 seen=0\n"
               "not idle\n");
    s.end_when = END_AT_BODY_END;
    check_scgi(&s, "CONTENT_LENGTH|0|SCGI|1|", "",
               "HEAD 0 role=1 keep=0 length=0\n"
               "  CONTENT_LENGTH=0\n"
               "  SCGI=1\n"
               "BODY_END 0 seen=0\n"
               "idle\n");
}

/* The end of an empty body needs no byte. */
static void
test_end_without_bytes(void **state)
{
    static const char request[] = "24:CONTENT_LENGTH\0"
                                  "0\0SCGI\0"
                                  "1\0,";
    struct request_limits l = test_limits;
    struct decoder d;
    size_t used;

    (void)state;
    decoder_init(&d, DECODER_SCGI, &l);
    assert_int_equal(decoder_feed(&d, request, sizeof(request) - 1, &used),
                     DECODE_HEAD);
    assert_int_equal(used, sizeof(request) - 1);
    assert_false(d.req->body_done);
    assert_int_equal(decoder_feed(&d, NULL, 0, &used), DECODE_BODY_END);
    assert_true(d.req->body_done);
    assert_int_equal(decoder_feed(&d, NULL, 0, &used), DECODE_MORE);
    assert_false(decoder_is_idle(&d));
    decoder_end(&d, d.req);
    assert_true(decoder_is_idle(&d));
    decoder_release(&d);
}

static void
test_direct(void **state)
{
    static const char request[] = "24:CONTENT_LENGTH\0"
                                  "9\0SCGI\0"
                                  "1\0,ab";
    struct request_limits l = test_limits;
    struct decoder d;
    size_t used;

    (void)state;
    decoder_init(&d, DECODER_SCGI, &l);
    assert_int_equal(decoder_direct(&d, &d.first), 0);
    assert_int_equal(decoder_feed(&d, request, sizeof(request) - 1, &used),
                     DECODE_HEAD);
    assert_int_equal(used, sizeof(request) - 3);
    assert_int_equal(decoder_direct(&d, d.req), 9);
    assert_int_equal(decoder_feed(&d, "ab", 2, &used), DECODE_BODY);
    assert_int_equal(decoder_direct(&d, d.req), 7);
    decoder_skip(&d, d.req, 6);
    assert_int_equal(d.req->body_seen, 8);
    assert_int_equal(decoder_feed(&d, NULL, 0, &used), DECODE_MORE);
    decoder_skip(&d, d.req, 1);
    decoder_skip(&d, d.req, 0);
    assert_int_equal(decoder_direct(&d, d.req), 0);
    assert_int_equal(decoder_feed(&d, NULL, 0, &used), DECODE_BODY_END);
    assert_int_equal(d.req->body_seen, 9);
    decoder_release(&d);
}

/* Bytes behind the body, or after the answer, are ignored. */
static void
test_surplus(void **state)
{
    struct setup s = setup_of(DECODER_SCGI);

    (void)state;
    check_scgi(&s, "CONTENT_LENGTH|4|SCGI|1|", "bodysurplus",
               "HEAD 0 role=1 keep=0 length=4\n"
               "  CONTENT_LENGTH=4\n"
               "  SCGI=1\n"
               "BODY 0 body\n"
               "BODY_END 0 seen=4\n"
               "not idle\n");
    s.end_when = END_AT_HEAD;
    check_scgi(&s, "CONTENT_LENGTH|4|SCGI|1|", "bodysurplus",
               "HEAD 0 role=1 keep=0 length=4\n"
               "  CONTENT_LENGTH=4\n"
               "  SCGI=1\n"
               "idle\n");
}

/* Cut off anywhere it is not a request, and nothing is ended. */
static void
test_incomplete(void **state)
{
    struct setup s = setup_of(DECODER_SCGI);

    (void)state;
    check_bytes(&s, "2", 1, "not idle\n");
    check_bytes(&s, "24:", 3, "not idle\n");
    check_bytes(&s, "24:CONTENT", 10, "not idle\n");
    check_bytes(&s,
                "24:CONTENT_LENGTH\0"
                "9\0SCGI\0"
                "1\0",
                27, "not idle\n");
}

static void
test_netstring_bad(void **state)
{
    struct setup s = setup_of(DECODER_SCGI);

    (void)state;
    check_bytes(&s, "024:", 4,
                "BAD malformed SCGI request: the length of the header block "
                "begins with 0\n");
    check_bytes(&s, "00:", 3,
                "BAD malformed SCGI request: the length of the header block "
                "begins with 0\n");
    check_bytes(&s, "2x", 2,
                "BAD malformed SCGI request: byte 0x78 in the length of the "
                "header block, where a digit or ':' is expected\n");
    check_bytes(&s, "2 4:", 4,
                "BAD malformed SCGI request: byte 0x20 in the length of the "
                "header block, where a digit or ':' is expected\n");
    check_bytes(&s, "0:,", 3,
                "BAD malformed SCGI request: the header block is empty, "
                "CONTENT_LENGTH is missing\n");
    check_bytes(&s, "0:x", 3,
                "BAD malformed SCGI request: byte 0x78 behind the header block "
                "of 0 bytes, where ',' is expected\n");
    check_bytes(&s,
                "24:CONTENT_LENGTH\0"
                "0\0SCGI\0"
                "1\0;",
                28,
                "BAD malformed SCGI request: byte 0x3b behind the header block "
                "of 24 bytes, where ',' is expected\n");
    check_bytes(&s, "99999999999999999999:", 21,
                "BAD the SCGI header block is announced with more than "
                "16777216 bytes\n");
    check_bytes(&s, "16777217:", 9,
                "BAD the SCGI header block is announced with more than "
                "16777216 bytes\n");
    check_bytes(&s, "4294967298:", 11,
                "BAD the SCGI header block is announced with more than "
                "16777216 bytes\n");
    check_bytes(
        &s, ":", 1,
        "BAD this looks like none of FastCGI, SCGI and uwsgi on an SCGI "
        "socket (first byte 0x3a)\n");
}

static void
test_headers_bad(void **state)
{
    static const struct {
        const char *block;
        const char *why;
    } cases[] = {
        { "SCGI|1|CONTENT_LENGTH|0|",
          "the first header is SCGI where CONTENT_LENGTH is expected" },
        { "content_length|0|SCGI|1|",
          "the first header is content_length where CONTENT_LENGTH is "
          "expected" },
        { "||CONTENT_LENGTH|0|SCGI|1|", "header 1 has an empty name" },
        { "CONTENT_LENGTH|0|SCGI|1||x|", "header 3 has an empty name" },
        { "CONTENT_LENGTH||SCGI|1|",
          "CONTENT_LENGTH is \"\" where 1 to 18 digits are expected" },
        { "CONTENT_LENGTH|-1|SCGI|1|",
          "CONTENT_LENGTH is \"-1\" where 1 to 18 digits are expected" },
        { "CONTENT_LENGTH|1a|SCGI|1|",
          "CONTENT_LENGTH is \"1a\" where 1 to 18 digits are expected" },
        { "CONTENT_LENGTH|+5|SCGI|1|",
          "CONTENT_LENGTH is \"+5\" where 1 to 18 digits are expected" },
        { "CONTENT_LENGTH|9999999999999999999|SCGI|1|",
          "CONTENT_LENGTH is \"9999999999999999999\" where 1 to 18 digits are "
          "expected" },
        { "CONTENT_LENGTH|0|SCGI|1|CONTENT_LENGTH|0|",
          "CONTENT_LENGTH comes more than once" },
        { "CONTENT_LENGTH|0|", "the header SCGI with the value 1 is missing" },
        { "CONTENT_LENGTH|0|SCGI|2|",
          "the header SCGI with the value 1 is missing" },
        { "CONTENT_LENGTH|0|SCGI||",
          "the header SCGI with the value 1 is missing" },
        { "CONTENT_LENGTH|0|SCGI|1",
          "header 2 is not a name and a value with a NUL byte behind each" },
        { "CONTENT_LENGTH|0|SCGI|",
          "header 2 is not a name and a value with a NUL byte behind each" },
        { "CONTENT_LENGTH|0|SCGI|1|A",
          "header 3 is not a name and a value with a NUL byte behind each" },
        { "C",
          "header 1 is not a name and a value with a NUL byte behind each" },
    };
    struct setup s = setup_of(DECODER_SCGI);
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char expected[300];

        snprintf(expected, sizeof(expected), "BAD malformed SCGI request: %s\n",
                 cases[i].why);
        check_scgi(&s, cases[i].block, "", expected);
    }
}

/* Front ends send other names twice: both are kept, in order. */
static void
test_duplicates(void **state)
{
    struct setup s = setup_of(DECODER_SCGI);

    (void)state;
    check_scgi(&s, "CONTENT_LENGTH|0|SCGI|1|HTTP_X|a|HTTP_X|b|", "",
               "HEAD 0 role=1 keep=0 length=0\n"
               "  CONTENT_LENGTH=0\n"
               "  SCGI=1\n"
               "  HTTP_X=a\n"
               "  HTTP_X=b\n"
               "BODY_END 0 seen=0\n"
               "not idle\n");
}

static void
test_limits_of_params(void **state)
{
    struct setup s = setup_of(DECODER_SCGI);

    (void)state;
    s.end_when = END_AT_BODY_END;
    s.limits.params_count = 2;
    s.limits.params_bytes = 100;
    check_scgi(&s, "CONTENT_LENGTH|2|SCGI|1|A|1|B|2|", "hi",
               "HEAD 0 role=1 keep=0 length=2\n"
               "  CONTENT_LENGTH=2\n"
               "  SCGI=1\n"
               "  refused 431: more than 2 parameters (max_params); the first "
               "one too many is A\n"
               "BODY_END 0 seen=2\n"
               "idle\n");
    s.limits.params_count = 100;
    s.limits.params_bytes = 21;
    check_scgi(&s, "CONTENT_LENGTH|2|SCGI|1|A||B|2|", "hi",
               "HEAD 0 role=1 keep=0 length=2\n"
               "  CONTENT_LENGTH=2\n"
               "  SCGI=1\n"
               "  A=\n"
               "  refused 431: parameters over 21 bytes (max_params_size): B "
               "of 2 bytes comes after 21 bytes of others\n"
               "BODY_END 0 seen=2\n"
               "idle\n");
    /* A block that cannot fit is skipped by its length; its beginning is kept
     * for the log, and the length of the body. */
    s.limits.params_count = 1;
    check_scgi(&s, "CONTENT_LENGTH|2|SCGI|1|A|1|", "hi",
               "HEAD 0 role=1 keep=0 length=2\n"
               "  CONTENT_LENGTH=2\n"
               "  refused 431: more than 1 parameters (max_params); the first "
               "one too many is SCGI\n"
               "BODY_END 0 seen=2\n"
               "idle\n");
}

/* A big block over the limit: skipped, little of it is kept. */
static void
test_big_block(void **state)
{
    struct request_limits l = test_limits;
    struct run run;
    char piece[100000];
    size_t left = 10 * 1024 * 1024;
    const char *text;

    (void)state;
    memset(piece, 'x', sizeof(piece));
    run_init(&run, DECODER_SCGI, &l, sizeof(piece) + 100);
    run.end_when = END_AT_BODY_END;
    run_feed(&run, "10485760:", 9);
    run_feed(&run,
             "CONTENT_LENGTH\0"
             "3\0REQUEST_URI\0/big\0HTTP_X\0",
             41);
    left -= 41;
    while (left > 0) {
        size_t n = left < sizeof(piece) ? left : sizeof(piece);

        run_feed(&run, piece, n);
        left -= n;
    }
    assert_true(run.d.first.params.cap <= 8192);
    run_feed(&run, ",abc", 4);
    text = run_finish(&run);
    assert_string_equal(text,
                        "HEAD 0 role=1 keep=0 length=3\n"
                        "  CONTENT_LENGTH=3\n"
                        "  REQUEST_URI=/big\n"
                        "  refused 431: an SCGI header block of 10485760 bytes "
                        "is over 1048576 bytes (max_params_size) in 1000 "
                        "parameters (max_params)\n"
                        "BODY_END 0 seen=3\n"
                        "idle\n");
    run_release(&run);
}

static void
test_body_limit(void **state)
{
    struct setup s = setup_of(DECODER_SCGI);

    (void)state;
    s.limits.body_bytes = 4;
    check_scgi(&s, "CONTENT_LENGTH|4|SCGI|1|", "body",
               "HEAD 0 role=1 keep=0 length=4\n"
               "  CONTENT_LENGTH=4\n"
               "  SCGI=1\n"
               "BODY 0 body\n"
               "BODY_END 0 seen=4\n"
               "not idle\n");
    check_scgi(&s, "CONTENT_LENGTH|5|SCGI|1|", "body!",
               "HEAD 0 role=1 keep=0 length=5\n"
               "  CONTENT_LENGTH=5\n"
               "  SCGI=1\n"
               "  refused 413: a body of 5 bytes (CONTENT_LENGTH) is over 4 "
               "bytes (max_body_size)\n"
               "BODY_END 0 seen=5\n"
               "not idle\n");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_example),
        cmocka_unit_test(test_no_body),
        cmocka_unit_test(test_end_without_bytes),
        cmocka_unit_test(test_direct),
        cmocka_unit_test(test_surplus),
        cmocka_unit_test(test_incomplete),
        cmocka_unit_test(test_netstring_bad),
        cmocka_unit_test(test_headers_bad),
        cmocka_unit_test(test_duplicates),
        cmocka_unit_test(test_limits_of_params),
        cmocka_unit_test(test_big_block),
        cmocka_unit_test(test_body_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
