/* SPDX-License-Identifier: MIT
 *
 * Text streams of the application into the log: wsgi.errors, sys.stdout,
 * sys.stderr. Internal to python/. GIL held.
 */
#ifndef FOREBAY_PYTHON_STREAM_H
#define FOREBAY_PYTHON_STREAM_H

#include "python/pyref.h"

/* An io.TextIOWrapper (or the subclass type) on a descriptor: UTF-8, whatever
 * text it is given (backslashreplace), unbuffered: each write() is one system
 * call, so that nothing is lost when the process dies. The descriptor is not
 * closed with it.
 *
 * Small writes do not give up the GIL, so that a print(), which is two of them,
 * makes one line, whatever other threads print. A descriptor that nobody reads
 * (a full pipe) is waited for, without the GIL, for a short time; what is
 * dropped then is counted, and the count written later. */
PyObject *stream_new(PyObject *type, int fd, const char *name);

/* Put such streams in the place of sys.stdout and sys.stderr. 0, or -1 with an
 * exception set. */
int stream_replace_standard(void) PY_RAISES_NEG;

#endif
