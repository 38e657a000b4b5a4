/* SPDX-License-Identifier: MIT
 *
 * start_response() and the write() that it returns (PEP 3333, "The
 * start_response() Callable"). Internal to python/. GIL held.
 */
#ifndef FOREBAY_PYTHON_START_RESPONSE_H
#define FOREBAY_PYTHON_START_RESPONSE_H

#include "python/pyref.h"

struct call;

PyTypeObject *start_response_new_type(void);
PyTypeObject *write_new_type(void);

PyObject *start_response_call(PyObject *self, PyObject *const *args,
                              size_t nargsf, PyObject *names);
PyObject *write_call(PyObject *self, PyObject *const *args, size_t nargsf,
                     PyObject *names);

#endif
