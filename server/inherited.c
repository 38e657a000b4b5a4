/* SPDX-License-Identifier: MIT
 *
 * See inherited.h.
 */
#include "server/inherited.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

void
inherited_open_standard(void)
{
    int fd;

    do {
        fd = open("/dev/null", O_RDWR);
    } while (fd >= 0 && fd <= 2);
    if (fd > 2) {
        close(fd);
    }
}

void
inherited_close(bool now)
{
    enum { CLOEXEC = 4 /* CLOSE_RANGE_CLOEXEC */ };

    if (syscall(SYS_close_range, 3u, ~0u, now ? 0u : (unsigned)CLOEXEC) != 0) {
        for (int fd = 3; fd < 1024; fd++) {
            if (now) {
                close(fd);
            } else {
                fcntl(fd, F_SETFD, FD_CLOEXEC);
            }
        }
    }
}
