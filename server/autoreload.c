/* SPDX-License-Identifier: MIT
 *
 * See autoreload.h. inotify (by libuv) watches single folders, so each folder
 * below gets a watch of its own, up to a limit; new folders are found when
 * something changes beside them.
 */
#include "server/autoreload.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "server/log.h"

enum { MAX_FOLDERS = 2000, MAX_DEPTH = 12, QUIET_MS = 200 };

struct folder {
    uv_fs_event_t event;
    struct autoreload *owner;
    struct folder *next;
    char path[];
};

struct autoreload {
    uv_loop_t *loop;
    uv_timer_t quiet;
    struct folder *folders;
    unsigned count;
    unsigned open_handles;
    char last[512]; /* the file that changed last */
    void (*changed)(const char *file, void *ctx);
    void *ctx;
    char pool[64];
};

static void watch_tree(struct autoreload *a, const char *path, int depth);

/* Sources and what sites are made of; not what running them leaves behind. */
static bool
is_source(const char *name)
{
    static const char *const endings[] = { ".py",    ".wsgi", ".html", ".txt",
                                           ".jinja", ".j2",   ".mako", ".toml",
                                           ".ini",   ".json", ".yaml", ".yml" };
    size_t len = strlen(name);

    for (size_t i = 0; i < sizeof(endings) / sizeof(*endings); i++) {
        size_t n = strlen(endings[i]);

        if (len > n && strcmp(name + len - n, endings[i]) == 0) {
            return true;
        }
    }
    return false;
}

static void
on_quiet(uv_timer_t *timer)
{
    struct autoreload *a = timer->data;

    a->changed(a->last, a->ctx);
}

static void
on_event(uv_fs_event_t *event, const char *name, int events, int status)
{
    struct folder *f = event->data;
    struct autoreload *a = f->owner;
    (void)events;

    if (status < 0 || name == NULL) {
        return;
    }
    if (is_source(name)) {
        snprintf(a->last, sizeof(a->last), "%s/%s", f->path, name);
        uv_timer_start(&a->quiet, on_quiet, QUIET_MS, 0);
    } else if (strchr(name, '.') == NULL) {
        watch_tree(a, f->path, MAX_DEPTH); /* perhaps a new folder */
    }
}

static bool
is_watched(const struct autoreload *a, const char *path)
{
    for (const struct folder *f = a->folders; f != NULL; f = f->next) {
        if (strcmp(f->path, path) == 0) {
            return true;
        }
    }
    return false;
}

static void
watch_folder(struct autoreload *a, const char *path)
{
    struct folder *f;
    size_t len = strlen(path) + 1;

    if (is_watched(a, path)) {
        return;
    }
    if (a->count == MAX_FOLDERS) {
        log_warnx("pool %s: autoreload: more than %d folders; the rest is not "
                  "watched",
                  a->pool, MAX_FOLDERS);
        a->count++;
        return;
    }
    f = malloc(sizeof(*f) + len);
    if (f == NULL || a->count > MAX_FOLDERS) {
        free(f);
        return;
    }
    memcpy(f->path, path, len);
    f->owner = a;
    uv_fs_event_init(a->loop, &f->event);
    f->event.data = f;
    f->next = a->folders;
    a->folders = f;
    a->count++;
    a->open_handles++;
    uv_fs_event_start(&f->event, on_event, f->path, 0);
    uv_unref((uv_handle_t *)&f->event);
}

/* path and what is below it, but for hidden folders, caches and environments.
 */
static void
watch_tree(struct autoreload *a, const char *path, int depth)
{
    DIR *dir = opendir(path);
    struct dirent *entry;

    if (dir == NULL) {
        return;
    }
    watch_folder(a, path);
    while (depth > 0 && (entry = readdir(dir)) != NULL) {
        char below[1024];
        char marker[1100];
        struct stat st;

        if (entry->d_name[0] == '.' ||
            strcmp(entry->d_name, "__pycache__") == 0 ||
            strcmp(entry->d_name, "node_modules") == 0 ||
            (entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN) ||
            snprintf(below, sizeof(below), "%s/%s", path, entry->d_name) >=
                (int)sizeof(below) ||
            lstat(below, &st) != 0 || !S_ISDIR(st.st_mode)) {
            continue;
        }
        snprintf(marker, sizeof(marker), "%s/pyvenv.cfg", below);
        if (stat(marker, &st) != 0) {
            watch_tree(a, below, depth - 1);
        }
    }
    closedir(dir);
}

static void
watch_app_file(struct autoreload *a, const struct pool_settings *s)
{
    const char *slash = s->app != NULL ? strrchr(s->app, '/') : NULL;
    char folder[1024];

    if (slash == NULL) {
        return;
    }
    snprintf(folder, sizeof(folder), "%s%s%.*s",
             s->app[0] != '/' && s->chdir != NULL ? s->chdir : "",
             s->app[0] != '/' && s->chdir != NULL ? "/" : "",
             (int)(slash - s->app), s->app);
    watch_tree(a, folder, MAX_DEPTH);
}

struct autoreload *
autoreload_start(uv_loop_t *loop, const struct pool_settings *s,
                 void (*changed)(const char *file, void *ctx), void *ctx)
{
    struct autoreload *a = calloc(1, sizeof(*a));

    if (a == NULL) {
        log_error("pool %s: autoreload: out of memory", s->name);
        return NULL;
    }
    a->loop = loop;
    a->changed = changed;
    a->ctx = ctx;
    snprintf(a->pool, sizeof(a->pool), "%s", s->name);
    uv_timer_init(loop, &a->quiet);
    a->quiet.data = a;
    a->open_handles = 1;
    watch_app_file(a, s);
    if (s->app == NULL || strchr(s->app, '/') == NULL || s->chdir != NULL) {
        watch_tree(a, s->chdir != NULL ? s->chdir : ".", MAX_DEPTH);
    }
    for (unsigned i = 0; i < s->pythonpath.count; i++) {
        watch_tree(a, s->pythonpath.item[i], MAX_DEPTH);
    }
    log_info("pool %s: autoreload watches %u folders", a->pool, a->count);
    return a;
}

static void
on_closed(uv_handle_t *handle)
{
    struct autoreload *a = handle->type == UV_TIMER
                               ? handle->data
                               : ((struct folder *)handle->data)->owner;

    if (--a->open_handles > 0) {
        return;
    }
    while (a->folders != NULL) {
        struct folder *f = a->folders;

        a->folders = f->next;
        free(f);
    }
    free(a);
}

void
autoreload_stop(struct autoreload *a)
{
    if (a == NULL) {
        return;
    }
    for (struct folder *f = a->folders; f != NULL; f = f->next) {
        uv_close((uv_handle_t *)&f->event, on_closed);
    }
    uv_close((uv_handle_t *)&a->quiet, on_closed);
}
