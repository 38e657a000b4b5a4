/* SPDX-License-Identifier: MIT
 *
 * Comparing short runs of bytes. Internal to python/.
 */
#ifndef FOREBAY_PYTHON_BYTES_H
#define FOREBAY_PYTHON_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Names are short: a call of memcmp() costs as much as the comparison. */
static inline bool
same_bytes(const char *a, const char *b, size_t len)
{
    uint64_t x, y;

    while (len >= 8) {
        memcpy(&x, a, 8);
        memcpy(&y, b, 8);
        if (x != y) {
            return false;
        }
        a += 8;
        b += 8;
        len -= 8;
    }
    while (len > 0) {
        if (*a++ != *b++) {
            return false;
        }
        len--;
    }
    return true;
}

/* How many bytes are the same in front of the first that differs. */
static inline size_t
same_length(const char *a, const char *b, size_t len)
{
    uint64_t x[4], y[4];
    size_t i = 0;

    while (i + sizeof(x) <= len) {
        memcpy(x, a + i, sizeof(x));
        memcpy(y, b + i, sizeof(y));
        if (((x[0] ^ y[0]) | (x[1] ^ y[1]) | (x[2] ^ y[2]) | (x[3] ^ y[3])) !=
            0) {
            break;
        }
        i += sizeof(x);
    }
    while (i < len && a[i] == b[i]) {
        i++;
    }
    return i;
}

#endif
