/* SPDX-License-Identifier: MIT
 *
 * protocol/fcgi.c: FCGI_PARAMS, a stream of pairs that records cut anywhere,
 * and its limits. Every case at once, byte by byte and cut at each offset.
 */
#include "protocol_check.h"

/* PARAMS is one stream: any cut into records gives the same pairs (libfcgi's
 * cgi-fcgi cuts inside a length). */
static void
test_params_straddle(void **state)
{
    struct setup s = setup_of(DECODER_FCGI);
    struct buf params, in;
    char name[300], value[200];
    size_t step;

    (void)state;
    memset(name, 'N', sizeof(name));
    memset(value, 'v', sizeof(value));
    buf_init(&params, SIZE_MAX);
    put_pair_n(&params, name, 127, value, 127);
    put_pair_n(&params, name, 128, value, 128);
    put_pair(&params, "", "");
    put_pair_n(&params, name, 300, "", 0);
    put_pair_n(&params, "", 0, value, 200);
    put_pair(&params, "CONTENT_LENGTH", "3");
    for (step = 1; step <= params.len; step += step < 12 ? 1 : 97) {
        char *text;

        buf_init(&in, SIZE_MAX);
        put_begin(&in, 1, FCGI_RESPONDER, 0);
        put_stream(&in, FCGI_PARAMS, 1, params.data, params.len, step, 3);
        text = transcript_of(&s, in.data, in.len);
        assert_non_null(strstr(text, "length=3\n"));
        assert_non_null(strstr(text, "\n  =\n"));
        assert_non_null(strstr(text, "\n  <127 bytes "));
        assert_non_null(strstr(text, "\n  <300 bytes "));
        assert_non_null(strstr(text, "\n  CONTENT_LENGTH=3\nnot idle\n"));
        check(&s, &in, text);
        free(text);
    }
    buf_release(&params);
}

/* Values of 127 to 200000 bytes, byte for byte. */
static void
test_long_values(void **state)
{
    static const size_t sizes[] = { 127, 128, 65535, 65536, 200000 };
    struct setup s = setup_of(DECODER_FCGI);
    char *value = malloc(200000);
    size_t i, k;

    (void)state;
    assert_non_null(value);
    for (k = 0; k < 200000; k++) {
        value[k] = (char)(k * 31 + k / 256);
    }
    for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct buf params, in, expected;

        buf_init(&params, SIZE_MAX);
        buf_init(&in, SIZE_MAX);
        buf_init(&expected, SIZE_MAX);
        put_pair_n(&params, "HTTP_COOKIE", 11, value, sizes[i]);
        put_pair(&params, "LAST", "1");
        put_begin(&in, 7, FCGI_RESPONDER, 0);
        put_stream(&in, FCGI_PARAMS, 7, params.data, params.len, 65535, 0);
        put_text(&expected, "HEAD 7 role=1 keep=0 length=-1\n"
                            "  HTTP_COOKIE=");
        put_bytes(&expected, value, sizes[i]);
        put_text(&expected, "\n  LAST=1\nnot idle\n");
        check_bytes(&s, in.data, in.len, expected.data);
        buf_release(&params);
        buf_release(&in);
        buf_release(&expected);
    }
    free(value);
}

/* Names and values of any byte, NUL among them. */
static void
test_any_bytes(void **state)
{
    struct setup s = setup_of(DECODER_FCGI);
    struct buf params, in;

    (void)state;
    buf_init(&params, SIZE_MAX);
    buf_init(&in, SIZE_MAX);
    put_pair_n(&params, "A\0B", 3, "\0\xff\r\n", 4);
    put_begin(&in, 1, FCGI_RESPONDER, 0);
    put_stream(&in, FCGI_PARAMS, 1, params.data, params.len, 65535, 0);
    check(&s, &in,
          "HEAD 1 role=1 keep=0 length=-1\n"
          "  A\\x00B=\\x00\\xff\\x0d\\x0a\n"
          "not idle\n");
    buf_release(&params);
}

static void
test_params_malformed(void **state)
{
    /* Streams that end inside a pair, each with the bytes left over. */
    static const struct {
        const char *bytes;
        size_t len;
        unsigned whole;
        unsigned left;
    } cases[] = {
        { "\1", 1, 0, 1 },              /* no value length */
        { "\1\1A", 3, 0, 3 },           /* no value */
        { "\1\1A1\5\5AB", 8, 1, 4 },    /* cut in the name of the second */
        { "\x80", 1, 0, 1 },            /* cut in a four-byte length */
        { "\x80\0\0", 3, 0, 3 },        /* the same */
        { "\1\x80\0\0", 4, 0, 4 },      /* the same, of a value */
        { "\x80\0\0\3\3ABCD", 9, 0, 9 } /* cut in the value */
    };
    struct setup s = setup_of(DECODER_FCGI);
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct buf in;
        char expected[300];

        buf_init(&in, SIZE_MAX);
        put_begin(&in, 1, FCGI_RESPONDER, 0);
        put_stream(&in, FCGI_PARAMS, 1, cases[i].bytes, cases[i].len, 65535, 0);
        snprintf(expected, sizeof(expected),
                 "BAD malformed parameter block: the stream of FCGI_PARAMS "
                 "ends inside a name-value pair (after %u whole pairs, %u "
                 "bytes are left over)\n",
                 cases[i].whole, cases[i].left);
        check(&s, &in, expected);
    }
}

/* Lengths that overflow when they are added, or are merely huge: refused by
 * comparison, nothing is allocated, and the connection lives on. */
static void
test_params_huge_lengths(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
        const char *size;
        const char *name;
    } cases[] = {
        { "\xff\xff\xff\xff\xff\xff\xff\xff", 8, "4294967294", "" },
        { "\xff\xff\xff\xff\0", 5, "2147483647", "" },
        { "\4\xff\xff\xff\xffHOST", 9, "2147483651", "HOST" },
        { "\4\x80\x0f\xff\xfdHOST", 9, "1048577", "HOST" },
    };
    char pad[200];
    struct setup s = setup_of(DECODER_FCGI);
    size_t i;

    (void)state;
    memset(pad, 'n', sizeof(pad));
    s.end_when = END_AT_BODY_END;
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct buf params, in;
        char expected[400];
        const char *name = cases[i].name;

        buf_init(&params, SIZE_MAX);
        buf_init(&in, SIZE_MAX);
        put_pair(&params, "A", "1");
        put_raw(&params, cases[i].bytes, cases[i].len);
        put_raw(&params, pad, sizeof(pad));
        put_begin(&in, 1, FCGI_RESPONDER, 0);
        put_stream(&in, FCGI_PARAMS, 1, params.data, params.len, 65535, 0);
        put_stream(&in, FCGI_STDIN, 1, "body", 4, 65535, 0);
        if (name[0] == '\0') {
            name = "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn";
        }
        snprintf(expected, sizeof(expected),
                 "HEAD 1 role=1 keep=0 length=-1\n"
                 "  A=1\n"
                 "  refused 431: parameters over 1048576 bytes "
                 "(max_params_size): %s of %s bytes comes after 2 bytes of "
                 "others\n"
                 "BODY_END 1 seen=4\n"
                 "idle\n",
                 name, cases[i].size);
        /* Escaping cuts refuse_why at 159 characters. */
        if (strstr(expected, "nnn") != NULL) {
            char *text = transcript_of(&s, in.data, in.len);

            assert_non_null(strstr(text, cases[i].size));
            assert_non_null(strstr(text, "refused 431"));
            assert_non_null(strstr(text, "BODY_END 1 seen=4\nidle\n"));
            check(&s, &in, text);
            free(text);
        } else {
            check(&s, &in, expected);
        }
        buf_release(&params);
    }
}

static void
test_params_limits(void **state)
{
    struct setup s = setup_of(DECODER_FCGI);
    struct buf in;

    (void)state;
    s.end_when = END_AT_BODY_END;
    s.limits.params_count = 2;
    buf_init(&in, SIZE_MAX);
    put_head(&in, 1, FCGI_KEEP_CONN, "REQUEST_METHOD=GET", "B=2", "C=3", "D=4",
             NULL);
    put_record(&in, FCGI_STDIN, 1, "", 0, 0);
    put_head(&in, 1, 0, "A=1", "B=2", NULL);
    put_record(&in, FCGI_STDIN, 1, "", 0, 0);
    check(&s, &in,
          "HEAD 1 role=1 keep=1 length=-1\n"
          "  REQUEST_METHOD=GET\n"
          "  B=2\n"
          "  refused 431: more than 2 parameters (max_params); the first one "
          "too many is C\n"
          "BODY_END 1 seen=0\n"
          "HEAD 1 role=1 keep=0 length=-1\n"
          "  A=1\n"
          "  B=2\n"
          "BODY_END 1 seen=0\n"
          "idle\n");

    /* Exactly the limit of bytes, and one more. */
    s.limits.params_count = 1000;
    s.limits.params_bytes = 10;
    buf_init(&in, SIZE_MAX);
    put_head(&in, 1, 0, "AAAA=11111", "B=", NULL);
    put_record(&in, FCGI_STDIN, 1, "", 0, 0);
    check(&s, &in,
          "HEAD 1 role=1 keep=0 length=-1\n"
          "  AAAA=11111\n"
          "  B=\n"
          "BODY_END 1 seen=0\n"
          "idle\n");
    buf_init(&in, SIZE_MAX);
    put_head(&in, 1, 0, "AAAA=11111", "B=2", NULL);
    put_record(&in, FCGI_STDIN, 1, "", 0, 0);
    check(&s, &in,
          "HEAD 1 role=1 keep=0 length=-1\n"
          "  AAAA=11111\n"
          "  refused 431: parameters over 10 bytes (max_params_size): B of 2 "
          "bytes comes after 9 bytes of others\n"
          "BODY_END 1 seen=0\n"
          "idle\n");
}

/* Far more PARAMS than the limit: skipped by framing, memory stays flat. */
static void
test_params_flood(void **state)
{
    struct request_limits l = test_limits;
    struct run run;
    char block[60000];
    struct buf record;
    unsigned i;

    (void)state;
    memset(block, 0, sizeof(block)); /* pairs of empty name and value */
    buf_init(&record, SIZE_MAX);
    run_init(&run, DECODER_FCGI, &l, 100000);
    put_begin(&record, 1, FCGI_RESPONDER, 0);
    run_feed(&run, record.data, record.len);
    buf_clear(&record);
    put_record(&record, FCGI_PARAMS, 1, block, sizeof(block), 0);
    for (i = 0; i < 1000; i++) {
        run_feed(&run, record.data, record.len);
    }
    assert_int_equal(run.d.first.refuse_status, 431);
    assert_true(run.d.first.params.cap < 200000);
    assert_true(run.d.first.param_cap <= 2048);
    buf_clear(&record);
    put_record(&record, FCGI_PARAMS, 1, "", 0, 0);
    run_feed(&run, record.data, record.len);
    assert_non_null(strstr(run_finish(&run), "refused 431"));
    run_release(&run);
    buf_release(&record);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_params_straddle),
        cmocka_unit_test(test_long_values),
        cmocka_unit_test(test_any_bytes),
        cmocka_unit_test(test_params_malformed),
        cmocka_unit_test(test_params_huge_lengths),
        cmocka_unit_test(test_params_limits),
        cmocka_unit_test(test_params_flood),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
