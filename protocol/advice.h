/* SPDX-License-Identifier: MIT
 *
 * Variables that look as if the front end were misconfigured, or the pool's
 * mount: what is odd, and what is to be changed in that front end. Pure; any
 * process.
 */
#ifndef FOREBAY_PROTOCOL_ADVICE_H
#define FOREBAY_PROTOCOL_ADVICE_H

#include <stdbool.h>
#include <stddef.h>

#include "protocol/cgi.h"

enum advice {
    ADVICE_NONE,
    /* The application gets a wrong path, or no request at all. */
    ADVICE_OUTSIDE,   /* the path is not below the mount */
    ADVICE_REWRITTEN, /* it is not that of REQUEST_URI */
    ADVICE_STRIPPED,  /* it is the end of that of REQUEST_URI */
    /* It gets the right one, since SCRIPT_NAME and PATH_INFO are joined. */
    ADVICE_NO_PATH, /* neither of them was sent */
    ADVICE_WHOLE,   /* everything is in SCRIPT_NAME */
    ADVICE_SPLIT,   /* cut elsewhere than at the mount */
    ADVICE_COUNT
};

/* Look at the variables of a request, and what cgi_split_path() made of them:
 * result and, with CGI_PATH_OK, path_info. from_uri: the path is that of
 * REQUEST_URI in any case. Without memory for scratch (cleared first) nothing
 * is odd. Cheap where nothing is encoded. */
enum advice advice_look(const struct cgi_path_input *in, const char *mount,
                        size_t mount_len, bool from_uri,
                        enum cgi_path_result result,
                        const struct cgi_text *path_info, struct buf *scratch);

/* Does the application get the right path all the same? */
bool advice_is_harmless(enum advice advice);

/* The line for the log, terminated and cut to size: what software (the value of
 * SERVER_SOFTWARE, or empty) sent, what becomes of it, and what to change.
 * Bytes from outside are escaped. Returns out. */
const char *advice_format(char *out, size_t size, enum advice advice,
                          const struct cgi_path_input *in, const char *mount,
                          struct cgi_text software);

#endif
