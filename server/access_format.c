/* SPDX-License-Identifier: MIT
 *
 * See access_format.h. Reads top to bottom: what a request has, the directives,
 * taking a format apart.
 */
#include "server/access_format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/access_json.h"
#include "server/access_line.h"

/* A piece of a format: text, or what a letter stands for. */
struct piece {
    char letter;      /* 0: text */
    const char *text; /* owned by the format: text, or the parameter's name */
    size_t len;
};

struct access_format {
    bool json;
    char *names; /* what the pieces point to */
    struct piece *piece;
    unsigned count;
};

/* -- what a request has -----------------------------------------------------
 */

/* The target as the client wrote it, or what is nearest to it. */
static void
put_path(struct access_line *l, const struct access_entry *e)
{
    struct access_span uri = access_param(e, "REQUEST_URI");
    const char *query;

    if (uri.len == 0) {
        access_put_escaped(l, access_param(e, "SCRIPT_NAME"));
        access_put_escaped(l, access_param(e, "PATH_INFO"));
        return;
    }
    query = memchr(uri.data, '?', uri.len);
    if (query != NULL) {
        uri.len = (size_t)(query - uri.data);
    }
    access_put_escaped(l, uri);
}

static void
put_query(struct access_line *l, const struct access_entry *e)
{
    struct access_span query = access_param(e, "QUERY_STRING");

    if (query.len > 0) {
        access_put(l, "?", 1);
        access_put_escaped(l, query);
    }
}

static void
put_request_line(struct access_line *l, const struct access_entry *e)
{
    struct access_span uri = access_param(e, "REQUEST_URI");

    access_put_field(l, access_param(e, "REQUEST_METHOD"));
    access_put(l, " ", 1);
    if (uri.len > 0) {
        access_put_escaped(l, uri);
    } else {
        put_path(l, e);
        put_query(l, e);
    }
    access_put(l, " ", 1);
    access_put_field(l, access_param(e, "SERVER_PROTOCOL"));
}

/* [31/Jan/2024:12:00:00 +0100]. A second is formatted once per thread. */
static void
put_time(struct access_line *l, const struct access_entry *e)
{
    static __thread time_t second = -1;
    static __thread char text[48];
    struct tm tm;

    if (e->begun.tv_sec != second) {
        if (localtime_r(&e->begun.tv_sec, &tm) == NULL ||
            strftime(text, sizeof(text), "[%d/%b/%Y:%H:%M:%S %z]", &tm) == 0) {
            text[0] = '-';
            text[1] = '\0';
        }
        second = e->begun.tv_sec;
    }
    access_put_str(l, text);
}

/* -- one letter -------------------------------------------------------------
 */

static void
put_status(struct access_line *l, const struct access_entry *e)
{
    if (e->status > 0) {
        access_put_number(l, (uint64_t)e->status);
    } else {
        access_put(l, "-", 1);
    }
}

static void
put_piece(struct access_line *l, const struct piece *p,
          const struct access_entry *e)
{
    switch (p->letter) {
    case '\0':
        access_put(l, p->text, p->len);
        break;
    case 'h':
        access_put_field(l, access_param(e, "REMOTE_ADDR"));
        break;
    case 'l':
        access_put(l, "-", 1);
        break;
    case 'u':
        access_put_field(l, access_param(e, "REMOTE_USER"));
        break;
    case 't':
        put_time(l, e);
        break;
    case 'r':
        put_request_line(l, e);
        break;
    case 'm':
        access_put_field(l, access_param(e, "REQUEST_METHOD"));
        break;
    case 'U':
        put_path(l, e);
        break;
    case 'q':
        put_query(l, e);
        break;
    case 'H':
        access_put_field(l, access_param(e, "SERVER_PROTOCOL"));
        break;
    case 's':
        put_status(l, e);
        break;
    case 'b':
        if (e->body_bytes == 0) {
            access_put(l, "-", 1);
            break;
        }
        access_put_number(l, e->body_bytes);
        break;
    case 'B':
        access_put_number(l, e->body_bytes);
        break;
    case 'D':
        access_put_number(l, e->took_ns / 1000);
        break;
    case 'T':
        access_put_number(l, e->took_ns / 1000000000);
        break;
    case 'p':
        access_put_number(l, (uint64_t)e->pid);
        break;
    case 'P':
        access_put_field(l, (struct access_span){ e->pool, strlen(e->pool) });
        break;
    case 'w':
        access_put_number(l, (uint64_t)e->worker);
        break;
    case 'X':
        access_put_str(l, e->client_closed ? "client-closed" : "-");
        break;
    default: /* i, e: the parameter of that name */
        access_put_field(l, access_param(e, p->text));
    }
}

size_t
access_format_line(const struct access_format *f, const struct access_entry *e,
                   char out[ACCESS_LINE_MAX])
{
    struct access_line l = { out, 0, ACCESS_LINE_MAX - 1 };

    if (f->json) {
        access_put_json(&l, e);
    }
    for (unsigned i = 0; i < f->count; i++) {
        put_piece(&l, &f->piece[i], e);
    }
    out[l.len++] = '\n';
    return l.len;
}

/* -- taking a format apart --------------------------------------------------
 */

static const char letters[] = "hlutrmUqHsbBDTpPwX";

static char
upper(char c)
{
    if (c >= 'a' && c <= 'z') {
        return (char)(c - 'a' + 'A');
    }
    return c == '-' ? '_' : c;
}

/* The parameter that holds a request header (RFC 3875, section 4.1.18). Returns
 * what is behind it in out. */
static char *
header_name(const char *name, size_t len, char *out)
{
    static const char *const bare[] = { "CONTENT_TYPE", "CONTENT_LENGTH" };
    char *start = out;

    memcpy(out, "HTTP_", 5);
    out += 5;
    for (size_t i = 0; i < len; i++) {
        *out++ = upper(name[i]);
    }
    *out = '\0';
    for (size_t i = 0; i < 2; i++) {
        if (strcmp(start + 5, bare[i]) == 0) {
            memmove(start, bare[i], strlen(bare[i]) + 1);
        }
    }
    return out + 1;
}

/* %{NAME}i or %{NAME}e. Returns what is behind it in the text, or NULL. */
static const char *
read_named(struct access_format *f, const char *p, char **names, char *why,
           size_t size)
{
    const char *end = strchr(p, '}');
    struct piece *piece = &f->piece[f->count++];
    size_t len;

    if (end == NULL || end == p + 1) {
        snprintf(why, size, "access_format: %%{ needs a name and a }");
        return NULL;
    }
    len = (size_t)(end - p) - 1;
    *piece = (struct piece){ end[1], *names, 0 };
    switch (end[1]) {
    case 'i':
        *names = header_name(p + 1, len, *names);
        return end + 2;
    case 'e':
        memcpy(*names, p + 1, len);
        (*names)[len] = '\0';
        *names += len + 1;
        return end + 2;
    case 'o':
        snprintf(why, size,
                 "access_format: %%{%.*s}o: headers of the answer cannot be "
                 "logged",
                 (int)(len < 60 ? len : 60), p + 1);
        return NULL;
    default:
        snprintf(why, size,
                 "access_format: %%{%.*s} is followed by i (a request header) "
                 "or e (a parameter of the front end)",
                 (int)(len < 60 ? len : 60), p + 1);
        return NULL;
    }
}

/* The text behind a %. Returns what follows, or NULL. */
static const char *
read_directive(struct access_format *f, const char *p, char **names, char *why,
               size_t size)
{
    if (*p == '{') {
        return read_named(f, p, names, why, size);
    }
    if (*p == '>' || *p == '<') { /* Apache: of the last, or first, request */
        p++;
    }
    if (*p == '%') {
        f->piece[f->count++] = (struct piece){ '\0', "%", 1 };
        return p + 1;
    }
    if (*p == '\0' || strchr(letters, *p) == NULL) {
        char shown[8];

        request_escape(shown, sizeof(shown), p, *p != '\0');
        snprintf(why, size,
                 "access_format: there is no %%%s; there are %%%% %%{Name}i "
                 "%%{NAME}e and %% with one of %s",
                 shown, letters);
        return NULL;
    }
    f->piece[f->count++] = (struct piece){ *p, NULL, 0 };
    return p + 1;
}

static int
read_format(struct access_format *f, const char *text, char *why, size_t size)
{
    char *names = f->names;

    while (*text != '\0') {
        size_t len = strcspn(text, "%");

        if (len > 0) {
            memcpy(names, text, len);
            f->piece[f->count++] = (struct piece){ '\0', names, len };
            names += len;
            text += len;
        } else {
            text = read_directive(f, text + 1, &names, why, size);
            if (text == NULL) {
                return -1;
            }
        }
    }
    return 0;
}

static const char *
by_name(const char *text)
{
    if (strcmp(text, "common") == 0) {
        return "%h %l %u %t \"%r\" %s %b";
    }
    if (strcmp(text, "combined") == 0) {
        return "%h %l %u %t \"%r\" %s %b \"%{Referer}i\" \"%{User-Agent}i\"";
    }
    return text;
}

struct access_format *
access_format_new(const char *text, char *why, size_t size)
{
    struct access_format *f = calloc(1, sizeof(*f));
    size_t len;

    text = by_name(text);
    len = strlen(text);
    if (f == NULL) {
        snprintf(why, size, "out of memory");
        return NULL;
    }
    if (strcmp(text, "json") == 0) {
        f->json = true;
        return f;
    }
    /* No piece is shorter than a byte of the text; "HTTP_" and the NUL of a
     * name take no more than twice what %{x}i takes. */
    f->piece = calloc(len + 1, sizeof(*f->piece));
    f->names = malloc(2 * len + 1);
    if (f->piece == NULL || f->names == NULL) {
        snprintf(why, size, "out of memory");
    } else if (len == 0 || strpbrk(text, "\n\r") != NULL) {
        snprintf(why, size, "access_format is one line, and not empty");
    } else if (read_format(f, text, why, size) == 0) {
        return f;
    }
    access_format_free(f);
    return NULL;
}

void
access_format_free(struct access_format *f)
{
    if (f != NULL) {
        free(f->names);
        free(f->piece);
        free(f);
    }
}

int
access_format_check(const char *text, char *why, size_t size)
{
    struct access_format *f = access_format_new(text, why, size);

    access_format_free(f);
    return f != NULL ? 0 : -1;
}
