/* SPDX-License-Identifier: MIT
 *
 * sys.stdout, sys.stderr and wsgi.errors: ordinary text streams over the real
 * descriptors 1 and 2 (wsgi checklist D6, R139). Unbuffered: what is written is
 * out of the process at once, and nothing is lost with it. That lines of
 * several threads do not mix is seen to where they arrive (log_relay.h): it is
 * told which pieces belong together.
 *
 * Template and worker processes.
 */
#ifndef FOREBAY_PYTHON_STREAM_H
#define FOREBAY_PYTHON_STREAM_H

#include <stdbool.h>
#include <stddef.h>

#include "python/pyref.h"

enum stream { STREAM_STDOUT, STREAM_STDERR, STREAM_ERRORS, STREAM_COUNT };

/* How the server writes text of the application (log_pipe.h: log_write_text(),
 * log_end_line()). With wait the GIL is not held. */
struct stream_writer {
    int (*write)(int fd, unsigned stream, bool *open, const char *text,
                 size_t len, bool wait);
    void (*end_line)(unsigned stream);
};

/* Unset, text goes to the descriptors as it is. */
void stream_set_writer(const struct stream_writer *w);

/* A text stream (UTF-8, backslashreplace); type is io.TextIOWrapper or a
 * subclass of it. New reference. */
PyObject *stream_new_text(PyObject *type, enum stream which, const char *name);

/* Make sys.stdout and sys.stderr such streams. 0 or -1. */
int stream_install(void) PY_RAISES_NEG;

/* End the lines that this thread has begun: at the end of a request and before
 * a fork, so that nothing sticks to the next line. With or without the GIL. */
void stream_end_lines(void) PY_NEVER_RAISES;

#endif
