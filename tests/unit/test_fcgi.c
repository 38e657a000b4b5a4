/* SPDX-License-Identifier: MIT
 *
 * protocol/fcgi.c and protocol/decoder.c: every case at once, byte by byte and
 * cut at each offset. The numbers come from libfcgi's <fastcgi.h>.
 */
#include "protocol_check.h"

static void
test_simple(void **state)
{
    struct setup s = setup_of(DECODER_AUTO);
    struct buf in;

    (void)state;
    buf_init(&in, SIZE_MAX);
    put_head(&in, 1, 0, "REQUEST_METHOD=GET", "REQUEST_URI=/", "EMPTY=", NULL);
    put_record(&in, FCGI_STDIN, 1, "", 0, 0);
    s.end_when = END_AT_BODY_END;
    check(&s, &in,
          "HEAD 1 role=1 keep=0 length=-1\n"
          "  REQUEST_METHOD=GET\n"
          "  REQUEST_URI=/\n"
          "  EMPTY=\n"
          "BODY_END 1 seen=0\n"
          "idle\n");
}

static void
test_no_params(void **state)
{
    struct setup s = setup_of(DECODER_FCGI);
    struct buf in;

    (void)state;
    buf_init(&in, SIZE_MAX);
    put_head(&in, 1, FCGI_KEEP_CONN, NULL);
    check(&s, &in,
          "HEAD 1 role=1 keep=1 length=-1\n"
          "not idle\n");
}

/* Request ids are echoed; any but 0 is one. */
static void
test_ids(void **state)
{
    static const unsigned ids[] = { 1, 2, 255, 256, 65535 };
    struct setup s = setup_of(DECODER_FCGI);
    size_t i;

    (void)state;
    s.end_when = END_AT_BODY_END;
    for (i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        struct buf in;
        char expected[200];

        buf_init(&in, SIZE_MAX);
        put_head(&in, ids[i], 0, "A=1", NULL);
        put_stream(&in, FCGI_STDIN, ids[i], "xyz", 3, 2, 1);
        snprintf(expected, sizeof(expected),
                 "HEAD %u role=1 keep=0 length=-1\n"
                 "  A=1\n"
                 "BODY %u xyz\n"
                 "BODY_END %u seen=3\n"
                 "idle\n",
                 ids[i], ids[i], ids[i]);
        check(&s, &in, expected);
    }
}

/* Padding of every length, in every kind of record. */
static void
test_padding(void **state)
{
    struct setup s = setup_of(DECODER_FCGI);
    unsigned padding;

    (void)state;
    s.end_when = END_AT_BODY_END;
    for (padding = 0; padding < 256; padding += padding < 9 ? 1 : 41) {
        static const char begin[8] = { 0, FCGI_RESPONDER, 0 };
        struct buf in;

        buf_init(&in, SIZE_MAX);
        put_record(&in, FCGI_BEGIN_REQUEST, 1, begin, 8, padding);
        put_record(&in, FCGI_PARAMS, 1, "\1\1A1", 4, padding);
        put_record(&in, FCGI_PARAMS, 1, "", 0, padding);
        put_record(&in, FCGI_STDIN, 1, "body", 4, padding);
        put_record(&in, 99, 1, "unknown", 7, padding);
        put_record(&in, FCGI_STDIN, 1, "", 0, padding);
        check(&s, &in,
              "HEAD 1 role=1 keep=0 length=-1\n"
              "  A=1\n"
              "BODY 1 body\n"
              "BODY_END 1 seen=4\n"
              "idle\n");
    }
}

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

static void
test_begin_bad(void **state)
{
    static const char body[16] = { 0, FCGI_RESPONDER, 0 };
    struct setup s = setup_of(DECODER_FCGI);
    struct buf in;

    (void)state;
    buf_init(&in, SIZE_MAX);
    put_record(&in, FCGI_BEGIN_REQUEST, 0, body, 8, 0);
    check(&s, &in, "BAD FCGI_BEGIN_REQUEST for request id 0\n");
    buf_init(&in, SIZE_MAX);
    put_record(&in, FCGI_BEGIN_REQUEST, 1, body, 7, 1);
    check(&s, &in, "BAD FCGI_BEGIN_REQUEST of 7 bytes where 8 are expected\n");
    buf_init(&in, SIZE_MAX);
    put_record(&in, FCGI_BEGIN_REQUEST, 1, body, 16, 0);
    check(&s, &in, "BAD FCGI_BEGIN_REQUEST of 16 bytes where 8 are expected\n");
    buf_init(&in, SIZE_MAX);
    put_record(&in, FCGI_BEGIN_REQUEST, 1, body, 0, 0);
    check(&s, &in, "BAD FCGI_BEGIN_REQUEST of 0 bytes where 8 are expected\n");
    /* Twice while it is active. */
    buf_init(&in, SIZE_MAX);
    put_begin(&in, 3, FCGI_RESPONDER, 0);
    put_begin(&in, 3, FCGI_RESPONDER, 0);
    check(&s, &in,
          "BAD FCGI_BEGIN_REQUEST for request id 3, which is still active\n");
    /* A wrong version in the second record. */
    buf_init(&in, SIZE_MAX);
    put_begin(&in, 1, FCGI_RESPONDER, 0);
    put_record(&in, FCGI_PARAMS, 1, "", 0, 0);
    in.data[16] = 2;
    check(&s, &in,
          "BAD not a FastCGI record: version 2 where 1 is expected (type 4, "
          "request id 1)\n");
}

static void
test_stream_order(void **state)
{
    struct setup s = setup_of(DECODER_FCGI);
    struct buf in;

    (void)state;
    buf_init(&in, SIZE_MAX);
    put_begin(&in, 1, FCGI_RESPONDER, 0);
    put_record(&in, FCGI_STDIN, 1, "x", 1, 0);
    check(&s, &in,
          "BAD FCGI_STDIN for request id 1 before the end of its "
          "parameters\n");
    buf_init(&in, SIZE_MAX);
    put_head(&in, 1, 0, NULL);
    put_record(&in, FCGI_PARAMS, 1, "x", 1, 0);
    check(&s, &in,
          "HEAD 1 role=1 keep=0 length=-1\n"
          "BAD FCGI_PARAMS for request id 1 after the end of its "
          "parameters\n");
    /* STDIN behind its end means nothing. */
    buf_init(&in, SIZE_MAX);
    put_head(&in, 1, 0, NULL);
    put_stream(&in, FCGI_STDIN, 1, "ab", 2, 1, 0);
    put_stream(&in, FCGI_STDIN, 1, "cd", 2, 1, 0);
    check(&s, &in,
          "HEAD 1 role=1 keep=0 length=-1\n"
          "BODY 1 ab\n"
          "BODY_END 1 seen=2\n"
          "not idle\n");
}

/* Section 3.3: records for ids that are not active are ignored, and so are
 * types that only an application sends. */
static void
test_ignored_records(void **state)
{
    struct setup s = setup_of(DECODER_FCGI);
    struct buf in;

    (void)state;
    s.end_when = END_AT_BODY_END;
    buf_init(&in, SIZE_MAX);
    put_record(&in, FCGI_STDIN, 5, "stray", 5, 3);
    put_record(&in, FCGI_PARAMS, 5, "stray", 5, 0);
    put_record(&in, FCGI_PARAMS, 5, "", 0, 0);
    put_record(&in, FCGI_ABORT_REQUEST, 5, "", 0, 0);
    put_record(&in, FCGI_DATA, 5, "", 0, 0);
    put_head(&in, 1, 0, "A=1", NULL);
    put_record(&in, FCGI_STDOUT, 1, "out", 3, 0);
    put_record(&in, FCGI_STDERR, 1, "err", 3, 0);
    put_record(&in, FCGI_END_REQUEST, 1, "12345678", 8, 0);
    put_record(&in, FCGI_GET_VALUES, 1, "x", 1, 0);
    put_record(&in, 0, 1, "", 0, 0);
    put_record(&in, 200, 9, "", 0, 9);
    put_record(&in, FCGI_DATA, 1, "not a filter", 12, 0);
    put_record(&in, FCGI_DATA, 1, "", 0, 0);
    put_record(&in, FCGI_STDIN, 5, "stray", 5, 3);
    put_record(&in, FCGI_STDIN, 1, "", 0, 0);
    check(&s, &in,
          "HEAD 1 role=1 keep=0 length=-1\n"
          "  A=1\n"
          "BODY_END 1 seen=0\n"
          "idle\n");
}

static void
test_unknown_role(void **state)
{
    struct setup s = setup_of(DECODER_FCGI);
    struct buf in;

    (void)state;
    s.end_when = END_AT_BODY_END;
    buf_init(&in, SIZE_MAX);
    put_begin(&in, 258, 4, FCGI_KEEP_CONN);
    put_stream(&in, FCGI_PARAMS, 258, "\1\1A1", 4, 65535, 0);
    put_record(&in, FCGI_STDIN, 258, "", 0, 0);
    put_begin(&in, 2, 0x0101, 0);
    put_begin(&in, 2, 0, 0);
    put_head(&in, 3, 0, NULL);
    put_record(&in, FCGI_STDIN, 3, "", 0, 0);
    check(&s, &in,
          "REPLY \\x01\\x03\\x01\\x02\\x00\\x08\\x00\\x00"
          "\\x00\\x00\\x00\\x00\\x03\\x00\\x00\\x00\n"
          "REPLY \\x01\\x03\\x00\\x02\\x00\\x08\\x00\\x00"
          "\\x00\\x00\\x00\\x00\\x03\\x00\\x00\\x00 closes\n"
          "REPLY \\x01\\x03\\x00\\x02\\x00\\x08\\x00\\x00"
          "\\x00\\x00\\x00\\x00\\x03\\x00\\x00\\x00 closes\n"
          "HEAD 3 role=1 keep=0 length=-1\n"
          "BODY_END 3 seen=0\n"
          "idle\n");
}

static void
test_cant_mpx(void **state)
{
    struct setup s = setup_of(DECODER_FCGI);
    struct buf in;

    (void)state;
    s.end_when = END_AT_BODY_END;
    buf_init(&in, SIZE_MAX);
    put_head(&in, 1, FCGI_KEEP_CONN, "A=1", NULL);
    put_head(&in, 2, FCGI_KEEP_CONN, "A=2", NULL);
    put_record(&in, FCGI_STDIN, 2, "two", 3, 0);
    put_stream(&in, FCGI_STDIN, 1, "one", 3, 65535, 0);
    put_record(&in, FCGI_STDIN, 2, "", 0, 0);
    put_head(&in, 2, FCGI_KEEP_CONN, "A=3", NULL);
    put_record(&in, FCGI_STDIN, 2, "", 0, 0);
    check(&s, &in,
          "HEAD 1 role=1 keep=1 length=-1\n"
          "  A=1\n"
          "REPLY \\x01\\x03\\x00\\x02\\x00\\x08\\x00\\x00"
          "\\x00\\x00\\x00\\x00\\x01\\x00\\x00\\x00\n"
          "BODY 1 one\n"
          "BODY_END 1 seen=3\n"
          "HEAD 2 role=1 keep=1 length=-1\n"
          "  A=3\n"
          "BODY_END 2 seen=0\n"
          "idle\n");
}

/* Fresh ids for ever: refused 64 times, then the connection is given up. */
static void
test_begin_flood(void **state)
{
    struct setup s = setup_of(DECODER_FCGI);
    struct buf in;
    unsigned i, replies = 0;
    char *text, *p;

    (void)state;
    buf_init(&in, SIZE_MAX);
    for (i = 1; i <= 1000; i++) {
        put_begin(&in, i, FCGI_RESPONDER, FCGI_KEEP_CONN);
    }
    text = transcript_of(&s, in.data, in.len);
    for (p = text; (p = strstr(p, "REPLY")) != NULL; p++) {
        replies++;
    }
    assert_int_equal(replies, 64);
    assert_non_null(strstr(text, "BAD 64 requests on one connection were "
                                 "refused with FCGI_CANT_MPX_CONN, and the "
                                 "peer goes on beginning more (limit of "
                                 "concurrent ones: 1)\n"));
    check(&s, &in, text);
    free(text);
}

static void
test_multiplexed(void **state)
{
    struct setup s = setup_of(DECODER_FCGI);
    struct buf in;

    (void)state;
    s.limits.mpx = 2;
    s.end_when = END_AT_BODY_END;
    buf_init(&in, SIZE_MAX);
    put_begin(&in, 1, FCGI_RESPONDER, FCGI_KEEP_CONN);
    put_begin(&in, 2, FCGI_RESPONDER, FCGI_KEEP_CONN);
    put_begin(&in, 3, FCGI_RESPONDER, FCGI_KEEP_CONN); /* one too many */
    put_record(&in, FCGI_PARAMS, 2, "\1\1", 2, 0);
    put_record(&in, FCGI_PARAMS, 1, "\1\1A", 3, 0);
    put_record(&in, FCGI_PARAMS, 2, "B2", 2, 0);
    put_record(&in, FCGI_PARAMS, 1, "1", 1, 0);
    put_record(&in, FCGI_PARAMS, 2, "", 0, 0);
    put_record(&in, FCGI_STDIN, 2, "two", 3, 0);
    put_record(&in, FCGI_PARAMS, 1, "", 0, 0);
    put_record(&in, FCGI_STDIN, 1, "o", 1, 5);
    put_record(&in, FCGI_STDIN, 2, "", 0, 0);
    put_head(&in, 4, FCGI_KEEP_CONN, "C=3", NULL);
    put_record(&in, FCGI_STDIN, 1, "ne", 2, 0);
    put_record(&in, FCGI_ABORT_REQUEST, 4, "", 0, 0);
    put_record(&in, FCGI_STDIN, 1, "", 0, 0);
    check(&s, &in,
          "REPLY \\x01\\x03\\x00\\x03\\x00\\x08\\x00\\x00"
          "\\x00\\x00\\x00\\x00\\x01\\x00\\x00\\x00\n"
          "HEAD 2 role=1 keep=1 length=-1\n"
          "  B=2\n"
          "BODY 2 two\n"
          "HEAD 1 role=1 keep=1 length=-1\n"
          "  A=1\n"
          "BODY 1 o\n"
          "BODY_END 2 seen=3\n"
          "HEAD 4 role=1 keep=1 length=-1\n"
          "  C=3\n"
          "BODY 1 ne\n"
          "ABORT 4\n"
          "BODY_END 1 seen=3\n"
          "not idle\n");
}

/* The next request under an id whose last one is whole but not answered waits
 * for that; before its body has ended it is an error. Nothing begins beside a
 * request that closes the connection. */
static void
test_multiplexed_same_id(void **state)
{
    struct setup s = setup_of(DECODER_FCGI);
    struct buf in;

    (void)state;
    s.limits.mpx = 3;
    buf_init(&in, SIZE_MAX);
    put_head(&in, 1, FCGI_KEEP_CONN, "A=1", NULL);
    put_record(&in, FCGI_STDIN, 1, "", 0, 0);
    put_head(&in, 1, FCGI_KEEP_CONN, "A=2", NULL);
    put_begin(&in, 1, FCGI_RESPONDER, FCGI_KEEP_CONN);
    check(&s, &in,
          "HEAD 1 role=1 keep=1 length=-1\n"
          "  A=1\n"
          "BODY_END 1 seen=0\n"
          "BUSY 1\n"
          "HEAD 1 role=1 keep=1 length=-1\n"
          "  A=2\n"
          "BAD FCGI_BEGIN_REQUEST for request id 1, which is still active\n");
    buf_init(&in, SIZE_MAX);
    put_head(&in, 1, FCGI_KEEP_CONN, "A=1", NULL);
    put_head(&in, 2, 0, "A=2", NULL);
    put_begin(&in, 3, FCGI_RESPONDER, FCGI_KEEP_CONN);
    check(&s, &in,
          "HEAD 1 role=1 keep=1 length=-1\n"
          "  A=1\n"
          "HEAD 2 role=1 keep=0 length=-1\n"
          "  A=2\n"
          "REPLY \\x01\\x03\\x00\\x03\\x00\\x08\\x00\\x00"
          "\\x00\\x00\\x00\\x00\\x01\\x00\\x00\\x00\n"
          "not idle\n");
}

/* What stands behind the head of a request. */
static void
test_next(void **state)
{
    struct request_limits limits = setup_of(DECODER_FCGI).limits;
    struct decoder d;
    struct buf in;
    size_t used, end;
    struct request *r;

    (void)state;
    decoder_init(&d, DECODER_FCGI, &limits);
    buf_init(&in, SIZE_MAX);
    put_head(&in, 1, FCGI_KEEP_CONN, "A=1", NULL);
    assert_int_equal(decoder_feed(&d, in.data, in.len, &used), DECODE_HEAD);
    assert_int_equal(used, in.len);
    r = d.req;
    buf_clear(&in);
    put_record(&in, FCGI_STDIN, 1, "body", 4, 4);
    put_record(&in, FCGI_STDIN, 1, "", 0, 0);
    end = in.len;
    put_begin(&in, 2, FCGI_RESPONDER, FCGI_KEEP_CONN);
    for (size_t n = 0; n <= in.len; n++) {
        enum decoder_next want = n < end    ? DECODER_PART
                                 : n == end ? DECODER_WHOLE
                                            : DECODER_OTHERS;

        assert_int_equal(decoder_next(&d, r, in.data, n), want);
    }
    assert_int_equal(decoder_feed(&d, in.data, 10, &used), DECODE_BODY);
    assert_int_equal(decoder_record_left(&d), 2 + 4);
    assert_int_equal(decoder_next(&d, r, in.data + 10, end - 10),
                     DECODER_WHOLE);
    assert_int_equal(decoder_feed(&d, in.data + 10, end - 10, &used),
                     DECODE_BODY);
    assert_int_equal(
        decoder_feed(&d, in.data + 10 + used, end - 10 - used, &used),
        DECODE_BODY_END);
    assert_int_equal(decoder_record_left(&d), 0);
    assert_int_equal(decoder_next(&d, r, "", 0), DECODER_WHOLE);
    assert_int_equal(decoder_next(&d, r, "x", 1), DECODER_OTHERS);
    decoder_release(&d);
    buf_release(&in);
}

/* All 64 at once, and not one more. */
static void
test_multiplexed_many(void **state)
{
    struct setup s = setup_of(DECODER_FCGI);
    struct buf in, expected;
    unsigned i;

    (void)state;
    s.limits.mpx = 1000; /* cut to DECODER_MAX_MPX */
    s.end_when = END_AT_BODY_END;
    buf_init(&in, SIZE_MAX);
    buf_init(&expected, SIZE_MAX);
    for (i = 1; i <= DECODER_MAX_MPX; i++) {
        put_begin(&in, i, FCGI_RESPONDER, FCGI_KEEP_CONN);
    }
    put_begin(&in, i, FCGI_RESPONDER, FCGI_KEEP_CONN);
    put_text(&expected, "REPLY \\x01\\x03\\x00A\\x00\\x08\\x00\\x00"
                        "\\x00\\x00\\x00\\x00\\x01\\x00\\x00\\x00\n");
    for (i = DECODER_MAX_MPX; i >= 1; i--) {
        put_record(&in, FCGI_PARAMS, i, "", 0, 0);
        put_record(&in, FCGI_STDIN, i, "", 0, 0);
        put_text(&expected,
                 "HEAD %u role=1 keep=1 length=-1\nBODY_END %u seen=0\n", i, i);
    }
    put_text(&expected, "idle\n");
    check(&s, &in, expected.data);
    buf_release(&expected);
}

/* mod_proxy_fcgi begins the next request with the same id although the STDIN of
 * the last, answered one was never finished; what is left of it is skipped. */
static void
test_reuse_unfinished(void **state)
{
    struct setup s = setup_of(DECODER_FCGI);
    struct buf in;

    (void)state;
    s.end_when = END_AT_HEAD;
    buf_init(&in, SIZE_MAX);
    put_head(&in, 1, FCGI_KEEP_CONN, "CONTENT_LENGTH=9", NULL);
    put_record(&in, FCGI_STDIN, 1, "unread", 6, 2);
    put_head(&in, 1, FCGI_KEEP_CONN, "A=2", NULL);
    put_stream(&in, FCGI_STDIN, 1, "unread", 6, 65535, 0);
    put_record(&in, FCGI_ABORT_REQUEST, 1, "", 0, 0);
    check(&s, &in,
          "HEAD 1 role=1 keep=1 length=9\n"
          "  CONTENT_LENGTH=9\n"
          "HEAD 1 role=1 keep=1 length=-1\n"
          "  A=2\n"
          "idle\n");
}

static void
test_abort(void **state)
{
    struct setup s = setup_of(DECODER_FCGI);
    struct buf in;

    (void)state;
    buf_init(&in, SIZE_MAX);
    put_begin(&in, 1, FCGI_RESPONDER, 0);
    put_record(&in, FCGI_ABORT_REQUEST, 1, "junk", 4, 4);
    put_record(&in, FCGI_ABORT_REQUEST, 1, "", 0, 0);
    put_record(&in, FCGI_PARAMS, 1, "", 0, 0);
    check(&s, &in,
          "ABORT 1 before its head\n"
          "HEAD 1 role=1 keep=0 length=-1 aborted\n"
          "not idle\n");
    buf_init(&in, SIZE_MAX);
    put_head(&in, 1, 0, "CONTENT_LENGTH=9", NULL);
    put_record(&in, FCGI_STDIN, 1, "part", 4, 0);
    put_record(&in, FCGI_ABORT_REQUEST, 1, "", 0, 0);
    check(&s, &in,
          "HEAD 1 role=1 keep=0 length=9\n"
          "  CONTENT_LENGTH=9\n"
          "BODY 1 part\n"
          "ABORT 1\n"
          "not idle\n");
}

static void
test_body(void **state)
{
    struct setup s = setup_of(DECODER_FCGI);
    struct buf in, expected;
    char *body = malloc(100000);
    size_t i;

    (void)state;
    assert_non_null(body);
    for (i = 0; i < 100000; i++) {
        body[i] = (char)(i * 17 + i / 128);
    }
    /* STDIN past CONTENT_LENGTH (cgi-fcgi): not given out, but counted. */
    buf_init(&in, SIZE_MAX);
    put_head(&in, 1, 0, "CONTENT_LENGTH=7", NULL);
    put_stream(&in, FCGI_STDIN, 1, "a=1&b=2+5\r\n", 11, 4, 3);
    check(&s, &in,
          "HEAD 1 role=1 keep=0 length=7\n"
          "  CONTENT_LENGTH=7\n"
          "BODY 1 a=1&b=2\n"
          "BODY_END 1 seen=11\n"
          "not idle\n");
    /* CONTENT_LENGTH 0 implies nothing: the end is the empty record. */
    buf_init(&in, SIZE_MAX);
    put_head(&in, 1, 0, "CONTENT_LENGTH=0", NULL);
    check(&s, &in,
          "HEAD 1 role=1 keep=0 length=0\n"
          "  CONTENT_LENGTH=0\n"
          "not idle\n");
    /* Without a length (Caddy: -1) everything is the body. */
    buf_init(&in, SIZE_MAX);
    buf_init(&expected, SIZE_MAX);
    put_head(&in, 1, 0, "CONTENT_LENGTH=-1", NULL);
    put_stream(&in, FCGI_STDIN, 1, body, 100000, 65500, 4);
    put_text(&expected, "HEAD 1 role=1 keep=0 length=-1\n"
                        "  CONTENT_LENGTH=-1\n"
                        "BODY 1 ");
    put_bytes(&expected, body, 100000);
    put_text(&expected, "\nBODY_END 1 seen=100000\nnot idle\n");
    check(&s, &in, expected.data);
    buf_release(&expected);
    free(body);
}

static void
test_body_limit(void **state)
{
    struct setup s = setup_of(DECODER_FCGI);
    struct buf in;

    (void)state;
    s.limits.body_bytes = 10;
    s.end_when = END_AT_BODY_END;
    /* Told by CONTENT_LENGTH. */
    buf_init(&in, SIZE_MAX);
    put_head(&in, 1, FCGI_KEEP_CONN, "CONTENT_LENGTH=11", NULL);
    put_stream(&in, FCGI_STDIN, 1, "01234567890", 11, 4, 0);
    put_head(&in, 1, FCGI_KEEP_CONN, "CONTENT_LENGTH=10", NULL);
    put_stream(&in, FCGI_STDIN, 1, "0123456789", 10, 4, 0);
    /* Seen only when it comes. */
    put_head(&in, 1, FCGI_KEEP_CONN, "CONTENT_LENGTH=", NULL);
    put_stream(&in, FCGI_STDIN, 1, "01234567890123456789", 20, 8, 0);
    put_head(&in, 1, FCGI_KEEP_CONN, "CONTENT_LENGTH=", NULL);
    put_stream(&in, FCGI_STDIN, 1, "01234567890123456789", 20, 10, 0);
    put_head(&in, 1, FCGI_KEEP_CONN, "CONTENT_LENGTH=", NULL);
    put_stream(&in, FCGI_STDIN, 1, "0123456789", 10, 10, 0);
    check(&s, &in,
          "HEAD 1 role=1 keep=1 length=11\n"
          "  CONTENT_LENGTH=11\n"
          "  refused 413: a body of 11 bytes (CONTENT_LENGTH) is over 10 bytes "
          "(max_body_size)\n"
          "BODY_END 1 seen=11\n"
          "HEAD 1 role=1 keep=1 length=10\n"
          "  CONTENT_LENGTH=10\n"
          "BODY 1 0123456789\n"
          "BODY_END 1 seen=10\n"
          "HEAD 1 role=1 keep=1 length=-1\n"
          "  CONTENT_LENGTH=\n"
          "BODY 1 0123456789\n"
          "  refused 413: a body without CONTENT_LENGTH is over 10 bytes "
          "(max_body_size)\n"
          "BODY_END 1 seen=20\n"
          "HEAD 1 role=1 keep=1 length=-1\n"
          "  CONTENT_LENGTH=\n"
          "BODY 1 0123456789\n"
          "  refused 413: a body without CONTENT_LENGTH is over 10 bytes "
          "(max_body_size)\n"
          "BODY_END 1 seen=20\n"
          "HEAD 1 role=1 keep=1 length=-1\n"
          "  CONTENT_LENGTH=\n"
          "BODY 1 0123456789\n"
          "BODY_END 1 seen=10\n"
          "idle\n");
}

/* An authorizer gets no body, and nobody waits for one: some front ends send an
 * empty STDIN, some nothing at all. */
static void
test_authorizer(void **state)
{
    struct setup s = setup_of(DECODER_FCGI);
    struct buf in;

    (void)state;
    buf_init(&in, SIZE_MAX);
    put_begin(&in, 1, FCGI_AUTHORIZER, 0);
    put_stream(&in, FCGI_PARAMS, 1, "\1\1A1", 4, 65535, 0);
    put_stream(&in, FCGI_STDIN, 1, "x", 1, 65535, 0);
    check(&s, &in,
          "HEAD 1 role=2 keep=0 length=-1 body_done\n"
          "  A=1\n"
          "not idle\n");
}

static void
test_filter(void **state)
{
    struct setup s = setup_of(DECODER_FCGI);
    struct buf in;

    (void)state;
    buf_init(&in, SIZE_MAX);
    put_begin(&in, 1, FCGI_FILTER, 0);
    put_stream(&in, FCGI_PARAMS, 1, "", 0, 65535, 0);
    put_stream(&in, FCGI_STDIN, 1, "body", 4, 3, 1);
    put_stream(&in, FCGI_DATA, 1, "file data", 9, 4, 2);
    put_stream(&in, FCGI_DATA, 1, "behind its end", 14, 4, 2);
    check(&s, &in,
          "HEAD 1 role=3 keep=0 length=-1\n"
          "BODY 1 body\n"
          "BODY_END 1 seen=4\n"
          "DATA 1 file data\n"
          "DATA_END 1\n"
          "not idle\n");
    buf_init(&in, SIZE_MAX);
    put_begin(&in, 1, FCGI_FILTER, 0);
    put_record(&in, FCGI_DATA, 1, "x", 1, 0);
    check(&s, &in,
          "BAD FCGI_DATA for request id 1 before the end of its "
          "parameters\n");
}

static void
test_get_values(void **state)
{
    struct setup s = setup_of(DECODER_FCGI);
    struct buf in, values;

    (void)state;
    s.end_when = END_AT_BODY_END;
    buf_init(&values, SIZE_MAX);
    buf_init(&in, SIZE_MAX);
    put_pair(&values, FCGI_MAX_CONNS, "");
    put_pair(&values, "FCGI_OTHER", "");
    put_pair(&values, FCGI_MAX_REQS, "");
    put_pair(&values, FCGI_MPXS_CONNS, "");
    put_pair(&values, FCGI_MAX_CONNS, "asked twice, with a value");
    put_record(&in, FCGI_GET_VALUES, 0, values.data, values.len, 6);
    put_record(&in, FCGI_GET_VALUES, 0, "", 0, 0);
    put_head(&in, 1, 0, NULL);
    put_record(&in, FCGI_STDIN, 1, "", 0, 0);
    check(&s, &in,
          "REPLY \\x01\\x0a\\x00\\x00\\x005\\x00\\x00"
          "\\x0e\\x02FCGI_MAX_CONNS42"
          "\\x0d\\x02FCGI_MAX_REQS42"
          "\\x0f\\x01FCGI_MPXS_CONNS0\n"
          "REPLY \\x01\\x0a\\x00\\x00\\x00\\x00\\x00\\x00\n"
          "HEAD 1 role=1 keep=0 length=-1\n"
          "BODY_END 1 seen=0\n"
          "idle\n");

    s.limits.mpx = 8;
    s.limits.max_conns = UINT32_MAX;
    s.limits.max_reqs = UINT32_MAX - 1;
    buf_init(&in, SIZE_MAX);
    put_record(&in, FCGI_GET_VALUES, 0, values.data, values.len, 0);
    check(&s, &in,
          "REPLY \\x01\\x0a\\x00\\x00\\x00E\\x00\\x00"
          "\\x0e\\x0aFCGI_MAX_CONNS4294967295"
          "\\x0d\\x0aFCGI_MAX_REQS4294967294"
          "\\x0f\\x01FCGI_MPXS_CONNS1\n"
          "idle\n");
    buf_release(&values);
}

static void
test_get_values_bad(void **state)
{
    struct setup s = setup_of(DECODER_FCGI);
    struct buf in;
    char *long_name = calloc(1, 4097);

    (void)state;
    assert_non_null(long_name);
    buf_init(&in, SIZE_MAX);
    put_record(&in, FCGI_GET_VALUES, 0, "\5\0FCGI", 6, 0);
    check(&s, &in,
          "BAD malformed FCGI_GET_VALUES: it ends inside a name-value pair\n");
    buf_init(&in, SIZE_MAX);
    put_record(&in, FCGI_GET_VALUES, 0, "\xff\xff\xff\xff\xff\xff\xff\xff", 8,
               0);
    check(&s, &in,
          "BAD malformed FCGI_GET_VALUES: it ends inside a name-value pair\n");
    buf_init(&in, SIZE_MAX);
    put_record(&in, FCGI_GET_VALUES, 0, long_name, 4097, 0);
    check(&s, &in, "BAD FCGI_GET_VALUES of 4097 bytes is over 4096\n");
    buf_init(&in, SIZE_MAX);
    put_record(&in, FCGI_GET_VALUES, 0, long_name, 4096, 0);
    check(&s, &in, "REPLY \\x01\\x0a\\x00\\x00\\x00\\x00\\x00\\x00\nidle\n");
    free(long_name);
}

/* Section 4.2. */
static void
test_unknown_type(void **state)
{
    struct setup s = setup_of(DECODER_FCGI);
    struct buf in;

    (void)state;
    buf_init(&in, SIZE_MAX);
    put_record(&in, 100, 0, "content", 7, 1);
    put_record(&in, FCGI_STDIN, 0, "", 0, 0);
    put_record(&in, FCGI_PARAMS, 0, "x", 1, 0);
    put_record(&in, FCGI_GET_VALUES_RESULT, 0, "", 0, 0);
    put_record(&in, FCGI_UNKNOWN_TYPE, 0, "12345678", 8, 0);
    check(&s, &in,
          "REPLY \\x01\\x0b\\x00\\x00\\x00\\x08\\x00\\x00"
          "d\\x00\\x00\\x00\\x00\\x00\\x00\\x00\n"
          "REPLY \\x01\\x0b\\x00\\x00\\x00\\x08\\x00\\x00"
          "\\x05\\x00\\x00\\x00\\x00\\x00\\x00\\x00\n"
          "REPLY \\x01\\x0b\\x00\\x00\\x00\\x08\\x00\\x00"
          "\\x04\\x00\\x00\\x00\\x00\\x00\\x00\\x00\n"
          "idle\n");
}

/* Two whole requests in one piece: both, in order. */
static void
test_pipelined(void **state)
{
    struct setup s = setup_of(DECODER_AUTO);
    struct buf in;

    (void)state;
    s.end_when = END_AT_BODY_END;
    buf_init(&in, SIZE_MAX);
    put_head(&in, 1, FCGI_KEEP_CONN, "A=1", "CONTENT_LENGTH=2", NULL);
    put_stream(&in, FCGI_STDIN, 1, "hi", 2, 65535, 6);
    put_head(&in, 1, FCGI_KEEP_CONN, "A=2", NULL);
    put_stream(&in, FCGI_STDIN, 1, "", 0, 65535, 0);
    check(&s, &in,
          "HEAD 1 role=1 keep=1 length=2\n"
          "  A=1\n"
          "  CONTENT_LENGTH=2\n"
          "BODY 1 hi\n"
          "BODY_END 1 seen=2\n"
          "HEAD 1 role=1 keep=1 length=-1\n"
          "  A=2\n"
          "BODY_END 1 seen=0\n"
          "idle\n");
}

static void
test_looks_like(void **state)
{
    static const struct {
        enum decoder_kind kind;
        const char *bytes;
        size_t len;
        const char *expected;
    } cases[] = {
        { DECODER_AUTO, "GET / HTTP/1.1\r\n", 16,
          "an HTTP request on a FastCGI/SCGI/uwsgi socket (first byte 0x47)" },
        { DECODER_FCGI, "POST / HTTP/1.1\r\n", 17,
          "an HTTP request on a FastCGI socket (first byte 0x50)" },
        { DECODER_SCGI, "OPTIONS * HTTP/1.1\r\n", 20,
          "an HTTP request on an SCGI socket (first byte 0x4f)" },
        { DECODER_AUTO, "\x16\x03\x01\x02\x00\x01", 6,
          "a TLS hello on a FastCGI/SCGI/uwsgi socket (first byte 0x16)" },
        { DECODER_FCGI, "\0\x10\x01\0", 4,
          "the uwsgi protocol on a FastCGI socket (first byte 0x00)" },
        { DECODER_FCGI, "70:CONTENT_LENGTH", 17,
          "SCGI on a FastCGI socket (first byte 0x37)" },
        { DECODER_SCGI, "\1\1\0\1\0\10\0\0", 8,
          "FastCGI on an SCGI socket (first byte 0x01)" },
        { DECODER_AUTO, "\xff\xff", 2,
          "none of FastCGI, SCGI and uwsgi on a FastCGI/SCGI/uwsgi socket "
          "(first byte "
          "0xff)" },
        { DECODER_AUTO, "SSH-2.0-OpenSSH", 15,
          "an SSH client on a FastCGI/SCGI/uwsgi socket (first byte 0x53)" },
        { DECODER_AUTO, "\r\n\r\n\0\r\nQUIT\n", 12,
          "a PROXY protocol header on a FastCGI/SCGI/uwsgi socket (first byte "
          "0x0d)" },
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct setup s = setup_of(cases[i].kind);
        char expected[200];

        snprintf(expected, sizeof(expected), "BAD this looks like %s\n",
                 cases[i].expected);
        check_bytes(&s, cases[i].bytes, cases[i].len, expected);
    }
    assert_string_equal(decoder_looks_like("PROXY TCP4", 10),
                        "a PROXY protocol header");
    assert_string_equal(decoder_looks_like("PRI * HTTP/2.0", 14),
                        "an HTTP/2 connection");
    assert_string_equal(decoder_looks_like("Gopher", 6),
                        "none of FastCGI, SCGI and uwsgi");
}

/* decoder_direct(): which bytes may go past the decoder, and when. */
static void
test_direct(void **state)
{
    struct request_limits l = test_limits;
    struct buf in;
    struct decoder d;
    size_t used, head;

    (void)state;
    decoder_init(&d, DECODER_FCGI, &l);
    buf_init(&in, SIZE_MAX);
    put_head(&in, 1, FCGI_KEEP_CONN, "CONTENT_LENGTH=12", NULL);
    head = in.len;
    put_stream(&in, FCGI_STDIN, 1, "0123456789abcdef", 16, 10, 3);
    assert_int_equal(decoder_direct(&d, &d.first), 0);
    assert_int_equal(decoder_feed(&d, in.data, in.len, &used), DECODE_HEAD);
    assert_int_equal(used, head);
    assert_int_equal(decoder_direct(&d, d.req), 0);
    /* The record's header and one byte. */
    assert_int_equal(decoder_feed(&d, in.data + used, 9, &used), DECODE_BODY);
    assert_int_equal(used, 9);
    assert_int_equal(d.data_len, 1);
    assert_int_equal(decoder_direct(&d, d.req), 9);
    decoder_skip(&d, d.req, 4);
    assert_int_equal(d.req->body_seen, 5);
    assert_int_equal(decoder_direct(&d, d.req), 5);
    decoder_skip(&d, d.req, 5);
    assert_int_equal(decoder_direct(&d, d.req), 0);
    assert_false(decoder_is_idle(&d));
    /* Padding and the next header: only two bytes are within
     * CONTENT_LENGTH. */
    head += FCGI_HEADER_LEN + 10;
    assert_int_equal(decoder_feed(&d, in.data + head, 11, &used), DECODE_MORE);
    assert_int_equal(decoder_direct(&d, d.req), 2);
    decoder_skip(&d, d.req, 2);
    assert_int_equal(decoder_direct(&d, d.req), 0);
    head += 11 + 2;
    assert_int_equal(decoder_feed(&d, in.data + head, in.len - head, &used),
                     DECODE_BODY_END);
    assert_int_equal(d.req->body_seen, 16);
    decoder_end(&d, d.req);
    decoder_end(&d, d.req);
    assert_true(decoder_is_idle(&d));
    assert_int_equal(decoder_direct(&d, &d.first), 0);
    decoder_release(&d);
    decoder_release(&d);
    decoder_release(NULL);
    buf_release(&in);
}

/* Answered in the middle of a record: the rest of it is skipped, also when it
 * is told past the decoder. */
static void
test_end_inside_record(void **state)
{
    struct request_limits l = test_limits;
    struct buf in;
    struct decoder d;
    size_t used, pos;

    (void)state;
    decoder_init(&d, DECODER_FCGI, &l);
    buf_init(&in, SIZE_MAX);
    put_head(&in, 1, FCGI_KEEP_CONN, "A=1", NULL);
    put_stream(&in, FCGI_STDIN, 1, "0123456789", 10, 10, 3);
    put_head(&in, 1, FCGI_KEEP_CONN, "A=2", NULL);
    assert_int_equal(decoder_feed(&d, in.data, in.len, &pos), DECODE_HEAD);
    assert_int_equal(decoder_feed(&d, in.data + pos, 12, &used), DECODE_BODY);
    pos += used;
    decoder_end(&d, d.req);
    assert_int_equal(decoder_direct(&d, &d.first), 0);
    assert_int_equal(d.active, 0);
    assert_false(decoder_is_idle(&d));
    assert_int_equal(decoder_feed(&d, in.data + pos, in.len - pos, &used),
                     DECODE_HEAD);
    assert_int_equal(pos + used, in.len);
    assert_int_equal(d.req->body_seen, 0);
    /* The same memory for another connection, in another protocol. */
    decoder_clear(&d, DECODER_AUTO);
    assert_true(decoder_is_idle(&d));
    assert_int_equal(d.active, 0);
    assert_int_equal(decoder_feed(&d,
                                  "24:CONTENT_LENGTH\0"
                                  "0\0SCGI\0"
                                  "1\0,",
                                  28, &used),
                     DECODE_HEAD);
    assert_int_equal(d.kind, DECODER_SCGI);
    decoder_clear(&d, DECODER_FCGI);
    assert_int_equal(decoder_feed(&d, in.data, in.len, &used), DECODE_HEAD);
    decoder_release(&d);
    buf_release(&in);
}

/* Between two records with nothing active: a clean place, also when the last
 * record was given out as body, or went past the decoder. */
static void
test_idle_between_records(void **state)
{
    struct request_limits l = test_limits;
    struct decoder d;
    struct buf in;
    size_t used, head;
    int past;

    (void)state;
    buf_init(&in, SIZE_MAX);
    put_head(&in, 1, FCGI_KEEP_CONN, "A=1", NULL);
    head = in.len;
    put_record(&in, FCGI_STDIN, 1, "body", 4, 0);
    for (past = 0; past < 2; past++) {
        decoder_init(&d, DECODER_FCGI, &l);
        assert_int_equal(decoder_feed(&d, in.data, in.len, &used), DECODE_HEAD);
        assert_int_equal(used, head);
        if (past) {
            assert_int_equal(decoder_feed(&d, in.data + used, 8, &used),
                             DECODE_MORE);
            decoder_skip(&d, d.req, 4);
        } else {
            assert_int_equal(decoder_feed(&d, in.data + used, 12, &used),
                             DECODE_BODY);
        }
        assert_false(decoder_is_idle(&d));
        decoder_end(&d, d.req);
        assert_true(decoder_is_idle(&d));
        decoder_release(&d);
    }
    buf_release(&in);
}

/* After DECODE_BAD nothing is taken any more, and the reason stays. */
static void
test_bad_stays(void **state)
{
    struct request_limits l = test_limits;
    struct decoder d;
    size_t used = 99;

    (void)state;
    decoder_init(&d, DECODER_FCGI, &l);
    assert_int_equal(decoder_feed(&d, "GET ", 4, &used), DECODE_BAD);
    assert_int_equal(decoder_feed(&d, "\1\1", 2, &used), DECODE_BAD);
    assert_int_equal(used, 0);
    assert_non_null(strstr(d.why, "HTTP"));
    assert_false(decoder_is_idle(&d));
    decoder_clear(&d, DECODER_FCGI);
    assert_true(decoder_is_idle(&d));
    decoder_release(&d);
}

static void
test_encode(void **state)
{
    static const struct {
        uint32_t len;
        const char *bytes;
        size_t n;
    } lengths[] = {
        { 0, "\0", 1 },
        { 127, "\x7f", 1 },
        { 128, "\x80\0\0\x80", 4 },
        { 0x12345678, "\x92\x34\x56\x78", 4 },
        { 0x7fffffff, "\xff\xff\xff\xff", 4 },
    };
    char out[16];
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        assert_int_equal(fcgi_put_length(out, lengths[i].len), lengths[i].n);
        assert_memory_equal(out, lengths[i].bytes, lengths[i].n);
    }
    fcgi_put_header(out, FCGI_STDOUT, 0x1234, 0xfff8, 7);
    assert_memory_equal(out, "\1\6\x12\x34\xff\xf8\7\0", 8);
    fcgi_put_end(out, 0xfffe, 0x01020304, FCGI_OVERLOADED);
    assert_memory_equal(out, "\1\3\xff\xfe\0\10\0\0\1\2\3\4\2\0\0\0", 16);
    fcgi_put_end(out, 1, 0, FCGI_REQUEST_COMPLETE);
    assert_memory_equal(out, "\1\3\0\1\0\10\0\0\0\0\0\0\0\0\0\0", 16);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_simple),
        cmocka_unit_test(test_no_params),
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_padding),
        cmocka_unit_test(test_params_straddle),
        cmocka_unit_test(test_long_values),
        cmocka_unit_test(test_any_bytes),
        cmocka_unit_test(test_params_malformed),
        cmocka_unit_test(test_params_huge_lengths),
        cmocka_unit_test(test_params_limits),
        cmocka_unit_test(test_params_flood),
        cmocka_unit_test(test_begin_bad),
        cmocka_unit_test(test_stream_order),
        cmocka_unit_test(test_ignored_records),
        cmocka_unit_test(test_unknown_role),
        cmocka_unit_test(test_cant_mpx),
        cmocka_unit_test(test_begin_flood),
        cmocka_unit_test(test_multiplexed),
        cmocka_unit_test(test_multiplexed_same_id),
        cmocka_unit_test(test_next),
        cmocka_unit_test(test_multiplexed_many),
        cmocka_unit_test(test_reuse_unfinished),
        cmocka_unit_test(test_abort),
        cmocka_unit_test(test_body),
        cmocka_unit_test(test_body_limit),
        cmocka_unit_test(test_authorizer),
        cmocka_unit_test(test_filter),
        cmocka_unit_test(test_get_values),
        cmocka_unit_test(test_get_values_bad),
        cmocka_unit_test(test_unknown_type),
        cmocka_unit_test(test_pipelined),
        cmocka_unit_test(test_looks_like),
        cmocka_unit_test(test_direct),
        cmocka_unit_test(test_end_inside_record),
        cmocka_unit_test(test_idle_between_records),
        cmocka_unit_test(test_bad_stays),
        cmocka_unit_test(test_encode),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
