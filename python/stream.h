/* SPDX-License-Identifier: MIT
 *
 * sys.stdout, sys.stderr and wsgi.errors: ordinary text streams over the real
 * descriptors 1 and 2 (wsgi checklist D6, R139), made so that lines of several
 * threads do not mix. What a thread writes is put together until a newline
 * comes or the stream is flushed, and leaves in one piece; only where there is
 * but one thread sys.stdout and sys.stderr need not wait for the newline.
 *
 * Template and worker processes.
 */
#ifndef FOREBAY_PYTHON_STREAM_H
#define FOREBAY_PYTHON_STREAM_H

#include <stddef.h>

#include "python/pyref.h"

enum stream { STREAM_STDOUT, STREAM_STDERR, STREAM_ERRORS, STREAM_COUNT };

/* How whole lines are written: without the GIL, by one thread at a time, not
 * for ever. 0 or -errno. Unset, by write(). */
void stream_set_writer(int (*write_lines)(int fd, const char *data,
                                          size_t len));

/* A text stream (UTF-8, backslashreplace); type is io.TextIOWrapper or a
 * subclass of it. New reference. */
PyObject *stream_new_text(PyObject *type, enum stream which, const char *name);

/* Make sys.stdout and sys.stderr such streams. 0 or -1. */
int stream_install(void) PY_RAISES_NEG;

/* End the lines that this thread has begun: at the end of a request and before
 * a fork, so that nothing sticks to the next line. With or without the GIL. */
void stream_end_lines(void) PY_NEVER_RAISES;

#endif
