/* SPDX-License-Identifier: MIT
 *
 * The shared mapping of a pool. Manager: makes and reads it; template and
 * workers: map it and write their own slots. Never locks, never waits, does not
 * log.
 *
 * A slot's line is under a sequence count. The usual way uses fences, which the
 * thread sanitizer cannot follow; here every word of the line is stored with
 * release and read with acquire order, which says the same:
 *   owner:  sequence odd (relaxed); words (release); sequence even (release)
 *   reader: sequence (acquire); words (acquire); sequence again (relaxed)
 * A reader that sees a new word also sees the odd count that came before it.
 */
#include "server/scoreboard.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/clock.h"

/* The line is read and written in words; the type may alias its characters. */
typedef uint64_t __attribute__((may_alias)) line_word;

enum {
    WORD = sizeof(line_word),
    LINE_WORDS = SCORE_LINE_MAX / WORD,
    /* An owner that died between its two counts leaves an odd one for ever. */
    READ_TRIES = 1000,
};

_Static_assert(SCORE_LINE_MAX % WORD == 0, "the line is whole words");
_Static_assert(offsetof(struct scoreboard_slot, line) % WORD == 0,
               "the line is aligned");

/* 0.5 ms to 30 s, about three to a decade. */
const uint32_t scoreboard_bound_us[SCORE_BOUNDS] = {
    500,    1000,   2500,    5000,    10000,   25000,    50000,    100000,
    250000, 500000, 1000000, 2500000, 5000000, 10000000, 30000000,
};

static int
map_slots(int fd, unsigned count, struct scoreboard *ret)
{
    size_t bytes = count * sizeof(struct scoreboard_slot);
    void *memory;

    memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        return -errno;
    }
    ret->slot = memory;
    ret->count = count;
    ret->fd = fd;
    ret->bytes = bytes;
    return 0;
}

int
scoreboard_create(unsigned count, struct scoreboard *ret)
{
    size_t bytes = count * sizeof(struct scoreboard_slot);
    int fd, rc;

    if (count == 0) {
        return -EINVAL;
    }
    fd = memfd_create("forebay-scoreboard", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) {
        return -errno;
    }
    if (ftruncate(fd, (off_t)bytes) != 0) {
        rc = -errno;
        close(fd);
        return rc;
    }
    /* A worker could otherwise cut the file and kill the manager by SIGBUS. */
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) !=
        0) {
        rc = -errno;
        close(fd);
        return rc;
    }
    rc = map_slots(fd, count, ret);
    if (rc != 0) {
        close(fd);
    }
    return rc;
}

int
scoreboard_attach(int fd, unsigned count, struct scoreboard *ret)
{
    struct stat st;

    if (fstat(fd, &st) != 0) {
        return -errno;
    }
    if (count == 0 || (uint64_t)st.st_size <
                          (uint64_t)count * sizeof(struct scoreboard_slot)) {
        return -EINVAL;
    }
    return map_slots(fd, count, ret);
}

void
scoreboard_release(struct scoreboard *s)
{
    /* Without slots there is no descriptor either: in storage that is all zero
     * fd would be somebody else's 0. */
    if (s == NULL || s->slot == NULL) {
        return;
    }
    munmap(s->slot, s->bytes);
    s->slot = NULL;
    if (s->fd >= 0) {
        close(s->fd);
    }
    s->fd = -1;
    s->count = 0;
    s->bytes = 0;
}

/* "METHOD URI" cut to the room there is; returns its length. */
static size_t
join_line(char *out, const char *method, size_t method_len, const char *uri,
          size_t uri_len)
{
    size_t room = SCORE_LINE_MAX - 1, used;

    used = method_len < room ? method_len : room;
    if (used > 0) {
        memcpy(out, method, used);
    }
    if (used < room) {
        out[used++] = ' ';
    }
    if (uri_len > room - used) {
        uri_len = room - used;
    }
    if (uri_len > 0) {
        memcpy(out + used, uri, uri_len);
        used += uri_len;
    }
    return used;
}

void
scoreboard_begin(struct scoreboard_slot *s, const char *method,
                 size_t method_len, const char *uri, size_t uri_len,
                 uint64_t now)
{
    line_word *shared = (line_word *)s->line;
    line_word word;
    char line[SCORE_LINE_MAX];
    size_t len, padded;
    uint32_t sequence;

    len = join_line(line, method, method_len, uri, uri_len);
    padded = (len / WORD + 1) * WORD; /* with at least one NUL */
    memset(line + len, 0, padded - len);

    sequence = atomic_load_explicit(&s->sequence, memory_order_relaxed);
    sequence |= 1; /* odd already: this slot's last owner died in here */
    atomic_store_explicit(&s->sequence, sequence, memory_order_relaxed);
    for (size_t i = 0; i < padded / WORD; i++) {
        memcpy(&word, line + i * WORD, WORD);
        __atomic_store_n(&shared[i], word, __ATOMIC_RELEASE);
    }
    atomic_store_explicit(&s->sequence, sequence + 1, memory_order_release);

    atomic_store_explicit(&s->begun_ns, now, memory_order_relaxed);
    atomic_store_explicit(&s->since_ns, now, memory_order_relaxed);
    atomic_store_explicit(&s->state, SCORE_RUNNING, memory_order_release);
}

static void
set_state(struct scoreboard_slot *s, enum scoreboard_state state, uint64_t now)
{
    atomic_store_explicit(&s->since_ns, now, memory_order_relaxed);
    atomic_store_explicit(&s->state, (uint32_t)state, memory_order_release);
}

void
scoreboard_set(struct scoreboard_slot *s, enum scoreboard_state state)
{
    set_state(s, state, clock_now_ns());
}

/* Only the owner adds, so no locked instruction is needed. */
static void
add(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_store_explicit(
        counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
        memory_order_relaxed);
}

static void
count_time(struct scoreboard_slot *s, uint64_t ns)
{
    unsigned i = 0;

    while (i < SCORE_BOUNDS && ns > (uint64_t)scoreboard_bound_us[i] * 1000) {
        i++;
    }
    add(&s->bucket[i], 1);
    add(&s->time_ns, ns);
}

void
scoreboard_end(struct scoreboard_slot *s, bool failed)
{
    uint64_t begun = atomic_load_explicit(&s->begun_ns, memory_order_relaxed);
    uint64_t now = clock_now_ns();

    add(&s->requests, 1);
    if (failed) {
        add(&s->failures, 1);
    }
    count_time(s, now > begun ? now - begun : 0);
    atomic_store_explicit(&s->begun_ns, 0, memory_order_relaxed);
    set_state(s, SCORE_IDLE, now);
}

static uint64_t
get(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

void
scoreboard_add(const struct scoreboard_slot *s, struct score_totals *sum)
{
    sum->requests += get(&s->requests);
    sum->failures += get(&s->failures);
    sum->time_ns += get(&s->time_ns);
    for (unsigned i = 0; i < SCORE_BUCKETS; i++) {
        sum->bucket[i] += get(&s->bucket[i]);
    }
}

uint64_t
scoreboard_take(struct scoreboard_slot *s, struct score_totals *sum)
{
    uint64_t requests = get(&s->requests);

    scoreboard_add(s, sum);
    atomic_store(&s->requests, 0);
    atomic_store(&s->failures, 0);
    atomic_store(&s->time_ns, 0);
    for (unsigned i = 0; i < SCORE_BUCKETS; i++) {
        atomic_store(&s->bucket[i], 0);
    }
    return requests;
}

void
score_totals_add(struct score_totals *sum, const struct score_totals *t)
{
    sum->requests += t->requests;
    sum->failures += t->failures;
    sum->time_ns += t->time_ns;
    for (unsigned i = 0; i < SCORE_BUCKETS; i++) {
        sum->bucket[i] += t->bucket[i];
    }
}

bool
scoreboard_line(const struct scoreboard_slot *s, char *out, size_t size)
{
    const line_word *shared = (const line_word *)s->line;
    line_word word;
    char line[SCORE_LINE_MAX + 1];
    uint32_t before, after;
    bool whole = false;
    size_t len;

    for (int i = 0; i < READ_TRIES && !whole; i++) {
        before = atomic_load_explicit(&s->sequence, memory_order_acquire);
        for (size_t w = 0; w < LINE_WORDS; w++) {
            word = __atomic_load_n(&shared[w], __ATOMIC_ACQUIRE);
            memcpy(line + w * WORD, &word, WORD);
        }
        after = atomic_load_explicit(&s->sequence, memory_order_relaxed);
        whole = before == after && before % 2 == 0;
    }
    line[SCORE_LINE_MAX] = '\0';
    len = strlen(line);
    if (size > 0) {
        if (len > size - 1) {
            len = size - 1;
        }
        memcpy(out, line, len);
        out[len] = '\0';
    }
    return whole;
}
