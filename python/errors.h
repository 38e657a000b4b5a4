/* SPDX-License-Identifier: MIT
 *
 * Exceptions and wsgi.errors into the log. GIL held. Nothing here raises, ends
 * the process or runs sys.excepthook (wsgi checklist D5, J7, J9, R5).
 */
#ifndef FOREBAY_PYTHON_ERRORS_H
#define FOREBAY_PYTHON_ERRORS_H

#include "python/pyref.h"

/* Log the current exception with its whole traceback and clear it. what: what
 * was being done, one phrase ("GET /x: the application raised"). Writes through
 * log_text() of the function that was set with errors_set_log(). */
void errors_log_exception(const char *what) PY_NEVER_RAISES;

/* One line for the exception that is set, e.g. "ImportError: no module named
 * x", cut to size; clears nothing. */
void errors_describe(char *out, size_t size) PY_NEVER_RAISES;

/* Where lines go; level is 'E', 'W', 'I' or 'D'. text may hold newlines (a
 * traceback is one message). The server passes its own log here before
 * interp_start; unset, text goes to descriptor 2. May be called with or without
 * the GIL. */
void errors_set_log(void (*fn)(char level, const char *text, size_t len));
void errors_log(char level, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The object for environ["wsgi.errors"]: one per interpreter, a text stream on
 * descriptor 2 (UTF-8, backslashreplace). New reference. */
PyObject *errors_new_stream(void);

#endif
