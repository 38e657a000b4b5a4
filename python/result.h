/* SPDX-License-Identifier: MIT
 *
 * What the application returned: iterate it into the response, and close it.
 * Internal to python/. GIL held.
 */
#ifndef FOREBAY_PYTHON_RESULT_H
#define FOREBAY_PYTHON_RESULT_H

#include <stdbool.h>

#include "python/pyref.h"

struct call;

/* Send the response. *ret_exhausted: the iterable has ended by itself. 0, or -1
 * with an exception set; failed writes are in c->out.error. */
int result_send(struct call *c, PyObject *result,
                bool *ret_exhausted) PY_RAISES_NEG;

/* PEP 3333: close() "must be called once on completion of the current request,
 * whether it was completed normally, or terminated early". Of a generator that
 * has ended it does nothing. Exceptions are logged. */
void result_close(struct call *c, PyObject *result,
                  bool exhausted) PY_NEVER_RAISES;

#endif
