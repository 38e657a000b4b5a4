/* SPDX-License-Identifier: MIT
 *
 * The embedded interpreter. See interp.h. Template and worker. Never finalises
 * it, and calls nothing that ends the process (PyErr_Print, PyRun_Simple*).
 */
#include "python/interp.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "python/call.h"
#include "python/errors.h"
#include "python/leftover.h"
#include "python/module.h"
#include "python/pyref.h"
#include "python/pyvenv.h"
#include "python/stream.h"

#ifndef FOREBAY_PYTHON_EXECUTABLE
#error "FOREBAY_PYTHON_EXECUTABLE is the python that this is built for"
#endif

/* Of this thread, for as long as it lives; NULL on threads of applications. */
static __thread PyThreadState *thread_state;

/* Python's handler writes a byte into [1]; -1: not made. */
static int signal_pipe[2] = { -1, -1 };

const char *
interp_version(void)
{
    static char version[32];
    const char *text = Py_GetVersion();

    snprintf(version, sizeof(version), "%.*s", (int)strcspn(text, " "), text);
    return version;
}

/* -- start ---------------------------------------------------------------- */

/* With a standard descriptor closed, sys.stdin and its kin are None, and the
 * next file that the application opens becomes its standard output. */
static void
open_standard_descriptors(void)
{
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) {
            int null = open("/dev/null", O_RDWR);

            if (null >= 0 && null != fd) {
                dup2(null, fd);
                close(null);
            }
        }
    }
}

/* The python of the build, by the name that has its version: what "python3"
 * links to may change. */
static void
own_python(char *out, size_t size)
{
    const char *base = FOREBAY_PYTHON_EXECUTABLE;
    const char *slash = strrchr(base, '/');

    snprintf(out, size, "%.*s/python%d.%d",
             slash != NULL ? (int)(slash - base) : 0, base, PY_MAJOR_VERSION,
             PY_MINOR_VERSION);
    if (access(out, X_OK) != 0) {
        snprintf(out, size, "%s", base);
    }
}

/* python stands in the bin folder of a virtualenv: its path, else false. */
static bool
find_virtualenv(const char *python, char *out, size_t size)
{
    char path[PATH_MAX + 16];
    char *slash;

    snprintf(out, size, "%s", python);
    for (int i = 0; i < 2; i++) {
        slash = strrchr(out, '/');
        if (slash == NULL) {
            return false;
        }
        *slash = '\0';
    }
    snprintf(path, sizeof(path), "%.*s/pyvenv.cfg", PATH_MAX - 1, out);
    return access(path, F_OK) == 0;
}

/* An executable that is named: a virtualenv's, or the one of the build. Any
 * other would bring its own standard library with it. */
static int
check_executable(const char *python, const char *base, char *why, size_t size)
{
    char dir[PATH_MAX], ours[PATH_MAX], found[PATH_MAX];

    if (access(python, X_OK) != 0) {
        snprintf(why, size, "python %s: %s", python, strerror(errno));
        return -1;
    }
    if (find_virtualenv(python, dir, sizeof(dir))) {
        return pyvenv_check(dir, PY_MAJOR_VERSION, PY_MINOR_VERSION, base,
                            found, sizeof(found), why, size);
    }
    if (realpath(python, found) == NULL || realpath(base, ours) == NULL ||
        strcmp(found, ours) != 0) {
        snprintf(why, size,
                 "python %s is not the Python that this worker was built "
                 "with, %s",
                 python, base);
        return -1;
    }
    return 0;
}

/* What is to be sys.executable. */
static int
choose_executable(const struct interp_config *c, char *out, size_t out_size,
                  char *why, size_t size)
{
    char base[PATH_MAX];
    size_t len = c->virtualenv != NULL ? strlen(c->virtualenv) : 0;

    own_python(base, sizeof(base));
    if (c->virtualenv == NULL) {
        snprintf(out, out_size, "%s", c->python != NULL ? c->python : base);
        return check_executable(out, base, why, size);
    }
    if (pyvenv_check(c->virtualenv, PY_MAJOR_VERSION, PY_MINOR_VERSION, base,
                     out, out_size, why, size) < 0) {
        return -1;
    }
    /* One inside the virtualenv may be named; any other would leave the
     * virtualenv out, without a word. */
    if (c->python != NULL && len > 0 &&
        strncmp(c->python, c->virtualenv, len) == 0 &&
        (c->python[len] == '/' || c->virtualenv[len - 1] == '/')) {
        snprintf(out, out_size, "%s", c->python);
    }
    return 0;
}

static int
explain(PyStatus status, char *why, size_t size)
{
    snprintf(why, size, "Python %s cannot start: %s%s%s", interp_version(),
             status.func != NULL ? status.func : "",
             status.func != NULL ? ": " : "",
             status.err_msg != NULL ? status.err_msg : "it does not say why");
    return -1;
}

/* UTF-8 whatever the locale says (wsgi checklist R2, L4); no other Python than
 * the chosen one, whatever the environment says. */
static PyStatus
preinitialize(void)
{
    PyPreConfig config;

    if (getenv("PYTHONHOME") != NULL) {
        errors_log('W', "PYTHONHOME is set to \"%.200s\"; it is ignored",
                   getenv("PYTHONHOME"));
        unsetenv("PYTHONHOME");
    }
    PyPreConfig_InitPythonConfig(&config);
    config.parse_argv = 0;
    config.utf8_mode = 1;
    return Py_PreInitialize(&config);
}

static PyStatus
initialize(const struct interp_config *c, const char *executable)
{
    char *argv[] = { (char *)(c->app != NULL ? c->app : "") };
    PyConfig config;
    PyStatus status;

    PyConfig_InitPythonConfig(&config);
    config.install_signal_handlers = 0;
    config.parse_argv = 0;
    config.buffered_stdio = 0;
    config.pathconfig_warnings = 0;
#if PY_VERSION_HEX >= 0x030B0000
    config.safe_path = 1;
#endif
    status = PyConfig_SetBytesString(&config, &config.executable, executable);
    if (!PyStatus_Exception(status)) {
        status = PyConfig_SetBytesArgv(&config, 1, argv);
    }
    /* What is printed goes into a log: it must never raise. */
    if (!PyStatus_Exception(status)) {
        status = PyConfig_SetString(&config, &config.stdio_encoding, L"utf-8");
    }
    if (!PyStatus_Exception(status)) {
        status = PyConfig_SetString(&config, &config.stdio_errors,
                                    L"backslashreplace");
    }
    if (!PyStatus_Exception(status)) {
        status = Py_InitializeFromConfig(&config);
    }
    PyConfig_Clear(&config);
    return status;
}

/* Insert a folder into sys.path at place i. */
static int
insert_path(PyObject *path_b, Py_ssize_t i, const char *dir)
{
    char absolute[PATH_MAX];
    PyObject *text;
    int rc;

    if (dir[0] != '/') {
        char cwd[PATH_MAX / 2];

        if (getcwd(cwd, sizeof(cwd)) == NULL) {
            PyErr_SetFromErrno(PyExc_OSError);
            return -1;
        }
        snprintf(absolute, sizeof(absolute), "%s/%.*s", cwd, PATH_MAX / 3,
                 dir[0] == '\0' || strcmp(dir, ".") == 0 ? "" : dir);
        for (size_t n = strlen(absolute); n > 1 && absolute[n - 1] == '/';
             n--) {
            absolute[n - 1] = '\0';
        }
        dir = absolute;
    }
    text = PyUnicode_DecodeFSDefault(dir);
    if (text == NULL) {
        return -1;
    }
    rc = PyList_Insert(path_b, i, text);
    Py_DECREF(text);
    return rc;
}

/* The pool's folders, the application's, then what Python has (wsgi checklist
 * L14). */
static int
extend_path(const struct interp_config *c)
{
    PyObject *path_b = PySys_GetObject("path");
    Py_ssize_t i = 0;

    if (path_b == NULL || !PyList_Check(path_b)) {
        PyErr_SetString(PyExc_RuntimeError, "there is no sys.path");
        return -1;
    }
    for (; c->pythonpath != NULL && c->pythonpath[i] != NULL; i++) {
        if (insert_path(path_b, i, c->pythonpath[i]) < 0) {
            return -1;
        }
    }
    if (c->app_dir != NULL && c->app_dir[0] != '\0') {
        return insert_path(path_b, i, c->app_dir);
    }
    return 0;
}

static int
set_switch_interval(double seconds)
{
    PyObject *function_b = PySys_GetObject("setswitchinterval");
    PyObject *result;

    if (seconds <= 0 || function_b == NULL) {
        return 0;
    }
    result = PyObject_CallFunction(function_b, "d", seconds);
    Py_XDECREF(result);
    return result != NULL ? 0 : -1;
}

int
interp_start(const struct interp_config *c, char *why, size_t size)
{
    char executable[PATH_MAX];
    PyStatus status;

    if (choose_executable(c, executable, sizeof(executable), why, size) < 0) {
        return -1;
    }
    open_standard_descriptors();
    if (module_register() < 0) {
        snprintf(why, size, "out of memory");
        return -1;
    }
    status = preinitialize();
    if (!PyStatus_Exception(status)) {
        status = initialize(c, executable);
    }
    if (PyStatus_Exception(status)) {
        return explain(status, why, size);
    }
    thread_state = PyThreadState_Get();
    if (stream_install() < 0 || extend_path(c) < 0 ||
        set_switch_interval(c->switch_interval_s) < 0) {
        errors_describe(why, size);
        PyErr_Clear();
        return -1;
    }
    return 0;
}

/* -- the GIL -------------------------------------------------------------- */

int
interp_thread_attach_nogil(void)
{
    thread_state = PyThreadState_New(PyInterpreterState_Main());
    if (thread_state == NULL) {
        return -1;
    }
    PyEval_RestoreThread(thread_state);
    return 0;
}

int
interp_before_threads(void)
{
    PyObject *module = PyImport_ImportModule("threading");

    Py_XDECREF(module);
    return module != NULL ? 0 : -1;
}

void
interp_release(void)
{
    PyEval_SaveThread();
}

void
interp_acquire_nogil(void)
{
    PyEval_RestoreThread(thread_state);
}

int
interp_signal_fd(void)
{
    if (signal_pipe[0] < 0 && pipe2(signal_pipe, O_CLOEXEC | O_NONBLOCK) != 0) {
        return -1;
    }
    interp_signal_rearm();
    return signal_pipe[0];
}

/* An event loop of the application puts its own descriptor there, and -1 when
 * it ends. */
void
interp_signal_rearm(void)
{
    int before;

    if (signal_pipe[1] < 0) {
        return;
    }
    before = PySignal_SetWakeupFd(signal_pipe[1]);
    if (before >= 0 && before != signal_pipe[1]) {
        PySignal_SetWakeupFd(before);
    }
}

/* Each signal has left one byte; a full pipe is readable as well. */
static void
empty_signal_pipe(void)
{
    char bytes[256];

    while (signal_pipe[0] >= 0 &&
           read(signal_pipe[0], bytes, sizeof(bytes)) > 0) {
    }
}

void
interp_check_signals_nogil(void)
{
    if (thread_state == NULL) {
        return; /* a thread of the application: handlers do not run there */
    }
    empty_signal_pipe();
    PyEval_RestoreThread(thread_state);
    if (PyErr_CheckSignals() < 0 && !call_keep_interrupt()) {
        errors_log_exception("a signal handler of the application raised");
    }
    PyEval_SaveThread();
}

/* -- fork ----------------------------------------------------------------- */

static void
call_logged(PyObject *module, const char *method)
{
    PyObject *result = PyObject_CallMethod(module, method, NULL);

    if (result == NULL) {
        errors_log_exception(method);
    }
    Py_XDECREF(result);
}

void
interp_freeze(void)
{
    PyObject *gc = PyImport_ImportModule("gc");

    if (gc == NULL) {
        errors_log_exception("importing gc");
        return;
    }
    call_logged(gc, "collect");
    call_logged(gc, "freeze");
    Py_DECREF(gc);
}

pid_t
interp_fork(void)
{
    pid_t pid;
    int error;

    stream_end_lines();
    PyOS_BeforeFork();
    pid = fork();
    if (pid == 0) {
        PyOS_AfterFork_Child();
        return 0;
    }
    error = errno;
    PyOS_AfterFork_Parent();
    errno = error;
    return pid;
}

/* -- the end -------------------------------------------------------------- */

/* A module that the application has loaded, or NULL. */
static PyObject *
loaded_module(const char *text)
{
    PyObject *name = PyUnicode_FromString(text);
    PyObject *module = NULL;

    if (name != NULL) {
        module = PyImport_GetModule(name);
        Py_DECREF(name);
    }
    if (module == NULL) {
        PyErr_Clear();
    }
    return module;
}

static void
flush(const char *name)
{
    PyObject *stream = PySys_GetObject(name);

    if (stream != NULL && stream != Py_None) {
        Py_INCREF(stream);
        call_logged(stream, "flush");
        Py_DECREF(stream);
    }
}

void
interp_end(void)
{
    PyObject *threading = loaded_module("threading");
    PyObject *atexit;

    /* Waits for the threads that are no daemons. */
    if (threading != NULL) {
        leftover_tell(threading);
        call_logged(threading, "_shutdown");
        Py_DECREF(threading);
    }
    atexit = PyImport_ImportModule("atexit");
    if (atexit != NULL) {
        call_logged(atexit, "_run_exitfuncs");
        Py_DECREF(atexit);
    } else {
        errors_log_exception("importing atexit");
    }
    flush("stdout");
    flush("stderr");
    stream_end_lines();
}
