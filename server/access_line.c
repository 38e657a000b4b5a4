/* SPDX-License-Identifier: MIT
 *
 * See access_line.h.
 */
#include "server/access_line.h"

#include <stdio.h>
#include <string.h>

void
access_put(struct access_line *l, const char *data, size_t len)
{
    if (len > l->limit - l->len) {
        len = l->limit - l->len;
    }
    memcpy(l->out + l->len, data, len);
    l->len += len;
}

void
access_put_str(struct access_line *l, const char *text)
{
    access_put(l, text, strlen(text));
}

void
access_put_number(struct access_line *l, uint64_t n)
{
    char text[24];
    int len = snprintf(text, sizeof(text), "%llu", (unsigned long long)n);

    access_put(l, text, (size_t)len);
}

void
access_put_whole(struct access_line *l, const char *data, size_t len)
{
    if (len <= l->limit - l->len) {
        access_put(l, data, len);
    } else {
        l->limit = l->len;
    }
}

const char access_hex[] = "0123456789abcdef";

bool
access_is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

void
access_put_escaped(struct access_line *l, struct access_span s)
{
    size_t i = 0;

    while (i < s.len) {
        size_t start = i;
        unsigned char c;

        while (i < s.len && access_is_plain((unsigned char)s.data[i])) {
            i++;
        }
        access_put(l, s.data + start, i - start);
        if (i < s.len) {
            c = (unsigned char)s.data[i++];
            access_put_whole(
                l,
                (char[]){ '\\', 'x', access_hex[c >> 4], access_hex[c & 15] },
                4);
        }
    }
}

void
access_put_field(struct access_line *l, struct access_span s)
{
    if (s.len == 0) {
        access_put(l, "-", 1);
    } else {
        access_put_escaped(l, s);
    }
}

struct access_span
access_param(const struct access_entry *e, const char *name)
{
    struct access_span s = { NULL, 0 };

    s.data = request_param(e->request, name, &s.len);
    if (s.data == NULL) {
        s.len = 0;
    }
    return s;
}
