/* SPDX-License-Identifier: MIT
 *
 * A configuration in memory. Reading one from a file is config_file.c. Any
 * process.
 */
#include "conf/config.h"

#include <stdlib.h>
#include <string.h>

void
config_init(struct config *c)
{
    memset(c, 0, sizeof(*c));
}

void
config_release(struct config *c)
{
    for (unsigned i = 0; i < c->pools; i++) {
        if (c->pool[i] != NULL) {
            settings_release(c->pool[i]);
            free(c->pool[i]);
        }
    }
    free(c->pool);
    free(c->manager.pidfile);
    free(c->manager.control);
    free(c->manager.log);
    free(c->manager.log_level);
    free(c->manager.status_listen);
    config_init(c);
}

int
config_of_pool(struct pool_settings *s, struct config *ret)
{
    config_init(ret);
    ret->pool = calloc(1, sizeof(struct pool_settings *));
    if (ret->pool == NULL) {
        return -1;
    }
    ret->pool[0] = s;
    ret->pools = 1;
    return 0;
}
