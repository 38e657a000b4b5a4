/* SPDX-License-Identifier: MIT
 *
 * protocol/decoder.c, fcgi.c, scgi.c: what comes out must not depend on where
 * the bytes are cut, or on whether body bytes go past the decoder; limits hold.
 *
 *     input = kind, limits, when requests end, seed of the cuts (4 bytes)
 *             bytes of the connection
 */
#include "fuzz.h"

#include "protocol_util.h"

struct plan {
    enum decoder_kind kind;
    struct request_limits limits;
    enum end_when end_when;
    unsigned seed;
    const char *data;
    size_t len;
};

/* How long the next piece is; 0 is allowed. */
static size_t
next_piece(uint32_t *random, size_t left)
{
    size_t n;

    *random = *random * 1664525u + 1013904223u;
    n = (*random >> 16) % 13;
    if ((*random >> 28) == 0) {
        n = n * 100 + 1;
    }
    return n < left ? n : left;
}

static void
check_limits(const struct decoder *d)
{
    unsigned i, active = 0;

    for (i = 0; i < DECODER_MAX_MPX && d->slot[i] != NULL; i++) {
        const struct request *r = d->slot[i];

        active += r->active;
        FUZZ_CHECK(r->param_count <= d->limits.params_count);
        FUZZ_CHECK(r->params_used <= d->limits.params_bytes);
        FUZZ_CHECK(r->params.len <= r->params.limit);
        FUZZ_CHECK(strlen(r->refuse_why) < sizeof(r->refuse_why));
    }
    FUZZ_CHECK(active == d->active);
    FUZZ_CHECK(active <= d->limits.mpx);
}

/* Transcripts are equal. What the first bytes of a connection look like is a
 * guess from as many of them as there are: there the words may differ. */
static bool
same_transcript(const char *a, const char *b)
{
    static const char guess[] = "BAD this looks like ";
    size_t n = sizeof(guess) - 1;

    return strcmp(a, b) == 0 ||
           (strncmp(a, guess, n) == 0 && strncmp(b, guess, n) == 0);
}

/* cut: in pieces; else at once. The transcript is the caller's. */
static char *
transcript(const struct plan *plan, bool cut, bool direct)
{
    struct run run;
    uint32_t random = plan->seed;
    size_t pos = 0;
    char *text;

    run_init(&run, plan->kind, &plan->limits, plan->len + 1);
    run.end_when = plan->end_when;
    run.direct = direct;
    while (pos < plan->len) {
        size_t left = plan->len - pos;
        size_t n = cut ? next_piece(&random, left) : left;

        run_feed(&run, plan->data + pos, n);
        check_limits(&run.d);
        pos += n;
    }
    text = strdup(run_finish(&run));
    FUZZ_CHECK(text != NULL);
    run_release(&run);
    return text;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct request_limits limits[] = {
        { 1 << 20, 1000, 0, 1, 42, 0 },
        { 200, 8, 20, 1, 42, 0 },
        { 1000, 100, 100, 3, 42, 0 },
        { 60, 3, 5, 64, 42, 0 },
    };
    struct fuzz_input in = { data, size };
    struct plan plan;
    char *whole;
    int i;

    plan.kind = (enum decoder_kind)(fuzz_byte(&in) % 4);
    plan.limits = limits[fuzz_byte(&in) % 4];
    plan.end_when = (enum end_when)(fuzz_byte(&in) % 4);
    plan.seed = fuzz_byte(&in);
    plan.data = (const char *)in.data;
    plan.len = in.left;
    if (plan.len == 0) {
        return 0;
    }
    whole = transcript(&plan, false, false);
    for (i = 1; i < 4; i++) {
        char *other = transcript(&plan, (i & 1) != 0, (i & 2) != 0);

        if (!same_transcript(whole, other)) {
            fprintf(stderr, "-- at once:\n%s-- otherwise (%d):\n%s", whole, i,
                    other);
            abort();
        }
        free(other);
    }
    free(whole);
    return 0;
}
