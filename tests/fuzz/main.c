/* SPDX-License-Identifier: MIT
 *
 * Runs a fuzz harness over the files and folders of the command line, where
 * there is no libFuzzer, so that the corpus is replayed by every ctest. Each
 * input is handed over in memory of exactly its size.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz.h"

/* 0 or -1; *count is how many inputs were run. */
static int
run_file(const char *path, unsigned *count)
{
    FILE *f = fopen(path, "rb");
    struct stat st;
    uint8_t *data;
    size_t size;
    int result = -1;

    if (f == NULL || fstat(fileno(f), &st) < 0) {
        perror(path);
        if (f != NULL) {
            fclose(f);
        }
        return -1;
    }
    size = (size_t)st.st_size;
    data = malloc(size > 0 ? size : 1);
    if (data != NULL && fread(data, 1, size, f) == size) {
        LLVMFuzzerTestOneInput(data, size);
        ++*count;
        result = 0;
    } else {
        perror(path);
    }
    free(data);
    fclose(f);
    return result;
}

static int
run_path(const char *path, unsigned *count)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    int result = 0;

    if (dir == NULL) {
        return run_file(path, count);
    }
    while ((entry = readdir(dir)) != NULL) {
        char name[4096];

        if (entry->d_name[0] == '.') {
            continue;
        }
        snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
        if (run_file(name, count) < 0) {
            result = -1;
        }
    }
    closedir(dir);
    return result;
}

int
main(int argc, char **argv)
{
    unsigned count = 0;
    int result = 0, i;

    for (i = 1; i < argc; i++) {
        if (run_path(argv[i], &count) < 0) {
            result = 1;
        }
    }
    printf("%u inputs\n", count);
    return count > 0 ? result : 1;
}
