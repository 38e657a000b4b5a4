/* SPDX-License-Identifier: MIT
 *
 * See offload.h. nginx and lighttpd decode %XX in the value, so every byte that
 * is not plain is sent that way. Apache's mod_xsendfile (0.12) does not, and
 * has the header X-Sendfile in common with lighttpd: there the name goes as it
 * is, and a file with a name that the two would take for different ones is sent
 * by ourselves.
 */
#include "python/offload.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "protocol/response.h"

/* The name of an open file, without links in it. False when it has none any
 * more. */
static bool
name_of(int fd, char *out, size_t size)
{
    char link[64];
    struct stat open_file, named;
    ssize_t n;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    n = readlink(link, out, size - 1);
    if (n <= 0 || (size_t)n == size - 1) {
        return false;
    }
    out[n] = '\0';
    return out[0] == '/' && fstat(fd, &open_file) == 0 &&
           stat(out, &named) == 0 && open_file.st_dev == named.st_dev &&
           open_file.st_ino == named.st_ino;
}

/* "/srv/files=/protected": *ret_to is what stands for the beginning of the path
 * that ends at *ret_rest. The longest one counts. False: none is that of the
 * path, though there are some. */
static bool
map_path(const struct wsgi_config *config, const char *path,
         const char **ret_to, const char **ret_rest)
{
    size_t best = 0;

    *ret_to = "";
    *ret_rest = path;
    if (config->sendfile_map == NULL || config->sendfile_map[0] == NULL) {
        return true;
    }
    for (const char *const *map = config->sendfile_map; *map != NULL; map++) {
        const char *to = strchr(*map, '=') + 1;
        size_t len = (size_t)(to - 1 - *map);

        while (len > 0 && (*map)[len - 1] == '/') {
            len--;
        }
        if (strncmp(path, *map, len) == 0 && path[len] == '/' &&
            len + 1 > best) {
            best = len + 1;
            *ret_to = to;
            *ret_rest = path + len;
        }
    }
    return best > 0;
}

static bool
is_plain(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
           (c >= 'A' && c <= 'Z') || (c != '\0' && strchr("/._-~", c) != NULL);
}

static bool
is_unambiguous(const char *s)
{
    for (; *s != '\0'; s++) {
        if ((unsigned char)*s < 0x20 || *s == 0x7f || *s == '%') {
            return false;
        }
    }
    return true;
}

static int
put_escaped(struct buf *out, const char *s, size_t len, bool raw)
{
    int rc = raw ? buf_append(out, s, len) : 0;

    for (size_t i = 0; !raw && rc == 0 && i < len; i++) {
        char hex[4];

        if (is_plain((unsigned char)s[i])) {
            rc = buf_append(out, s + i, 1);
        } else {
            snprintf(hex, sizeof(hex), "%%%02X", (unsigned char)s[i]);
            rc = buf_append(out, hex, 3);
        }
    }
    return rc;
}

/* The line of Content-Length, if the application has given one. */
static void
drop_length(struct buf *head)
{
    static const char name[] = "\nContent-Length:";
    size_t n = sizeof(name) - 1;

    for (size_t i = 0; i + n <= head->len; i++) {
        char *line = head->data + i + 1, *end;

        if (strncasecmp(head->data + i, name, n) != 0) {
            continue;
        }
        end = memchr(line, '\n', head->len - i - 1);
        if (end != NULL) {
            memmove(line, end + 1, (size_t)(head->data + head->len - end - 1));
            head->len -= (size_t)(end + 1 - line);
        }
        return;
    }
}

bool
offload_file(const struct wsgi_config *config, struct buf *head, int fd,
             uint64_t len)
{
    char path[PATH_MAX];
    const char *to, *rest;
    struct stat st;
    size_t before = head->len, to_len;
    bool raw;

    if (config->sendfile_header == NULL || fstat(fd, &st) != 0 ||
        (uint64_t)st.st_size != len || !name_of(fd, path, sizeof(path)) ||
        !map_path(config, path, &to, &rest)) {
        return false;
    }
    raw = strcmp(config->sendfile_header, "X-Sendfile") == 0;
    if (raw && !is_unambiguous(rest)) {
        return false;
    }
    to_len = strlen(to);
    while (to_len > 0 && to[to_len - 1] == '/') {
        to_len--;
    }
    if (buf_append_str(head, config->sendfile_header) != 0 ||
        buf_append_str(head, ": ") != 0 ||
        put_escaped(head, to, to_len, raw) != 0 ||
        put_escaped(head, rest, strlen(rest), raw) != 0 ||
        buf_append_str(head, "\r\n") != 0) {
        head->len = before;
        return false;
    }
    drop_length(head);
    return true;
}
