/* SPDX-License-Identifier: MIT
 *
 * What CGI variables mean: which class a name belongs to, and how SCRIPT_NAME
 * and PATH_INFO follow from what front ends send. Pure; any process.
 */
#ifndef FOREBAY_PROTOCOL_CGI_H
#define FOREBAY_PROTOCOL_CGI_H

#include <stdbool.h>
#include <stddef.h>

#include "protocol/buf.h"

enum cgi_class {
    CGI_PLAIN,          /* passed as it is; the last of several counts */
    CGI_HEADER,         /* HTTP_*: several are joined with ", " */
    CGI_COOKIE,         /* HTTP_COOKIE: several are joined with "; " */
    CGI_PROXY,          /* HTTP_PROXY: dropped unless the pool passes it */
    CGI_DROP,           /* HTTP_CONTENT_LENGTH, HTTP_CONTENT_TYPE,
                           HTTP_TRANSFER_ENCODING, bare HTTP_ */
    CGI_UNUSABLE,       /* a name that is empty or has '=', NUL: dropped and
                           logged; HTTP_ names with other characters than
                           A-Z 0-9 _ : dropped silently are CGI_DROP */
    CGI_EMPTY_ABSENT,   /* CONTENT_TYPE, REMOTE_USER, AUTH_TYPE: "" counts as
                           absent */
    CGI_CONTENT_LENGTH, /* digits or absent */
    CGI_METHOD,
    CGI_SCRIPT_NAME,
    CGI_PATH_INFO,
    CGI_REQUEST_URI,
    CGI_DOCUMENT_URI,
    CGI_QUERY_STRING,
    CGI_HTTPS,
    CGI_SCHEME, /* REQUEST_SCHEME */
    CGI_SERVER_NAME,
    CGI_SERVER_PORT,
    CGI_SERVER_PROTOCOL,
};

enum cgi_class cgi_classify(const char *name, size_t len);

/* Bytes that are not NUL-terminated; data NULL: absent. */
struct cgi_text {
    const char *data;
    size_t len;
};

struct cgi_path_input {
    struct cgi_text script_name, path_info, document_uri, request_uri;
};

enum cgi_path_result {
    CGI_PATH_OK,
    CGI_PATH_OUTSIDE, /* not below the mount: answer 404 */
    CGI_PATH_NUL,     /* a NUL byte in the path: answer 400 */
    CGI_PATH_LIMIT,   /* out of memory */
};

/* SCRIPT_NAME and PATH_INFO for PEP 3333. mount is "" or "/x/y" (no slash at
 * the end). The full path is SCRIPT_NAME + PATH_INFO as sent (else
 * DOCUMENT_URI, else the decoded path of REQUEST_URI); with from_uri always the
 * decoded path of REQUEST_URI (scheme and authority removed, dot segments
 * resolved). It is split at the mount on a segment boundary; a path whose
 * mount the front end has stripped (seen from REQUEST_URI) gets it back.
 *
 * The result is *ret_script_name (points into mount: "" or mount itself) and
 * *ret_path_info, which points into one of the inputs or into scratch
 * (cleared first). Nothing is allocated where the path can be used in place. */
enum cgi_path_result cgi_split_path(const struct cgi_path_input *in,
                                    const char *mount, size_t mount_len,
                                    bool from_uri, struct buf *scratch,
                                    struct cgi_text *ret_script_name,
                                    struct cgi_text *ret_path_info);

/* The path of a request target, percent-decoded once, into out, which has room
 * for as many bytes as uri has and one more. Returns how many. */
size_t cgi_uri_path(const struct cgi_text *uri, char *out);

/* Remove "." and ".." segments in place (RFC 3986, section 5.2.4); path begins
 * with a slash or is empty. Returns the new length. */
size_t cgi_resolve_dots(char *path, size_t len);

/* How much of SERVER_NAME is the host: HAProxy sends the header Host there,
 * with its port, but RFC 3875, section 4.1.14 has host names and addresses only
 * (an IPv6 address in brackets). Never 0 unless len is. */
size_t cgi_host_length(const char *name, size_t len);

/* "https" when HTTPS is on or 1 (any case), else REQUEST_SCHEME being https. */
bool cgi_is_https(struct cgi_text https, struct cgi_text scheme);

#endif
