/* SPDX-License-Identifier: MIT
 *
 * Is this UTF-8? For logs, which have bytes from anywhere. Any process.
 */
#ifndef FOREBAY_SERVER_UTF8_H
#define FOREBAY_SERVER_UTF8_H

#include <stddef.h>

/* Length of the character of two to four bytes that begins at p (len > 0), 0
 * when there is none: ASCII, malformed, overlong, or a surrogate. */
size_t utf8_length(const unsigned char *p, size_t len);

#endif
