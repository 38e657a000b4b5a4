/* SPDX-License-Identifier: MIT
 *
 * What CGI variables mean. Pure: no logging, no state; any process.
 */
#include "protocol/cgi.h"

#include <string.h>

static bool
same_bytes(const char *a, size_t a_len, const char *b, size_t b_len)
{
    return a_len == b_len && (a_len == 0 || memcmp(a, b, a_len) == 0);
}

/* The names that mean something, by length so that few are compared. */
static const struct {
    const char *name;
    unsigned char len;
    unsigned char class;
} known_names[] = {
    { "HTTPS", 5, CGI_HTTPS },
    { "AUTH_TYPE", 9, CGI_EMPTY_ABSENT },
    { "PATH_INFO", 9, CGI_PATH_INFO },
    { "HTTP_PROXY", 10, CGI_PROXY },
    { "HTTP_COOKIE", 11, CGI_COOKIE },
    { "REMOTE_USER", 11, CGI_EMPTY_ABSENT },
    { "REQUEST_URI", 11, CGI_REQUEST_URI },
    { "SCRIPT_NAME", 11, CGI_SCRIPT_NAME },
    { "SERVER_NAME", 11, CGI_SERVER_NAME },
    { "SERVER_PORT", 11, CGI_SERVER_PORT },
    { "CONTENT_TYPE", 12, CGI_EMPTY_ABSENT },
    { "DOCUMENT_URI", 12, CGI_DOCUMENT_URI },
    { "QUERY_STRING", 12, CGI_QUERY_STRING },
    { "CONTENT_LENGTH", 14, CGI_CONTENT_LENGTH },
    { "REQUEST_METHOD", 14, CGI_METHOD },
    { "REQUEST_SCHEME", 14, CGI_SCHEME },
    { "SERVER_PROTOCOL", 15, CGI_SERVER_PROTOCOL },
    { "HTTP_CONTENT_TYPE", 17, CGI_DROP },
    { "HTTP_CONTENT_LENGTH", 19, CGI_DROP },
    { "HTTP_TRANSFER_ENCODING", 22, CGI_DROP },
};

static enum cgi_class
classify_header(const char *name, size_t len)
{
    size_t i;

    if (len == 5) {
        return CGI_DROP;
    }
    for (i = 5; i < len; i++) {
        char c = name[i];

        if (!((c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_')) {
            return CGI_DROP;
        }
    }
    return CGI_HEADER;
}

enum cgi_class
cgi_classify(const char *name, size_t len)
{
    size_t i;

    if (len == 0) {
        return CGI_UNUSABLE;
    }
    for (i = 0; i < sizeof(known_names) / sizeof(known_names[0]); i++) {
        if (known_names[i].len == len &&
            memcmp(known_names[i].name, name, len) == 0) {
            return (enum cgi_class)known_names[i].class;
        }
    }
    if (memchr(name, '=', len) != NULL || memchr(name, '\0', len) != NULL) {
        return CGI_UNUSABLE;
    }
    if (len >= 5 && memcmp(name, "HTTP_", 5) == 0) {
        return classify_header(name, len);
    }
    return CGI_PLAIN;
}

/* Room in scratch for everything that may be written there, made when it is
 * first needed: what was written does not move any more. At most that is
 * SCRIPT_NAME and PATH_INFO joined, the path of REQUEST_URI twice, and one of
 * the paths again with a slash in front. */
static int
need_scratch(struct buf *scratch, const struct cgi_path_input *in)
{
    size_t total = 2 * (in->script_name.len + in->path_info.len) +
                   in->document_uri.len + 3 * in->request_uri.len + 8;

    return scratch->cap >= total ? 0 : buf_reserve(scratch, total);
}

static int
hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    if (c >= 'A' && c <= 'F') {
        return c - 'A' + 10;
    }
    return -1;
}

/* Where the scheme's "://" stands in an absolute URI, or 0. */
static size_t
scheme_length(const struct cgi_text *uri)
{
    size_t i;

    for (i = 0; i < uri->len; i++) {
        char c = uri->data[i];

        if (c == ':') {
            return i > 0 && uri->len - i >= 3 &&
                           memcmp(uri->data + i, "://", 3) == 0
                       ? i
                       : 0;
        }
        if (c == '/' || c == '?') {
            break;
        }
    }
    return 0;
}

/* The path of a request target, still encoded (RFC 9112, section 3.2):
 * origin-form as it is, absolute-form without scheme and authority; "*" and
 * authority-form have none that could be told to an application. */
static struct cgi_text
raw_uri_path(const struct cgi_text *uri)
{
    struct cgi_text path = { "/", 1 };
    size_t start = 0, end, scheme;

    if (uri->len == 0) {
        path.len = 0;
        return path;
    }
    if (uri->data[0] != '/') {
        if (uri->len == 1 && uri->data[0] == '*') {
            path.data = "/*";
            path.len = 2;
            return path;
        }
        scheme = scheme_length(uri);
        if (scheme == 0) {
            return path;
        }
        start = scheme + 3;
        while (start < uri->len && uri->data[start] != '/') {
            if (uri->data[start] == '?' || uri->data[start] == '#') {
                return path;
            }
            start++;
        }
        if (start == uri->len) {
            return path;
        }
    }
    end = start;
    while (end < uri->len && uri->data[end] != '?' && uri->data[end] != '#') {
        end++;
    }
    path.data = uri->data + start;
    path.len = end - start;
    return path;
}

size_t
cgi_resolve_dots(char *path, size_t len)
{
    size_t in = 0, out = 0;

    while (in < len) {
        size_t end = in + 1, n;

        while (end < len && path[end] != '/') {
            end++;
        }
        n = end - in;
        if (n == 2 && path[in + 1] == '.') {
            if (end == len) {
                path[out++] = '/';
            }
        } else if (n == 3 && path[in + 1] == '.' && path[in + 2] == '.') {
            while (out > 0 && path[--out] != '/') {
            }
            if (end == len) {
                path[out++] = '/';
            }
        } else {
            memmove(path + out, path + in, n);
            out += n;
        }
        in = end;
    }
    return out;
}

static bool
is_plain_path(const struct cgi_text *path)
{
    size_t i;

    for (i = 0; i < path->len; i++) {
        if (path->data[i] == '%' ||
            (path->data[i] == '/' && i + 1 < path->len &&
             path->data[i + 1] == '.')) {
            return false;
        }
    }
    return true;
}

static size_t
percent_decode(const struct cgi_text *raw, char *out)
{
    size_t n = 0, i;

    for (i = 0; i < raw->len; i++) {
        int high, low;

        if (raw->data[i] == '%' && raw->len - i >= 3 &&
            (high = hex_digit(raw->data[i + 1])) >= 0 &&
            (low = hex_digit(raw->data[i + 2])) >= 0) {
            out[n++] = (char)(high << 4 | low);
            i += 2;
        } else {
            out[n++] = raw->data[i];
        }
    }
    return n;
}

size_t
cgi_uri_path(const struct cgi_text *uri, char *out)
{
    struct cgi_text raw = raw_uri_path(uri);

    return percent_decode(&raw, out);
}

/* The path of REQUEST_URI, decoded once, dot segments resolved: "" when it is
 * absent. In place where nothing is to be done. 0 or -1. */
static int
uri_path(const struct cgi_path_input *in, struct buf *scratch,
         struct cgi_text *ret)
{
    struct cgi_text raw = raw_uri_path(&in->request_uri);
    char *out;
    size_t n;

    if (is_plain_path(&raw)) {
        *ret = raw;
        return 0;
    }
    if (need_scratch(scratch, in) < 0) {
        return -1;
    }
    out = scratch->data + scratch->len;
    n = cgi_resolve_dots(out, percent_decode(&raw, out));
    scratch->len += n;
    ret->data = out;
    ret->len = n;
    return 0;
}

/* a and b behind each other; in place when one is empty. 0 or -1. */
static int
join(const struct cgi_path_input *in, struct buf *scratch, struct cgi_text a,
     struct cgi_text b, struct cgi_text *ret)
{
    if (a.len == 0 || b.len == 0) {
        *ret = a.len == 0 ? b : a;
        return 0;
    }
    if (need_scratch(scratch, in) < 0) {
        return -1;
    }
    ret->data = scratch->data + scratch->len;
    ret->len = a.len + b.len;
    buf_append(scratch, a.data, a.len);
    buf_append(scratch, b.data, b.len);
    return 0;
}

/* Two ways of filling SCRIPT_NAME and PATH_INFO that give a wrong path when
 * they are joined, and that REQUEST_URI tells from a right one. */
static int
repair(const struct cgi_path_input *in, size_t mount_len, struct buf *scratch,
       struct cgi_text *full)
{
    const struct cgi_text *sn = &in->script_name, *pi = &in->path_info;
    size_t scheme = scheme_length(&in->request_uri);
    struct cgi_text uri;

    /* h2o makes PATH_INFO "/http://host/x" of an absolute-form target. */
    if (scheme > 0 && full->len > scheme + 4 &&
        memcmp(full->data + 1, in->request_uri.data, scheme + 3) == 0) {
        return uri_path(in, scratch, full);
    }
    /* "fastcgi_param PATH_INFO $fastcgi_script_name" beside nginx' stock file:
     * the whole path comes in both. */
    if (mount_len == 0 && sn->len > 0 &&
        same_bytes(sn->data, sn->len, pi->data, pi->len)) {
        if (uri_path(in, scratch, &uri) < 0) {
            return -1;
        }
        if (same_bytes(uri.data, uri.len, pi->data, pi->len)) {
            *full = *pi;
        }
    }
    return 0;
}

/* The full path, decoded. 0 or -1. */
static int
full_path(const struct cgi_path_input *in, size_t mount_len, bool from_uri,
          struct buf *scratch, struct cgi_text *ret)
{
    struct cgi_text script_name = in->script_name;

    if (from_uri && in->request_uri.len > 0) {
        return uri_path(in, scratch, ret);
    }
    /* SCRIPT_NAME "/" beside a PATH_INFO is the root of the site, no segment of
     * its own. */
    if (script_name.len == 1 && script_name.data[0] == '/' &&
        in->path_info.len > 0 && in->path_info.data[0] == '/') {
        script_name.len = 0;
    }
    if (join(in, scratch, script_name, in->path_info, ret) < 0) {
        return -1;
    }
    if (ret->len == 0) {
        *ret = in->document_uri;
    }
    if (ret->len == 0) {
        return uri_path(in, scratch, ret);
    }
    return repair(in, mount_len, scratch, ret);
}

/* mount, or below it on a segment boundary. */
static bool
is_below(const struct cgi_text *path, const char *mount, size_t mount_len)
{
    return path->len >= mount_len &&
           memcmp(path->data, mount, mount_len) == 0 &&
           (path->len == mount_len || path->data[mount_len] == '/');
}

/* PEP 3333: PATH_INFO is empty or begins with a slash. */
static enum cgi_path_result
finish(const struct cgi_path_input *in, struct buf *scratch,
       struct cgi_text *path)
{
    static const struct cgi_text slash = { "/", 1 };

    if (path->len == 0) {
        path->data = "";
        return CGI_PATH_OK;
    }
    if (memchr(path->data, '\0', path->len) != NULL) {
        return CGI_PATH_NUL;
    }
    if (path->data[0] != '/' && join(in, scratch, slash, *path, path) < 0) {
        return CGI_PATH_LIMIT;
    }
    return CGI_PATH_OK;
}

enum cgi_path_result
cgi_split_path(const struct cgi_path_input *in, const char *mount,
               size_t mount_len, bool from_uri, struct buf *scratch,
               struct cgi_text *ret_script_name, struct cgi_text *ret_path_info)
{
    struct cgi_text path, uri;

    buf_clear(scratch);
    if (full_path(in, mount_len, from_uri, scratch, &path) < 0) {
        return CGI_PATH_LIMIT;
    }
    ret_script_name->data = mount;
    ret_script_name->len = mount_len;
    if (mount_len > 0 && is_below(&path, mount, mount_len)) {
        path.data += mount_len;
        path.len -= mount_len;
    } else if (mount_len > 0) {
        /* The front end may have stripped the mount (Caddy handle_path). */
        if (uri_path(in, scratch, &uri) < 0) {
            return CGI_PATH_LIMIT;
        }
        if (!is_below(&uri, mount, mount_len)) {
            return CGI_PATH_OUTSIDE;
        }
    }
    *ret_path_info = path;
    return finish(in, scratch, ret_path_info);
}

size_t
cgi_host_length(const char *name, size_t len)
{
    size_t n = len;

    while (n > 0 && name[n - 1] >= '0' && name[n - 1] <= '9') {
        n--;
    }
    if (n < 2 || name[n - 1] != ':') {
        return len;
    }
    n--;
    /* "::1" without brackets is an address, and has no port. */
    return memchr(name, ':', n) == NULL || name[n - 1] == ']' ? n : len;
}

static bool
same_word(struct cgi_text text, const char *word)
{
    size_t i;

    if (text.data == NULL || text.len != strlen(word)) {
        return false;
    }
    for (i = 0; i < text.len; i++) {
        char c = text.data[i];

        if (c >= 'A' && c <= 'Z') {
            c = (char)(c - 'A' + 'a');
        }
        if (c != word[i]) {
            return false;
        }
    }
    return true;
}

bool
cgi_is_https(struct cgi_text https, struct cgi_text scheme)
{
    return same_word(https, "on") || same_word(https, "1") ||
           same_word(scheme, "https");
}
