/* SPDX-License-Identifier: MIT
 *
 * The three ways every protocol case runs: at once, byte by byte, cut at each
 * offset; each also with body bytes taken past the decoder. cmocka tests only.
 */
#ifndef FOREBAY_TESTS_PROTOCOL_CHECK_H
#define FOREBAY_TESTS_PROTOCOL_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "protocol_util.h"

static const struct request_limits test_limits = {
    .params_bytes = 1024 * 1024,
    .params_count = 1000,
    .body_bytes = 0,
    .mpx = 1,
    .max_conns = 42,
};

/* What a case is fed to. */
struct setup {
    enum decoder_kind kind;
    struct request_limits limits;
    enum end_when end_when;
};

static UTIL_UNUSED struct setup
setup_of(enum decoder_kind kind)
{
    struct setup s = { .kind = kind, .limits = test_limits };

    return s;
}

/* cut 0: at once; cut len: byte by byte; else two pieces, and an empty one
 * between them. */
static UTIL_UNUSED void
check_once(const struct setup *s, const char *data, size_t len, size_t cut,
           bool direct, const char *expected)
{
    struct run run;
    size_t i;

    run_init(&run, s->kind, &s->limits, len + 1);
    run.end_when = s->end_when;
    run.direct = direct;
    if (cut == 0) {
        run_feed(&run, data, len);
    } else if (cut == len) {
        for (i = 0; i < len; i++) {
            run_feed(&run, data + i, 1);
        }
    } else {
        run_feed(&run, data, cut);
        run_feed(&run, "", 0);
        run_feed(&run, data + cut, len - cut);
    }
    if (strcmp(run_finish(&run), expected) != 0) {
        print_error("cut at %zu of %zu%s\n", cut, len,
                    direct ? ", body bytes past the decoder" : "");
        assert_string_equal(run.out.data, expected);
    }
    run_release(&run);
}

static UTIL_UNUSED void
check_bytes(const struct setup *s, const char *data, size_t len,
            const char *expected)
{
    /* Long inputs are cut at some hundred places, and everywhere near the
     * beginning. */
    size_t step = len > 4096 ? len / 300 | 1 : 1;
    size_t cut;
    int direct;

    for (direct = 0; direct < 2; direct++) {
        for (cut = 0; cut < len; cut += cut < 128 ? 1 : step) {
            check_once(s, data, len, cut, direct != 0, expected);
        }
        check_once(s, data, len, len, direct != 0, expected);
    }
}

/* Takes the bytes: input is empty afterwards. */
static UTIL_UNUSED void
check(const struct setup *s, struct buf *input, const char *expected)
{
    check_bytes(s, input->data, input->len, expected);
    buf_release(input);
}

/* The transcript of an input fed at once, for what is too long to write down:
 * the caller looks for parts of it and frees it. */
static UTIL_UNUSED char *
transcript_of(const struct setup *s, const char *data, size_t len)
{
    struct run run;
    char *text;

    run_init(&run, s->kind, &s->limits, len + 1);
    run.end_when = s->end_when;
    run_feed(&run, data, len);
    text = strdup(run_finish(&run));
    assert_non_null(text);
    run_release(&run);
    return text;
}

#endif
