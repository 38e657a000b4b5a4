/* SPDX-License-Identifier: MIT
 *
 * See allow.h.
 */
#include "server/allow.h"

#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "conf/network.h"
#include "server/address.h"
#include "server/clock.h"
#include "server/log.h"

enum { TELL_EVERY_MS = 10000 };

static const char variable[] = "FCGI_WEB_SERVER_ADDRS";

struct allow {
    _Atomic uint64_t told_ns;
    unsigned count;
    struct conf_network network[]; /* count of them */
};

/* "The value ... is a comma-separated list of IP addresses." Blanks do not
 * matter; with nothing in it nobody may connect. 0 or -1. */
static int
add_variable(struct allow *a, char *text, char *why, size_t size)
{
    char *rest = NULL;

    for (char *word = strtok_r(text, ", \t", &rest); word != NULL;
         word = strtok_r(NULL, ", \t", &rest)) {
        if (conf_network_parse(word, &a->network[a->count]) != 0) {
            snprintf(why, size,
                     "%s in the environment has \"%.100s\", which is no "
                     "address",
                     variable, word);
            return -1;
        }
        a->count++;
    }
    return 0;
}

int
allow_make(const struct pool_settings *s, struct allow **ret, char *why,
           size_t size)
{
    const char *value = getenv(variable);
    char *text = value != NULL ? strdup(value) : NULL;
    size_t most = s->allow.count + (value != NULL ? strlen(value) : 0);
    struct allow *a = NULL;
    int rc = 0;

    *ret = NULL;
    if (s->allow.count == 0 && value == NULL) {
        return 0;
    }
    a = calloc(1, sizeof(*a) + most * sizeof(a->network[0]));
    if (a == NULL || (value != NULL && text == NULL)) {
        snprintf(why, size, "out of memory");
        free(a);
        free(text);
        return -1;
    }
    for (unsigned i = 0; i < s->allow.count; i++) {
        conf_network_parse(s->allow.item[i], &a->network[a->count++]);
    }
    if (text != NULL) {
        rc = add_variable(a, text, why, size);
        free(text);
    }
    if (rc != 0) {
        free(a);
        return rc;
    }
    *ret = a;
    return 0;
}

static void
tell(struct allow *a, const struct sockaddr_storage *sa, socklen_t len)
{
    uint64_t now = clock_coarse_ns();
    uint64_t told = atomic_load(&a->told_ns);
    char peer[160];

    if (told == 0 || now - told > (uint64_t)TELL_EVERY_MS * NS_PER_MS) {
        atomic_store(&a->told_ns, now);
        log_warnx("connection from %s refused: it is not among those that may "
                  "connect (allow, %s)",
                  address_format((const struct sockaddr *)sa, len, peer,
                                 sizeof(peer)),
                  variable);
    }
}

bool
allow_peer(struct allow *a, int fd)
{
    struct sockaddr_storage sa = { .ss_family = AF_UNSPEC };
    socklen_t len = sizeof(sa);
    unsigned char address[16];

    if (getpeername(fd, (struct sockaddr *)&sa, &len) != 0) {
        return true; /* it is gone already, which is found out by reading */
    }
    if (sa.ss_family == AF_INET) {
        struct sockaddr_in v4;

        memcpy(&v4, &sa, sizeof(v4));
        conf_network_map((const unsigned char *)&v4.sin_addr, address);
    } else if (sa.ss_family == AF_INET6) {
        struct sockaddr_in6 v6;

        memcpy(&v6, &sa, sizeof(v6));
        memcpy(address, &v6.sin6_addr, sizeof(address));
    } else {
        return true;
    }
    for (unsigned i = 0; i < a->count; i++) {
        if (conf_network_has(&a->network[i], address)) {
            return true;
        }
    }
    tell(a, &sa, len);
    return false;
}
