/* SPDX-License-Identifier: MIT
 *
 * See network.h.
 */
#include "conf/network.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

void
conf_network_map(const unsigned char v4[4], unsigned char ret[16])
{
    memset(ret, 0, 10);
    memset(ret + 10, 0xff, 2);
    memcpy(ret + 12, v4, 4);
}

/* The first so many bits are equal. */
static bool
same_bits(const unsigned char *a, const unsigned char *b, unsigned bits)
{
    unsigned whole = bits / 8, rest = bits % 8;

    return memcmp(a, b, whole) == 0 &&
           (rest == 0 || (a[whole] ^ b[whole]) >> (8 - rest) == 0);
}

bool
conf_network_has(const struct conf_network *n, const unsigned char address[16])
{
    return same_bits(n->address, address, n->bits);
}

/* Nothing but zeros behind the bits that count: 10.0.0.1/8 is a slip. */
static bool
is_clean(const struct conf_network *n)
{
    for (unsigned bit = n->bits; bit < 128; bit++) {
        if ((n->address[bit / 8] >> (7 - bit % 8) & 1) != 0) {
            return false;
        }
    }
    return true;
}

int
conf_network_parse(const char *text, struct conf_network *ret)
{
    const char *slash = strchr(text, '/');
    size_t len = slash != NULL ? (size_t)(slash - text) : strlen(text);
    char address[INET6_ADDRSTRLEN];
    unsigned char v4[4];
    unsigned most = 128;
    unsigned long bits;
    char *end;

    if (len == 0 || len >= sizeof(address)) {
        return -1;
    }
    memcpy(address, text, len);
    address[len] = '\0';
    if (inet_pton(AF_INET, address, v4) == 1) {
        conf_network_map(v4, ret->address);
        most = 32;
    } else if (inet_pton(AF_INET6, address, ret->address) != 1) {
        return -1;
    }
    bits = most;
    if (slash != NULL) {
        if (slash[1] < '0' || slash[1] > '9') {
            return -1;
        }
        bits = strtoul(slash + 1, &end, 10);
        if (*end != '\0' || bits > most) {
            return -1;
        }
    }
    ret->bits = (unsigned)bits + (128 - most);
    return is_clean(ret) ? 0 : -1;
}
