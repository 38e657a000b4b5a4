/* SPDX-License-Identifier: MIT
 *
 * A body that `forebay request` sends: comes from memory and files, is read
 * once or again. The tool only; opens files, no sockets.
 */
#ifndef FOREBAY_SERVER_REQUEST_BODY_H
#define FOREBAY_SERVER_REQUEST_BODY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Bytes in memory, or a file. */
struct body_part {
    char *data;   /* owned; NULL: a file */
    uint64_t len; /* of a file that is no regular one: not known */
    int fd;       /* owned; -1: memory */
    bool regular; /* its length is known and it can be read again */
};

/* Parts one behind the other, and how far they have been read. */
struct body {
    struct body_part *part;
    unsigned count;
    unsigned at;     /* part that is being read */
    uint64_t offset; /* in it */
    bool ended;      /* all was read */
};

void body_release(struct body *b);
/* Append bytes (copied). 0 or -1 (no memory). */
int body_add_bytes(struct body *b, const void *data, size_t len);
/* Append a file; "-" is descriptor 0. 0, or -1 with a sentence. */
int body_add_file(struct body *b, const char *path, char *why, size_t size);
/* All bytes together; false when a part's length is not known. */
bool body_length(const struct body *b, uint64_t *ret);
/* Read parts of unknown length into memory: for SCGI, which needs the length
 * first, and for sending a body again. 0, or -1 with a sentence. */
int body_settle(struct body *b, char *why, size_t size);
void body_rewind(struct body *b);
/* The descriptor to wait for before body_read(), or -1: it does not wait. */
int body_wait_fd(const struct body *b);
/* Up to len bytes; 0: the end (b->ended); -1 with errno. A regular file that
 * has become shorter gives EIO. */
ssize_t body_read(struct body *b, char *out, size_t len);

#endif
