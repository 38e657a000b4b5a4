/* SPDX-License-Identifier: MIT
 *
 * What nginx, lighttpd, Apache httpd, Caddy, h2o and cgi-fcgi really send
 * (tests/data/captures, see the README there), decoded in pieces, and the CGI
 * values that follow from it.
 */
#include "protocol_check.h"

#include <dirent.h>

#include "protocol/cgi.h"

enum column {
    COL_FILE,
    COL_SEQ,
    COL_FRONTEND,
    COL_PROTOCOL,
    COL_CONFIG,
    COL_CASE,
    COL_ROLE,
    COL_KEEP_CONN,
    COL_MOUNT,
    COL_PATH_SOURCE,
    COL_METHOD,
    COL_SCRIPT_NAME,
    COL_PATH_INFO,
    COL_QUERY_STRING,
    COL_CONTENT_LENGTH,
    COL_SERVER_PROTOCOL,
    COL_SCHEME,
    COL_BODY_LEN,
    COL_TRUNCATED,
    COL_MULTI,
    COL_NOTE,
    COLUMNS
};

enum { MAX_ROWS = 500, MAX_FILE = 70000 };

struct row {
    char *line;
    char *col[COLUMNS];
    bool used;
};

static struct row rows[MAX_ROWS];
static unsigned row_count;

static int
read_index(void **state)
{
    FILE *f = fopen(CAPTURES "/index.tsv", "r");
    char *line = NULL;
    size_t size = 0;

    (void)state;
    if (f == NULL) {
        return -1;
    }
    while (getline(&line, &size, f) > 0 && row_count < MAX_ROWS) {
        struct row *row = &rows[row_count];
        char *p;
        unsigned i;

        line[strcspn(line, "\n")] = '\0';
        row->line = p = strdup(line);
        for (i = 0; i < COLUMNS; i++) {
            row->col[i] = p == NULL ? (char *)"" : strsep(&p, "\t");
        }
        if (strcmp(row->col[COL_FILE], "file") != 0) {
            row_count++;
        } else {
            free(row->line);
        }
    }
    free(line);
    fclose(f);
    return row_count > 0 ? 0 : -1;
}

static int
free_index(void **state)
{
    unsigned i;

    (void)state;
    for (i = 0; i < row_count; i++) {
        free(rows[i].line);
    }
    return 0;
}

static struct row *
find_row(const char *file, unsigned seq)
{
    unsigned i;

    for (i = 0; i < row_count; i++) {
        if (strcmp(rows[i].col[COL_FILE], file) == 0 &&
            (unsigned)atoi(rows[i].col[COL_SEQ]) == seq) {
            return &rows[i];
        }
    }
    return NULL;
}

static size_t
read_file(const char *name, char *out)
{
    char path[1000];
    FILE *f;
    size_t n;

    snprintf(path, sizeof(path), CAPTURES "/%s", name);
    f = fopen(path, "rb");
    assert_non_null(f);
    n = fread(out, 1, MAX_FILE, f);
    assert_true(n > 0 && n < MAX_FILE);
    fclose(f);
    return n;
}

/* -- the values of one request
 * -------------------------------------------------- */

/* Of one column: percent-encoded where it is not printable ASCII. */
static size_t
unquote(const char *s, char *out)
{
    size_t n = 0;

    for (; *s != '\0'; s++) {
        unsigned byte;

        if (*s == '%' && sscanf(s + 1, "%2x", &byte) == 1) {
            out[n++] = (char)byte;
            s += 2;
        } else {
            out[n++] = *s;
        }
    }
    return n;
}

/* "-" means: do not assert. */
static void
assert_text(const struct row *row, const char *what, const char *expected,
            struct cgi_text got)
{
    char bytes[2000];
    size_t len;

    if (strcmp(expected, "-") == 0) {
        return;
    }
    len = unquote(expected, bytes);
    if (got.len != len || (len > 0 && memcmp(got.data, bytes, len) != 0)) {
        print_error("%s %s: %s is \"%.*s\", expected \"%s\"\n",
                    row->col[COL_FILE], row->col[COL_SEQ], what, (int)got.len,
                    got.data, expected);
        fail();
    }
}

static struct cgi_text
param(const struct request *r, const char *name)
{
    struct cgi_text text = { NULL, 0 };

    text.data = request_param(r, name, &text.len);
    return text;
}

/* All values of a name as an application gets them: HTTP_* joined. */
static struct cgi_text
joined(const struct request *r, const char *name, struct buf *scratch)
{
    struct cgi_text text;
    const char *between = NULL;
    bool first = true;
    unsigned i;

    switch (cgi_classify(name, strlen(name))) {
    case CGI_HEADER:
        between = ", ";
        break;
    case CGI_COOKIE:
        between = "; ";
        break;
    default:
        return param(r, name);
    }
    buf_clear(scratch);
    for (i = 0; i < r->param_count; i++) {
        const struct request_param *p = &r->param[i];

        if (p->name_len == strlen(name) &&
            memcmp(r->params.data + p->name, name, p->name_len) == 0) {
            put_text(scratch, "%s%.*s", first ? "" : between, (int)p->value_len,
                     r->params.data + p->value);
            first = false;
        }
    }
    text.data = scratch->data;
    text.len = scratch->len;
    return text;
}

/* {"NAME": "value", ...}; there are no escapes in the recorded ones. */
static unsigned
check_multi(const struct row *row, const struct request *r)
{
    const char *p = row->col[COL_MULTI];
    char name[200], value[500];
    struct buf scratch;
    unsigned n = 0;

    buf_init(&scratch, SIZE_MAX);
    assert_null(strchr(p, '\\'));
    while ((p = strchr(p, '"')) != NULL) {
        size_t len = strcspn(++p, "\"");

        assert_true(len < sizeof(name));
        memcpy(name, p, len);
        name[len] = '\0';
        p = strchr(p + len + 1, '"');
        assert_non_null(p);
        len = strcspn(++p, "\"");
        assert_true(len < sizeof(value));
        memcpy(value, p, len);
        value[len] = '\0';
        p += len + 1;
        assert_text(row, name, value, joined(r, name, &scratch));
        n++;
    }
    buf_release(&scratch);
    return n;
}

static void
check_path(const struct row *row, const struct request *r)
{
    struct cgi_path_input in = {
        .script_name = param(r, "SCRIPT_NAME"),
        .path_info = param(r, "PATH_INFO"),
        .document_uri = param(r, "DOCUMENT_URI"),
        .request_uri = param(r, "REQUEST_URI"),
    };
    const char *mount = row->col[COL_MOUNT];
    struct cgi_text script_name, path_info;
    struct buf scratch;
    enum cgi_path_result result;

    if (strcmp(mount, "/") == 0) {
        mount = "";
    }
    buf_init(&scratch, SIZE_MAX);
    result = cgi_split_path(&in, mount, strlen(mount),
                            strcmp(row->col[COL_PATH_SOURCE], "cgi") != 0,
                            &scratch, &script_name, &path_info);
    if (strstr(row->col[COL_NOTE], "no segment boundary") != NULL) {
        assert_int_equal(result, CGI_PATH_OUTSIDE);
    } else {
        assert_int_equal(result, CGI_PATH_OK);
        assert_text(row, "SCRIPT_NAME", row->col[COL_SCRIPT_NAME], script_name);
        assert_text(row, "PATH_INFO", row->col[COL_PATH_INFO], path_info);
    }
    buf_release(&scratch);
}

static void
check_head(const struct row *row, const struct request *r)
{
    static const struct cgi_text http = { "http", 4 }, https = { "https", 5 };
    bool authorizer = strcmp(row->col[COL_ROLE], "authorizer") == 0;
    struct cgi_text length = param(r, "CONTENT_LENGTH");

    assert_int_equal(r->refuse_status, 0);
    assert_int_equal(r->protocol, strcmp(row->col[COL_PROTOCOL], "scgi") == 0
                                      ? REQUEST_SCGI
                                      : REQUEST_FCGI);
    assert_int_equal(r->role,
                     authorizer ? REQUEST_AUTHORIZER : REQUEST_RESPONDER);
    assert_int_equal(r->keep_conn, strcmp(row->col[COL_KEEP_CONN], "1") == 0);
    assert_int_equal(r->body_done, authorizer);
    if (r->method >= 0) {
        struct cgi_text method = {
            r->params.data + r->param[r->method].value,
            r->param[r->method].value_len,
        };

        assert_text(row, "method", row->col[COL_METHOD], method);
    } else {
        assert_string_equal(row->col[COL_METHOD], "-");
    }
    assert_text(row, "QUERY_STRING", row->col[COL_QUERY_STRING],
                param(r, "QUERY_STRING"));
    /* Empty in the table: absent, empty or no number on the wire. */
    if (r->content_length < 0) {
        length.len = 0;
    }
    assert_text(row, "CONTENT_LENGTH", row->col[COL_CONTENT_LENGTH], length);
    assert_text(row, "SERVER_PROTOCOL", row->col[COL_SERVER_PROTOCOL],
                param(r, "SERVER_PROTOCOL"));
    assert_text(row, "url_scheme", row->col[COL_SCHEME],
                cgi_is_https(param(r, "HTTPS"), param(r, "REQUEST_SCHEME"))
                    ? https
                    : http);
    check_path(row, r);
    check_multi(row, r);
}

/* -- replaying a file
 * ------------------------------------------------------------ */

/* Decode in pieces of at most step bytes; every request against its row. */
static void
replay(const char *file, char *data, size_t len, size_t step)
{
    struct decoder d;
    size_t pos = 0, end = 0, used;
    struct row *row = NULL;
    unsigned seq = 0;
    bool ended = true;
    enum decode_event ev;

    decoder_init(&d, DECODER_AUTO, &test_limits);
    while (pos < len) {
        end = len - pos < step ? len : pos + step;
        do {
            ev = decoder_feed(&d, data + pos, end - pos, &used);
            pos += used;
            if (ev == DECODE_HEAD) {
                assert_true(ended);
                row = find_row(file, ++seq);
                assert_non_null(row);
                check_head(row, d.req);
                row->used = true;
                ended = d.req->body_done;
            } else if (ev == DECODE_BODY_END) {
                long long seen = (long long)d.req->body_seen;

                if (strstr(row->col[COL_NOTE], "CLWRONG") == NULL) {
                    assert_int_equal(seen, atoll(row->col[COL_BODY_LEN]));
                }
                ended = true;
                decoder_end(&d, d.req);
            } else if (ev != DECODE_MORE && ev != DECODE_BODY) {
                print_error("%s: event %d, %s\n", file, (int)ev,
                            ev == DECODE_BAD ? d.why : "");
                fail();
            }
        } while (ev != DECODE_MORE || pos < end);
    }
    assert_non_null(row);
    assert_null(find_row(file, seq + 1));
    if (strcmp(row->col[COL_TRUNCATED], "yes") == 0) {
        assert_false(ended);
        assert_true(d.first.body_seen > 10000);
    } else if (strcmp(row->col[COL_ROLE], "authorizer") != 0) {
        assert_true(ended);
        assert_true(decoder_is_idle(&d));
    }
    decoder_release(&d);
}

static void
test_replay(void **state)
{
    static const size_t steps[] = { MAX_FILE, 1, 7, 8, 1000, 4096 };
    char *data = malloc(MAX_FILE);
    unsigned files = 0, i;
    DIR *dir = opendir(CAPTURES);
    struct dirent *entry;

    (void)state;
    assert_non_null(data);
    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        size_t len, k;

        if (strstr(entry->d_name, ".bin") == NULL) {
            continue;
        }
        len = read_file(entry->d_name, data);
        for (k = 0; k < sizeof(steps) / sizeof(steps[0]); k++) {
            replay(entry->d_name, data, len, steps[k]);
        }
        files++;
    }
    closedir(dir);
    free(data);
    assert_true(files > 300);
    for (i = 0; i < row_count; i++) {
        if (!rows[i].used) {
            print_error("%s %s was not replayed\n", rows[i].col[COL_FILE],
                        rows[i].col[COL_SEQ]);
            fail();
        }
    }
}

/* One of every front end and protocol, cut at each offset and against the guard
 * page. */
static void
test_cuts(void **state)
{
    static const char *const files[] = {
        "nginx-fastcgi-post.bin",        "nginx-scgi-post.bin",
        "nginx-fastcgi-keepalive.bin",   "lighttpd-fastcgi-post.bin",
        "lighttpd-scgi-post.bin",        "lighttpd-fastcgi-authorizer.bin",
        "apache-proxy_fcgi-post.bin",    "apache-proxy_scgi-post.bin",
        "apache-fcgid-post.bin",         "apache-proxy_fcgi-keepalive.bin",
        "caddy-fastcgi-get-headers.bin", "h2o-fastcgi-keepalive.bin",
        "cgi-fcgi-bigparams.bin",        "cgi-fcgi-post-extra.bin",
    };
    char *data = malloc(MAX_FILE);
    size_t i;

    (void)state;
    assert_non_null(data);
    for (i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        struct setup s = setup_of(DECODER_AUTO);
        size_t len = read_file(files[i], data);
        char *text;

        s.end_when = END_AT_BODY_END;
        text = transcript_of(&s, data, len);
        assert_non_null(strstr(text, "HEAD "));
        assert_null(strstr(text, "BAD "));
        check_bytes(&s, data, len, text);
        free(text);
    }
    free(data);
}

/* With too small a limit each of them is refused, never misunderstood. */
static void
test_small_limits(void **state)
{
    struct setup s = setup_of(DECODER_AUTO);
    char *data = malloc(MAX_FILE);
    unsigned i;

    (void)state;
    assert_non_null(data);
    s.limits.params_bytes = 100;
    s.end_when = END_AT_BODY_END;
    for (i = 0; i < row_count; i++) {
        size_t len = read_file(rows[i].col[COL_FILE], data);
        char *text = transcript_of(&s, data, len);

        if (strcmp(rows[i].col[COL_METHOD], "-") != 0) {
            assert_non_null(strstr(text, "  refused 431: "));
        }
        assert_null(strstr(text, "BAD "));
        free(text);
    }
    free(data);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replay),
        cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_small_limits),
    };

    return cmocka_run_group_tests(tests, read_index, free_index);
}
