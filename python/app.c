/* SPDX-License-Identifier: MIT
 *
 * Find and import the application. See app.h. Template and worker; GIL held.
 *
 * A file is imported under the name that other modules of the application would
 * use for it, so that it exists once (wsgi checklist A6). Files that cannot be
 * imported by name (file.wsgi, my-app.py) are loaded under a name of their own.
 */
#include "python/app.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "python/compat.h"
#include "python/errors.h"
#include "python/why.h"

/* -- import --------------------------------------------------------------- */

/* The exception that is set, as the end of a sentence; cleared, with its
 * traceback in the log. */
static int
explain_exception(const char *what, char *why, size_t size)
{
    char line[1024];

    errors_describe(line, sizeof(line));
    errors_log_exception(what);
    return why_say(why, size, "%s: %s", what, line);
}

/* Make sure that a folder is on sys.path. */
static int
need_path(const char *dir)
{
    PyObject *path_b = PySys_GetObject("path");
    PyObject *text = PyUnicode_DecodeFSDefault(dir);
    int rc = -1;

    if (text != NULL && path_b != NULL && PyList_Check(path_b)) {
        rc = PySequence_Contains(path_b, text);
        if (rc == 0) {
            rc = PyList_Insert(path_b, 0, text);
        }
    }
    Py_XDECREF(text);
    return rc < 0 ? -1 : 0;
}

/* No code but importlib's own has run: whatever is missing was not asked for by
 * the application. */
static bool
is_from_importlib(PyObject *exception)
{
    PyObject *traceback = PyException_GetTraceback(exception);
    bool only = true;

    while (only && traceback != NULL) {
        PyObject *frame = PyObject_GetAttrString(traceback, "tb_frame");
        PyObject *next = PyObject_GetAttrString(traceback, "tb_next");
        PyObject *code = NULL, *file = NULL;
        const char *text = NULL;

        if (frame != NULL) {
            code = PyObject_GetAttrString(frame, "f_code");
        }
        if (code != NULL) {
            file = PyObject_GetAttrString(code, "co_filename");
        }
        if (file != NULL && PyUnicode_Check(file)) {
            text = PyUnicode_AsUTF8(file);
        }
        only = text != NULL && strncmp(text, "<frozen importlib", 17) == 0;
        Py_XDECREF(frame);
        Py_XDECREF(code);
        Py_XDECREF(file);
        Py_DECREF(traceback);
        traceback = next;
        if (traceback == Py_None) {
            Py_CLEAR(traceback);
        }
    }
    Py_XDECREF(traceback);
    return only;
}

/* The module, or one of the packages it is in, is what could not be found (and
 * not something that it imports). */
static bool
is_not_found(const char *module)
{
    PyObject *exception, *name = NULL;
    const char *text = NULL;
    bool found = false;

    if (!PyErr_ExceptionMatches(PyExc_ModuleNotFoundError)) {
        return false;
    }
    exception = py_take_exception();
    name = PyObject_GetAttrString(exception, "name");
    if (name != NULL && PyUnicode_Check(name)) {
        text = PyUnicode_AsUTF8(name);
    }
    if (text != NULL && is_from_importlib(exception)) {
        size_t len = strlen(text);

        found = strncmp(text, module, len) == 0 &&
                (module[len] == '\0' || module[len] == '.');
    }
    PyErr_Clear();
    Py_XDECREF(name);
    py_set_exception(exception);
    return found;
}

/* "a, b, c" of sys.path, for an error. */
static void
describe_path(char *out, size_t size)
{
    PyObject *path_b = PySys_GetObject("path");
    Py_ssize_t n =
        path_b != NULL && PyList_Check(path_b) ? PyList_GET_SIZE(path_b) : 0;
    size_t len = 0;

    out[0] = '\0';
    for (Py_ssize_t i = 0; i < n && len + 1 < size; i++) {
        PyObject *bytes = PyUnicode_EncodeFSDefault(PyList_GET_ITEM(path_b, i));

        if (bytes == NULL) {
            PyErr_Clear();
            continue;
        }
        snprintf(out + len, size - len, "%s%s", len > 0 ? ":" : "",
                 PyBytes_AS_STRING(bytes));
        len = strlen(out);
        Py_DECREF(bytes);
    }
}

static PyObject *
import_by_name(const char *module, char *why, size_t size)
{
    PyObject *result = PyImport_ImportModule(module);
    char what[512], path[2048];

    if (result != NULL) {
        return result;
    }
    snprintf(what, sizeof(what), "importing %.400s", module);
    if (is_not_found(module)) {
        errors_describe(what, sizeof(what));
        PyErr_Clear();
        describe_path(path, sizeof(path));
        why_say(why, size, "there is no module %s (%s); sys.path is %s", module,
                what, path);
        return NULL;
    }
    explain_exception(what, why, size);
    return NULL;
}

/* Whether a module of this name exists or can be imported. -1: an exception is
 * set. */
static int
name_is_taken(PyObject *util, const char *name)
{
    PyObject *spec = PyObject_CallMethod(util, "find_spec", "s", name);
    int rc;

    if (spec == NULL) {
        /* A module without a spec is loaded under this name. */
        rc = PyErr_ExceptionMatches(PyExc_ValueError) ? 1 : -1;
        if (rc > 0) {
            PyErr_Clear();
        }
        return rc;
    }
    rc = spec != Py_None;
    Py_DECREF(spec);
    return rc;
}

/* importlib's recipe for a source file under a given name: it is in sys.modules
 * while and after it runs, but not when that fails. */
static PyObject *
execute_file(PyObject *util, const char *name, const char *file)
{
    PyObject *machinery = PyImport_ImportModule("importlib.machinery");
    PyObject *path = PyUnicode_DecodeFSDefault(file);
    PyObject *loader = NULL, *spec = NULL, *module = NULL, *done = NULL;
    PyObject *modules_b = PyImport_GetModuleDict();

    if (machinery != NULL && path != NULL) {
        loader = PyObject_CallMethod(machinery, "SourceFileLoader", "sO", name,
                                     path);
    }
    if (loader != NULL) {
        spec =
            PyObject_CallMethod(util, "spec_from_loader", "sO", name, loader);
    }
    if (spec != NULL) {
        module = PyObject_CallMethod(util, "module_from_spec", "O", spec);
    }
    if (module != NULL && PyDict_SetItemString(modules_b, name, module) == 0) {
        done = PyObject_CallMethod(loader, "exec_module", "O", module);
        if (done == NULL) {
            PyObject *exception = py_take_exception();

            if (PyDict_DelItemString(modules_b, name) < 0) {
                PyErr_Clear();
            }
            py_set_exception(exception);
        }
    }
    if (done == NULL) {
        Py_CLEAR(module);
    }
    Py_XDECREF(machinery);
    Py_XDECREF(path);
    Py_XDECREF(loader);
    Py_XDECREF(spec);
    Py_XDECREF(done);
    return module;
}

/* Names of files are bytes; those of modules are text. */
static bool
is_text(const char *name)
{
    PyObject *text = PyUnicode_FromString(name);

    if (text == NULL) {
        PyErr_Clear();
    }
    Py_XDECREF(text);
    return text != NULL;
}

static void
make_text(char *name)
{
    for (char *p = name; !is_text(name) && *p != '\0'; p++) {
        *p = (unsigned char)*p < 0x80 ? *p : '_';
    }
}

/* The file under its name, or with a "_" behind it where that is another
 * module's. */
static PyObject *
import_file(const struct app_name *name, char *why, size_t size)
{
    PyObject *util = PyImport_ImportModule("importlib.util");
    PyObject *module = NULL;
    char free_name[APP_PATH_MAX + 16], what[512];
    int taken = util != NULL ? 1 : -1;

    snprintf(free_name, sizeof(free_name), "%s", name->module);
    make_text(free_name);
    for (int i = 0; taken > 0; i++) {
        taken = i < 8 ? name_is_taken(util, free_name) : 0;
        if (taken > 0) {
            strcat(free_name, "_");
        }
    }
    if (taken == 0) {
        module = execute_file(util, free_name, name->file);
    }
    Py_XDECREF(util);
    if (module == NULL) {
        snprintf(what, sizeof(what), "importing %.400s", name->file);
        explain_exception(what, why, size);
    }
    return module;
}

/* The module that was imported by the stem of a file is that file: another one
 * of that name may have been loaded or stand before it on sys.path. */
static int
check_same_file(PyObject *module, const struct app_name *name, char *why,
                size_t size)
{
    PyObject *file = PyObject_GetAttrString(module, "__file__");
    PyObject *bytes = NULL;
    struct stat wanted, found;
    int rc = 0;

    if (file != NULL && PyUnicode_Check(file)) {
        bytes = PyUnicode_EncodeFSDefault(file);
    }
    PyErr_Clear();
    if (bytes == NULL || stat(name->file, &wanted) != 0 ||
        stat(PyBytes_AS_STRING(bytes), &found) != 0 ||
        wanted.st_dev != found.st_dev || wanted.st_ino != found.st_ino) {
        rc = why_say(why, size,
                     "%s would be imported as \"%s\", but that is the name of "
                     "another module (%s); rename the file",
                     name->file, name->module,
                     bytes != NULL ? PyBytes_AS_STRING(bytes)
                                   : "built into Python");
    }
    Py_XDECREF(file);
    Py_XDECREF(bytes);
    return rc;
}

static PyObject *
import_module(const struct app_name *name, char *why, size_t size)
{
    PyObject *module;

    if (name->file[0] == '\0') {
        return import_by_name(name->module, why, size);
    }
    if (need_path(name->dir) < 0) {
        explain_exception("sys.path", why, size);
        return NULL;
    }
    if (!app_name_is_importable(name) || !is_text(name->module)) {
        return import_file(name, why, size);
    }
    module = import_by_name(name->module, why, size);
    if (module != NULL && check_same_file(module, name, why, size) < 0) {
        Py_CLEAR(module);
    }
    return module;
}

/* -- the attribute -------------------------------------------------------- */

/* ", ".join(list) for an error. */
static void
join_names(PyObject *list, char *out, size_t size)
{
    PyObject *comma = PyUnicode_FromString(", ");
    PyObject *text = NULL;

    out[0] = '\0';
    if (comma != NULL && list != NULL) {
        text = PyUnicode_Join(comma, list);
    }
    if (text != NULL && PyUnicode_AsUTF8(text) != NULL) {
        snprintf(out, size, "%s", PyUnicode_AsUTF8(text));
    }
    PyErr_Clear();
    Py_XDECREF(comma);
    Py_XDECREF(text);
}

/* The names of a module or object that are nearest to a wrong one. */
static void
near_names(PyObject *object, const char *attribute, char *out, size_t size)
{
    PyObject *difflib = PyImport_ImportModule("difflib");
    PyObject *names = PyObject_Dir(object);
    PyObject *near = NULL;

    out[0] = '\0';
    if (difflib != NULL && names != NULL) {
        near = PyObject_CallMethod(difflib, "get_close_matches", "sO",
                                   attribute, names);
    }
    if (near != NULL && PyList_Check(near) && PyList_GET_SIZE(near) > 0) {
        join_names(near, out, size);
    }
    PyErr_Clear();
    Py_XDECREF(difflib);
    Py_XDECREF(names);
    Py_XDECREF(near);
}

/* The public callables of a module, for an error. */
static void
callable_names(PyObject *module, char *out, size_t size)
{
    PyObject *names = PyObject_Dir(module);
    PyObject *found = PyList_New(0);
    Py_ssize_t n = names != NULL ? PyList_GET_SIZE(names) : 0;

    for (Py_ssize_t i = 0; found != NULL && i < n; i++) {
        PyObject *name_b = PyList_GET_ITEM(names, i);
        PyObject *value;

        if (!PyUnicode_Check(name_b) || PyUnicode_GET_LENGTH(name_b) == 0 ||
            PyUnicode_READ_CHAR(name_b, 0) == '_') {
            continue;
        }
        value = PyObject_GetAttr(module, name_b);
        if (value != NULL && PyCallable_Check(value) &&
            PyList_Append(found, name_b) < 0) {
            PyErr_Clear();
        }
        PyErr_Clear();
        Py_XDECREF(value);
    }
    join_names(found, out, size);
    PyErr_Clear();
    Py_XDECREF(names);
    Py_XDECREF(found);
}

/* One step of a dotted name. */
static PyObject *
get_attribute(PyObject *object, const char *module, const char *whole,
              const char *part, char *why, size_t size)
{
    PyObject *result = PyObject_GetAttrString(object, part);
    char near[256], what[512];

    if (result != NULL) {
        return result;
    }
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) {
        snprintf(what, sizeof(what), "looking for %.200s in %.200s", whole,
                 module);
        explain_exception(what, why, size);
        return NULL;
    }
    PyErr_Clear();
    near_names(object, part, near, sizeof(near));
    why_say(why, size, "module %s has no \"%s\"%s%s%s", module, whole,
            near[0] != '\0' ? "; near it are: " : "", near,
            near[0] == '\0' && strcmp(whole, part) != 0
                ? " (its last part is missing)"
                : "");
    return NULL;
}

static PyObject *
find_attribute(PyObject *module, const struct app_name *name, char *why,
               size_t size)
{
    char part[sizeof(name->attribute)];
    PyObject *object = Py_NewRef(module);
    char *rest = part, *word;

    memcpy(part, name->attribute, sizeof(part));
    while (object != NULL && (word = strsep(&rest, ".")) != NULL) {
        PyObject *next = get_attribute(object, name->module, name->attribute,
                                       word, why, size);

        Py_DECREF(object);
        object = next;
    }
    return object;
}

/* application, else app. */
static PyObject *
find_default(PyObject *module, const struct app_name *name, char *why,
             size_t size)
{
    static const char *const usual[] = { "application", "app" };
    char names[512];

    for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++) {
        PyObject *object = PyObject_GetAttrString(module, usual[i]);

        if (object != NULL) {
            return object;
        }
        if (!PyErr_ExceptionMatches(PyExc_AttributeError)) {
            explain_exception("looking for the application", why, size);
            return NULL;
        }
        PyErr_Clear();
    }
    callable_names(module, names, sizeof(names));
    why_say(why, size,
            "module %s has neither \"application\" nor \"app\"; write "
            "%s:NAME. Its callables are: %s",
            name->module, name->file[0] != '\0' ? name->file : name->module,
            names[0] != '\0' ? names : "none");
    return NULL;
}

int
app_import(const struct app_name *name, PyObject **ret_object, char *why,
           size_t size)
{
    PyObject *module = import_module(name, why, size);
    PyObject *object;

    if (module == NULL) {
        return -1;
    }
    object = name->attribute[0] != '\0'
                 ? find_attribute(module, name, why, size)
                 : find_default(module, name, why, size);
    Py_DECREF(module);
    if (object == NULL) {
        return -1;
    }
    *ret_object = object;
    return 0;
}

/* -- the callable --------------------------------------------------------- */

static const char *
shown_attribute(const struct app_name *name)
{
    return name->attribute[0] != '\0' ? name->attribute : "application";
}

/* An async application is of another kind (ASGI). */
static bool
is_async(PyObject *inspect, PyObject *app)
{
    static const char *const tests[] = { "iscoroutinefunction",
                                         "isasyncgenfunction" };
    PyObject *call = PyObject_GetAttrString(app, "__call__");
    bool found = false;

    for (size_t i = 0; i < 4 && !found; i++) {
        PyObject *o_b = i < 2 ? app : call;
        PyObject *result =
            o_b != NULL ? PyObject_CallMethod(inspect, tests[i % 2], "O", o_b)
                        : NULL;

        found = result == Py_True;
        Py_XDECREF(result);
        PyErr_Clear();
    }
    Py_XDECREF(call);
    return found;
}

/* inspect.signature(app).bind(None, None): 0 when that works or nothing is
 * known, -1 with the TypeError's text in out. */
static int
check_signature(PyObject *inspect, PyObject *app, char *out, size_t size)
{
    PyObject *signature = PyObject_CallMethod(inspect, "signature", "O", app);
    PyObject *bound = NULL;
    int rc = 0;

    if (signature != NULL) {
        bound = PyObject_CallMethod(signature, "bind", "OO", Py_None, Py_None);
        if (bound == NULL && PyErr_ExceptionMatches(PyExc_TypeError)) {
            errors_describe(out, size);
            rc = -1;
        }
    }
    PyErr_Clear();
    Py_XDECREF(signature);
    Py_XDECREF(bound);
    return rc;
}

/* A plain Python function that takes so many positional arguments and is not
 * async. */
static bool
is_plain_function(PyObject *o, int arguments)
{
    PyCodeObject *code_b;
    PyObject *defaults_b;
    Py_ssize_t optional;

    if (!PyFunction_Check(o)) {
        return false;
    }
    code_b = (PyCodeObject *)PyFunction_GET_CODE(o);
    defaults_b = PyFunction_GET_DEFAULTS(o);
    optional = defaults_b != NULL && PyTuple_Check(defaults_b)
                   ? PyTuple_GET_SIZE(defaults_b)
                   : 0;
    return (code_b->co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR)) == 0 &&
           code_b->co_kwonlyargcount == 0 &&
           code_b->co_argcount - optional <= arguments &&
           (code_b->co_argcount >= arguments ||
            (code_b->co_flags & CO_VARARGS) != 0);
}

/* Most applications are that, or objects with such a __call__: they can be seen
 * to be right without importing inspect, which costs every worker 10 ms and
 * more, and a megabyte. */
static bool
is_plainly_right(PyObject *app)
{
    PyObject *call;
    bool right;

    if (PyFunction_Check(app)) {
        return is_plain_function(app, 2);
    }
    if (PyType_Check(app)) {
        return false;
    }
    call = PyObject_GetAttrString((PyObject *)Py_TYPE(app), "__call__");
    right = call != NULL && is_plain_function(call, 3);
    PyErr_Clear();
    Py_XDECREF(call);
    return right;
}

static int
check_app(const struct app_name *name, PyObject *app, char *why, size_t size)
{
    const char *shown = shown_attribute(name);
    PyObject *inspect;
    char line[256];
    int rc = 0;

    if (!PyCallable_Check(app)) {
        return why_say(why, size,
                       "\"%s\" of module %s is of type %.100s, which cannot be "
                       "called",
                       shown, name->module, Py_TYPE(app)->tp_name);
    }
    if (is_plainly_right(app)) {
        return 0;
    }
    inspect = PyImport_ImportModule("inspect");
    if (inspect == NULL) {
        return explain_exception("importing inspect", why, size);
    }
    if (check_signature(inspect, app, line, sizeof(line)) < 0) {
        rc = why_say(why, size,
                     "\"%s\" of module %s cannot be called with (environ, "
                     "start_response): %s%s",
                     shown, name->module, line,
                     is_async(inspect, app)
                         ? "; it is async: an ASGI application, and this "
                           "server runs WSGI"
                         : "; if it makes the application, write it with ()");
    } else if (is_async(inspect, app)) {
        rc = why_say(why, size,
                     "\"%s\" of module %s is async; this server runs WSGI "
                     "applications",
                     shown, name->module);
    }
    Py_DECREF(inspect);
    return rc;
}

int
app_make(const struct app_name *name, PyObject *object, PyObject **ret_app,
         char *why, size_t size)
{
    PyObject *app = NULL;
    char what[512];

    if (!name->factory) {
        app = Py_NewRef(object);
    } else if (!PyCallable_Check(object)) {
        return why_say(why, size,
                       "\"%s\" of module %s is of type %.100s, which cannot be "
                       "called",
                       name->attribute, name->module, Py_TYPE(object)->tp_name);
    } else {
        app = PyObject_CallNoArgs(object);
        if (app == NULL) {
            snprintf(what, sizeof(what), "calling %.200s() of %.200s",
                     name->attribute, name->module);
            return explain_exception(what, why, size);
        }
    }
    if (check_app(name, app, why, size) < 0) {
        Py_DECREF(app);
        return -1;
    }
    *ret_app = app;
    return 0;
}
