/* SPDX-License-Identifier: MIT
 *
 * See access_format.h. Reads top to bottom: writing with escapes, what a
 * request has, the directives, JSON, taking a format apart.
 */
#include "server/access_format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* The line that is being written. */
struct line {
    char *out;
    size_t len;
    size_t limit; /* of len; a newline fits behind it */
};

/* Bytes from outside. */
struct span {
    const char *data;
    size_t len;
};

/* -- writing ----------------------------------------------------------------
 */

static void
put(struct line *l, const char *data, size_t len)
{
    if (len > l->limit - l->len) {
        len = l->limit - l->len;
    }
    memcpy(l->out + l->len, data, len);
    l->len += len;
}

static void
put_str(struct line *l, const char *text)
{
    put(l, text, strlen(text));
}

static void
put_number(struct line *l, uint64_t n)
{
    char text[24];

    put(l, text,
        (size_t)snprintf(text, sizeof(text), "%llu", (unsigned long long)n));
}

/* Nothing of an escape that does not fit. */
static void
put_whole(struct line *l, const char *data, size_t len)
{
    if (len <= l->limit - l->len) {
        put(l, data, len);
    } else {
        l->limit = l->len;
    }
}

static const char hex[] = "0123456789abcdef";

static bool
is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

static void
put_escaped(struct line *l, struct span s)
{
    size_t i = 0;

    while (i < s.len) {
        size_t start = i;
        unsigned char c;

        while (i < s.len && is_plain((unsigned char)s.data[i])) {
            i++;
        }
        put(l, s.data + start, i - start);
        if (i < s.len) {
            c = (unsigned char)s.data[i++];
            put_whole(l, (char[]){ '\\', 'x', hex[c >> 4], hex[c & 15] }, 4);
        }
    }
}

/* "-" for what is not there or empty. */
static void
put_field(struct line *l, struct span s)
{
    if (s.len == 0) {
        put(l, "-", 1);
    } else {
        put_escaped(l, s);
    }
}

/* -- what a request has -----------------------------------------------------
 */

static struct span
param(const struct access_entry *e, const char *name)
{
    struct span s = { NULL, 0 };

    s.data = request_param(e->request, name, &s.len);
    if (s.data == NULL) {
        s.len = 0;
    }
    return s;
}

/* The target as the client wrote it, or what is nearest to it. */
static void
put_path(struct line *l, const struct access_entry *e)
{
    struct span uri = param(e, "REQUEST_URI");
    const char *query;

    if (uri.len == 0) {
        put_escaped(l, param(e, "SCRIPT_NAME"));
        put_escaped(l, param(e, "PATH_INFO"));
        return;
    }
    query = memchr(uri.data, '?', uri.len);
    if (query != NULL) {
        uri.len = (size_t)(query - uri.data);
    }
    put_escaped(l, uri);
}

static void
put_query(struct line *l, const struct access_entry *e)
{
    struct span query = param(e, "QUERY_STRING");

    if (query.len > 0) {
        put(l, "?", 1);
        put_escaped(l, query);
    }
}

static void
put_request_line(struct line *l, const struct access_entry *e)
{
    struct span uri = param(e, "REQUEST_URI");

    put_field(l, param(e, "REQUEST_METHOD"));
    put(l, " ", 1);
    if (uri.len > 0) {
        put_escaped(l, uri);
    } else {
        put_path(l, e);
        put_query(l, e);
    }
    put(l, " ", 1);
    put_field(l, param(e, "SERVER_PROTOCOL"));
}

/* [31/Jan/2024:12:00:00 +0100]. A second is formatted once per thread. */
static void
put_time(struct line *l, const struct access_entry *e)
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
    put_str(l, text);
}

/* -- one letter -------------------------------------------------------------
 */

static void
put_status(struct line *l, const struct access_entry *e)
{
    if (e->status > 0) {
        put_number(l, (uint64_t)e->status);
    } else {
        put(l, "-", 1);
    }
}

static void
put_piece(struct line *l, const struct piece *p, const struct access_entry *e)
{
    switch (p->letter) {
    case '\0':
        put(l, p->text, p->len);
        break;
    case 'h':
        put_field(l, param(e, "REMOTE_ADDR"));
        break;
    case 'l':
        put(l, "-", 1);
        break;
    case 'u':
        put_field(l, param(e, "REMOTE_USER"));
        break;
    case 't':
        put_time(l, e);
        break;
    case 'r':
        put_request_line(l, e);
        break;
    case 'm':
        put_field(l, param(e, "REQUEST_METHOD"));
        break;
    case 'U':
        put_path(l, e);
        break;
    case 'q':
        put_query(l, e);
        break;
    case 'H':
        put_field(l, param(e, "SERVER_PROTOCOL"));
        break;
    case 's':
        put_status(l, e);
        break;
    case 'b':
        if (e->body_bytes == 0) {
            put(l, "-", 1);
            break;
        }
        put_number(l, e->body_bytes);
        break;
    case 'B':
        put_number(l, e->body_bytes);
        break;
    case 'D':
        put_number(l, e->took_ns / 1000);
        break;
    case 'T':
        put_number(l, e->took_ns / 1000000000);
        break;
    case 'p':
        put_number(l, (uint64_t)e->pid);
        break;
    case 'P':
        put_field(l, (struct span){ e->pool, strlen(e->pool) });
        break;
    case 'w':
        put_number(l, (uint64_t)e->worker);
        break;
    case 'X':
        put_str(l, e->client_closed ? "client-closed" : "-");
        break;
    default: /* i, e: the parameter of that name */
        put_field(l, param(e, p->text));
    }
}

/* -- JSON -------------------------------------------------------------------
 */

/* Length of the UTF-8 character at p, 0 when there is none (RFC 3629, section
 * 4). */
static size_t
utf8_length(const unsigned char *p, size_t len)
{
    size_t n = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    unsigned char low = 0x80, high = 0xbf;

    if (p[0] < 0xc2 || p[0] > 0xf4 || len < n) {
        return 0;
    }
    switch (p[0]) {
    case 0xe0:
        low = 0xa0; /* shorter forms exist */
        break;
    case 0xed:
        high = 0x9f; /* surrogates */
        break;
    case 0xf0:
        low = 0x90;
        break;
    case 0xf4:
        high = 0x8f; /* beyond U+10FFFF */
        break;
    default:
        break;
    }
    if (p[1] < low || p[1] > high) {
        return 0;
    }
    for (size_t i = 2; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    return n;
}

/* A string (RFC 8259, section 7), at most room bytes between its quotation
 * marks. */
static void
put_json_string(struct line *l, struct span s, size_t room)
{
    const unsigned char *p = (const unsigned char *)s.data;
    size_t limit = l->limit;

    put(l, "\"", 1);
    if (l->len + room < l->limit) {
        l->limit = l->len + room;
    }
    for (size_t i = 0; i < s.len && l->len < l->limit;) {
        unsigned char c = p[i];
        size_t n = c >= 0x80 ? utf8_length(p + i, s.len - i) : 0;

        if (is_plain(c)) {
            n = 1;
        }
        if (n > 0) {
            put_whole(l, s.data + i, n);
            i += n;
        } else {
            put_whole(l,
                      (char[]){ '\\', 'u', '0', '0', hex[c >> 4], hex[c & 15] },
                      6);
            i++;
        }
    }
    l->limit = limit;
    put(l, "\"", 1);
}

static void
put_json_member(struct line *l, const char *name, struct span s, size_t room)
{
    put_str(l, ",\"");
    put_str(l, name);
    put_str(l, "\":");
    if (s.data == NULL) {
        put_str(l, "null");
    } else {
        put_json_string(l, s, room);
    }
}

static void
put_json_number(struct line *l, const char *name, uint64_t n)
{
    put_str(l, ",\"");
    put_str(l, name);
    put_str(l, "\":");
    put_number(l, n);
}

/* {"time":"2024-01-31T12:00:00.123+01:00" */
static void
put_json_time(struct line *l, const struct access_entry *e)
{
    static __thread time_t second = -1;
    static __thread char text[32], zone[16];
    char fraction[8];
    struct tm tm;

    if (e->begun.tv_sec != second) {
        if (localtime_r(&e->begun.tv_sec, &tm) == NULL ||
            strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm) == 0 ||
            strftime(zone, sizeof(zone) - 1, "%z", &tm) != 5) {
            text[0] = zone[0] = '\0';
        } else { /* RFC 3339 wants a colon in it */
            memmove(zone + 4, zone + 3, 3);
            zone[3] = ':';
        }
        second = e->begun.tv_sec;
    }
    snprintf(fraction, sizeof(fraction), ".%03u",
             (unsigned)(e->begun.tv_nsec / 1000000) % 1000);
    put_str(l, "{\"time\":\"");
    put_str(l, text);
    put_str(l, fraction);
    put_str(l, zone);
    put(l, "\"", 1);
}

/* The rooms and what stands between them stay below ACCESS_LINE_MAX together,
 * so that the object is whole. */
static void
put_json(struct line *l, const struct access_entry *e)
{
    put_json_time(l, e);
    put_json_member(l, "pool", (struct span){ e->pool, strlen(e->pool) }, 128);
    put_json_number(l, "pid", (uint64_t)e->pid);
    put_json_number(l, "worker", (uint64_t)e->worker);
    put_json_member(l, "remote_addr", param(e, "REMOTE_ADDR"), 64);
    put_json_member(l, "remote_user", param(e, "REMOTE_USER"), 128);
    put_json_member(l, "method", param(e, "REQUEST_METHOD"), 32);
    put_json_member(l, "host", param(e, "HTTP_HOST"), 256);
    put_json_member(l, "uri", param(e, "REQUEST_URI"), 1536);
    put_json_member(l, "protocol", param(e, "SERVER_PROTOCOL"), 32);
    if (e->status > 0) {
        put_json_number(l, "status", (uint64_t)e->status);
    } else {
        put_str(l, ",\"status\":null");
    }
    put_json_number(l, "bytes", e->body_bytes);
    put_json_number(l, "duration_us", e->took_ns / 1000);
    put_str(l, ",\"client_closed\":");
    put_str(l, e->client_closed ? "true" : "false");
    put_json_member(l, "referer", param(e, "HTTP_REFERER"), 512);
    put_json_member(l, "user_agent", param(e, "HTTP_USER_AGENT"), 512);
    put(l, "}", 1);
}

size_t
access_format_line(const struct access_format *f, const struct access_entry *e,
                   char out[ACCESS_LINE_MAX])
{
    struct line l = { out, 0, ACCESS_LINE_MAX - 1 };

    if (f->json) {
        put_json(&l, e);
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
