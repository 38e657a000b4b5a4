/* SPDX-License-Identifier: MIT
 *
 * See environ.h. Worker process, GIL held.
 *
 * The common request differs from an earlier one in a few values only: then
 * building its environ is comparing bytes, replacing those values in the dict
 * that is kept, and one PyDict_Copy() (wsgi checklist R17).
 */
#include "python/environ.h"

#include <stdlib.h>
#include <string.h>

#include "python/compat.h"
#include "python/errors.h"
#include "python/state.h"

/* How far a name may be from its place in the table: names that a client made
 * to collide are not learned, and cost no more than this. */
enum { NAME_PROBES = 16, NAME_FIRST_CAP = 256 };

/* Learned beforehand, whatever the limit: CGI/1.1, what front ends add, and the
 * request headers of browsers. */
static const char *const common_names[] = {
    "AUTH_TYPE",
    "CONTENT_LENGTH",
    "CONTENT_TYPE",
    "CONTEXT_DOCUMENT_ROOT",
    "CONTEXT_PREFIX",
    "DOCUMENT_ROOT",
    "DOCUMENT_URI",
    "GATEWAY_INTERFACE",
    "HTTPS",
    "HTTP_ACCEPT",
    "HTTP_ACCEPT_CHARSET",
    "HTTP_ACCEPT_ENCODING",
    "HTTP_ACCEPT_LANGUAGE",
    "HTTP_AUTHORIZATION",
    "HTTP_CACHE_CONTROL",
    "HTTP_CONNECTION",
    "HTTP_CONTENT_LENGTH",
    "HTTP_CONTENT_TYPE",
    "HTTP_COOKIE",
    "HTTP_DNT",
    "HTTP_HOST",
    "HTTP_IF_MODIFIED_SINCE",
    "HTTP_IF_NONE_MATCH",
    "HTTP_ORIGIN",
    "HTTP_PRAGMA",
    "HTTP_PRIORITY",
    "HTTP_PROXY",
    "HTTP_RANGE",
    "HTTP_REFERER",
    "HTTP_SEC_CH_UA",
    "HTTP_SEC_CH_UA_MOBILE",
    "HTTP_SEC_CH_UA_PLATFORM",
    "HTTP_SEC_FETCH_DEST",
    "HTTP_SEC_FETCH_MODE",
    "HTTP_SEC_FETCH_SITE",
    "HTTP_SEC_FETCH_USER",
    "HTTP_TE",
    "HTTP_TRANSFER_ENCODING",
    "HTTP_UPGRADE_INSECURE_REQUESTS",
    "HTTP_USER_AGENT",
    "HTTP_X_FORWARDED_FOR",
    "HTTP_X_FORWARDED_HOST",
    "HTTP_X_FORWARDED_PROTO",
    "HTTP_X_REAL_IP",
    "HTTP_X_REQUESTED_WITH",
    "HTTP_X_REQUEST_ID",
    "PATH_INFO",
    "PATH_TRANSLATED",
    "QUERY_STRING",
    "REDIRECT_STATUS",
    "REMOTE_ADDR",
    "REMOTE_HOST",
    "REMOTE_IDENT",
    "REMOTE_PORT",
    "REMOTE_USER",
    "REQUEST_METHOD",
    "REQUEST_SCHEME",
    "REQUEST_URI",
    "SCGI",
    "SCRIPT_FILENAME",
    "SCRIPT_NAME",
    "SERVER_ADDR",
    "SERVER_ADMIN",
    "SERVER_NAME",
    "SERVER_PORT",
    "SERVER_PROTOCOL",
    "SERVER_SIGNATURE",
    "SERVER_SOFTWARE",
    "SSL_CIPHER",
    "SSL_PROTOCOL",
    "SSL_TLS_SNI",
};

enum { COMMON_NAMES = sizeof(common_names) / sizeof(common_names[0]) };

/* Names are short: a call of memcmp() costs as much as the comparison. */
static inline bool
same_bytes(const char *a, const char *b, size_t len)
{
    uint64_t x, y;

    while (len >= 8) {
        memcpy(&x, a, 8);
        memcpy(&y, b, 8);
        if (x != y) {
            return false;
        }
        a += 8;
        b += 8;
        len -= 8;
    }
    while (len > 0) {
        if (*a++ != *b++) {
            return false;
        }
        len--;
    }
    return true;
}

/* How many bytes are the same in front of the first that differs. */
static size_t
same_length(const char *a, const char *b, size_t len)
{
    uint64_t x[4], y[4];
    size_t i = 0;

    while (i + sizeof(x) <= len) {
        memcpy(x, a + i, sizeof(x));
        memcpy(y, b + i, sizeof(y));
        if (((x[0] ^ y[0]) | (x[1] ^ y[1]) | (x[2] ^ y[2]) | (x[3] ^ y[3])) !=
            0) {
            break;
        }
        i += sizeof(x);
    }
    while (i < len && a[i] == b[i]) {
        i++;
    }
    return i;
}

static inline PyObject *
decode(const char *data, size_t len)
{
    return PyUnicode_DecodeLatin1(data, (Py_ssize_t)len, NULL);
}

/* -- names -------------------------------------------------------------------
 */

static uint32_t
hash_name(const char *name, size_t len)
{
    uint64_t h = len, w;

    while (len >= 8) {
        memcpy(&w, name, 8);
        h = (h ^ w) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
        name += 8;
        len -= 8;
    }
    w = 0;
    memcpy(&w, name, len);
    h = (h ^ w) * 0x9e3779b97f4a7c15u;
    return (uint32_t)(h >> 32);
}

/* Keys with these prefixes are the server's (PEP 3333, and wsgi checklist B19):
 * a parameter of the front end must not take their place. */
static enum cgi_class
classify(const char *name, size_t len)
{
    if ((len >= 5 && memcmp(name, "wsgi.", 5) == 0) ||
        (len >= 8 && memcmp(name, "forebay.", 8) == 0)) {
        return CGI_DROP;
    }
    return cgi_classify(name, len);
}

/* The entry of a name, or the free one where it belongs, or NULL when all
 * places it may have are taken. */
static struct environ_name *
name_place(struct environ_name *table, unsigned cap, uint32_t hash,
           const char *name, size_t len)
{
    for (unsigned i = 0; i < NAME_PROBES; i++) {
        struct environ_name *n = &table[(hash + i) & (cap - 1)];

        if (n->text == NULL) {
            return n;
        }
        if (n->hash == hash && (size_t)PyUnicode_GET_LENGTH(n->text) == len &&
            same_bytes((const char *)PyUnicode_1BYTE_DATA(n->text), name,
                       len)) {
            return n;
        }
    }
    return NULL;
}

/* Twice the room. A name that finds no place in the new table is forgotten. */
static int
names_grow(struct environ_cache *cache)
{
    unsigned cap = cache->name_cap == 0 ? NAME_FIRST_CAP : cache->name_cap * 2;
    struct environ_name *table = PyMem_Calloc(cap, sizeof(*table));

    if (table == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (unsigned i = 0; i < cache->name_cap; i++) {
        struct environ_name *old = &cache->name[i], *new;

        if (old->text == NULL) {
            continue;
        }
        new = name_place(table, cap, old->hash,
                         (const char *)PyUnicode_1BYTE_DATA(old->text),
                         (size_t)PyUnicode_GET_LENGTH(old->text));
        if (new != NULL) {
            *new = *old;
        } else {
            Py_DECREF(old->text);
            cache->name_count--;
        }
    }
    PyMem_Free(cache->name);
    cache->name = table;
    cache->name_cap = cap;
    return 0;
}

/* A str for a name; known ones are interned, so that a lookup with a literal of
 * the application finds them by identity. */
static PyObject *
name_text(const char *name, size_t len, bool intern)
{
    PyObject *text = decode(name, len);

    if (text != NULL && intern) {
        PyUnicode_InternInPlace(&text);
    }
    return text;
}

/* The entry of a name, learned now if need be. *ret is NULL when it cannot be
 * learned. 0, or -1 with an exception set. */
static int
name_learn(struct environ_cache *cache, const char *name, size_t len,
           struct environ_name **ret)
{
    uint32_t hash = hash_name(name, len);
    struct environ_name *n =
        name_place(cache->name, cache->name_cap, hash, name, len);

    *ret = n;
    if (n == NULL || n->text != NULL) {
        return 0;
    }
    *ret = NULL;
    if (cache->name_count >= cache->name_limit) {
        return 0;
    }
    if (cache->name_count >= cache->name_cap / 2) {
        if (names_grow(cache) < 0) {
            return -1;
        }
        n = name_place(cache->name, cache->name_cap, hash, name, len);
        if (n == NULL) {
            return 0;
        }
    }
    n->text = name_text(name, len, true);
    if (n->text == NULL) {
        return -1;
    }
    n->hash = hash;
    n->class = classify(name, len);
    n->request = 0;
    cache->name_count++;
    *ret = n;
    return 0;
}

/* -- shapes ------------------------------------------------------------------
 */

static void
shape_clear(struct environ_shape *shape)
{
    for (unsigned i = 0; i < shape->count; i++) {
        Py_CLEAR(shape->slot[i].name_text);
        Py_CLEAR(shape->slot[i].value_text);
    }
    Py_CLEAR(shape->dict);
    shape->count = 0;
    shape->used = 0;
}

static void
shape_release(struct environ_shape *shape)
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
shape_reserve(struct environ_shape *shape, unsigned count)
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
shape_remember(struct environ_shape *shape, const struct request *r)
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

/* Requests of one shape have the same signature; others hardly ever do. */
static uint64_t
signature_of(const struct request *r)
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

static enum environ_use
use_of(const struct wsgi_config *config, const struct request *r,
       enum cgi_class class, size_t value_len)
{
    switch (class) {
    case CGI_DROP:
    case CGI_UNUSABLE:
        return ENVIRON_SKIP;
    case CGI_PROXY: /* the client's "Proxy:" would direct the application's
                       own requests (wsgi checklist B13) */
        return config->pass_http_proxy ? ENVIRON_SET : ENVIRON_SKIP;
    case CGI_CONTENT_LENGTH:
        return r->content_length >= 0 && value_len > 0 ? ENVIRON_SET
                                                       : ENVIRON_SKIP;
    case CGI_EMPTY_ABSENT:
    case CGI_SERVER_NAME: /* PEP 3333: "can never be empty strings"; then */
    case CGI_SERVER_PORT: /* that of the template counts */
    case CGI_SERVER_PROTOCOL:
        return value_len > 0 ? ENVIRON_SET : ENVIRON_SKIP;
    case CGI_SCRIPT_NAME:
    case CGI_PATH_INFO:
        return ENVIRON_PATH;
    default:
        return ENVIRON_SET;
    }
}

static void
note_place(struct environ_shape *shape, enum cgi_class class, int i)
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
slot_set(struct environ_shape *shape, struct environ_slot *slot,
         const char *value, size_t len)
{
    PyObject *text = decode(value, len);

    if (text == NULL) {
        return -1;
    }
    Py_XSETREF(slot->value_text, text);
    if (slot->use == ENVIRON_SET) {
        return PyDict_SetItem(shape->dict, slot->name_text, text);
    }
    return 0;
}

/* "A header sent several times is joined" (wsgi checklist B11, RFC 9110 5.3);
 * cookies as RFC 6265, section 4.2.1 writes them. The slot's value comes before
 * what the dict has. */
static int
join_header(struct environ_shape *shape, struct environ_slot *slot,
            const char *value, size_t len)
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
slot_shadowed(struct environ_shape *shape, struct environ_slot *slot,
              enum environ_use use, const char *value, size_t len)
{
    slot->use = ENVIRON_SKIP;
    if (use == ENVIRON_SET &&
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
name_seen(struct environ_cache *cache, struct environ_shape *shape,
          struct environ_slot *slot, struct environ_name *known, unsigned i)
{
    if (known == NULL) {
        return slot->use == ENVIRON_SET
                   ? PyDict_Contains(shape->dict, slot->name_text)
                   : 0;
    }
    if (known->request == cache->request) {
        return 1;
    }
    known->request = cache->request;
    known->index = i;
    return 0;
}

static int
fill_slot(struct environ_cache *cache, const struct state *s,
          struct environ_shape *shape, const struct request *r, unsigned i)
{
    const struct request_param *p = &r->param[i];
    const char *name = r->params.data + p->name;
    const char *value = r->params.data + p->value;
    struct environ_slot *slot = &shape->slot[i];
    struct environ_name *known;
    int seen;

    if (name_learn(cache, name, p->name_len, &known) < 0) {
        return -1;
    }
    slot->name_text = known != NULL ? Py_NewRef(known->text)
                                    : name_text(name, p->name_len, false);
    if (slot->name_text == NULL) {
        return -1;
    }
    slot->class = known != NULL ? known->class : classify(name, p->name_len);
    slot->use = use_of(s->config, r, slot->class, p->value_len);
    if (slot->class == CGI_UNUSABLE) {
        shape->keep = false; /* each of them is logged */
        log_unusable(s, name, p->name_len);
    }
    if (slot->class == CGI_CONTENT_LENGTH && slot->use == ENVIRON_SKIP &&
        p->value_len > 0) {
        shape->keep = false; /* no number: the next one may be */
    }
    seen = name_seen(cache, shape, slot, known, i);
    if (seen != 0) {
        return seen < 0
                   ? -1
                   : slot_shadowed(shape, slot, slot->use, value, p->value_len);
    }
    note_place(shape, slot->class, (int)i);
    if (slot->use == ENVIRON_SKIP) {
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

/* Make a shape from scratch. Backwards, since the last of several parameters
 * with one name counts. */
static int
shape_fill(struct environ_cache *cache, const struct state *s,
           struct environ_shape *shape, const struct request *r)
{
    shape_clear(shape);
    if (shape_reserve(shape, r->param_count) < 0) {
        return -1;
    }
    shape->dict = PyDict_Copy(s->template);
    if (shape->dict == NULL) {
        return -1;
    }
    cache->request++;
    shape->count = r->param_count;
    if (shape->count > 0) {
        memset(shape->slot, 0, shape->count * sizeof(*shape->slot));
    }
    shape->method = shape->script_name = shape->path_info = -1;
    shape->document_uri = shape->request_uri = -1;
    shape->https = shape->scheme = -1;
    shape->path_stale = shape->scheme_stale = true;
    shape->keep = r->param_count <= ENVIRON_SHAPE_PARAMS &&
                  r->params.len <= ENVIRON_SHAPE_BYTES && is_in_order(r);
    for (unsigned i = r->param_count; i > 0; i--) {
        if (fill_slot(cache, s, shape, r, i - 1) < 0) {
            shape_clear(shape);
            return -1;
        }
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
slot_update(struct environ_shape *shape, const struct request *r, unsigned i)
{
    const struct request_param *p = &r->param[i];
    struct environ_slot *slot = &shape->slot[i];

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
    if (slot->use == ENVIRON_SKIP) {
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
update_run(struct environ_shape *shape, const struct request *r, unsigned from,
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
shape_fits(const struct environ_shape *shape, const struct request *r)
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
run_end(const struct environ_shape *shape, const struct request *r,
        unsigned from)
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
update_one(struct environ_shape *shape, const struct request *r, unsigned i)
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
update_shifted(struct environ_shape *shape, const struct request *r,
               bool *ret_changed)
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

/* Bring a shape up to the request. As slot_update(); with 0 and -1 the shape is
 * spoiled if *ret_changed. */
static int
shape_update(struct environ_shape *shape, const struct request *r,
             bool *ret_changed)
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

/* Try one shape. 1 when it is the request's, 0, or -1 with an exception set. */
static int
shape_try(struct environ_cache *cache, unsigned i, const struct request *r)
{
    struct environ_shape *shape = &cache->shape[i];
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
static struct environ_shape *
shape_new(struct environ_cache *cache, const struct state *s,
          const struct request *r, uint64_t signature)
{
    struct environ_shape *making = &cache->shape[ENVIRON_SHAPES];
    struct environ_shape *shape, swap;

    if (shape_fill(cache, s, making, r) < 0) {
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
static struct environ_shape *
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
    signature = signature_of(r);
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

/* -- what follows from several parameters ------------------------------------
 */

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
text_object(const struct environ_shape *shape, const struct request *r,
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
set_text(const struct environ_shape *shape, const struct request *r,
         PyObject *key, struct cgi_text text)
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

/* SCRIPT_NAME and PATH_INFO. 0; a status to answer because of *ret_why; -1 with
 * an exception set. */
static int
set_path(struct environ_cache *cache, const struct state *s,
         struct environ_shape *shape, const struct request *r,
         const char **ret_why)
{
    struct cgi_path_input in = {
        .script_name = text_at(r, shape->script_name),
        .path_info = text_at(r, shape->path_info),
        .document_uri = text_at(r, shape->document_uri),
        .request_uri = text_at(r, shape->request_uri),
    };
    const char *mount = s->config->mount != NULL ? s->config->mount : "";
    struct cgi_text script_name, path_info;

    switch (cgi_split_path(&in, mount, strlen(mount), s->config->path_from_uri,
                           &cache->scratch, &script_name, &path_info)) {
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
set_scheme(const struct state *s, struct environ_shape *shape,
           const struct request *r)
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
    struct environ_shape *shape;
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
        if (shape->cap > ENVIRON_SHAPE_PARAMS) {
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

/* -- cache and template ------------------------------------------------------
 */

int
environ_cache_init(struct environ_cache *cache, const struct state *s)
{
    memset(cache, 0, sizeof(*cache));
    /* Paths are limited with the parameters that they come from. */
    buf_init(&cache->scratch, SIZE_MAX / 2);
    cache->name_limit = UINT32_MAX;
    if (names_grow(cache) < 0) {
        return -1;
    }
    for (unsigned i = 0; i < COMMON_NAMES; i++) {
        struct environ_name *known;

        if (name_learn(cache, common_names[i], strlen(common_names[i]),
                       &known) < 0) {
            environ_cache_release(cache);
            return -1;
        }
    }
    cache->name_limit = cache->name_count + s->config->learned_names;
    return 0;
}

void
environ_cache_release(struct environ_cache *cache)
{
    for (unsigned i = 0; i <= ENVIRON_SHAPES; i++) {
        shape_release(&cache->shape[i]);
    }
    for (unsigned i = 0; i < cache->name_cap; i++) {
        Py_CLEAR(cache->name[i].text);
    }
    PyMem_Free(cache->name);
    cache->name = NULL;
    cache->name_cap = 0;
    buf_release(&cache->scratch);
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
