/* SPDX-License-Identifier: MIT
 *
 * See names.h. Worker process, GIL held.
 */
#include "python/names.h"

#include <limits.h>
#include <string.h>

#include "python/bytes.h"

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
enum cgi_class
name_classify(const char *name, size_t len)
{
    if ((len >= 5 && memcmp(name, "wsgi.", 5) == 0) ||
        (len >= 8 && memcmp(name, "forebay.", 8) == 0)) {
        return CGI_DROP;
    }
    return cgi_classify(name, len);
}

/* The entry of a name, or the free one where it belongs, or NULL when all
 * places it may have are taken. */
static struct name *
name_place(struct name *table, unsigned cap, uint32_t hash, const char *name,
           size_t len)
{
    for (unsigned i = 0; i < NAME_PROBES; i++) {
        struct name *n = &table[(hash + i) & (cap - 1)];

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
names_grow(struct names *names)
{
    unsigned cap = names->cap == 0 ? NAME_FIRST_CAP : names->cap * 2;
    struct name *table = PyMem_Calloc(cap, sizeof(*table));

    if (table == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (unsigned i = 0; i < names->cap; i++) {
        struct name *old = &names->entry[i], *new;

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
            names->count--;
        }
    }
    PyMem_Free(names->entry);
    names->entry = table;
    names->cap = cap;
    return 0;
}

/* A str for a name; known ones are interned, so that a lookup with a literal of
 * the application finds them by identity. */
PyObject *
name_text(const char *name, size_t len, bool intern)
{
    PyObject *text = PyUnicode_DecodeLatin1(name, (Py_ssize_t)len, NULL);

    if (text != NULL && intern) {
        PyUnicode_InternInPlace(&text);
    }
    return text;
}

/* The entry of a name, learned now if need be. *ret is NULL when it cannot be
 * learned. 0, or -1 with an exception set. */
int
names_learn(struct names *names, const char *name, size_t len,
            struct name **ret)
{
    uint32_t hash = hash_name(name, len);
    struct name *n = name_place(names->entry, names->cap, hash, name, len);

    *ret = n;
    if (n == NULL || n->text != NULL) {
        return 0;
    }
    *ret = NULL;
    if (names->count >= names->limit) {
        return 0;
    }
    if (names->count >= names->cap / 2) {
        if (names_grow(names) < 0) {
            return -1;
        }
        n = name_place(names->entry, names->cap, hash, name, len);
        if (n == NULL) {
            return 0;
        }
    }
    n->text = name_text(name, len, true);
    if (n->text == NULL) {
        return -1;
    }
    n->hash = hash;
    n->class = name_classify(name, len);
    n->request = 0;
    names->count++;
    *ret = n;
    return 0;
}

int
names_init(struct names *names, unsigned learned)
{
    memset(names, 0, sizeof(*names));
    names->limit = UINT_MAX;
    if (names_grow(names) < 0) {
        return -1;
    }
    for (unsigned i = 0; i < COMMON_NAMES; i++) {
        struct name *known;

        if (names_learn(names, common_names[i], strlen(common_names[i]),
                        &known) < 0) {
            names_release(names);
            return -1;
        }
    }
    names->limit = names->count + learned;
    return 0;
}

void
names_release(struct names *names)
{
    for (unsigned i = 0; i < names->cap; i++) {
        Py_CLEAR(names->entry[i].text);
    }
    PyMem_Free(names->entry);
    names->entry = NULL;
    names->cap = 0;
}
