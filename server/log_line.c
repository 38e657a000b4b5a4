/* SPDX-License-Identifier: MIT
 *
 * See log_line.h. Every process.
 */
#include "server/log_line.h"

#include <stdlib.h>
#include <string.h>

#include "server/utf8.h"

void
log_line_add(struct log_line *l, const char *data, size_t len)
{
    size_t cap;
    char *grown;

    if (len > l->limit - l->len) {
        len = l->limit - l->len;
    }
    if (l->len + len > l->cap) {
        cap = (l->len + len) * 2;
        grown = realloc(l->data, cap);
        if (grown == NULL) {
            return;
        }
        l->data = grown;
        l->cap = cap;
    }
    if (len > 0) {
        memcpy(l->data + l->len, data, len);
        l->len += len;
    }
}

static void
add_hex(struct log_line *l, unsigned char byte)
{
    static const char hex[] = "0123456789abcdef";
    char text[4] = { '\\', 'x', hex[byte >> 4], hex[byte & 15] };

    /* An escape that would be cut in half is left out. */
    if (l->limit - l->len >= sizeof(text)) {
        log_line_add(l, text, sizeof(text));
    }
}

/* Length of the printable character of UTF-8 at p, 0 when there is none: C1
 * controls, which some terminals obey, are not printable. */
static size_t
utf8_printable(const unsigned char *p, size_t len)
{
    size_t n = utf8_length(p, len);

    return n == 2 && p[0] == 0xc2 && p[1] < 0xa0 ? 0 : n;
}

void
log_line_add_text(struct log_line *l, const char *text, size_t len)
{
    const unsigned char *p = (const unsigned char *)text;
    size_t i = 0, start, n;

    while (i < len) {
        start = i;
        while (i < len && ((p[i] >= 0x20 && p[i] < 0x7f) || p[i] == '\t')) {
            i++;
        }
        log_line_add(l, text + start, i - start);
        if (i == len) {
            break;
        }
        n = p[i] >= 0x80 ? utf8_printable(p + i, len - i) : 0;
        if (n > 0) {
            if (l->limit - l->len >= n) {
                log_line_add(l, text + i, n);
            }
            i += n;
        } else {
            add_hex(l, p[i]);
            i++;
        }
    }
}
