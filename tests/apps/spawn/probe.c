/* SPDX-License-Identifier: MIT
 *
 * A program for tests of `forebay spawn`: writes down all that it finds at its
 * start, one fact a line, to a file PID in the folder PROBE_NOTES, and waits
 * until it is killed. Static, so that it runs in any root folder.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

extern char **environ;

enum { MOST = 64, PATIENCE_S = 120 };

static void
note_ids(FILE *out)
{
    uid_t r, e, s;
    gid_t gr, ge, gs, groups[MOST];
    int n = getgroups(MOST, groups), death = 0;

    getresuid(&r, &e, &s);
    getresgid(&gr, &ge, &gs);
    fprintf(out, "uid %d %d %d\ngid %d %d %d\ngroups", (int)r, (int)e, (int)s,
            (int)gr, (int)ge, (int)gs);
    for (int i = 0; i < n; i++) {
        fprintf(out, " %d", (int)groups[i]);
    }
    fprintf(out, "\nsession %s\n", getsid(0) == getpid() ? "own" : "other");
    fprintf(out, "process group %s\n",
            getpgid(0) == getpid() ? "own" : "other");
    prctl(PR_GET_PDEATHSIG, &death);
    fprintf(out, "no_new_privs %d\nparent death %d\n",
            prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), death);
}

static void
note_socket(FILE *out, int fd)
{
    struct sockaddr_storage sa = { 0 };
    socklen_t len = sizeof(sa), size = sizeof(int);
    struct tcp_info info = { 0 };
    socklen_t info_size = sizeof(info);
    char text[INET6_ADDRSTRLEN] = "";
    int listening = 0, reuse = 0;

    getsockname(fd, (struct sockaddr *)&sa, &len);
    getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size);
    getsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &reuse, &size);
    fprintf(out, " socket listening %d", listening);
    if (sa.ss_family == AF_UNIX) {
        fprintf(out, " unix");
        return;
    }
    if (sa.ss_family == AF_INET) {
        inet_ntop(AF_INET, &((struct sockaddr_in *)&sa)->sin_addr, text, len);
    } else if (sa.ss_family == AF_INET6) {
        int only = 0;

        inet_ntop(AF_INET6, &((struct sockaddr_in6 *)&sa)->sin6_addr, text,
                  sizeof(text));
        getsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, &size);
        fprintf(out, " v6only %d", only);
    }
    /* Of a listening socket: how many may wait (tcp(7)). */
    getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &info_size);
    fprintf(out, " reuse %d %s backlog %u", reuse, text, info.tcpi_sacked);
}

static void
note_descriptors(FILE *out, int own)
{
    for (int fd = 0; fd < 256; fd++) {
        struct stat st;

        if (fd == own || fstat(fd, &st) != 0) {
            continue;
        }
        fprintf(out, "fd %d flags %o", fd, (unsigned)fcntl(fd, F_GETFL));
        if (S_ISSOCK(st.st_mode)) {
            note_socket(out, fd);
        } else {
            fprintf(out, " type %o device %lx", st.st_mode & S_IFMT,
                    S_ISCHR(st.st_mode) ? (unsigned long)st.st_rdev : 0ul);
        }
        fprintf(out, "\n");
    }
}

static void
note_signals(FILE *out)
{
    sigset_t blocked;

    sigprocmask(SIG_SETMASK, NULL, &blocked);
    for (int n = 1; n < 65; n++) {
        struct sigaction now;

        if (sigaction(n, NULL, &now) == 0 && now.sa_handler == SIG_IGN) {
            fprintf(out, "ignored %d\n", n);
        }
        if (sigismember(&blocked, n) == 1) {
            fprintf(out, "blocked %d\n", n);
        }
    }
}

static void
note_limits(FILE *out)
{
    for (int i = 0; i < RLIMIT_NLIMITS; i++) {
        struct rlimit r;

        getrlimit(i, &r);
        fprintf(out, "limit %d %lu %lu\n", i, (unsigned long)r.rlim_cur,
                (unsigned long)r.rlim_max);
    }
    fprintf(out, "nice %d\n", getpriority(PRIO_PROCESS, 0));
}

int
main(int argc, char **argv)
{
    const char *folder = getenv("PROBE_NOTES");
    const char *code = getenv("PROBE_EXIT");
    char path[512], ready[512], where[4096];
    mode_t mask = umask(0);
    FILE *out;

    if (code != NULL) {
        return atoi(code);
    }
    if (folder == NULL) {
        return 99;
    }
    snprintf(path, sizeof(path), "%s/.%d", folder, (int)getpid());
    snprintf(ready, sizeof(ready), "%s/%d", folder, (int)getpid());
    out = fopen(path, "we");
    if (out == NULL) {
        return 98;
    }
    for (int i = 0; i < argc; i++) {
        fprintf(out, "argument %d %s\n", i, argv[i]);
    }
    fprintf(out, "folder %s\numask %o\n",
            getcwd(where, sizeof(where)) != NULL ? where : "?", (unsigned)mask);
    note_ids(out);
    note_descriptors(out, fileno(out));
    note_signals(out);
    note_limits(out);
    for (char **e = environ; *e != NULL; e++) {
        fprintf(out, "variable %s\n", *e);
    }
    fclose(out);
    rename(path, ready);
    alarm(PATIENCE_S); /* nobody is left who would kill it */
    pause();
    return 0;
}
