/* SPDX-License-Identifier: MIT
 *
 * See request_body.h. The tool only.
 */
#include "server/request_body.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void
body_release(struct body *b)
{
    for (unsigned i = 0; i < b->count; i++) {
        free(b->part[i].data);
        if (b->part[i].fd > STDIN_FILENO) {
            close(b->part[i].fd);
        }
    }
    free(b->part);
    memset(b, 0, sizeof(*b));
}

static struct body_part *
body_new_part(struct body *b)
{
    struct body_part *grown;

    grown = realloc(b->part, (b->count + 1) * sizeof(*grown));
    if (grown == NULL) {
        return NULL;
    }
    b->part = grown;
    grown += b->count++;
    memset(grown, 0, sizeof(*grown));
    grown->fd = -1;
    return grown;
}

int
body_add_bytes(struct body *b, const void *data, size_t len)
{
    struct body_part *part;
    char *copy;

    copy = malloc(len + 1);
    if (copy == NULL) {
        return -1;
    }
    part = body_new_part(b);
    if (part == NULL) {
        free(copy);
        return -1;
    }
    if (len > 0) {
        memcpy(copy, data, len);
    }
    part->data = copy;
    part->len = len;
    return 0;
}

int
body_add_file(struct body *b, const char *path, char *why, size_t size)
{
    struct body_part *part;
    struct stat st;
    int fd = STDIN_FILENO;

    if (strcmp(path, "-") != 0) {
        fd = open(path, O_RDONLY | O_CLOEXEC);
    }
    if (fd < 0 || fstat(fd, &st) != 0) {
        snprintf(why, size, "cannot open %s: %s", path, strerror(errno));
        return -1;
    }
    if (S_ISDIR(st.st_mode)) {
        snprintf(why, size, "%s is a folder", path);
        close(fd);
        return -1;
    }
    part = body_new_part(b);
    if (part == NULL) {
        if (fd != STDIN_FILENO) {
            close(fd);
        }
        snprintf(why, size, "out of memory");
        return -1;
    }
    part->fd = fd;
    part->regular = S_ISREG(st.st_mode);
    part->len = part->regular ? (uint64_t)st.st_size : 0;
    return 0;
}

bool
body_length(const struct body *b, uint64_t *ret)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < b->count; i++) {
        if (b->part[i].fd >= 0 && !b->part[i].regular) {
            return false;
        }
        sum += b->part[i].len;
    }
    *ret = sum;
    return true;
}

static int
settle_part(struct body_part *part)
{
    size_t cap = 0, len = 0;
    char *data = NULL, *grown;
    ssize_t n;

    for (;;) {
        if (cap - len < 65536) {
            cap = cap * 2 + 65536;
            grown = realloc(data, cap);
            if (grown == NULL) {
                free(data);
                return -1;
            }
            data = grown;
        }
        n = read(part->fd, data + len, cap - len);
        if (n == 0) {
            break;
        }
        if (n < 0 && errno != EINTR) {
            free(data);
            return -1;
        }
        len += n > 0 ? (size_t)n : 0;
    }
    if (part->fd > STDIN_FILENO) {
        close(part->fd);
    }
    part->fd = -1;
    part->data = data;
    part->len = len;
    return 0;
}

int
body_settle(struct body *b, char *why, size_t size)
{
    for (unsigned i = 0; i < b->count; i++) {
        if (b->part[i].fd >= 0 && !b->part[i].regular &&
            settle_part(&b->part[i]) != 0) {
            snprintf(why, size, "cannot read the body: %s", strerror(errno));
            return -1;
        }
    }
    return 0;
}

void
body_rewind(struct body *b)
{
    b->at = 0;
    b->offset = 0;
    b->ended = false;
}

int
body_wait_fd(const struct body *b)
{
    if (b->ended || b->at >= b->count || b->part[b->at].regular) {
        return -1;
    }
    return b->part[b->at].fd;
}

/* 0: this part has ended. */
static ssize_t
read_part(const struct body_part *part, uint64_t offset, char *out, size_t len)
{
    ssize_t n;

    if (part->fd >= 0 && !part->regular) {
        do {
            n = read(part->fd, out, len);
        } while (n < 0 && errno == EINTR);
        return n;
    }
    if (len > part->len - offset) {
        len = (size_t)(part->len - offset);
    }
    if (len == 0) {
        return 0;
    }
    if (part->data != NULL) {
        memcpy(out, part->data + offset, len);
        return (ssize_t)len;
    }
    n = pread(part->fd, out, len, (off_t)offset);
    if (n == 0) {
        errno = EIO; /* its length was announced already */
        return -1;
    }
    return n;
}

ssize_t
body_read(struct body *b, char *out, size_t len)
{
    ssize_t n;

    while (b->at < b->count) {
        n = read_part(&b->part[b->at], b->offset, out, len);
        if (n != 0) {
            b->offset += n > 0 ? (uint64_t)n : 0;
            return n;
        }
        b->at++;
        b->offset = 0;
    }
    b->ended = true;
    return 0;
}
