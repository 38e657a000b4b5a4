/* SPDX-License-Identifier: MIT
 *
 * See advice.h. Pure: no logging, no state; any process.
 */
#include "protocol/advice.h"

#include <stdio.h>
#include <string.h>

#include "protocol/request.h"

/* -- what is odd ----------------------------------------------------------- */

static bool
ends_path(char c)
{
    return c == '?' || c == '#';
}

/* Does the request target begin with mount and path_info, byte for byte, and
 * end there, and nothing is encoded? The common case. */
static bool
is_same_as_sent(const struct cgi_text *uri, const char *mount, size_t mount_len,
                const struct cgi_text *path)
{
    size_t len = mount_len + path->len;

    return uri->len >= len &&
           (mount_len == 0 || memcmp(uri->data, mount, mount_len) == 0) &&
           (path->len == 0 ||
            memcmp(uri->data + mount_len, path->data, path->len) == 0) &&
           (uri->len == len || ends_path(uri->data[len])) &&
           (path->len == 0 || memchr(path->data, '%', path->len) == NULL);
}

/* One slash for several and no dot segments, in place: what front ends do to a
 * path before they pass it on, or not. */
static size_t
normalize(char *path, size_t len)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++) {
        if (path[i] != '/' || n == 0 || path[n - 1] != '/') {
            path[n++] = path[i];
        }
    }
    return cgi_resolve_dots(path, n);
}

static enum advice
compare(const struct cgi_path_input *in, const char *mount, size_t mount_len,
        const struct cgi_text *path, struct buf *scratch)
{
    char *a, *b;
    size_t n, m;

    buf_clear(scratch);
    if (buf_reserve(scratch, mount_len + path->len + in->request_uri.len + 2) <
        0) {
        return ADVICE_NONE;
    }
    a = scratch->data;
    memcpy(a, mount, mount_len);
    if (path->len > 0) {
        memcpy(a + mount_len, path->data, path->len);
    }
    n = normalize(a, mount_len + path->len);
    b = a + mount_len + path->len;
    m = normalize(b, cgi_uri_path(&in->request_uri, b));
    if (n == m && memcmp(a, b, n) == 0) {
        return ADVICE_NONE;
    }
    if (mount_len == 0 && n > 0 && n < m && memcmp(a, b + m - n, n) == 0) {
        return ADVICE_STRIPPED;
    }
    return ADVICE_REWRITTEN;
}

static bool
is_mount(const struct cgi_text *name, const char *mount, size_t mount_len)
{
    return name->len == mount_len &&
           (mount_len == 0 || memcmp(name->data, mount, mount_len) == 0);
}

enum advice
advice_look(const struct cgi_path_input *in, const char *mount,
            size_t mount_len, bool from_uri, enum cgi_path_result result,
            const struct cgi_text *path_info, struct buf *scratch)
{
    const struct cgi_text *uri = &in->request_uri;

    if (result == CGI_PATH_OUTSIDE) {
        return ADVICE_OUTSIDE;
    }
    if (result != CGI_PATH_OK || from_uri) {
        return ADVICE_NONE;
    }
    /* "*" and host:port (OPTIONS, CONNECT) are no paths, and Apache httpd
     * passes a target in absolute form as it came. */
    if (uri->len > 0 && uri->data[0] == '/' &&
        !is_same_as_sent(uri, mount, mount_len, path_info)) {
        enum advice found = compare(in, mount, mount_len, path_info, scratch);

        if (found != ADVICE_NONE) {
            return found;
        }
    }
    if (in->path_info.len == 0) {
        if (in->script_name.len == 0) {
            return ADVICE_NO_PATH;
        }
        return is_mount(&in->script_name, mount, mount_len) ? ADVICE_NONE
                                                            : ADVICE_WHOLE;
    }
    return in->script_name.len == 0 ||
                   is_mount(&in->script_name, mount, mount_len)
               ? ADVICE_NONE
               : ADVICE_SPLIT;
}

bool
advice_is_harmless(enum advice advice)
{
    return advice >= ADVICE_NO_PATH;
}

/* -- what to do ------------------------------------------------------------ */

enum server { NGINX, LIGHTTPD, APACHE, HAPROXY, CADDY, H2O, OTHER, SERVERS };

static const char *const server_names[SERVERS] = {
    "nginx", "lighttpd", "Apache", "HAProxy", "Caddy", "h2o", "",
};

static enum server
server_of(struct cgi_text software)
{
    for (int i = 0; i < OTHER; i++) {
        size_t len = strlen(server_names[i]);

        if (software.len >= len &&
            memcmp(software.data, server_names[i], len) == 0) {
            return (enum server)i;
        }
    }
    return OTHER;
}

/* "%s" stands for the mount, at most twice. */
static const char *const fixes[ADVICE_COUNT][SERVERS] = {
    [ADVICE_OUTSIDE] = {
        [NGINX] = ("pass only what is below it (location ~ ^%s(?:/|$)), or "
                  "correct the pool's mount"),
        [LIGHTTPD] = ("pass only what is below it ($HTTP[\"url\"] =~ "
                     "\"^%s(/|$)\"), or correct the pool's mount"),
        [APACHE] = ("pass only what is below it, with the prefix on both sides "
                   "(ProxyPass \"%s\" \"...|fcgi://localhost%s\"), or correct "
                   "the pool's mount"),
        [HAPROXY] = ("pass only what is below it (use_backend ... if { path %s "
                    "} or { path_beg %s/ }), or correct the pool's mount"),
        [CADDY] = ("pass only what is below it (@app path %s %s/*), or correct "
                  "the pool's mount"),
        [H2O] = ("pass only what is below it (paths: \"%s\"), or correct the "
                "pool's mount"),
        [OTHER] = "pass only what is below it, or correct the pool's mount",
    },
    [ADVICE_REWRITTEN] = {
        [NGINX] = ("try_files, rewrite, index or fastcgi_index has changed it: "
                  "put fastcgi_pass into the location that clients ask for, "
                  "or set path_source = request_uri"),
        [LIGHTTPD] = ("url.rewrite or an index file has changed it: use "
                     "\"check-local\" => \"disable\" and no rewriting, or set "
                     "path_source = request_uri"),
        [APACHE] = ("RewriteRule, FallbackResource, DirectoryIndex or "
                   "proxy-fcgi-pathinfo has changed it: use ProxyPass without "
                   "them, or set path_source = request_uri"),
        [HAPROXY] = ("http-request set-path, index or path-info has changed "
                    "it: leave that out, or set path_source = request_uri"),
        [CADDY] = ("php_fastcgi, try_files or rewrite has changed it: use "
                  "reverse_proxy with transport fastcgi, or set path_source = "
                  "request_uri"),
        [H2O] = ("file.custom-handler has changed it: use fastcgi.connect in "
                "paths, or set path_source = request_uri"),
        [OTHER] = ("send the path as the client sent it, or set path_source = "
                  "request_uri"),
    },
    [ADVICE_STRIPPED] = {
        [CADDY] = ("set the pool's mount to the prefix that is cut off, or use "
                  "handle instead of handle_path"),
        [OTHER] = "set the pool's mount to the prefix that is cut off",
    },
    [ADVICE_NO_PATH] = {
        [NGINX] = ("after the include write: scgi_param SCRIPT_NAME \"%s\"; "
                  "scgi_param PATH_INFO $document_uri;"),
        [OTHER] = ("send SCRIPT_NAME \"%s\", and the rest of the path as "
                  "PATH_INFO (nginx with scgi_params: scgi_param PATH_INFO "
                  "$document_uri;)"),
    },
    [ADVICE_WHOLE] = {
        [NGINX] = ("to have it so from the start: fastcgi_split_path_info "
                  "^(%s)(.*)$; and, after the include, fastcgi_param PATH_INFO "
                  "$fastcgi_path_info;"),
        [LIGHTTPD] = ("to have it so from the start: \"fix-root-scriptname\" => "
                     "\"enable\" for \"/\""),
        [APACHE] = "ProxyPass does that, and nothing has to be changed",
        [HAPROXY] = ("to have it so from the start: path-info ^(%s)(.*)$ in the "
                    "section fcgi-app"),
        [CADDY] = ("to have it so from the start: reverse_proxy with transport "
                  "fastcgi, without split"),
        [OTHER] = ("to have it so from the start, send SCRIPT_NAME \"%s\", and "
                  "the rest of the path as PATH_INFO"),
    },
    [ADVICE_SPLIT] = {
        [NGINX] = ("to have it so from the start: fastcgi_split_path_info "
                  "^(%s)(.*)$;"),
        [LIGHTTPD] = ("to have it so from the start: \"fix-root-scriptname\" => "
                     "\"enable\" for \"/\", and no slash at the end of any "
                     "other key"),
        [HAPROXY] = ("to have it so from the start: path-info ^(%s)(.*)$ in the "
                    "section fcgi-app"),
        [APACHE] = ("to have it so from the start: Alias \"%s/\" "
                   "\"/srv/site/application/\" before SetHandler"),
        [CADDY] = ("to have it so from the start: no split, no env SCRIPT_NAME "
                  "but \"%s\""),
        [OTHER] = ("to have it so from the start, send SCRIPT_NAME \"%s\", and "
                  "the rest of the path as PATH_INFO"),
    },
};

/* The text with the mount in the places of its "%s". */
static void
fill(char *out, size_t size, const char *text, const char *mount)
{
    size_t n = 0;

    while (*text != '\0' && n + 1 < size) {
        if (text[0] == '%' && text[1] == 's') {
            int len = snprintf(out + n, size - n, "%s", mount);

            n += len < 0 ? 0 : (size_t)len;
            n = n < size ? n : size - 1;
            text += 2;
        } else {
            out[n++] = *text++;
        }
    }
    out[n] = '\0';
}

static const char *
what_is(enum advice advice)
{
    switch (advice) {
    case ADVICE_OUTSIDE:
        return "which is not below the mount of the pool, and is answered with "
               "404";
    case ADVICE_REWRITTEN:
        return "which is not the path that the client asked for";
    case ADVICE_STRIPPED:
        return "which is only the end of the path that the client asked for: "
               "links that the application makes will lead nowhere";
    case ADVICE_NO_PATH:
        return "so the path is taken from DOCUMENT_URI or REQUEST_URI";
    case ADVICE_WHOLE:
        return "all of the path in SCRIPT_NAME; it is split at the mount of "
               "the pool here";
    case ADVICE_SPLIT:
        return "the path cut in two elsewhere than at the mount of the pool; "
               "it is joined and split again here";
    default:
        return "";
    }
}

/* "\"text\"", or what is sent instead of it. */
static const char *
quoted(char *out, size_t size, struct cgi_text text)
{
    char shown[100];

    if (text.data == NULL) {
        return "(absent)";
    }
    request_escape(shown, sizeof(shown), text.data, text.len);
    snprintf(out, size, "\"%s\"", shown);
    return out;
}

const char *
advice_format(char *out, size_t size, enum advice advice,
              const struct cgi_path_input *in, const char *mount,
              struct cgi_text software)
{
    enum server server = server_of(software);
    const char *fix = fixes[advice][server];
    char who[100] = "the front end", name[110], info[110], uri[110];
    char filled[400];

    if (software.len > 0) {
        request_escape(who, sizeof(who), software.data, software.len);
    }
    fill(filled, sizeof(filled), fix != NULL ? fix : fixes[advice][OTHER],
         mount);
    snprintf(out, size,
             "%s sends SCRIPT_NAME %s and PATH_INFO %s for %s, %s (mount is "
             "\"%s\"); %s. If the site is below a prefix, that is its mount; "
             "docs/frontends.md has more",
             who, quoted(name, sizeof(name), in->script_name),
             quoted(info, sizeof(info), in->path_info),
             quoted(uri, sizeof(uri), in->request_uri), what_is(advice), mount,
             filled);
    return out;
}
