/* SPDX-License-Identifier: MIT
 *
 * See environ.h. Worker process, GIL held.
 *
 * The common request differs from an earlier one in a few values only: then
 * building its environ is comparing bytes, replacing those values in the dict
 * that is kept, and one PyDict_Copy() (wsgi checklist R17).
 */
#include "python/environ.h"

#include <string.h>

#include "protocol/advice.h"
#include "python/errors.h"
#include "python/state.h"

static inline PyObject *
decode(const char *data, size_t len)
{
    return PyUnicode_DecodeLatin1(data, (Py_ssize_t)len, NULL);
}

/* -- choosing a shape ----------------------------------------------------- */

/* Try one shape. 1 when it is the request's, 0, or -1 with an exception set. */
static int
shape_try(struct environ_cache *cache, unsigned i, const struct request *r)
{
    struct shape *shape = &cache->shape[i];
    bool changed;
    int rc;

    if (shape->used == 0) {
        return 0;
    }
    rc = shape_update(shape, r, &changed);
    if (rc > 0) {
        shape->used = cache->clock;
        cache->recent = i;
    } else if (changed || rc < 0) {
        shape_clear(shape);
    }
    return rc;
}

/* The shape that is least worth keeping. */
static unsigned
shape_victim(const struct environ_cache *cache)
{
    unsigned oldest = 0;

    for (unsigned i = 1; i < ENVIRON_SHAPES; i++) {
        if (cache->shape[i].used < cache->shape[oldest].used) {
            oldest = i;
        }
    }
    return oldest;
}

/* A new shape for the request; one that can serve others replaces the oldest.
 */
static struct shape *
shape_new(struct environ_cache *cache, const struct state *s,
          const struct request *r, uint64_t signature)
{
    struct shape *making = &cache->shape[ENVIRON_SHAPES];
    struct shape *shape, swap;

    if (shape_fill(making, &cache->names, s, r) < 0) {
        return NULL;
    }
    if (!making->keep) {
        return making;
    }
    making->signature = signature;
    making->used = cache->clock;
    cache->recent = shape_victim(cache);
    shape = &cache->shape[cache->recent];
    swap = *shape;
    *shape = *making;
    *making = swap;
    shape_clear(making);
    return shape;
}

/* The shape of the request, up to date. NULL with an exception set. */
static struct shape *
shape_of(struct environ_cache *cache, const struct state *s,
         const struct request *r)
{
    uint64_t signature;
    int rc;

    cache->clock++;
    rc = shape_try(cache, cache->recent, r);
    if (rc != 0) {
        return rc < 0 ? NULL : &cache->shape[cache->recent];
    }
    signature = shape_signature(r);
    for (unsigned i = 0; i < ENVIRON_SHAPES; i++) {
        if (cache->shape[i].signature == signature && i != cache->recent) {
            rc = shape_try(cache, i, r);
            if (rc != 0) {
                return rc < 0 ? NULL : &cache->shape[i];
            }
        }
    }
    return shape_new(cache, s, r, signature);
}

/* -- what follows from several parameters --------------------------------- */

static struct cgi_text
text_at(const struct request *r, int i)
{
    struct cgi_text text = { NULL, 0 };

    if (i >= 0) {
        text.data = r->params.data + r->param[i].value;
        text.len = r->param[i].value_len;
    }
    return text;
}

/* The str of bytes that may be the whole of one of the values. */
static PyObject *
text_object(const struct shape *shape, const struct request *r,
            struct cgi_text text)
{
    const int places[] = { shape->path_info, shape->script_name,
                           shape->document_uri, shape->request_uri };

    for (unsigned i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        struct cgi_text value = text_at(r, places[i]);

        if (value.data == text.data && value.len == text.len && value.len > 0) {
            return Py_NewRef(shape->slot[places[i]].value_text);
        }
    }
    return decode(text.data, text.len);
}

static int
set_text(const struct shape *shape, const struct request *r, PyObject *key,
         struct cgi_text text)
{
    PyObject *value = text_object(shape, r, text);
    int rc;

    if (value == NULL) {
        return -1;
    }
    rc = PyDict_SetItem(shape->dict, key, value);
    Py_DECREF(value);
    return rc;
}

static struct cgi_text
software_of(const struct request *r)
{
    static const char name[] = "SERVER_SOFTWARE";

    for (unsigned i = 0; i < r->param_count; i++) {
        if (r->param[i].name_len == sizeof(name) - 1 &&
            memcmp(r->params.data + r->param[i].name, name, sizeof(name) - 1) ==
                0) {
            return text_at(r, (int)i);
        }
    }
    return (struct cgi_text){ NULL, 0 };
}

/* The first request of the pool whose path is told in an odd way: say so. */
static void
advise(const struct state *s, const struct request *r,
       const struct cgi_path_input *in, const char *mount, enum advice advice)
{
    char line[1024];

    if (atomic_fetch_or(s->config->advised, 1U << advice) & 1U << advice) {
        return;
    }
    errors_log(
        advice_is_harmless(advice) ? 'I' : 'W', "pool %s: %s", s->config->pool,
        advice_format(line, sizeof(line), advice, in, mount, software_of(r)));
}

/* SCRIPT_NAME and PATH_INFO. 0; a status to answer because of *ret_why; -1 with
 * an exception set. */
static int
set_path(struct environ_cache *cache, const struct state *s,
         struct shape *shape, const struct request *r, const char **ret_why)
{
    struct cgi_path_input in = {
        .script_name = text_at(r, shape->script_name),
        .path_info = text_at(r, shape->path_info),
        .document_uri = text_at(r, shape->document_uri),
        .request_uri = text_at(r, shape->request_uri),
    };
    const char *mount = s->config->mount != NULL ? s->config->mount : "";
    struct cgi_text script_name, path_info = { NULL, 0 };
    enum cgi_path_result result =
        cgi_split_path(&in, mount, strlen(mount), s->config->path_from_uri,
                       &cache->scratch, &script_name, &path_info);

    if (s->config->advised != NULL && r->role == REQUEST_RESPONDER) {
        enum advice advice =
            advice_look(&in, mount, strlen(mount), s->config->path_from_uri,
                        result, &path_info, &cache->advice);

        if (advice != ADVICE_NONE) {
            advise(s, r, &in, mount, advice);
        }
    }
    switch (result) {
    case CGI_PATH_OK:
        break;
    case CGI_PATH_OUTSIDE:
        *ret_why = "the path is not below the mount of the pool";
        return 404;
    case CGI_PATH_NUL:
        *ret_why = "the path has a NUL byte";
        return 400;
    case CGI_PATH_LIMIT:
        PyErr_NoMemory();
        return -1;
    }
    if (PyDict_SetItem(shape->dict, s->name.script_name,
                       script_name.len > 0 ? s->mount : s->empty) < 0 ||
        set_text(shape, r, s->name.path_info, path_info) < 0) {
        return -1;
    }
    shape->path_stale = false;
    return 0;
}

static int
set_scheme(const struct state *s, struct shape *shape, const struct request *r)
{
    bool https;

    if (s->config->url_scheme == NULL) {
        https =
            cgi_is_https(text_at(r, shape->https), text_at(r, shape->scheme));
        if (PyDict_SetItem(shape->dict, s->name.url_scheme,
                           https ? s->https : s->http) < 0) {
            return -1;
        }
    }
    shape->scheme_stale = false;
    return 0;
}

/* PEP 3333 has no word for the FastCGI roles: an authorizer's and a filter's
 * application see theirs under a key of ours. */
static int
set_role(const struct state *s, PyObject *dict, enum request_role role)
{
    PyObject *text = PyUnicode_FromString(
        role == REQUEST_AUTHORIZER ? "authorizer" : "filter");
    int rc = -1;

    if (text != NULL) {
        rc = PyDict_SetItem(dict, s->name.role, text);
        Py_DECREF(text);
    }
    return rc;
}

PyObject *
environ_new(struct environ_cache *cache, struct state *s,
            const struct request *r, int *ret_status, const char **ret_why)
{
    struct shape *shape;
    PyObject *dict;

    *ret_status = 0;
    if (r->content_length == INT64_MAX) { /* as large as that, or larger */
        *ret_status = 413;
        *ret_why = "CONTENT_LENGTH is larger than any body can be";
        return NULL;
    }
    if (cache->template_version != s->template_version) {
        for (unsigned i = 0; i <= ENVIRON_SHAPES; i++) {
            shape_clear(&cache->shape[i]);
        }
        cache->template_version = s->template_version;
    }
    shape = shape_of(cache, s, r);
    if (shape == NULL) {
        return NULL;
    }
    if (shape->method < 0 || r->param[shape->method].value_len == 0) {
        *ret_status = 500;
        *ret_why = "the front end sent no REQUEST_METHOD: its parameters are "
                   "not configured (nginx: include fastcgi_params or "
                   "scgi_params)";
        return NULL;
    }
    if (shape->scheme_stale && set_scheme(s, shape, r) < 0) {
        return NULL;
    }
    if (shape->path_stale) {
        int rc = set_path(cache, s, shape, r, ret_why);

        if (rc != 0) {
            *ret_status = rc < 0 ? 0 : rc;
            return NULL;
        }
    }
    if (shape->keep) {
        dict = PyDict_Copy(shape->dict);
    } else {
        dict = shape->dict;
        shape->dict = NULL;
        if (shape->cap > SHAPE_PARAMS) {
            shape_release(shape);
        } else {
            shape_clear(shape);
        }
    }
    if (dict != NULL && r->role != REQUEST_RESPONDER &&
        set_role(s, dict, r->role) < 0) {
        Py_CLEAR(dict);
    }
    return dict;
}

/* -- cache and template --------------------------------------------------- */

int
environ_cache_init(struct environ_cache *cache, const struct state *s)
{
    memset(cache, 0, sizeof(*cache));
    /* Paths are limited with the parameters that they come from. */
    buf_init(&cache->scratch, SIZE_MAX / 2);
    buf_init(&cache->advice, SIZE_MAX / 2);
    return names_init(&cache->names, s->config->learned_names);
}

void
environ_cache_release(struct environ_cache *cache)
{
    for (unsigned i = 0; i <= ENVIRON_SHAPES; i++) {
        shape_release(&cache->shape[i]);
    }
    names_release(&cache->names);
    buf_release(&cache->scratch);
    buf_release(&cache->advice);
}

/* PEP 3333: "a tuple (1, 0)"; the flags are bool; input_terminated tells that
 * read() without a size ends at the end of the body. */
static PyObject *
new_template(const struct state *s, const struct wsgi_config *c,
             PyObject *mount)
{
    const char *name = c->server_name != NULL && c->server_name[0] != '\0'
                           ? c->server_name
                           : "localhost";
    const char *port = c->server_port != NULL && c->server_port[0] != '\0'
                           ? c->server_port
                           : "80";
    const char *scheme = c->url_scheme != NULL ? c->url_scheme : "http";

    return Py_BuildValue(
        "{s:(ii), s:O, s:O, s:O, s:O, s:O, s:O, s:O, s:s, s:N, s:N, s:s, s:O, "
        "s:O, s:O}",
        "wsgi.version", 1, 0, "wsgi.input", Py_None, "wsgi.errors", s->errors,
        "wsgi.multithread", c->multithread ? Py_True : Py_False,
        "wsgi.multiprocess", c->multiprocess ? Py_True : Py_False,
        "wsgi.run_once", Py_False, "wsgi.input_terminated", Py_True,
        "wsgi.file_wrapper", (PyObject *)s->file_wrapper_type,
        "wsgi.url_scheme", scheme, "SERVER_NAME", decode(name, strlen(name)),
        "SERVER_PORT", decode(port, strlen(port)), "SERVER_PROTOCOL",
        "HTTP/1.0", "SCRIPT_NAME", mount, "PATH_INFO", s->empty, "QUERY_STRING",
        s->empty);
}

/* The same dict with interned keys, so that each SetItem finds them by
 * identity. */
static PyObject *
intern_keys(PyObject *dict)
{
    PyObject *result = PyDict_New();
    PyObject *key_b, *value_b;
    Py_ssize_t pos = 0;

    while (result != NULL && PyDict_Next(dict, &pos, &key_b, &value_b)) {
        PyObject *key = Py_NewRef(key_b);

        PyUnicode_InternInPlace(&key);
        if (PyDict_SetItem(result, key, value_b) < 0) {
            Py_CLEAR(result);
        }
        Py_DECREF(key);
    }
    return result;
}

int
state_set_config(struct state *s, const struct wsgi_config *config)
{
    const char *text = config->mount != NULL ? config->mount : "";
    PyObject *mount = decode(text, strlen(text));
    PyObject *plain = NULL, *template = NULL;

    if (mount != NULL) {
        plain = new_template(s, config, mount);
    }
    if (plain != NULL) {
        template = intern_keys(plain);
        Py_DECREF(plain);
    }
    if (template == NULL) {
        Py_XDECREF(mount);
        return -1;
    }
    s->config = config;
    Py_XSETREF(s->mount, mount);
    Py_XSETREF(s->template, template);
    s->template_version++;
    return 0;
}
