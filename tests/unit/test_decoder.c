/* SPDX-License-Identifier: MIT
 *
 * protocol/decoder.c: which protocol it is, bytes that go past the decoder, and
 * what it is between two requests.
 */
#include "protocol_check.h"

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

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_looks_like),
        cmocka_unit_test(test_direct),
        cmocka_unit_test(test_end_inside_record),
        cmocka_unit_test(test_idle_between_records),
        cmocka_unit_test(test_bad_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
