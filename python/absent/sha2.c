/* SPDX-License-Identifier: MIT
 *
 * Stands for the built-in module _sha2 where the distribution's static
 * libpython lacks what that module is made of (Debian 13: libpython3.13.a has
 * sha2module.o but not the HACL* code that it calls). Importing _sha2 then
 * fails like any module that is not there; hashlib uses OpenSSL's, and random
 * takes sha512 from hashlib. cmake/Python.cmake decides.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

PyMODINIT_FUNC PyInit__sha2(void);

PyMODINIT_FUNC
PyInit__sha2(void)
{
    PyErr_SetString(PyExc_ModuleNotFoundError, "No module named '_sha2'");
    return NULL;
}
