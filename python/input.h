/* SPDX-License-Identifier: MIT
 *
 * wsgi.input: the request body as a file (PEP 3333, "Input and Error Streams").
 * and FCGI_DATA of a filter as another one. Internal to python/. GIL held.
 */
#ifndef FOREBAY_PYTHON_INPUT_H
#define FOREBAY_PYTHON_INPUT_H

#include "python/pyref.h"

struct call;

PyTypeObject *input_new_type(void);

/* The body of a call that begins, and forget what was read ahead. */
void input_begin(struct call *c);
/* Of a filter: the same for its FCGI_DATA, before it is first read. */
void input_begin_data(struct call *c);
void input_end(struct call *c);

#endif
