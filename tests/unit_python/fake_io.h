/* SPDX-License-Identifier: MIT
 *
 * A struct wsgi_io without a socket: gives a body in pieces that a test names,
 * keeps what is sent, fails where it is told to. Tests only.
 */
#ifndef FOREBAY_TESTS_FAKE_IO_H
#define FOREBAY_TESTS_FAKE_IO_H

#include "protocol/buf.h"
#include "python/io.h"

/* What one body_read_nogil() gives. */
struct fake_piece {
    enum { FAKE_BYTES, FAKE_ERROR, FAKE_SIGNAL, FAKE_FD } kind;
    const char *data; /* FAKE_BYTES; borrowed */
    size_t len;
    int number; /* FAKE_ERROR: negative errno; FAKE_SIGNAL: a signal to
                   raise before -EINTR; FAKE_FD: read from it until its
                   end */
};

struct fake_io {
    struct wsgi_io io;
    /* The body: ready at once, then in pieces. Borrowed. */
    const char *ready;
    size_t ready_len;
    struct fake_piece *piece;
    size_t pieces;

    /* Told by the test. */
    int64_t fail_after;  /* bytes that may be sent before writes fail; -1 */
    int fail_with;       /* negative errno */
    int write_signal;    /* raise it in the second write, as if that waited */
    int64_t resize;      /* set the size of a file before sending it; -1 */
    int connected_calls; /* calls of connected() that are true; -1: all */

    /* Seen. */
    struct buf out;  /* owned: what was sent */
    struct buf cuts; /* owned: size_t offsets in out, one per write */
    unsigned writes, sendfiles, reads, lasts, overs;
    uint64_t file_bytes;
    bool keep_out; /* else only counted */
    uint64_t out_bytes;
};

void fake_io_init(struct fake_io *f);
void fake_io_release(struct fake_io *f);

#endif
