/* SPDX-License-Identifier: MIT
 *
 * wsgi.file_wrapper. See file_wrapper.h. Worker process, GIL held.
 *
 * For anybody who iterates it (middleware) it is an iterator over read(). When
 * the application returns it to the server, the server may send the file
 * instead: only one whose descriptor is known to hold what read() would give.
 */
#include "python/file_wrapper.h"

#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <structmember.h>
#include <sys/stat.h>

#include "python/compat.h"
#include "python/state.h"

enum { BLOCK_BYTES = 8192 };

struct file_wrapper {
    PyObject_HEAD PyObject *file; /* owned, as all */
    PyObject *read;               /* its bound method */
    PyObject *close;              /* likewise; NULL: it has none */
    PyObject *size;               /* block size as int */
};

/* -- the iterator --------------------------------------------------------- */

static PyObject *
new_size(PyObject *size)
{
    Py_ssize_t n = BLOCK_BYTES;

    if (size != NULL && size != Py_None) {
        n = PyNumber_AsSsize_t(size, PyExc_OverflowError);
        if (n == -1 && PyErr_Occurred()) {
            return NULL;
        }
    }
    return PyLong_FromSsize_t(n > 0 ? n : BLOCK_BYTES);
}

/* "file_wrapper" has no state to look names up in: it is made by applications,
 * a few times a request at most. */
static int
find_methods(struct file_wrapper *w)
{
    PyObject *name = PyUnicode_InternFromString("close");
    int rc = -1;

    if (name != NULL) {
        rc = py_optional_attr(w->file, name, &w->close);
        Py_DECREF(name);
    }
    if (rc >= 0) {
        w->read = PyObject_GetAttrString(w->file, "read");
    }
    return rc >= 0 && w->read != NULL ? 0 : -1;
}

static PyObject *
wrapper_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = { "filelike", "blksize", NULL };
    PyObject *file_b, *size_b = NULL;
    struct file_wrapper *w;

    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|O:file_wrapper", names,
                                     &file_b, &size_b)) {
        return NULL;
    }
    w = (struct file_wrapper *)type->tp_alloc(type, 0);
    if (w == NULL) {
        return NULL;
    }
    w->file = Py_NewRef(file_b);
    w->size = new_size(size_b);
    if (w->size == NULL || find_methods(w) < 0) {
        Py_CLEAR(w);
    }
    return (PyObject *)w;
}

static int
wrapper_traverse(PyObject *self, visitproc visit, void *arg)
{
    struct file_wrapper *w = (struct file_wrapper *)self;

    Py_VISIT(w->file);
    Py_VISIT(w->read);
    Py_VISIT(w->close);
    Py_VISIT(Py_TYPE(self));
    return 0;
}

static int
wrapper_clear(PyObject *self)
{
    struct file_wrapper *w = (struct file_wrapper *)self;

    Py_CLEAR(w->file);
    Py_CLEAR(w->read);
    Py_CLEAR(w->close);
    Py_CLEAR(w->size);
    return 0;
}

static void
wrapper_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    PyObject_GC_UnTrack(self);
    wrapper_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

/* What is no bytes is passed on, so that the error names its type. */
static PyObject *
wrapper_next(PyObject *self)
{
    struct file_wrapper *w = (struct file_wrapper *)self;
    PyObject *data = PyObject_CallOneArg(w->read, w->size);

    if (data != NULL && PyBytes_Check(data) && PyBytes_GET_SIZE(data) == 0) {
        Py_CLEAR(data);
    }
    return data;
}

static PyMemberDef wrapper_members[] = {
    { "close", T_OBJECT_EX, offsetof(struct file_wrapper, close), READONLY,
      "close() of the file, if it has one" },
    { "filelike", T_OBJECT_EX, offsetof(struct file_wrapper, file), READONLY,
      "the file" },
    { "blksize", T_OBJECT_EX, offsetof(struct file_wrapper, size), READONLY,
      "bytes per read()" },
    { NULL, 0, 0, 0, NULL },
};

static PyType_Slot wrapper_slots[] = {
    { Py_tp_new, wrapper_new },
    { Py_tp_dealloc, wrapper_dealloc },
    { Py_tp_traverse, wrapper_traverse },
    { Py_tp_clear, wrapper_clear },
    { Py_tp_iter, PyObject_SelfIter },
    { Py_tp_iternext, wrapper_next },
    { Py_tp_members, wrapper_members },
    { Py_tp_doc, (void *)"file_wrapper(filelike, blksize=8192): the body of a "
                         "response, read from a file." },
    { 0, NULL },
};

static PyType_Spec wrapper_spec = {
    .name = "forebay.FileWrapper",
    .basicsize = sizeof(struct file_wrapper),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = wrapper_slots,
};

PyTypeObject *
file_wrapper_new_type(void)
{
    return (PyTypeObject *)PyType_FromSpec(&wrapper_spec);
}

/* -- how its file can be sent --------------------------------------------- */

/* An instance of a type of io may have methods of its own in its __dict__. 1, 0
 * or -1 with an exception set. */
static int
is_overridden(const struct state *s, PyObject *file)
{
    PyObject *const names_b[] = { s->name.read, s->name.tell, s->name.fileno };
    PyObject *dict = NULL;
    int rc = py_optional_attr(file, s->name.dict, &dict);

    if (rc <= 0) {
        return rc;
    }
    rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof(names_b) / sizeof(*names_b); i++) {
        rc = PySequence_Contains(dict, names_b[i]);
    }
    Py_DECREF(dict);
    return rc;
}

/* The file inside a tempfile.NamedTemporaryFile(), which forwards everything to
 * it; otherwise the file itself. */
static PyObject *
unwrap_tempfile(const struct state *s, PyObject *file)
{
    PyObject *name = NULL, *module = NULL, *type = NULL, *inner = NULL;

    if (strcmp(Py_TYPE(file)->tp_name, "_TemporaryFileWrapper") == 0) {
        name = PyUnicode_FromString("tempfile");
        module = name != NULL ? PyImport_GetModule(name) : NULL;
    }
    if (module != NULL) {
        type = PyObject_GetAttrString(module, "_TemporaryFileWrapper");
    }
    if (type == (PyObject *)Py_TYPE(file)) {
        inner = PyObject_GetAttr(file, s->name.file);
    }
    PyErr_Clear();
    Py_XDECREF(name);
    Py_XDECREF(module);
    Py_XDECREF(type);
    return inner != NULL ? inner : Py_NewRef(file);
}

/* tell() and fileno() of the file are those of a real descriptor: exactly a
 * FileIO, or a buffer around exactly that (a GzipFile's descriptor, say, gives
 * other bytes than its read()). 1, 0 or -1 with an exception set. */
static int
is_real_file(const struct state *s, PyObject *file)
{
    PyTypeObject *type = Py_TYPE(file);
    PyObject *raw;
    int rc;

    if (type != s->file_type && type != s->buffered_reader_type &&
        type != s->buffered_random_type) {
        return 0;
    }
    rc = is_overridden(s, file);
    if (rc != 0 || type == s->file_type) {
        return rc < 0 ? -1 : rc == 0;
    }
    raw = PyObject_GetAttr(file, s->name.raw);
    if (raw == NULL) {
        return -1;
    }
    rc = Py_TYPE(raw) == s->file_type ? is_overridden(s, raw) : 1;
    Py_DECREF(raw);
    return rc < 0 ? -1 : rc == 0;
}

/* An integer that a method without arguments returns. -1: an exception is
 * set. */
static long long
call_for_number(PyObject *file, PyObject *method)
{
    PyObject *result = PyObject_CallMethodNoArgs(file, method);
    long long n = -1;

    if (result != NULL) {
        n = PyLong_AsLongLong(result);
        Py_DECREF(result);
    }
    return n;
}

/* Descriptor and logical position, which is behind that of the descriptor after
 * buffered reads. 0, or -1 with an exception set. */
static int
find_position(const struct state *s, PyObject *file, int *ret_fd,
              off_t *ret_offset)
{
    PyObject *flushed;
    long long n;

    if (Py_TYPE(file) == s->buffered_random_type) {
        flushed = PyObject_CallMethodNoArgs(file, s->name.flush);
        if (flushed == NULL) {
            return -1;
        }
        Py_DECREF(flushed);
    }
    n = call_for_number(file, s->name.tell);
    if (n < 0) {
        return -1;
    }
    *ret_offset = (off_t)n;
    n = call_for_number(file, s->name.fileno);
    *ret_fd = (int)n;
    return n < 0 ? -1 : 0;
}

/* Files of /proc have contents but no size: what seems empty is read. */
static enum file_wrapper_kind
examine_descriptor(int fd, off_t offset, uint64_t *ret_len)
{
    struct stat st;
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0 || (flags & O_ACCMODE) == O_WRONLY || fstat(fd, &st) != 0 ||
        !S_ISREG(st.st_mode) || st.st_size <= offset) {
        return FILE_WRAPPER_ITERATE;
    }
    *ret_len = (uint64_t)(st.st_size - offset);
    return FILE_WRAPPER_DESCRIPTOR;
}

static enum file_wrapper_kind
examine_bytes_io(const struct state *s, PyObject *file, PyObject **ret_bytes)
{
    int rc = is_overridden(s, file);

    if (rc != 0) {
        return rc < 0 ? FILE_WRAPPER_ERROR : FILE_WRAPPER_ITERATE;
    }
    *ret_bytes = PyObject_CallMethodNoArgs(file, s->name.read);
    return *ret_bytes != NULL ? FILE_WRAPPER_BYTES : FILE_WRAPPER_ERROR;
}

enum file_wrapper_kind
file_wrapper_examine(const struct state *s, PyObject *wrapper, int *ret_fd,
                     off_t *ret_offset, uint64_t *ret_len, PyObject **ret_bytes)
{
    struct file_wrapper *w = (struct file_wrapper *)wrapper;
    PyObject *file;
    int rc;

    if (Py_TYPE(w->file) == s->bytes_io_type) {
        return examine_bytes_io(s, w->file, ret_bytes);
    }
    file = unwrap_tempfile(s, w->file);
    rc = is_real_file(s, file);
    if (rc > 0) {
        rc = find_position(s, file, ret_fd, ret_offset) < 0 ? -1 : 1;
    }
    Py_DECREF(file);
    if (rc < 0 && PyErr_ExceptionMatches(PyExc_OSError)) {
        PyErr_Clear(); /* a pipe has no position */
        rc = 0;
    }
    if (rc <= 0) {
        return rc < 0 ? FILE_WRAPPER_ERROR : FILE_WRAPPER_ITERATE;
    }
    return examine_descriptor(*ret_fd, *ret_offset, ret_len);
}
