/* SPDX-License-Identifier: MIT
 *
 * The body that --form of `forebay request` makes: multipart/form-data (RFC
 * 7578), part by part. The tool only; opens files, prints nothing.
 */
#ifndef FOREBAY_SERVER_REQUEST_FORM_H
#define FOREBAY_SERVER_REQUEST_FORM_H

#include <stdbool.h>
#include <stddef.h>

#include "server/request_exchange.h"
#include "server/request_message.h"

/* Zeroes: no part yet. */
struct form {
    bool used;
    char boundary[48]; /* chosen with the first part */
};

/* One more part at the end of body. text: NAME=VALUE or NAME=@FILE, behind the
 * file perhaps ;type=TYPE and ;filename=NAME. EXCHANGE_OK, or EXCHANGE_USAGE or
 * EXCHANGE_INPUT with a sentence. */
enum exchange_code form_add(struct form *f, struct body *body, const char *text,
                            char *why, size_t size);

/* What stands behind the last part. 0 or -1 (no memory). */
int form_end(const struct form *f, struct body *body);

#endif
