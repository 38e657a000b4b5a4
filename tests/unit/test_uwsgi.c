/* SPDX-License-Identifier: MIT
 *
 * protocol/uwsgi.c: every case at once, byte by byte and cut at each offset.
 */
#include "tests/unit/protocol_check.h"

static void
put_size(struct buf *b, size_t n)
{
    char bytes[2] = { (char)n, (char)(n >> 8) };

    buf_append(b, bytes, 2);
}

static void
put_var(struct buf *b, const char *name, const char *value)
{
    put_size(b, strlen(name));
    buf_append_str(b, name);
    put_size(b, strlen(value));
    buf_append_str(b, value);
}

/* The packet of a block, with this modifier. */
static void
put_packet(struct buf *out, int modifier, const struct buf *block)
{
    char first = (char)modifier;

    buf_append(out, &first, 1);
    put_size(out, block->len);
    buf_append(out, "\0", 1);
    buf_append(out, block->data, block->len);
}

static void
test_requests(void **state)
{
    struct setup s = setup_of(DECODER_AUTO);
    struct buf block, in;

    (void)state;
    buf_init(&block, SIZE_MAX);
    buf_init(&in, SIZE_MAX);
    put_var(&block, "QUERY_STRING", "");
    put_var(&block, "REQUEST_METHOD", "GET");
    put_var(&block, "CONTENT_LENGTH", "");
    put_packet(&in, 0, &block);
    check(&s, &in,
          "HEAD 0 role=1 keep=0 length=-1\n"
          "  QUERY_STRING=\n"
          "  REQUEST_METHOD=GET\n"
          "  CONTENT_LENGTH=\n"
          "BODY_END 0 seen=0\n"
          "not idle\n");
    s = setup_of(DECODER_UWSGI);
    buf_init(&in, SIZE_MAX);
    put_var(&block, "CONTENT_LENGTH", "4");
    put_packet(&in, 0, &block);
    buf_append_str(&in, "body and what is ignored");
    check(&s, &in,
          "HEAD 0 role=1 keep=0 length=4\n"
          "  QUERY_STRING=\n"
          "  REQUEST_METHOD=GET\n"
          "  CONTENT_LENGTH=\n"
          "  CONTENT_LENGTH=4\n"
          "BODY 0 body\n"
          "BODY_END 0 seen=4\n"
          "not idle\n");
    buf_release(&block);
}

static void
test_bad(void **state)
{
    struct setup s = setup_of(DECODER_UWSGI);

    (void)state;
    check_bytes(&s, "\5\0\0\0", 4,
                "BAD a uwsgi request with modifier1 5: only 0 (WSGI) is served "
                "(nginx: uwsgi_modifier1)\n");
    check_bytes(&s, "\0\5\0\0\1\0A\2\0", 9,
                "BAD malformed uwsgi request: variable 1 does not end within "
                "the block of 5 bytes\n");
    check_bytes(&s, "\0\1\0\0\1", 5,
                "BAD malformed uwsgi request: variable 1 does not end within "
                "the block of 1 bytes\n");
    check_bytes(&s, "\0\5\0\0\0\0\1\0x", 9,
                "BAD malformed uwsgi request: variable 1 has an empty name\n");
    check_bytes(&s, "\0\5\0\0\xff\xff\1\0x", 9,
                "BAD malformed uwsgi request: variable 1 does not end within "
                "the block of 5 bytes\n");
    s = setup_of(DECODER_SCGI);
    check_bytes(&s, "\0\1\0\0", 4,
                "BAD this looks like the uwsgi protocol on an SCGI socket "
                "(first byte 0x00)\n");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_bad),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
