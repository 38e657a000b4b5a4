/* SPDX-License-Identifier: MIT
 *
 * See pool_page.h.
 */
#include "server/pool_page.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "protocol/response.h"
#include "server/clock.h"
#include "server/log.h"
#include "server/request_path.h"

enum { PAGE_MAX = 1024 * 1024 };

static bool
is_path(const struct request *r, const char *path)
{
    struct cgi_text found;
    struct buf scratch;
    bool same;

    if (path == NULL) {
        return false;
    }
    buf_init(&scratch, PAGE_MAX);
    same = request_path(r, &scratch, &found) && found.len == strlen(path) &&
           memcmp(found.data, path, found.len) == 0;
    buf_release(&scratch);
    return same;
}

static void
add_slot(const struct worker *w, unsigned i, uint64_t now, struct buf *body)
{
    static const char *const states[] = { "free",    "starting", "idle",
                                          "reading", "running",  "writing",
                                          "after",   "draining" };
    const struct scoreboard_slot *s = &w->board->slot[i];
    uint32_t state = atomic_load(&s->state);
    uint64_t begun = atomic_load(&s->begun_ns);
    char raw[SCORE_LINE_MAX] = "", shown[4 * SCORE_LINE_MAX];
    char line[5 * SCORE_LINE_MAX];
    uint64_t age = begun != 0 && now > begun ? (now - begun) / NS_PER_MS : 0;

    if (state == SCORE_FREE || state >= sizeof(states) / sizeof(*states)) {
        return;
    }
    if (begun != 0) {
        scoreboard_line(s, raw, sizeof(raw));
    }
    snprintf(line, sizeof(line),
             "%-8d %-9s %8" PRIu64 ".%03u s %10" PRIu64 "  %s\n",
             atomic_load(&s->pid), states[state], age / 1000,
             (unsigned)(age % 1000), atomic_load(&s->requests),
             log_escape(shown, sizeof(shown), raw, strlen(raw)));
    buf_append_str(body, line);
}

static void
write_status(const struct worker *w, struct buf *body)
{
    uint64_t now = clock_now_ns();
    unsigned idle = 0, busy = 0;
    char line[256];

    for (unsigned i = 0; i < w->board->count; i++) {
        uint32_t state = atomic_load(&w->board->slot[i].state);

        idle += state == SCORE_IDLE;
        busy += state >= SCORE_READING;
    }
    snprintf(line, sizeof(line),
             "pool:    %s\nidle:    %u\nbusy:    %u\n\n"
             "pid      state        request time   requests  request\n",
             w->settings->name, idle, busy);
    buf_append_str(body, line);
    for (unsigned i = 0; i < w->board->count; i++) {
        add_slot(w, i, now, body);
    }
}

bool
pool_page(const struct worker *w, const struct request *r, struct buf *out)
{
    static const char type[] = "text/plain; charset=utf-8";
    struct buf body;
    bool head = false;
    size_t len;
    const char *method;

    if (w->settings->ping_path == NULL && w->settings->status_path == NULL) {
        return false;
    }
    buf_init(&body, PAGE_MAX);
    if (is_path(r, w->settings->ping_path)) {
        buf_append_str(&body, "pong\n");
    } else if (is_path(r, w->settings->status_path)) {
        write_status(w, &body);
    } else {
        return false;
    }
    method = request_param(r, "REQUEST_METHOD", &len);
    head = method != NULL && len == 4 && memcmp(method, "HEAD", 4) == 0;
    out->limit = PAGE_MAX;
    buf_clear(out);
    response_put_status(out, "200 OK", 6);
    response_put_header(out, "Content-Type", 12, type, sizeof(type) - 1);
    response_put_header(out, "Cache-Control", 13, "no-store", 8);
    response_put_length(out, body.len);
    response_put_end(out);
    if (!head) {
        buf_append(out, body.data, body.len);
    }
    buf_release(&body);
    return true;
}
