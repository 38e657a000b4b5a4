/* SPDX-License-Identifier: MIT
 *
 * See notify.h.
 */
#include "server/notify.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "server/clock.h"

enum { PATIENCE_MS = 1000 };

static void (*when_ready)(void);

void
notify_when_ready(void (*fn)(void))
{
    when_ready = fn;
}

void
notify(const char *fmt, ...)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    char text[512];
    va_list args;
    struct pollfd wait;
    socklen_t size;
    size_t len;
    int fd;

    if (when_ready != NULL && strncmp(fmt, "READY=", 6) == 0) {
        void (*fn)(void) = when_ready;

        when_ready = NULL;
        fn();
    }
    if (path == NULL || (path[0] != '/' && path[0] != '@') ||
        strlen(path) >= sizeof(un.sun_path)) {
        return;
    }
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    len = strlen(path);
    memcpy(un.sun_path, path, len);
    if (path[0] == '@') { /* the abstract namespace */
        un.sun_path[0] = '\0';
    }
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return;
    }
    wait = (struct pollfd){ .fd = fd, .events = POLLOUT };
    size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    /* The queue is short; what systemd waits for must not be lost. */
    if (connect(fd, (struct sockaddr *)&un, size) == 0 &&
        send(fd, text, strlen(text), MSG_NOSIGNAL) < 0 && errno == EAGAIN &&
        poll(&wait, 1, PATIENCE_MS) == 1) {
        (void)send(fd, text, strlen(text), MSG_NOSIGNAL);
    }
    close(fd);
}

void
notify_reloading(void)
{
    notify("RELOADING=1\nMONOTONIC_USEC=%llu",
           (unsigned long long)(clock_now_ns() / 1000));
}

uint64_t
notify_watchdog_ms(void)
{
    const char *usec = getenv("WATCHDOG_USEC");
    const char *pid = getenv("WATCHDOG_PID");

    if (usec == NULL ||
        (pid != NULL && strtol(pid, NULL, 10) != (long)getpid())) {
        return 0;
    }
    /* Half of it, as sd_watchdog_enabled(3) advises. */
    return strtoull(usec, NULL, 10) / 2000;
}
