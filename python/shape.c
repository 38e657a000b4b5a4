/* SPDX-License-Identifier: MIT
 *
 * See shape.h. Worker process, GIL held.
 */
#include "python/shape.h"

#include <string.h>

#include "python/bytes.h"
#include "python/compat.h"
#include "python/errors.h"
#include "python/state.h"

static inline PyObject *
decode(const char *data, size_t len)
{
    return PyUnicode_DecodeLatin1(data, (Py_ssize_t)len, NULL);
}

void
shape_clear(struct shape *shape)
{
    for (unsigned i = 0; i < shape->count; i++) {
        Py_CLEAR(shape->slot[i].name_text);
        Py_CLEAR(shape->slot[i].value_text);
    }
    Py_CLEAR(shape->dict);
    shape->count = 0;
    shape->used = 0;
}

void
shape_release(struct shape *shape)
{
    shape_clear(shape);
    PyMem_Free(shape->slot);
    PyMem_Free(shape->param);
    PyMem_Free(shape->block);
    shape->slot = NULL;
    shape->param = NULL;
    shape->block = NULL;
    shape->cap = 0;
    shape->block_cap = 0;
}

static int
shape_reserve(struct shape *shape, unsigned count)
{
    if (count <= shape->cap) {
        return 0;
    }
    shape_release(shape);
    shape->slot = PyMem_Calloc(count, sizeof(*shape->slot));
    shape->param = PyMem_Calloc(count, sizeof(*shape->param));
    if (shape->slot == NULL || shape->param == NULL) {
        shape_release(shape);
        PyErr_NoMemory();
        return -1;
    }
    shape->cap = count;
    return 0;
}

/* Note where the request's parameters stand and their bytes, to compare the
 * next one with. */
static int
shape_remember(struct shape *shape, const struct request *r)
{
    if (shape->block_cap < r->params.len) {
        char *block = PyMem_Realloc(shape->block, r->params.len);

        if (block == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        shape->block = block;
        shape->block_cap = r->params.len;
    }
    if (r->param_count > 0) {
        memcpy(shape->param, r->param, r->param_count * sizeof(*r->param));
        memcpy(shape->block, r->params.data, r->params.len);
    }
    return 0;
}

uint64_t
shape_signature(const struct request *r)
{
    const char *base = r->params.data;
    uint64_t h = r->param_count;

    for (unsigned i = 0; i < r->param_count; i++) {
        const struct request_param *p = &r->param[i];
        uint64_t w = (uint64_t)p->name_len << 9;

        if (p->name_len > 0) {
            w |= (unsigned char)base[p->name + p->name_len - 1];
        }
        if (p->value_len == 0) {
            w |= 0x100;
        }
        h = (h ^ w) * 0x9e3779b97f4a7c15u;
        h ^= h >> 32;
    }
    return h;
}

static enum slot_use
use_of(const struct wsgi_config *config, const struct request *r,
       enum cgi_class class, size_t value_len)
{
    switch (class) {
    case CGI_DROP:
    case CGI_UNUSABLE:
        return SLOT_SKIP;
    case CGI_PROXY: /* the client's "Proxy:" would direct the application's
                       own requests (wsgi checklist B13) */
        return config->pass_http_proxy ? SLOT_SET : SLOT_SKIP;
    case CGI_CONTENT_LENGTH:
        return r->content_length >= 0 && value_len > 0 ? SLOT_SET : SLOT_SKIP;
    case CGI_EMPTY_ABSENT:
    case CGI_SERVER_NAME: /* PEP 3333: "can never be empty strings"; then */
    case CGI_SERVER_PORT: /* that of the template counts */
    case CGI_SERVER_PROTOCOL:
        return value_len > 0 ? SLOT_SET : SLOT_SKIP;
    case CGI_SCRIPT_NAME:
    case CGI_PATH_INFO:
        return SLOT_PATH;
    default:
        return SLOT_SET;
    }
}

static void
note_place(struct shape *shape, enum cgi_class class, int i)
{
    switch (class) {
    case CGI_METHOD:
        shape->method = i;
        break;
    case CGI_SCRIPT_NAME:
        shape->script_name = i;
        break;
    case CGI_PATH_INFO:
        shape->path_info = i;
        break;
    case CGI_DOCUMENT_URI:
        shape->document_uri = i;
        break;
    case CGI_REQUEST_URI:
        shape->request_uri = i;
        break;
    case CGI_HTTPS:
        shape->https = i;
        break;
    case CGI_SCHEME:
        shape->scheme = i;
        break;
    default:
        break;
    }
}

/* Give the slot its value, and the dict if it goes there. */
static int
slot_set(struct shape *shape, struct slot *slot, const char *value, size_t len)
{
    PyObject *text;

    if (slot->class == CGI_SERVER_NAME) {
        len = cgi_host_length(value, len);
    }
    text = decode(value, len);
    if (text == NULL) {
        return -1;
    }
    Py_XSETREF(slot->value_text, text);
    if (slot->use == SLOT_SET) {
        return PyDict_SetItem(shape->dict, slot->name_text, text);
    }
    return 0;
}

/* "A header sent several times is joined" (wsgi checklist B11, RFC 9110 5.3);
 * cookies as RFC 6265, section 4.2.1 writes them. The slot's value comes before
 * what the dict has. */
static int
join_header(struct shape *shape, struct slot *slot, const char *value,
            size_t len)
{
    PyObject *later = NULL, *earlier = NULL, *joined = NULL;
    int rc = -1;

    shape->keep = false;
    if (py_dict_get(shape->dict, slot->name_text, &later) < 1) {
        goto out;
    }
    earlier = decode(value, len);
    if (earlier == NULL) {
        goto out;
    }
    joined = PyUnicode_FromFormat(
        slot->class == CGI_COOKIE ? "%U; %U" : "%U, %U", earlier, later);
    if (joined != NULL) {
        rc = PyDict_SetItem(shape->dict, slot->name_text, joined);
    }
out:
    Py_XDECREF(later);
    Py_XDECREF(earlier);
    Py_XDECREF(joined);
    return rc;
}

/* The parameter has a name that came already, behind it. */
static int
slot_shadowed(struct shape *shape, struct slot *slot, enum slot_use use,
              const char *value, size_t len)
{
    slot->use = SLOT_SKIP;
    if (use == SLOT_SET &&
        (slot->class == CGI_HEADER || slot->class == CGI_COOKIE ||
         slot->class == CGI_PROXY)) {
        return join_header(shape, slot, value, len);
    }
    return 0; /* of CGI variables the last one counts */
}

static void
log_unusable(const struct state *s, const char *name, size_t len)
{
    char shown[200];

    request_escape(shown, sizeof(shown), name, len);
    errors_log('W',
               "pool %s: the front end sent a parameter named \"%s\", which is "
               "no name; dropped",
               s->config->pool, shown);
}

/* Whether the name came before; notes it. -1 with an exception set. */
static int
name_seen(const struct names *names, const struct shape *shape,
          const struct slot *slot, struct name *known)
{
    if (known == NULL) {
        return slot->use == SLOT_SET
                   ? PyDict_Contains(shape->dict, slot->name_text)
                   : 0;
    }
    if (known->request == names->request) {
        return 1;
    }
    known->request = names->request;
    return 0;
}

static int
fill_slot(struct shape *shape, struct names *names, const struct state *s,
          const struct request *r, unsigned i)
{
    const struct request_param *p = &r->param[i];
    const char *name = r->params.data + p->name;
    const char *value = r->params.data + p->value;
    struct slot *slot = &shape->slot[i];
    struct name *known;
    int seen;

    if (names_learn(names, name, p->name_len, &known) < 0) {
        return -1;
    }
    slot->name_text = known != NULL ? Py_NewRef(known->text)
                                    : name_text(name, p->name_len, false);
    if (slot->name_text == NULL) {
        return -1;
    }
    slot->class =
        known != NULL ? known->class : name_classify(name, p->name_len);
    slot->use = use_of(s->config, r, slot->class, p->value_len);
    if (slot->class == CGI_UNUSABLE) {
        shape->keep = false; /* each of them is logged */
        log_unusable(s, name, p->name_len);
    }
    if (slot->class == CGI_CONTENT_LENGTH && slot->use == SLOT_SKIP &&
        p->value_len > 0) {
        shape->keep = false; /* no number: the next one may be */
    }
    seen = name_seen(names, shape, slot, known);
    if (seen != 0) {
        return seen < 0
                   ? -1
                   : slot_shadowed(shape, slot, slot->use, value, p->value_len);
    }
    note_place(shape, slot->class, (int)i);
    if (slot->use == SLOT_SKIP) {
        return 0;
    }
    return slot_set(shape, slot, value, p->value_len);
}

/* Names and values stand behind each other in the block, as decoders write
 * them. */
static bool
is_in_order(const struct request *r)
{
    uint64_t end = 0;

    for (unsigned i = 0; i < r->param_count; i++) {
        const struct request_param *p = &r->param[i];

        if (p->name < end || p->value < (uint64_t)p->name + p->name_len) {
            return false;
        }
        end = (uint64_t)p->value + p->value_len;
    }
    return end <= r->params.len;
}

/* Where a request was rewritten, what a rule of Apache's saved as
 * HTTP_AUTHORIZATION comes as REDIRECT_HTTP_AUTHORIZATION. */
static int
redirected_authorization(struct shape *shape, const struct state *s)
{
    PyObject *value = NULL;
    int rc = PyDict_Contains(shape->dict, s->name.authorization);

    if (rc != 0) {
        return rc < 0 ? -1 : 0;
    }
    rc = py_dict_get(shape->dict, s->name.redirected, &value);
    if (rc > 0 && PyUnicode_GET_LENGTH(value) > 0) { /* "": nothing to save */
        shape->keep = false; /* one value under two names */
        rc = PyDict_SetItem(shape->dict, s->name.authorization, value);
    }
    Py_XDECREF(value);
    return rc < 0 ? -1 : 0;
}

/* Backwards, since the last of several parameters with one name counts. */
int
shape_fill(struct shape *shape, struct names *names, const struct state *s,
           const struct request *r)
{
    shape_clear(shape);
    if (shape_reserve(shape, r->param_count) < 0) {
        return -1;
    }
    shape->dict = PyDict_Copy(s->template);
    if (shape->dict == NULL) {
        return -1;
    }
    names->request++;
    shape->count = r->param_count;
    if (shape->count > 0) {
        memset(shape->slot, 0, shape->count * sizeof(*shape->slot));
    }
    shape->method = shape->script_name = shape->path_info = -1;
    shape->document_uri = shape->request_uri = -1;
    shape->https = shape->scheme = -1;
    shape->path_stale = shape->scheme_stale = true;
    shape->keep = r->param_count <= SHAPE_PARAMS &&
                  r->params.len <= SHAPE_BYTES && is_in_order(r);
    for (unsigned i = r->param_count; i > 0; i--) {
        if (fill_slot(shape, names, s, r, i - 1) < 0) {
            shape_clear(shape);
            return -1;
        }
    }
    if (s->config->redirect_authorization &&
        redirected_authorization(shape, s) < 0) {
        shape_clear(shape);
        return -1;
    }
    if (shape->keep && shape_remember(shape, r) < 0) {
        shape_clear(shape);
        return -1;
    }
    return 0;
}

/* A value of the shape differs from the request's. 1, 0 when the request is of
 * another shape, -1 with an exception set. */
static int
slot_update(struct shape *shape, const struct request *r, unsigned i)
{
    const struct request_param *p = &r->param[i];
    struct slot *slot = &shape->slot[i];

    switch (slot->class) {
    case CGI_CONTENT_LENGTH:
        if (r->content_length < 0 && p->value_len > 0) {
            return 0;
        }
        break;
    case CGI_SCRIPT_NAME:
    case CGI_PATH_INFO:
    case CGI_REQUEST_URI:
    case CGI_DOCUMENT_URI:
        shape->path_stale = true;
        break;
    case CGI_HTTPS:
    case CGI_SCHEME:
        shape->scheme_stale = true;
        break;
    default:
        break;
    }
    if (slot->use == SLOT_SKIP) {
        return 1;
    }
    return slot_set(shape, slot, r->params.data + p->value, p->value_len) < 0
               ? -1
               : 1;
}

/* Parameters from..to stand equally far from each other in the shape's block
 * and in the request's: compare all their bytes at once, and look closer only
 * where they differ. As slot_update(). */
static int
update_run(struct shape *shape, const struct request *r, unsigned from,
           unsigned to, bool *ret_changed)
{
    const struct request_param *p = r->param;
    const char *old = shape->block + shape->param[from].name;
    const char *new = r->params.data + p[from].name;
    size_t begin = p[from].name, at = 0;
    size_t len = p[to - 1].value + p[to - 1].value_len - begin;
    unsigned i = from;

    while ((at += same_length(old + at, new + at, len - at)) < len) {
        int rc;

        while (p[i].value + p[i].value_len - begin <= at) {
            i++;
        }
        if (at >= p[i].name - begin && at < p[i].name + p[i].name_len - begin) {
            return 0;
        }
        if (at >= p[i].value - begin) {
            *ret_changed = true;
            rc = slot_update(shape, r, i);
            if (rc <= 0) {
                return rc;
            }
            at = p[i].value + p[i].value_len - begin;
        } else { /* between two of them */
            at++;
        }
    }
    return 1;
}

/* The parameters have the lengths of the shape's names, and the same ones are
 * empty. */
static bool
shape_fits(const struct shape *shape, const struct request *r)
{
    for (unsigned i = 0; i < shape->count; i++) {
        const struct request_param *p = &r->param[i], *old = &shape->param[i];

        if (p->name_len != old->name_len ||
            (p->value_len == 0) != (old->value_len == 0)) {
            return false;
        }
    }
    return true;
}

/* Up to where parameters stand as far from each other as in the shape. */
static unsigned
run_end(const struct shape *shape, const struct request *r, unsigned from)
{
    uint32_t shift = r->param[from].name - shape->param[from].name;
    unsigned i = from;

    while (i < shape->count) {
        const struct request_param *p = &r->param[i], *old = &shape->param[i];

        if (p->name - old->name != shift || p->value - old->value != shift ||
            p->value_len != old->value_len) {
            break;
        }
        i++;
    }
    return i;
}

/* A parameter whose value has another length. As slot_update(). */
static int
update_one(struct shape *shape, const struct request *r, unsigned i)
{
    const struct request_param *p = &r->param[i];

    if (!same_bytes(shape->block + shape->param[i].name,
                    r->params.data + p->name, p->name_len)) {
        return 0;
    }
    return slot_update(shape, r, i);
}

/* The request's values have other lengths than the shape's. As slot_update().
 */
static int
update_shifted(struct shape *shape, const struct request *r, bool *ret_changed)
{
    unsigned i = 0;
    int rc = 1;

    if (!shape_fits(shape, r)) {
        return 0;
    }
    while (i < shape->count && rc > 0) {
        unsigned end = run_end(shape, r, i);

        if (end > i) {
            rc = update_run(shape, r, i, end, ret_changed);
            i = end;
        } else {
            rc = update_one(shape, r, i);
            *ret_changed = true;
            i++;
        }
    }
    return rc;
}

int
shape_update(struct shape *shape, const struct request *r, bool *ret_changed)
{
    unsigned count = shape->count;
    int rc;

    *ret_changed = false;
    if (count != r->param_count || count == 0) {
        return 0;
    }
    if (memcmp(shape->param, r->param, count * sizeof(*r->param)) == 0) {
        rc = update_run(shape, r, 0, count, ret_changed);
    } else {
        rc = update_shifted(shape, r, ret_changed);
    }
    if (rc > 0 && *ret_changed) {
        rc = shape_remember(shape, r) < 0 ? -1 : 1;
    }
    return rc;
}
