/* SPDX-License-Identifier: MIT
 *
 * The built-in module `forebay`. See module.h. Template and worker, GIL held.
 * Multi-phase initialisation; its own state is a pointer to the interpreter's
 * (state.h), so that it may be imported again after it was removed from
 * sys.modules.
 */
#include "python/module.h"

#include "python/call.h"
#include "python/deadline.h"
#include "python/errors.h"

static struct state *
state_of(PyObject *module)
{
    return *(struct state **)PyModule_GetState(module);
}

/* The request on this thread. NULL with RuntimeError. */
static struct call *
need_request(const char *function)
{
    struct call *c = call_current();

    if (c == NULL) {
        PyErr_Format(PyExc_RuntimeError,
                     "forebay.%s() is for the thread that runs a request, "
                     "while it runs",
                     function);
    }
    return c;
}

/* -- functions ------------------------------------------------------------ */

/* (callable, args, keywords or None), to be called by run_after(). */
static PyObject *
pack_call(PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *positional = PyTuple_New(count - 1);
    PyObject *keywords = NULL, *packed = NULL;
    Py_ssize_t named = names == NULL ? 0 : PyTuple_GET_SIZE(names);

    if (positional == NULL) {
        return NULL;
    }
    for (Py_ssize_t i = 1; i < count; i++) {
        PyTuple_SET_ITEM(positional, i - 1, Py_NewRef(args[i]));
    }
    keywords = named > 0 ? PyDict_New() : Py_NewRef(Py_None);
    for (Py_ssize_t i = 0; keywords != NULL && i < named; i++) {
        if (PyDict_SetItem(keywords, PyTuple_GET_ITEM(names, i),
                           args[count + i]) < 0) {
            Py_CLEAR(keywords);
        }
    }
    if (keywords != NULL) {
        packed = PyTuple_Pack(3, args[0], positional, keywords);
    }
    Py_DECREF(positional);
    Py_XDECREF(keywords);
    return packed;
}

static PyObject *
after_response(PyObject *Py_UNUSED(module), PyObject *const *args,
               Py_ssize_t count, PyObject *names)
{
    struct call *c = need_request("after_response");
    PyObject *packed;
    int rc;

    if (c == NULL) {
        return NULL;
    }
    if (count < 1 || !PyCallable_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError,
                        "after_response() takes a callable and its arguments");
        return NULL;
    }
    if (c->after == NULL) {
        c->after = PyList_New(0);
    }
    packed = c->after != NULL ? pack_call(args, count, names) : NULL;
    if (packed == NULL) {
        return NULL;
    }
    rc = PyList_Append(c->after, packed);
    Py_DECREF(packed);
    return rc < 0 ? NULL : Py_NewRef(args[0]);
}

static PyObject *
client_connected(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    struct call *c = need_request("client_connected");

    if (c == NULL) {
        return NULL;
    }
    return PyBool_FromLong(call_is_connected(c));
}

/* No deadline is set for a request: there is nothing to count down. */
static PyObject *
deadline(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    struct call *c = need_request("deadline");
    double left;

    if (c == NULL) {
        return NULL;
    }
    if (!deadline_left(c->thread, &left)) {
        Py_RETURN_NONE;
    }
    return PyFloat_FromDouble(left);
}

static const struct wsgi_config *
need_config(PyObject *module)
{
    const struct wsgi_config *config = state_of(module)->config;

    if (config == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "the pool is not set up yet");
    }
    return config;
}

static PyObject *
worker_id(PyObject *module, PyObject *Py_UNUSED(ignored))
{
    const struct wsgi_config *config = need_config(module);

    return config != NULL ? PyLong_FromLong(config->worker_id) : NULL;
}

static PyObject *
pool(PyObject *module, PyObject *Py_UNUSED(ignored))
{
    const struct wsgi_config *config = need_config(module);

    return config != NULL ? PyUnicode_DecodeFSDefault(config->pool) : NULL;
}

static PyObject *
add_hook(PyObject *list, PyObject *hook)
{
    if (!PyCallable_Check(hook)) {
        PyErr_Format(PyExc_TypeError, "a hook must be callable, not %.100s",
                     Py_TYPE(hook)->tp_name);
        return NULL;
    }
    return PyList_Append(list, hook) < 0 ? NULL : Py_NewRef(hook);
}

static PyObject *
worker_start(PyObject *module, PyObject *hook)
{
    return add_hook(state_of(module)->worker_start, hook);
}

static PyObject *
worker_exit(PyObject *module, PyObject *hook)
{
    return add_hook(state_of(module)->worker_exit, hook);
}

/* -- what the server calls ------------------------------------------------ */

void
call_run_after(struct call *c)
{
    /* One of them may add another. */
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(c->after); i++) {
        PyObject *packed = Py_NewRef(PyList_GET_ITEM(c->after, i));
        PyObject *keywords_b = PyTuple_GET_ITEM(packed, 2);
        PyObject *result = PyObject_Call(
            PyTuple_GET_ITEM(packed, 0), PyTuple_GET_ITEM(packed, 1),
            keywords_b == Py_None ? NULL : keywords_b);

        if (result == NULL) {
            call_log_failure(c, "a callable of after_response() raised");
        }
        Py_XDECREF(result);
        Py_DECREF(packed);
    }
    Py_CLEAR(c->after);
}

/* Call the hooks of a list; -1 at the first that raises when stop is true. */
static int
run_hooks(PyObject *hooks, const char *what, bool stop)
{
    int rc = 0;

    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(hooks); i++) {
        PyObject *hook = Py_NewRef(PyList_GET_ITEM(hooks, i));
        PyObject *result = PyObject_CallNoArgs(hook);

        Py_DECREF(hook);
        if (result == NULL) {
            errors_log_exception(what);
            rc = -1;
            if (stop) {
                break;
            }
        }
        Py_XDECREF(result);
    }
    return rc;
}

int
module_run_worker_start(void)
{
    struct state *s = state_get();

    if (s == NULL) {
        errors_log_exception("worker_start hooks");
        return -1;
    }
    return run_hooks(s->worker_start, "a worker_start hook raised", true);
}

void
module_run_worker_exit(void)
{
    struct state *s = state_get();

    if (s == NULL) {
        errors_log_exception("worker_exit hooks");
        return;
    }
    run_hooks(s->worker_exit, "a worker_exit hook raised", false);
}

/* -- the module ----------------------------------------------------------- */

PyDoc_STRVAR(after_response_doc,
             "after_response(callable, *args, **kwargs)\n--\n\n"
             "Call callable once the response has left and close() was called. "
             "Returns callable. Exceptions are logged.");
PyDoc_STRVAR(client_connected_doc,
             "client_connected()\n--\n\n"
             "False once the client or the front end is known to be gone.");
PyDoc_STRVAR(deadline_doc,
             "deadline()\n--\n\n"
             "Seconds left for this request, or None without a limit.");
PyDoc_STRVAR(worker_id_doc, "worker_id()\n--\n\n"
                            "The number of this worker in its pool, from 0.");
PyDoc_STRVAR(pool_doc, "pool()\n--\n\nThe name of the pool.");
PyDoc_STRVAR(worker_start_doc,
             "worker_start(hook)\n--\n\n"
             "Decorator: hook() is called in each worker before its first "
             "request. If it raises, the worker does not start.");
PyDoc_STRVAR(worker_exit_doc,
             "worker_exit(hook)\n--\n\n"
             "Decorator: hook() is called in each worker when it ends in "
             "order.");

static PyMethodDef module_methods[] = {
    { "after_response", (PyCFunction)(void (*)(void))after_response,
      METH_FASTCALL | METH_KEYWORDS, after_response_doc },
    { "client_connected", client_connected, METH_NOARGS, client_connected_doc },
    { "deadline", deadline, METH_NOARGS, deadline_doc },
    { "worker_id", worker_id, METH_NOARGS, worker_id_doc },
    { "pool", pool, METH_NOARGS, pool_doc },
    { "worker_start", worker_start, METH_O, worker_start_doc },
    { "worker_exit", worker_exit, METH_O, worker_exit_doc },
    { NULL, NULL, 0, NULL },
};

static int
module_exec(PyObject *module)
{
    struct state **slot = PyModule_GetState(module);

    *slot = state_get();
    if (*slot == NULL) {
        return -1;
    }
#ifdef FOREBAY_VERSION
    if (PyModule_AddStringConstant(module, "__version__", FOREBAY_VERSION) <
        0) {
        return -1;
    }
#endif
    Py_INCREF((*slot)->request_timeout);
    if (PyModule_AddObject(module, "RequestTimeout", (*slot)->request_timeout) <
        0) {
        Py_DECREF((*slot)->request_timeout);
        return -1;
    }
    return 0;
}

static PyModuleDef_Slot module_slots[] = {
    { Py_mod_exec, (void *)module_exec },
#if PY_VERSION_HEX >= 0x030C0000
    { Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED },
#endif
#if PY_VERSION_HEX >= 0x030D0000
    { Py_mod_gil, Py_MOD_GIL_NOT_USED },
#endif
    { 0, NULL },
};

static struct PyModuleDef module_def = {
    PyModuleDef_HEAD_INIT,
    .m_name = "forebay",
    .m_doc = PyDoc_STR("What the server forebay offers an application."),
    .m_size = sizeof(struct state *),
    .m_methods = module_methods,
    .m_slots = module_slots,
};

static PyObject *
module_init(void)
{
    return PyModuleDef_Init(&module_def);
}

int
module_register(void)
{
    return PyImport_AppendInittab("forebay", module_init);
}
