/* SPDX-License-Identifier: MIT
 *
 * The ownership words of prototypes under python/. "New reference, NULL with an
 * exception set on failure" is the rule and needs no word.
 */
#ifndef FOREBAY_PYTHON_PYREF_H
#define FOREBAY_PYTHON_PYREF_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define PY_BORROWED     /* the result is a borrowed reference */
#define PY_STEALS(n)    /* argument n is given away, on failure too */
#define PY_RAISES_NEG   /* -1 means an exception is set */
#define PY_NEVER_RAISES /* no exception is left behind */

/* 3.10 brought Py_NewRef. */
#if PY_VERSION_HEX < 0x030A0000
static inline PyObject *
py_new_ref(PyObject *o)
{
    Py_INCREF(o);
    return o;
}
#define Py_NewRef(o) py_new_ref((PyObject *)(o))
#define Py_XNewRef(o) ((o) ? py_new_ref((PyObject *)(o)) : NULL)
#endif

#endif
