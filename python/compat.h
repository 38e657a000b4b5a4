/* SPDX-License-Identifier: MIT
 *
 * Where CPython 3.9 to 3.14 differ, written once. Everything else under python/
 * is the same for all of them.
 */
#ifndef FOREBAY_PYTHON_COMPAT_H
#define FOREBAY_PYTHON_COMPAT_H

#include <stdbool.h>

#include "python/pyref.h"

/* The attribute name of o: 1 and a new reference, 0 when there is none (no
 * AttributeError is built for it), -1 with an exception set. */
static inline int
py_optional_attr(PyObject *o, PyObject *name, PyObject **ret)
{
#if PY_VERSION_HEX >= 0x030D0000
    return PyObject_GetOptionalAttr(o, name, ret);
#else
    return _PyObject_LookupAttr(o, name, ret);
#endif
}

/* The value of key: 1 and a new reference, 0 when there is none, -1 with an
 * exception set. */
static inline int
py_dict_get(PyObject *dict, PyObject *key, PyObject **ret)
{
#if PY_VERSION_HEX >= 0x030D0000
    return PyDict_GetItemRef(dict, key, ret);
#else
    PyObject *value_b = PyDict_GetItemWithError(dict, key);

    *ret = Py_XNewRef(value_b);
    return value_b != NULL ? 1 : PyErr_Occurred() ? -1 : 0;
#endif
}

/* Take the exception that is set: a new reference to the instance, normalised
 * and with its traceback attached; NULL when none is set. */
static inline PyObject *
py_take_exception(void)
{
#if PY_VERSION_HEX >= 0x030C0000
    return PyErr_GetRaisedException();
#else
    PyObject *type = NULL, *value = NULL, *traceback = NULL;

    PyErr_Fetch(&type, &value, &traceback);
    if (type == NULL) {
        return NULL;
    }
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback != NULL && value != NULL &&
        PyException_SetTraceback(value, traceback) < 0) {
        PyErr_Clear();
    }
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return value;
#endif
}

/* Set an exception instance again, with the traceback it carries. */
static inline void
py_set_exception(PyObject *exception PY_STEALS(1))
{
#if PY_VERSION_HEX >= 0x030C0000
    PyErr_SetRaisedException(exception);
#else
    PyErr_Restore(Py_NewRef(Py_TYPE(exception)), exception,
                  PyException_GetTraceback(exception));
#endif
}

/* Strings made by the legacy interface were not in their final form before
 * 3.12; everything else is ready at once. 0, or -1 with an exception set. */
static inline int
py_string_ready(PyObject *s)
{
#if PY_VERSION_HEX >= 0x030C0000
    (void)s;
    return 0;
#else
    return PyUnicode_READY(s);
#endif
}

/* Only we hold this object, so nobody can see it being used again. Without the
 * GIL a count of one says nothing about other threads. */
static inline bool
py_is_ours_alone(PyObject *o)
{
#ifdef Py_GIL_DISABLED
    (void)o;
    return false;
#else
    return Py_REFCNT(o) == 1;
#endif
}

/* Guard the fields of one object; the GIL does it where there is one. */
#if PY_VERSION_HEX >= 0x030D0000
#define PY_OBJECT_LOCK(o) Py_BEGIN_CRITICAL_SECTION(o)
#define PY_OBJECT_UNLOCK() Py_END_CRITICAL_SECTION()
#else
#define PY_OBJECT_LOCK(o) {
#define PY_OBJECT_UNLOCK() }
#endif

/* 3.10 brought the flag that keeps `type(x)()` from making one. */
#if PY_VERSION_HEX >= 0x030A0000
#define PY_TYPE_INTERNAL                                                       \
    (Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE)
#else
#define PY_TYPE_INTERNAL 0
#endif

#endif
