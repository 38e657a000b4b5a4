/* SPDX-License-Identifier: MIT
 *
 * The uwsgi protocol: the decoder behind protocol/decoder.h. Pure; any process.
 */
#ifndef FOREBAY_PROTOCOL_UWSGI_H
#define FOREBAY_PROTOCOL_UWSGI_H

#include "protocol/decoder.h"

/* Internal to protocol/: called by decoder.c. */
enum decode_event uwsgi_feed(struct decoder *d, const char *data, size_t len,
                             size_t *ret_used);
/* Internal to protocol/: the request was answered, ignore what still comes; and
 * whether nothing is half-received. */
void uwsgi_ended(struct decoder *d);
bool uwsgi_is_idle(const struct decoder *d);

#endif
