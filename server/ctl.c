/* SPDX-License-Identifier: MIT
 *
 * See ctl.h. The command line is read in ctl_options.c, the manager asked in
 * ctl_ask.c.
 */
#include "server/ctl.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "protocol/buf.h"
#include "server/ctl_ask.h"
#include "server/ctl_options.h"
#include "server/ctl_watch.h"

static int
ask_once(const struct ctl_options *c)
{
    struct buf answer;
    char why[1024];
    int code = 0;

    buf_init(&answer, CTL_ANSWER_MAX);
    if (ctl_ask(c, &answer, why, sizeof(why)) != 0) {
        code = ctl_complain(1, "%s", why);
    } else if (fwrite(answer.data, 1, answer.len, stdout) != answer.len ||
               fflush(stdout) != 0) {
        code = ctl_complain(1, "cannot write the answer: %s", strerror(errno));
    }
    buf_release(&answer);
    return code;
}

int
ctl_main(int argc, char **argv)
{
    struct ctl_options c;
    int code = ctl_options_read(&c, argc, argv);

    if (code != 0) {
        return code;
    }
    if (c.help) {
        fputs(ctl_usage, stdout);
        return 0;
    }
    return c.watch_ms > 0 ? ctl_watch(&c) : ask_once(&c);
}
