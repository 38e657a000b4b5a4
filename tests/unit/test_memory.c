/* SPDX-License-Identifier: MIT
 *
 * Every allocation of protocol/ fails once: the request is refused or the
 * connection given up, nothing else happens, and the next one is served.
 * Linked with --wrap=malloc and --wrap=realloc.
 */
#include "protocol_check.h"

#include "protocol/cgi.h"

static long fail_at; /* this allocation from now fails; 0: none does */
static bool failed;  /* it was reached */

void *__real_malloc(size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_realloc(void *p, size_t size);

static bool
is_the_one(void)
{
    if (fail_at == 0 || --fail_at > 0) {
        return false;
    }
    failed = true;
    return true;
}

void *
__wrap_malloc(size_t size)
{
    return is_the_one() ? NULL : __real_malloc(size);
}

void *
__wrap_realloc(void *p, size_t size)
{
    return is_the_one() ? NULL : __real_realloc(p, size);
}

/* What came of one connection. */
struct outcome {
    unsigned heads;
    unsigned refused; /* heads with status 503 */
    unsigned replies;
    bool bad;
};

static struct outcome
decode(struct decoder *d, const struct buf *in)
{
    struct outcome o = { 0, 0, 0, false };
    enum decode_event ev;
    size_t pos = 0, used;

    decoder_clear(d, DECODER_AUTO);
    do {
        ev = decoder_feed(d, in->data + pos, in->len - pos, &used);
        pos += used;
        if (ev == DECODE_HEAD) {
            o.heads++;
            if (d->req->refuse_status != 0) {
                assert_int_equal(d->req->refuse_status, 503);
                assert_non_null(strstr(d->req->refuse_why, "out of memory"));
                o.refused++;
            }
        } else if (ev == DECODE_BODY_END) {
            decoder_end(d, d->req);
        } else if (ev == DECODE_REPLY) {
            o.replies++;
        } else if (ev == DECODE_BAD) {
            o.bad = true;
            assert_non_null(strstr(d->why, "out of memory"));
        }
    } while (ev != DECODE_MORE && ev != DECODE_BAD);
    return o;
}

/* The n-th allocation fails, for every n there is: each time the good outcome
 * must come afterwards, in the same memory. What failed is added up. */
static struct outcome
sweep(const struct buf *in, struct outcome good)
{
    struct request_limits l = test_limits;
    struct outcome sum = { 0, 0, 0, false };
    long n;

    l.mpx = 2;
    for (n = 1;; n++) {
        struct decoder d;
        struct outcome o;

        decoder_init(&d, DECODER_AUTO, &l);
        failed = false;
        fail_at = n;
        o = decode(&d, in);
        fail_at = 0;
        if (failed) {
            sum.refused += o.refused;
            sum.replies += o.replies;
            sum.bad |= o.bad;
            /* Not silently as if nothing had happened. */
            assert_true(o.refused > 0 || o.bad || o.replies > good.replies);
        }
        o = decode(&d, in);
        assert_int_equal(o.heads, good.heads);
        assert_int_equal(o.replies, good.replies);
        assert_int_equal(o.refused, 0);
        assert_false(o.bad);
        decoder_release(&d);
        if (!failed) {
            break;
        }
    }
    assert_true(n > 1);
    return sum;
}

static void
put_many_params(struct buf *b)
{
    unsigned i;

    for (i = 0; i < 100; i++) {
        char name[50];

        snprintf(name, sizeof(name), "HTTP_X_A_HEADER_NUMBER_%u", i);
        put_pair(b, name, "with a value of its own");
    }
}

static void
test_fcgi(void **state)
{
    struct outcome good = { .heads = 2, .replies = 1 }, sum;
    struct buf in, params, values;

    (void)state;
    buf_init(&in, SIZE_MAX);
    buf_init(&params, SIZE_MAX);
    buf_init(&values, SIZE_MAX);
    put_many_params(&params);
    put_pair(&values, FCGI_MAX_CONNS, "");
    put_record(&in, FCGI_GET_VALUES, 0, values.data, values.len, 0);
    put_begin(&in, 1, FCGI_RESPONDER, FCGI_KEEP_CONN);
    put_begin(&in, 2, FCGI_RESPONDER, FCGI_KEEP_CONN);
    put_stream(&in, FCGI_PARAMS, 2, params.data, params.len, 1000, 0);
    put_stream(&in, FCGI_PARAMS, 1, params.data, params.len, 1000, 0);
    put_record(&in, FCGI_STDIN, 1, "", 0, 0);
    put_record(&in, FCGI_STDIN, 2, "", 0, 0);
    sum = sweep(&in, good);
    assert_true(sum.bad);         /* FCGI_GET_VALUES */
    assert_true(sum.refused > 3); /* the block and the index, as they grow */
    buf_release(&in);
    buf_release(&params);
    buf_release(&values);
}

static void
test_scgi(void **state)
{
    struct outcome good = { .heads = 1 }, sum;
    struct buf in, block;
    unsigned i;

    (void)state;
    buf_init(&in, SIZE_MAX);
    buf_init(&block, SIZE_MAX);
    put_raw(&block,
            "CONTENT_LENGTH\0"
            "0\0SCGI\0"
            "1",
            23);
    put_raw(&block, "", 1);
    for (i = 0; i < 100; i++) {
        put_raw(&block, "HTTP_X_SOMETHING\0value", 23);
    }
    put_text(&in, "%zu:", block.len);
    put_raw(&in, block.data, block.len);
    put_text(&in, ",");
    sum = sweep(&in, good);
    assert_false(sum.bad);
    assert_true(sum.refused > 1);
    buf_release(&in);
    buf_release(&block);
}

static void
test_paths(void **state)
{
    static const struct cgi_path_input inputs[] = {
        { .script_name = { "/a", 2 }, .path_info = { "/b", 2 } },
        { .script_name = { "/x", 2 }, .request_uri = { "/m/%78", 6 } },
        { .request_uri = { "/m/%78", 6 } },
        { .script_name = { "m", 1 } },
        { .path_info = { "/http://h/x", 11 },
          .request_uri = { "http://h/%78", 12 } },
    };
    static const char *const mounts[] = { "", "/m" };
    struct cgi_text script_name, path_info;
    struct buf scratch;
    unsigned limits = 0;
    size_t i, m;

    (void)state;
    for (i = 0; i < sizeof(inputs) / sizeof(inputs[0]); i++) {
        for (m = 0; m < 2; m++) {
            enum cgi_path_result result;

            buf_init(&scratch, SIZE_MAX);
            failed = false;
            fail_at = 1;
            result = cgi_split_path(&inputs[i], mounts[m], strlen(mounts[m]),
                                    false, &scratch, &script_name, &path_info);
            fail_at = 0;
            assert_int_equal(failed, result == CGI_PATH_LIMIT);
            limits += failed;
            buf_release(&scratch);
        }
    }
    assert_true(limits >= 6);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fcgi),
        cmocka_unit_test(test_scgi),
        cmocka_unit_test(test_paths),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
