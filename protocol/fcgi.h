/* SPDX-License-Identifier: MIT
 *
 * FastCGI 1.0: the decoder behind protocol/decoder.h and the records that are
 * sent. The numbers are those of libfcgi's <fastcgi.h>. Pure; any process.
 */
#ifndef FOREBAY_PROTOCOL_FCGI_H
#define FOREBAY_PROTOCOL_FCGI_H

#include <fastcgi.h>

#include "protocol/decoder.h"

/* The largest content that keeps records of full size aligned to 8 bytes. */
enum { FCGI_CONTENT_MAX = 65528 };

/* Internal to protocol/: called by decoder.c. */
enum decode_event fcgi_feed(struct decoder *d, const char *data, size_t len,
                            size_t *ret_used);
/* Internal to protocol/: content bytes of the current record, when it is STDIN
 * of r; and take len of them, which went past the decoder. */
uint64_t fcgi_body_next(const struct decoder *d, const struct request *r);
void fcgi_skip(struct decoder *d, size_t len);

/* Internal to protocol/: decoder_expect() of an active FastCGI request. */
size_t fcgi_expect(const struct decoder *d, const struct request *r, char *ret);

/* Internal to protocol/: decoder_record_left() and decoder_next(). */
size_t fcgi_record_left(const struct decoder *d);
enum decoder_next fcgi_next(const struct decoder *d, const struct request *r,
                            const char *data, size_t len);

/* Write a record header of FCGI_HEADER_LEN bytes. */
static inline void
fcgi_put_header(char *out, int type, unsigned id, size_t len, unsigned padding)
{
    out[0] = FCGI_VERSION_1;
    out[1] = (char)type;
    out[2] = (char)(id >> 8);
    out[3] = (char)id;
    out[4] = (char)(len >> 8);
    out[5] = (char)len;
    out[6] = (char)padding;
    out[7] = 0;
}

/* Write an END_REQUEST record of 16 bytes. */
void fcgi_put_end(char *out, unsigned id, uint32_t app_status,
                  unsigned protocol_status);

/* Write the length of a name or value (1 or 4 bytes, section 3.4); returns how
 * many bytes. out has room for 4. */
size_t fcgi_put_length(char *out, uint32_t len);

#endif
