/* SPDX-License-Identifier: MIT
 *
 * protocol/fcgi.c: every case at once, byte by byte and cut at each offset. The
 * numbers come from libfcgi's <fastcgi.h>. FCGI_PARAMS is test_fcgi_params.c.
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
    buf_init(&in, SIZE_MAX);
    put_begin(&in, 1, FCGI_FILTER, 0);
    put_stream(&in, FCGI_PARAMS, 1, "", 0, 65535, 0);
    put_record(&in, FCGI_STDIN, 1, "bo", 2, 0);
    put_record(&in, FCGI_DATA, 1, "x", 1, 0);
    check(&s, &in,
          "HEAD 1 role=3 keep=0 length=-1\n"
          "BODY 1 bo\n"
          "BAD FCGI_DATA for request id 1 before the end of its "
          "FCGI_STDIN\n");
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
        cmocka_unit_test(test_encode),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
