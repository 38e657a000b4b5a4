/* SPDX-License-Identifier: MIT
 *
 * forebay-bench-bare SOCKET PROCESSES hello|echo|post|chunks|FILE: the answers
 * of the workloads in C, with as few system calls as can be, one FastCGI
 * request per connection, nothing checked
 * (echo: as many bytes as came). What no server can go below on this
 * machine, with whatever language behind it. Not for serving. Ends with its
 * parent's TERM.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fastcgi.h>

enum {
    BACKLOG = 4096,
    READ_BYTES = 256 * 1024,
    CHUNK_BYTES = 16 * 1024,
    CHUNKS = 64,
    FILE_BYTES = 15 * 4096, /* of a file in one record */
    SEND_BUFFER = 425984,   /* as the server's */
    HEADER = FCGI_HEADER_LEN,
};

static char buffer[READ_BYTES];
static char body[READ_BYTES];

static void
wait_for(int fd, short events)
{
    struct pollfd p = { .fd = fd, .events = events };

    poll(&p, 1, -1);
}

static void
put_header(char *out, int type, size_t len)
{
    char header[HEADER] = { FCGI_VERSION_1,   (char)type, 0, 1,
                            (char)(len >> 8), (char)len,  0, 0 };

    memcpy(out, header, HEADER);
}

static void
send_all(int fd, struct iovec *iov, int count)
{
    static const int bytes = SEND_BUFFER;

    while (count > 0) {
        struct msghdr m = { .msg_iov = iov, .msg_iovlen = (size_t)count };
        ssize_t n = sendmsg(fd, &m, MSG_NOSIGNAL);

        if (n < 0 && errno != EAGAIN) {
            return;
        }
        if (n < 0) {
            setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
            wait_for(fd, POLLOUT);
            continue;
        }
        while (count > 0 && (size_t)n >= iov->iov_len) {
            n -= (ssize_t)iov->iov_len;
            iov++;
            count--;
        }
        if (n > 0) {
            iov->iov_base = (char *)iov->iov_base + n;
            iov->iov_len -= (size_t)n;
        }
    }
}

/* Read until the empty STDIN record. Returns the length of the body. */
static size_t
read_request(int fd)
{
    size_t have = 0, skip = 0, padding = 0, total = 0;
    bool is_body = false;

    for (;;) {
        ssize_t n = recv(fd, buffer + have, sizeof(buffer) - have, 0);
        size_t at = 0;

        if (n < 0 && errno == EAGAIN) {
            wait_for(fd, POLLIN);
            continue;
        }
        if (n <= 0) {
            return total;
        }
        have += (size_t)n;
        while (at < have) {
            const unsigned char *h = (const unsigned char *)buffer + at;
            size_t part = skip < have - at ? skip : have - at;

            if (skip > 0) {
                total += is_body ? part : 0;
                skip -= part;
                at += part;
                if (skip == 0) {
                    skip = padding;
                    padding = 0;
                    is_body = false;
                }
            } else if (have - at < HEADER) {
                break;
            } else {
                skip = (size_t)(h[4] << 8 | h[5]);
                padding = h[6];
                is_body = h[1] == FCGI_STDIN;
                at += HEADER;
                if (is_body && skip == 0) {
                    return total;
                }
                if (skip == 0) {
                    skip = padding;
                    padding = 0;
                }
            }
        }
        memmove(buffer, buffer + at, have - at);
        have -= at;
    }
}

/* A CGI head and len bytes at data in records, and the end. */
static void
answer(int fd, const char *head, const char *data, size_t len)
{
    char record[2 * HEADER], end[HEADER + sizeof(FCGI_EndRequestBody)] = { 0 };
    struct iovec iov[6];
    size_t first = strlen(head), part = FCGI_MAX_LENGTH - first;
    int n = 0;

    part = part < len ? part : len;
    put_header(record, FCGI_STDOUT, first + part);
    iov[n++] = (struct iovec){ record, HEADER };
    iov[n++] = (struct iovec){ (void *)head, first };
    iov[n++] = (struct iovec){ (void *)data, part };
    if (part < len) {
        put_header(record + HEADER, FCGI_STDOUT, len - part);
        iov[n++] = (struct iovec){ record + HEADER, HEADER };
        iov[n++] = (struct iovec){ (void *)(data + part), len - part };
    }
    put_header(end, FCGI_END_REQUEST, sizeof(FCGI_EndRequestBody));
    iov[n++] = (struct iovec){ end, sizeof(end) };
    send_all(fd, iov, n);
}

static void
send_chunks(int fd)
{
    static const char head[] = "Status: 200 OK\r\nContent-Length: 1048576\r\n"
                               "Content-Type: application/octet-stream\r\n\r\n";
    char record[HEADER], first[HEADER];
    char end[HEADER + sizeof(FCGI_EndRequestBody)] = { 0 };

    put_header(first, FCGI_STDOUT, sizeof(head) - 1);
    put_header(record, FCGI_STDOUT, CHUNK_BYTES);
    put_header(end, FCGI_END_REQUEST, sizeof(FCGI_EndRequestBody));
    for (int i = 0; i < CHUNKS; i++) {
        struct iovec iov[5];
        int n = 0;

        if (i == 0) {
            iov[n++] = (struct iovec){ first, HEADER };
            iov[n++] = (struct iovec){ (void *)head, sizeof(head) - 1 };
        }
        iov[n++] = (struct iovec){ record, HEADER };
        iov[n++] = (struct iovec){ body, CHUNK_BYTES };
        if (i == CHUNKS - 1) {
            iov[n++] = (struct iovec){ end, sizeof(end) };
        }
        send_all(fd, iov, n);
    }
}

static void
send_picture(int fd, const char *path)
{
    char head[HEADER + 200], end[HEADER + sizeof(FCGI_EndRequestBody)] = { 0 };
    int file = open(path, O_RDONLY);
    struct stat st;
    off_t at = 0;
    int len;

    if (file < 0 || fstat(file, &st) < 0) {
        return;
    }
    len = snprintf(head + HEADER, sizeof(head) - HEADER,
                   "Status: 200 OK\r\nContent-Type: image/png\r\n"
                   "Content-Length: %lld\r\n\r\n",
                   (long long)st.st_size);
    while (at < st.st_size) {
        size_t part = (size_t)(st.st_size - at);
        off_t until;
        struct iovec iov = { head, HEADER + (size_t)len };

        part = part < FILE_BYTES ? part : FILE_BYTES;
        until = at + (off_t)part;
        put_header(head, FCGI_STDOUT, part + (size_t)len);
        send_all(fd, &iov, 1);
        while (at < until) {
            if (sendfile(fd, file, &at, (size_t)(until - at)) < 0) {
                if (errno != EAGAIN) {
                    close(file);
                    return;
                }
                wait_for(fd, POLLOUT);
            }
        }
        len = 0;
    }
    close(file);
    put_header(end, FCGI_END_REQUEST, sizeof(FCGI_EndRequestBody));
    send_all(fd, &(struct iovec){ end, sizeof(end) }, 1);
}

static void
serve_one(int fd, const char *kind)
{
    size_t len = read_request(fd);
    char text[40];

    if (strcmp(kind, "hello") == 0) {
        answer(fd,
               "Status: 200 OK\r\nContent-Type: text/plain\r\n"
               "Content-Length: 14\r\n\r\n",
               "Hello, world!\n", 14);
    } else if (strcmp(kind, "echo") == 0) {
        answer(fd,
               "Status: 200 OK\r\nContent-Type: application/octet-stream\r\n"
               "Content-Length: 65536\r\n\r\n",
               body, len < sizeof(body) ? len : sizeof(body));
    } else if (strcmp(kind, "post") == 0) {
        snprintf(text, sizeof(text), "%zu\n", len);
        answer(fd, "Status: 200 OK\r\nContent-Type: text/plain\r\n\r\n", text,
               strlen(text));
    } else if (strcmp(kind, "chunks") == 0) {
        send_chunks(fd);
    } else {
        send_picture(fd, kind);
    }
}

_Noreturn static void
serve(int listener, const char *kind)
{
    struct epoll_event ev = { .events = EPOLLIN | EPOLLEXCLUSIVE };
    int epoll_fd = epoll_create1(0);

    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listener, &ev);
    for (;;) {
        int fd;

        epoll_wait(epoll_fd, &ev, 1, -1);
        fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
        if (fd >= 0) {
            serve_one(fd, kind);
            close(fd);
        }
    }
}

static int
listen_on(const char *path)
{
    struct sockaddr_un sa = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);

    if (fd < 0 || strlen(path) >= sizeof(sa.sun_path)) {
        return -1;
    }
    memcpy(sa.sun_path, path, strlen(path) + 1);
    unlink(path);
    return bind(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0 &&
                   listen(fd, BACKLOG) == 0
               ? fd
               : -1;
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
    int count = argc == 4 ? atoi(argv[2]) : 0, fd;

    if (count < 1 || count > 1000) {
        fprintf(stderr, "usage: forebay-bench-bare SOCKET PROCESSES "
                        "hello|echo|post|chunks|FILE\n");
        return 2;
    }
    memset(body, 'x', sizeof(body));
    fd = listen_on(argv[1]);
    if (fd < 0) {
        perror(argv[1]);
        return 1;
    }
    signal(SIGPIPE, SIG_IGN);
    signal(SIGTERM, stop);
    for (int i = 0; i < count; i++) {
        pid_t pid = fork();

        if (pid == 0) {
            signal(SIGTERM, SIG_DFL);
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            serve(fd, argv[3]);
        }
        if (pid < 0) {
            perror("fork");
            return 1;
        }
    }
    wait(NULL); /* none of them ends by itself */
    return 1;
}
