/* SPDX-License-Identifier: MIT
 *
 * Threads of the application that a worker waits for at its end. Worker, GIL
 * held; internal to python/.
 */
#ifndef FOREBAY_PYTHON_LEFTOVER_H
#define FOREBAY_PYTHON_LEFTOVER_H

#include "python/pyref.h"

/* Give threads that are no daemons some moments to end; write to the log which
 * of them have not, and where they are. threading is that module. */
void leftover_tell(PyObject *threading) PY_NEVER_RAISES;

#endif
