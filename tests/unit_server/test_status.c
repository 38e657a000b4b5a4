/* SPDX-License-Identifier: MIT
 *
 * server/status*.c: a look at made-up pools, as JSON, as a table, and in the
 * format of Prometheus, which a small parser of this file's own checks.
 */
#include "tests/unit_server/unit.h"

#include <ctype.h>
#include <fcntl.h>

#include "server/clock.h"
#include "server/status.h"

enum { LIMIT = 16 * 1024 * 1024, FAKE_PID = INT32_MAX };

static const struct status_manager manager = { .started_ms = 1,
                                               .started_at = 1000000 };

/* -- made-up pools ----------------------------------------------------------
 */

static struct pool *
make_pool(const char *name, struct pool *following)
{
    struct pool *p = calloc(1, sizeof(*p));

    assert_non_null(p);
    p->settings = calloc(1, sizeof(*p->settings));
    assert_int_equal(settings_init(p->settings), 0);
    free(p->settings->name);
    p->settings->name = strdup(name);
    p->settings->app = strdup("blog.wsgi");
    p->state = POOL_SERVING;
    p->following = following;
    return p;
}

static struct generation *
add_generation(struct pool *p, unsigned workers, unsigned threads)
{
    struct generation *g = calloc(1, sizeof(*g));

    assert_non_null(g);
    g->settings.threads = p->settings->threads = threads;
    g->count = workers;
    g->slot = calloc(workers, sizeof(*g->slot));
    assert_int_equal(scoreboard_create(workers * threads, &g->score), 0);
    g->number = ++p->generations;
    g->history = &p->history;
    g->serving = true;
    g->process.pid = FAKE_PID;
    g->next = p->all;
    p->all = g;
    p->current = g;
    return g;
}

static void
set_worker(struct generation *g, unsigned i, enum slot_state state,
           enum scoreboard_state thread_state)
{
    g->slot[i].state = state;
    g->slot[i].pid = FAKE_PID;
    for (unsigned t = 0; t < g->settings.threads; t++) {
        scoreboard_set(&g->score.slot[i * g->settings.threads + t],
                       thread_state);
    }
}

static void
begin_request(struct generation *g, unsigned slot, const char *uri, size_t len)
{
    scoreboard_begin(&g->score.slot[slot], "GET", 3, uri, len,
                     clock_now_ns() - 1500 * (uint64_t)NS_PER_MS);
}

static void
free_pools(struct pool *p)
{
    while (p != NULL) {
        struct pool *following = p->following;

        while (p->all != NULL) {
            struct generation *g = p->all;

            p->all = g->next;
            scoreboard_release(&g->score);
            free(g->slot);
            free(g);
        }
        settings_release(p->settings);
        free(p->settings);
        free(p);
        p = following;
    }
}

/* What is written, as a string. */
static char *
text_of(struct pool *p, enum status_format format)
{
    struct buf out;

    buf_init(&out, LIMIT);
    assert_int_equal(status_write(p, &manager, format, &out), 0);
    assert_int_equal(buf_append(&out, "", 1), 0);
    return out.data;
}

static json_t *
json_of(struct pool *p)
{
    char *text = text_of(p, STATUS_JSON);
    json_error_t error;
    json_t *found = json_loads(text, 0, &error);

    if (found == NULL) {
        fail_msg("%s: %s", error.text, text);
    }
    free(text);
    return found;
}

static json_t *
at(json_t *o, const char *key)
{
    json_t *found = json_object_get(o, key);

    if (found == NULL) {
        fail_msg("there is no %s", key);
    }
    return found;
}

static long long
number_at(json_t *o, const char *key)
{
    assert_true(json_is_integer(at(o, key)));
    return json_integer_value(at(o, key));
}

/* -- the look ---------------------------------------------------------------
 */

static void
test_counts(void **state)
{
    struct pool *p = make_pool("main", NULL);
    struct generation *old = add_generation(p, 2, 2);
    struct generation *g = add_generation(p, 6, 2);
    json_t *o, *pool, *workers;
    struct status *s;

    (void)state;
    old->stopping = true;
    set_worker(old, 1, SLOT_READY, SCORE_IDLE);
    begin_request(old, 3, "/old", 4);
    set_worker(g, 0, SLOT_STARTING, SCORE_FREE);
    set_worker(g, 1, SLOT_READY, SCORE_IDLE);
    set_worker(g, 2, SLOT_READY, SCORE_IDLE);
    begin_request(g, 5, "/busy", 5); /* of two threads one is busy */
    set_worker(g, 3, SLOT_RETIRING, SCORE_IDLE);
    set_worker(g, 4, SLOT_READY, SCORE_READING);
    g->slot[0].pid = 0;
    p->history.answered.requests = 100;
    p->history.answered.bucket[0] = 100;
    p->history.crashed = 3;

    s = status_take(p, &manager);
    assert_non_null(s);
    assert_int_equal(s->pools, 1);
    assert_int_equal(s->pool[0].workers, 6);
    assert_int_equal(s->counts.workers[STATUS_STARTING], 1);
    assert_int_equal(s->counts.workers[STATUS_IDLE], 1);
    assert_int_equal(s->counts.workers[STATUS_BUSY], 2);
    assert_int_equal(s->counts.workers[STATUS_STOPPING], 2);
    /* Four that have started, and one of the old generation, of two threads. */
    assert_int_equal(s->counts.threads[SCORE_RUNNING], 2);
    assert_int_equal(s->counts.threads[SCORE_READING], 2);
    assert_int_equal(s->counts.threads[SCORE_IDLE], 6);
    assert_int_equal(s->counts.answered.requests, 100);
    assert_int_equal(s->counts.crashed, 3);
    status_free(s);
    status_free(NULL);

    o = json_of(p);
    pool = json_array_get(at(o, "pools"), 0);
    workers = at(at(pool, "totals"), "workers");
    assert_int_equal(number_at(workers, "total"), 6);
    assert_int_equal(number_at(workers, "total"),
                     number_at(workers, "idle") + number_at(workers, "busy") +
                         number_at(workers, "starting") +
                         number_at(workers, "stopping"));
    assert_int_equal(json_array_size(at(pool, "workers")), 6);
    assert_int_equal(number_at(at(pool, "template"), "generation"), 2);
    assert_string_equal(json_string_value(at(pool, "state")), "serving");
    json_decref(o);
    free_pools(p);
}

/* Requests that a dead worker had answered, and those of a living one. */
static void
test_totals(void **state)
{
    struct pool *p = make_pool("main", NULL);
    struct generation *g = add_generation(p, 1, 1);
    json_t *o, *totals;

    (void)state;
    set_worker(g, 0, SLOT_READY, SCORE_IDLE);
    for (int i = 0; i < 4; i++) {
        begin_request(g, 0, "/", 1);
        scoreboard_end(&g->score.slot[0], i == 0);
    }
    for (int dead = 0; dead < 2; dead++) {
        o = json_of(p);
        totals = at(o, "totals");
        assert_int_equal(number_at(totals, "requests"), 4);
        assert_int_equal(number_at(totals, "failures"), 1);
        assert_int_equal(number_at(at(at(totals, "latency"), "up_to"), "+Inf"),
                         4);
        assert_int_equal(number_at(at(at(totals, "latency"), "up_to"), "1"), 0);
        assert_true(json_real_value(at(at(totals, "latency"), "seconds")) > 6);
        json_decref(o);
        assert_int_equal(
            scoreboard_take(&g->score.slot[0], &p->history.answered),
            dead ? 0 : 4);
        g->slot[0].state = SLOT_EMPTY;
    }
    free_pools(p);
}

/* -- bytes ------------------------------------------------------------------
 */

/* Each byte of a request line is one character of the JSON string. */
static void
test_any_bytes(void **state)
{
    struct pool *p = make_pool("main", NULL);
    struct generation *g = add_generation(p, 1, 1);
    char uri[2];

    (void)state;
    set_worker(g, 0, SLOT_READY, SCORE_IDLE);
    for (int byte = 0; byte <= 0xff; byte++) {
        json_t *o, *worker, *thread;
        char want[16] = "GET /";
        size_t used = 5;

        uri[0] = '/';
        uri[1] = (char)byte;
        begin_request(g, 0, uri, 2);
        if (byte >= 0x80) {
            want[used++] = (char)(0xc0 | byte >> 6);
            want[used++] = (char)(0x80 | (byte & 0x3f));
        } else if (byte > 0) { /* a NUL ends the line */
            want[used++] = (char)byte;
        }
        o = json_of(p);
        worker =
            json_array_get(at(json_array_get(at(o, "pools"), 0), "workers"), 0);
        thread = json_array_get(at(worker, "threads"), 0);
        assert_string_equal(json_string_value(at(thread, "request")), want);
        assert_true(json_real_value(at(thread, "request_seconds")) >= 1.5);
        json_decref(o);
    }
    free_pools(p);
}

static void
check_table(char *text)
{
    size_t lines = 0;

    for (char *line = strtok(text, "\n"); line != NULL;
         line = strtok(NULL, "\n")) {
        assert_true(strlen(line) <= 100);
        for (const char *c = line; *c != '\0'; c++) {
            assert_true(*c >= 0x20 && *c < 0x7f);
        }
        lines++;
    }
    assert_true(lines >= 5);
}

static void
test_table(void **state)
{
    struct pool *p = make_pool("m\xc3\xbcnchen", NULL);
    struct generation *g = add_generation(p, 3, 2);
    char uri[300], *text;

    (void)state;
    for (size_t i = 0; i < sizeof(uri); i++) {
        uri[i] = (char)(i % 255 + 1);
    }
    set_worker(g, 0, SLOT_READY, SCORE_IDLE);
    set_worker(g, 1, SLOT_READY, SCORE_IDLE);
    begin_request(g, 3, uri, sizeof(uri));
    begin_request(g, 2, "/short", 6);
    set_worker(g, 2, SLOT_STARTING, SCORE_FREE);
    snprintf(
        p->reload_failure, sizeof(p->reload_failure),
        "words that fill more than one line, %s",
        "again and again, until there is no room for them any more, and "
        "\x1b[31m a word that is much longer than all of the others: "
        "looooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooo"
        "ooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooong");
    text = text_of(p, STATUS_TABLE);
    assert_contains(text, "GET /short");
    assert_contains(text, "3 workers of 2 threads: 1 idle, 1 busy, 1 starting");
    assert_contains(text, "  1/0 ");
    assert_contains(text, "oong\n");
    check_table(text);
    free(text);
    free_pools(p);
}

/* -- alarms -----------------------------------------------------------------
 */

static unsigned
alarms_of(struct pool *p, const char *says)
{
    struct status *s = status_take(p, &manager);
    unsigned n = s->pool[0].alarms;

    for (unsigned i = 0; i < n && says != NULL; i++) {
        if (strstr(s->pool[0].alarm[i].text, says) != NULL) {
            says = NULL;
        }
    }
    if (says != NULL && n > 0) {
        fail_msg("no alarm says \"%s\"", says);
    }
    status_free(s);
    return n;
}

static void
test_alarms(void **state)
{
    struct pool *p = make_pool("main", NULL);
    struct generation *g = add_generation(p, 2, 1);
    uint64_t now = clock_now_ns() / NS_PER_MS;
    struct status *s;

    (void)state;
    set_worker(g, 0, SLOT_READY, SCORE_IDLE);
    g->slot[0].started_ms = 1;
    assert_int_equal(alarms_of(p, NULL), 0);

    snprintf(p->reload_failure, sizeof(p->reload_failure), "no such module");
    p->reload_failed_ms = now > 5000 ? now - 5000 : 1;
    assert_int_equal(alarms_of(p, "no such module"), 1);
    p->reload_failure[0] = '\0';

    /* Workers end soon, and are held back, or are young. */
    g->backoff.quick = 3;
    assert_int_equal(alarms_of(p, NULL), 0);
    g->supervision.hold_until_ms = now + 1000000;
    assert_int_equal(alarms_of(p, "back-off"), 1);
    g->supervision.hold_until_ms = 0;
    set_worker(g, 1, SLOT_STARTING, SCORE_FREE);
    g->slot[1].started_ms = now + 1000000;
    assert_int_equal(alarms_of(p, "back-off"), 1);
    g->backoff.quick = 1;
    assert_int_equal(alarms_of(p, NULL), 0);

    g->slot[0].stopped = true;
    assert_int_equal(alarms_of(p, "is stopped"), 1);
    g->slot[0].stopped = false;

    p->current = NULL;
    assert_int_equal(alarms_of(p, "no template"), 1);
    s = status_take(p, &manager);
    assert_string_equal(s->pool[0].state, "restarting");
    status_free(s);
    free_pools(p);
}

static void
test_manager_alarm(void **state)
{
    struct status_manager m = manager;
    struct buf out;

    (void)state;
    m.reload_failure = "/etc/forebay.conf:7: \"workres\" is not known";
    m.stopping = true;
    for (int i = STATUS_TABLE; i <= STATUS_JSON; i++) {
        buf_init(&out, LIMIT);
        assert_int_equal(status_write(NULL, &m, (enum status_format)i, &out),
                         0);
        assert_int_equal(buf_append(&out, "", 1), 0);
        assert_contains(out.data, "/etc/forebay.conf:7: ");
        assert_contains(out.data, "stopping");
        buf_release(&out);
    }
}

/* -- limits -----------------------------------------------------------------
 */

/* Whatever the limit of the buffer: an error, never half an answer that is
 * taken for a whole one. */
static void
test_limits(void **state)
{
    struct pool *p = make_pool("main", NULL);
    struct generation *g = add_generation(p, 2, 1);
    size_t whole;

    (void)state;
    set_worker(g, 0, SLOT_READY, SCORE_IDLE);
    set_worker(g, 1, SLOT_READY, SCORE_IDLE);
    for (int i = STATUS_TABLE; i <= STATUS_METRICS; i++) {
        struct buf out;

        buf_init(&out, LIMIT);
        assert_int_equal(status_write(p, &manager, (enum status_format)i, &out),
                         0);
        whole = out.len;
        buf_release(&out);
        for (size_t limit = 0; limit < whole / 2; limit += whole / 7 + 1) {
            buf_init(&out, limit);
            assert_int_equal(
                status_write(p, &manager, (enum status_format)i, &out), -1);
            buf_release(&out);
        }
    }
    free_pools(p);
}

/* -- Prometheus -------------------------------------------------------------
 */

enum { MAX_SERIES = 1000, MAX_FAMILIES = 100 };

struct parsed {
    char *series[MAX_SERIES]; /* name and labels */
    double value[MAX_SERIES];
    int count;
    char *family[MAX_FAMILIES]; /* that are over: samples are contiguous */
    int families;
    char name[128], type[32]; /* of the current family */
    bool helped;
};

/* The end of a metric or label name at p. */
static const char *
skip_name(const char *p)
{
    assert_true(isalpha((unsigned char)*p) || *p == '_');
    while (isalnum((unsigned char)*p) || *p == '_' || *p == ':') {
        p++;
    }
    return p;
}

/* {name="value",...}; the end of it. */
static const char *
skip_labels(const char *p)
{
    if (*p != '{') {
        return p;
    }
    do {
        p = skip_name(p + 1);
        assert_int_equal(p[0], '=');
        assert_int_equal(p[1], '"');
        for (p += 2; *p != '"'; p++) {
            assert_true(*p != '\0' && *p != '\n');
            if (*p == '\\') {
                p++;
                assert_true(*p == '\\' || *p == '"' || *p == 'n');
            }
        }
        p++;
    } while (*p == ',');
    assert_int_equal(*p, '}');
    return p + 1;
}

static void
begin_family(struct parsed *f, const char *name, size_t len)
{
    if (f->name[0] != '\0') {
        f->family[f->families++] = strdup(f->name);
    }
    for (int i = 0; i < f->families; i++) {
        assert_true(strlen(f->family[i]) != len ||
                    memcmp(f->family[i], name, len) != 0);
    }
    snprintf(f->name, sizeof(f->name), "%.*s", (int)len, name);
    f->helped = true;
    f->type[0] = '\0';
}

static void
parse_comment(struct parsed *f, const char *line)
{
    const char *end;

    if (strncmp(line, "# HELP ", 7) == 0) {
        end = skip_name(line + 7);
        assert_int_equal(*end, ' ');
        assert_true(strlen(end) > 10);
        begin_family(f, line + 7, (size_t)(end - line) - 7);
        return;
    }
    assert_int_equal(strncmp(line, "# TYPE ", 7), 0);
    end = skip_name(line + 7);
    assert_true(f->helped);
    assert_int_equal(strncmp(line + 7, f->name, (size_t)(end - line) - 7), 0);
    snprintf(f->type, sizeof(f->type), "%s", end + 1);
    assert_true(strcmp(f->type, "gauge") == 0 ||
                strcmp(f->type, "counter") == 0 ||
                strcmp(f->type, "histogram") == 0);
    assert_int_equal(strcmp(f->type, "counter") == 0,
                     strstr(f->name, "_total") != NULL);
}

static void
parse_sample(struct parsed *f, char *line)
{
    const char *name_end = skip_name(line), *end = skip_labels(name_end);
    size_t len = (size_t)(name_end - line), family = strlen(f->name);
    char *rest;

    assert_true(f->type[0] != '\0');
    assert_int_equal(strncmp(line, f->name, family), 0);
    if (len != family) {
        assert_string_equal(f->type, "histogram");
        assert_true(strncmp(line + family, "_bucket", len - family) == 0 ||
                    strncmp(line + family, "_sum", len - family) == 0 ||
                    strncmp(line + family, "_count", len - family) == 0);
    }
    assert_int_equal(*end, ' ');
    f->value[f->count] = strtod(end + 1, &rest);
    assert_int_equal(*rest, '\0');
    f->series[f->count] = strndup(line, (size_t)(end - line));
    for (int i = 0; i < f->count; i++) {
        assert_string_not_equal(f->series[i], f->series[f->count]);
    }
    f->count++;
    assert_true(f->count < MAX_SERIES);
}

static void
parse(struct parsed *f, char *text)
{
    char *rest = text;

    memset(f, 0, sizeof(*f));
    assert_int_equal(text[strlen(text) - 1], '\n');
    while (*rest != '\0') {
        char *line = strsep(&rest, "\n");

        assert_true(line[0] != '\0');
        if (line[0] == '#') {
            parse_comment(f, line);
        } else {
            parse_sample(f, line);
        }
    }
}

static void
forget(struct parsed *f)
{
    for (int i = 0; i < f->count; i++) {
        free(f->series[i]);
    }
    for (int i = 0; i < f->families; i++) {
        free(f->family[i]);
    }
}

static double
value(const struct parsed *f, const char *series)
{
    for (int i = 0; i < f->count; i++) {
        if (strcmp(f->series[i], series) == 0) {
            return f->value[i];
        }
    }
    fail_msg("there is no %s", series);
    return 0;
}

static void
check_histogram(const struct parsed *f, const char *pool)
{
    static const char name[] = "forebay_request_duration_seconds";
    char want[300];
    double last = 0, bound = 0;
    int buckets = 0;

    snprintf(want, sizeof(want), "%s_bucket{pool=\"%s\",le=\"", name, pool);
    for (int i = 0; i < f->count; i++) {
        double le;

        if (strncmp(f->series[i], want, strlen(want)) != 0) {
            continue;
        }
        le = strtod(f->series[i] + strlen(want), NULL);
        assert_true(buckets == 0 || le > bound);
        assert_true(f->value[i] >= last);
        bound = le;
        last = f->value[i];
        buckets++;
    }
    assert_int_equal(buckets, SCORE_BUCKETS);
    assert_true(bound > 1e300); /* +Inf */
    snprintf(want, sizeof(want), "%s_count{pool=\"%s\"}", name, pool);
    assert_true(value(f, want) == last);
    snprintf(want, sizeof(want), "%s_sum{pool=\"%s\"}", name, pool);
    assert_true(value(f, want) >= 0);
}

static void
test_metrics(void **state)
{
    struct pool *p = make_pool("main", make_pool("a\\b\"c\nd\xff", NULL));
    struct generation *g = add_generation(p, 3, 1);
    struct parsed f;
    char *text;

    (void)state;
    add_generation(p->following, 1, 1);
    set_worker(g, 0, SLOT_READY, SCORE_IDLE);
    set_worker(g, 1, SLOT_READY, SCORE_IDLE);
    set_worker(g, 2, SLOT_STARTING, SCORE_FREE);
    begin_request(g, 0, "/", 1);
    scoreboard_end(&g->score.slot[0], true);
    begin_request(g, 1, "/", 1);
    p->history.answered.requests = 10;
    p->history.answered.bucket[3] = 10;
    p->history.answered.time_ns = 10 * 4 * (uint64_t)NS_PER_MS;
    p->history.crashed = 2;
    p->reloads = 5;

    text = text_of(p, STATUS_METRICS);
    parse(&f, text);
    assert_true(value(&f, "forebay_requests_total{pool=\"main\"}") == 11);
    assert_true(value(&f, "forebay_request_failures_total{pool=\"main\"}") ==
                1);
    assert_true(value(&f, "forebay_workers{pool=\"main\",state=\"idle\"}") ==
                1);
    assert_true(value(&f, "forebay_workers{pool=\"main\",state=\"busy\"}") ==
                1);
    assert_true(
        value(&f, "forebay_workers{pool=\"main\",state=\"starting\"}") == 1);
    assert_true(value(&f, "forebay_worker_exits_total{pool=\"main\","
                          "reason=\"crashed\"}") == 2);
    assert_true(value(&f, "forebay_reloads_total{pool=\"main\","
                          "result=\"done\"}") == 5);
    assert_true(value(&f, "forebay_request_duration_seconds_count"
                          "{pool=\"main\"}") == 11);
    assert_true(value(&f, "forebay_start_time_seconds") == 1000000);
    assert_true(
        value(&f, "forebay_pool_up{pool=\"a\\\\b\\\"c\\\\x0ad\\\\xff\"}") == 1);
    check_histogram(&f, "main");
    forget(&f);
    free(text);
    free_pools(p);
}

/* While an old pool of a name ends, a reload may have brought a new one: the
 * parser refuses a series that comes twice. */
static void
test_two_of_one_name(void **state)
{
    struct pool *p = make_pool("main", make_pool("main", NULL));
    struct parsed f;
    char *text;

    (void)state;
    add_generation(p, 1, 1);
    add_generation(p->following, 1, 1);
    for (int ending = 0; ending < 2; ending++) {
        p->state = ending == 0 ? POOL_STOPPING : POOL_SERVING;
        p->following->state = ending == 1 ? POOL_STOPPING : POOL_SERVING;
        p->reloads = ending == 1;
        p->following->reloads = ending == 0;
        text = text_of(p, STATUS_METRICS);
        parse(&f, text);
        assert_true(value(&f, "forebay_pool_up{pool=\"main\"}") == 1);
        assert_true(value(&f, "forebay_reloads_total{pool=\"main\","
                              "result=\"done\"}") == 1);
        forget(&f);
        free(text);
    }
    p->state = p->following->state = POOL_STOPPING;
    text = text_of(p, STATUS_METRICS);
    parse(&f, text);
    assert_true(value(&f, "forebay_pool_up{pool=\"main\"}") == 0);
    forget(&f);
    free(text);
    free_pools(p);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts),          cmocka_unit_test(test_totals),
        cmocka_unit_test(test_any_bytes),       cmocka_unit_test(test_table),
        cmocka_unit_test(test_alarms),          cmocka_unit_test(test_limits),
        cmocka_unit_test(test_manager_alarm),   cmocka_unit_test(test_metrics),
        cmocka_unit_test(test_two_of_one_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
