/* SPDX-License-Identifier: MIT
 *
 * SCGI: the decoder behind protocol/decoder.h. Pure; any process.
 */
#ifndef FOREBAY_PROTOCOL_SCGI_H
#define FOREBAY_PROTOCOL_SCGI_H

#include "protocol/decoder.h"

/* Internal to protocol/: called by decoder.c. */
enum decode_event scgi_feed(struct decoder *d, const char *data, size_t len,
                            size_t *ret_used);

#endif
