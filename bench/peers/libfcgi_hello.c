/* SPDX-License-Identifier: MIT
 *
 * forebay-bench-libfcgi SOCKET [PROCESSES]: the answer of workloads/hello.py by
 * libfcgi's own loop, in C. What a FastCGI program costs without Python. Ends
 * with its parent's TERM.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fcgiapp.h>

enum { BACKLOG = 4096 };

_Noreturn static void
serve(int fd)
{
    static const char answer[] = "Status: 200 OK\r\n"
                                 "Content-Type: text/plain\r\n"
                                 "Content-Length: 14\r\n"
                                 "\r\n"
                                 "Hello, world!\n";
    FCGX_Request request;

    if (FCGX_InitRequest(&request, fd, 0) != 0) {
        _exit(1);
    }
    while (FCGX_Accept_r(&request) == 0) {
        FCGX_PutStr(answer, (int)sizeof(answer) - 1, request.out);
        FCGX_Finish_r(&request);
    }
    _exit(1);
}

static void
stop(int number)
{
    (void)number;
    _exit(0);
}

int
main(int argc, char **argv)
{
    int count = argc > 2 ? atoi(argv[2]) : 2, fd;

    if (argc < 2 || count < 1 || count > 1000) {
        fprintf(stderr, "usage: forebay-bench-libfcgi SOCKET [PROCESSES]\n");
        return 2;
    }
    FCGX_Init();
    fd = FCGX_OpenSocket(argv[1], BACKLOG);
    if (fd < 0) {
        perror(argv[1]);
        return 1;
    }
    signal(SIGTERM, stop);
    for (int i = 0; i < count; i++) {
        pid_t pid = fork();

        if (pid == 0) {
            signal(SIGTERM, SIG_DFL);
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            serve(fd);
        }
        if (pid < 0) {
            perror("fork");
            return 1;
        }
    }
    wait(NULL); /* none of them ends by itself */
    return 1;
}
