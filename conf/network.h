/* SPDX-License-Identifier: MIT
 *
 * Addresses of peers as settings name them: 192.0.2.7, 192.0.2.0/24, 2001:db8::
 * /32. IPv4 is kept as the IPv6 addresses that it is mapped to, so that a peer
 * is found whichever kind of socket it came through. Any process, pure.
 */
#ifndef FOREBAY_CONF_NETWORK_H
#define FOREBAY_CONF_NETWORK_H

#include <stdbool.h>

struct conf_network {
    unsigned char address[16];
    unsigned bits; /* of address that count; the others are 0 */
};

/* 0, or -1: it is no ADDRESS[/BITS], or has more bits set than it says. */
int conf_network_parse(const char *text, struct conf_network *ret);

/* Is the address (of IPv6, or mapped) in it? */
bool conf_network_has(const struct conf_network *n,
                      const unsigned char address[16]);

/* ::ffff:a.b.c.d of the four bytes of an IPv4 address. */
void conf_network_map(const unsigned char v4[4], unsigned char ret[16]);

#endif
