/* SPDX-License-Identifier: MIT
 *
 * See access_json.h.
 */
#include "server/access_json.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "server/utf8.h"

/* A string (RFC 8259, section 7), at most room bytes between its quotation
 * marks. */
static void
put_json_string(struct access_line *l, struct access_span s, size_t room)
{
    const unsigned char *p = (const unsigned char *)s.data;
    size_t limit = l->limit;

    access_put(l, "\"", 1);
    if (l->len + room < l->limit) {
        l->limit = l->len + room;
    }
    for (size_t i = 0; i < s.len && l->len < l->limit;) {
        unsigned char c = p[i];
        size_t n = c >= 0x80 ? utf8_length(p + i, s.len - i) : 0;

        if (access_is_plain(c)) {
            n = 1;
        }
        if (n > 0) {
            access_put_whole(l, s.data + i, n);
            i += n;
        } else {
            access_put_whole(l,
                             (char[]){ '\\', 'u', '0', '0', access_hex[c >> 4],
                                       access_hex[c & 15] },
                             6);
            i++;
        }
    }
    l->limit = limit;
    access_put(l, "\"", 1);
}

static void
put_json_member(struct access_line *l, const char *name, struct access_span s,
                size_t room)
{
    access_put_str(l, ",\"");
    access_put_str(l, name);
    access_put_str(l, "\":");
    if (s.data == NULL) {
        access_put_str(l, "null");
    } else {
        put_json_string(l, s, room);
    }
}

static void
put_json_number(struct access_line *l, const char *name, uint64_t n)
{
    access_put_str(l, ",\"");
    access_put_str(l, name);
    access_put_str(l, "\":");
    access_put_number(l, n);
}

/* {"time":"2024-01-31T12:00:00.123+01:00" */
static void
put_json_time(struct access_line *l, const struct access_entry *e)
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
    access_put_str(l, "{\"time\":\"");
    access_put_str(l, text);
    access_put_str(l, fraction);
    access_put_str(l, zone);
    access_put(l, "\"", 1);
}

/* The rooms and what stands between them stay below ACCESS_LINE_MAX together,
 * so that the object is whole. */
void
access_put_json(struct access_line *l, const struct access_entry *e)
{
    put_json_time(l, e);
    put_json_member(l, "pool", (struct access_span){ e->pool, strlen(e->pool) },
                    128);
    put_json_number(l, "pid", (uint64_t)e->pid);
    put_json_number(l, "worker", (uint64_t)e->worker);
    put_json_member(l, "remote_addr", access_param(e, "REMOTE_ADDR"), 64);
    put_json_member(l, "remote_user", access_param(e, "REMOTE_USER"), 128);
    put_json_member(l, "method", access_param(e, "REQUEST_METHOD"), 32);
    put_json_member(l, "host", access_param(e, "HTTP_HOST"), 256);
    put_json_member(l, "uri", access_param(e, "REQUEST_URI"), 1536);
    put_json_member(l, "protocol", access_param(e, "SERVER_PROTOCOL"), 32);
    if (e->status > 0) {
        put_json_number(l, "status", (uint64_t)e->status);
    } else {
        access_put_str(l, ",\"status\":null");
    }
    put_json_number(l, "bytes", e->body_bytes);
    put_json_number(l, "duration_us", e->took_ns / 1000);
    access_put_str(l, ",\"client_closed\":");
    access_put_str(l, e->client_closed ? "true" : "false");
    put_json_member(l, "referer", access_param(e, "HTTP_REFERER"), 512);
    put_json_member(l, "user_agent", access_param(e, "HTTP_USER_AGENT"), 512);
    access_put(l, "}", 1);
}
