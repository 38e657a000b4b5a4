/* SPDX-License-Identifier: MIT
 *
 * See template_args.h.
 */
#include "server/template_args.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/log.h"
#include "server/privileges.h"

/* -- arguments --------------------------------------------------------------
 */

static int
number(const char *text)
{
    char *end;
    long n = strtol(text, &end, 10);

    return *end == '\0' && n >= 0 && n < 1 << 20 ? (int)n : -1;
}

static int
read_listeners(const char *text, struct template_start *ret)
{
    char copy[8 * EXECUTOR_MAX_LISTENERS], *rest = NULL;

    snprintf(copy, sizeof(copy), "%s", text);
    for (char *item = strtok_r(copy, ",", &rest); item != NULL;
         item = strtok_r(NULL, ",", &rest)) {
        if (ret->listen_count == EXECUTOR_MAX_LISTENERS ||
            (ret->listen_fd[ret->listen_count++] = number(item)) < 0) {
            return -1;
        }
    }
    return 0;
}

/* Is arg "--name=..."? Its value, or NULL. */
static const char *
value_of(const char *arg, const char *name)
{
    size_t len = strlen(name);

    return strncmp(arg, name, len) == 0 && arg[len] == '=' ? arg + len + 1
                                                           : NULL;
}

static int
read_one(const char *arg, struct template_start *ret)
{
    const char *v;

    if (strcmp(arg, "--clean") == 0) {
        ret->clean = true;
    } else if (strspn(arg, "-") == strlen(arg)) {
        return 0; /* room for the title */
    } else if ((v = value_of(arg, "--channel")) != NULL) {
        ret->channel = number(v);
    } else if ((v = value_of(arg, "--scoreboard")) != NULL) {
        ret->scoreboard = number(v);
    } else if ((v = value_of(arg, "--settings")) != NULL) {
        ret->settings = number(v);
    } else if ((v = value_of(arg, "--queue-in")) != NULL) {
        ret->queue_in = number(v);
    } else if ((v = value_of(arg, "--queue-out")) != NULL) {
        ret->queue_out = number(v);
    } else if ((v = value_of(arg, "--access")) != NULL) {
        ret->access = number(v);
    } else if ((v = value_of(arg, "--slots")) != NULL) {
        ret->slots = (unsigned)number(v);
    } else if ((v = value_of(arg, "--log-level")) != NULL) {
        log_set_level((enum log_level)number(v));
    } else if ((v = value_of(arg, "--listen")) != NULL) {
        return read_listeners(v, ret);
    } else {
        return -1;
    }
    return 0;
}

int
template_args_read(int argc, char **argv, struct template_start *ret)
{
    *ret = (struct template_start){ .channel = -1,
                                    .scoreboard = -1,
                                    .settings = -1,
                                    .queue_in = -1,
                                    .queue_out = -1,
                                    .access = -1 };
    ret->argv = calloc((size_t)argc + 2, sizeof(*ret->argv));
    for (int i = 0; i < argc; i++) {
        if (ret->argv == NULL || (ret->argv[i] = strdup(argv[i])) == NULL ||
            (i > 0 && read_one(argv[i], ret) != 0)) {
            return -1;
        }
    }
    return ret->channel >= 0 && ret->scoreboard >= 0 && ret->settings >= 0 &&
                   ret->slots > 0 && ret->slots < 1u << 16
               ? 0
               : -1;
}

void
template_args_descriptors(const struct template_start *start, int *ret)
{
    int n = 0;

    ret[n++] = start->channel;
    ret[n++] = start->scoreboard;
    ret[n++] = start->settings;
    for (unsigned i = 0; i < start->listen_count; i++) {
        ret[n++] = start->listen_fd[i];
    }
    if (start->queue_in >= 0) {
        ret[n++] = start->queue_in;
        ret[n++] = start->queue_out;
    }
    if (start->access >= 0) {
        ret[n++] = start->access;
    }
    ret[n] = -1;
}

void
template_args_set_flag(const struct template_start *start, int flag)
{
    int fd[TEMPLATE_MAX_DESCRIPTORS];

    template_args_descriptors(start, fd);
    for (int i = 0; fd[i] >= 0; i++) {
        fcntl(fd[i], F_SETFD, flag);
    }
}

int
template_args_settings(const struct template_start *start,
                       struct pool_settings *ret, char *why, size_t size)
{
    struct conf_error error;
    struct stat st;
    char *text;
    int rc;

    if (fstat(start->settings, &st) != 0 || st.st_size == 0) {
        snprintf(why, size, "settings: %s", strerror(errno));
        return -1;
    }
    text = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE,
                start->settings, 0);
    if (text == MAP_FAILED) {
        snprintf(why, size, "settings: %s", strerror(errno));
        return -1;
    }
    rc = settings_init(ret);
    if (rc == 0) {
        rc = settings_read(ret, text, (size_t)st.st_size, &error);
    }
    munmap(text, (size_t)st.st_size);
    if (rc != 0) {
        snprintf(why, size, "settings: %.400s", error.text);
    }
    return rc;
}

/* -- confinement ------------------------------------------------------------
 */

static int
failed(const char *what, const char *value, char *why, size_t size)
{
    snprintf(why, size, "%s = %s: %s", what, value, strerror(errno));
    return -1;
}

static int
set_limits(const struct pool_settings *s, char *why, size_t size)
{
    struct rlimit r;
    char text[32];
    uint64_t core;

    if (s->rlimit_files > 0) {
        r.rlim_cur = r.rlim_max = s->rlimit_files;
        if (setrlimit(RLIMIT_NOFILE, &r) != 0) {
            snprintf(text, sizeof(text), "%u", s->rlimit_files);
            return failed("rlimit_files", text, why, size);
        }
    }
    if (s->rlimit_core != NULL) {
        if (settings_core_limit(s->rlimit_core, &core) != 0) {
            errno = EINVAL;
            return failed("rlimit_core", s->rlimit_core, why, size);
        }
        r.rlim_cur = r.rlim_max = core == UINT64_MAX ? RLIM_INFINITY : core;
        if (setrlimit(RLIMIT_CORE, &r) != 0) {
            return failed("rlimit_core", s->rlimit_core, why, size);
        }
    }
    return 0;
}

/* With a user named, root's capabilities are nobody's in this pool. Not where
 * programs with a set-user-ID bit are wanted (no_new_privs = no): sudo and
 * sendmail need them. */
static void
drop_capabilities(void)
{
    for (int cap = 0; prctl(PR_CAPBSET_READ, cap) >= 0; cap++) {
        prctl(PR_CAPBSET_DROP, cap);
    }
}

static int
set_environment(const struct pool_settings *s, char *why, size_t size)
{
    for (unsigned i = 0; i < s->env.count; i++) {
        if (putenv(s->env.item[i]) != 0) {
            return failed("env", s->env.item[i], why, size);
        }
    }
    if (s->umask >= 0) {
        umask((mode_t)s->umask);
    }
    if (s->chdir != NULL && chdir(s->chdir) != 0) {
        return failed("chdir", s->chdir, why, size);
    }
    return 0;
}

int
template_args_confine(const struct pool_settings *s, char *why, size_t size)
{
    struct privileges p;

    /* Names are looked up before the root folder changes. */
    if (set_limits(s, why, size) != 0 ||
        privileges_lookup(s->user, s->group, &p, why, size) != 0) {
        return -1;
    }
    if (s->chroot != NULL && (chroot(s->chroot) != 0 || chdir("/") != 0)) {
        return failed("chroot", s->chroot, why, size);
    }
    if (s->user != NULL && s->no_new_privs && geteuid() == 0) {
        drop_capabilities();
    }
    if (privileges_drop(&p, why, size) != 0) {
        return -1;
    }
    if (s->no_new_privs && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        return failed("no_new_privs", "yes", why, size);
    }
    /* A change of user hides our own /proc/self from us. */
    prctl(PR_SET_DUMPABLE, 1);
    return set_environment(s, why, size);
}
