/* SPDX-License-Identifier: MIT
 *
 * A FastCGI program as people write them, with libfcgi: tells about itself in
 * JSON. /hold notes that it is there before it reads the body, /log writes a
 * line to descriptor 2. MOST_REQUESTS=N: ends after so many, as php-cgi does.
 * STUBBORN=1: ignores the signal that asks it to end; SIMPLE=1: does not know
 * it.
 *
 * The signal is heard while no connection is there, and only then. (libfcgi's
 * own handler may drop one that has just been accepted: reads are not repeated
 * after EINTR, and is_af_unix_keeper() gives up.)
 */
#define _GNU_SOURCE
#include <fcgiapp.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void
note(const char *name)
{
    char path[512];
    FILE *out;

    snprintf(path, sizeof(path), "%s/%s", getenv("FOREBAY_TEST_NOTES"), name);
    out = fopen(path, "a");
    if (out != NULL) {
        fprintf(out, "%d\n", (int)getpid());
        fclose(out);
    }
}

static void
answer(FCGX_Request *r, int argc, char **argv, int number)
{
    const char *path = FCGX_GetParam("PATH_INFO", r->envp);
    const char *query = FCGX_GetParam("QUERY_STRING", r->envp);
    const char *setting = getenv("TEST_SETTING");
    char cwd[512], buffer[4096];
    int n, body = 0;

    if (strcmp(path, "/hold") == 0) {
        note("holding");
    }
    if (strcmp(path, "/log") == 0) {
        fputs("written to descriptor 2\n", stderr);
    }
    while ((n = FCGX_GetStr(buffer, sizeof(buffer), r->in)) > 0) {
        body += n;
    }
    FCGX_FPrintF(r->out,
                 "Status: 200 OK\r\nContent-Type: application/json\r\n\r\n"
                 "{\"pid\": %d, \"number\": %d, \"uid\": %d, \"body\": %d, "
                 "\"path\": \"%s\", \"query\": \"%s\", \"setting\": \"%s\", "
                 "\"cwd\": \"%s\", \"args\": [",
                 (int)getpid(), number, (int)getuid(), body, path,
                 query != NULL ? query : "", setting != NULL ? setting : "",
                 getcwd(cwd, sizeof(cwd)) != NULL ? cwd : "");
    for (int i = 1; i < argc; i++) {
        FCGX_FPrintF(r->out, "%s\"%s\"", i > 1 ? ", " : "", argv[i]);
    }
    FCGX_FPrintF(r->out, "]}");
}

static void
on_signal(int signo)
{
    (void)signo; /* it ends ppoll() */
}

/* A connection, or -1: the signal has come. */
static int
next_connection(const sigset_t *open)
{
    struct pollfd p = { 0, POLLIN, 0 };
    int fd = -1;

    while (fd < 0) {
        if (ppoll(&p, 1, NULL, open) < 0) {
            return -1;
        }
        fd = accept(0, NULL, NULL); /* another process may have been faster */
    }
    return fd;
}

int
main(int argc, char **argv)
{
    const char *most = getenv("MOST_REQUESTS");
    int limit = most != NULL ? atoi(most) : 0;
    struct sigaction action = { .sa_handler = on_signal };
    sigset_t blocked, open;
    FCGX_Request r;

    FCGX_Init();
    FCGX_InitRequest(&r, 0, 0);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    sigprocmask(SIG_BLOCK, &blocked, &open);
    sigdelset(&open, SIGUSR1);
    if (getenv("STUBBORN")) {
        action.sa_handler = SIG_IGN;
    }
    if (getenv("SIMPLE")) {
        action.sa_handler = SIG_DFL;
    }
    sigaction(SIGUSR1, &action, NULL);
    fcntl(0, F_SETFL, fcntl(0, F_GETFL) | O_NONBLOCK);
    for (int number = 1; limit == 0 || number <= limit; number++) {
        r.ipcFd = next_connection(&open);
        r.keepConnection = 1; /* or FCGX_Accept_r() closes it first */
        if (r.ipcFd < 0 || FCGX_Accept_r(&r) < 0) {
            break;
        }
        answer(&r, argc, argv, number);
        FCGX_Finish_r(&r);
    }
    return 0;
}
