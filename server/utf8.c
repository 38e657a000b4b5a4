/* SPDX-License-Identifier: MIT
 *
 * See utf8.h. The bounds of the second byte are those of RFC 3629, section 4.
 */
#include "server/utf8.h"

size_t
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
