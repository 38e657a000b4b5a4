/* SPDX-License-Identifier: MIT
 *
 * server/venv.c: which Python a virtual environment has, and the worker program
 * for it. This program lies in a folder of its own, so that it can put worker
 * programs beside itself.
 */
#include "tests/unit_server/unit.h"

#include <fcntl.h>
#include <libgen.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "server/venv.h"

static char why[2048];

static void
put_file(const char *path, const char *text, mode_t mode)
{
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, mode);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

/* A virtual environment with this pyvenv.cfg; NULL: without one. */
static char *
make_venv(void **state, const char *name, const char *config)
{
    char *folder = unit_path(state, name), file[4200];

    assert_int_equal(mkdir(folder, 0755), 0);
    snprintf(file, sizeof(file), "%s/bin", folder);
    assert_int_equal(mkdir(file, 0755), 0);
    snprintf(file, sizeof(file), "%s/bin/python", folder);
    put_file(file, "#!/bin/false\n", 0755);
    if (config != NULL) {
        snprintf(file, sizeof(file), "%s/pyvenv.cfg", folder);
        put_file(file, config, 0644);
    }
    return folder;
}

static void
refused(const char *folder, const char *part)
{
    struct venv v;

    if (venv_read(folder, &v, why, sizeof(why)) == 0) {
        fail_msg("%s was taken", folder);
    }
    assert_contains(why, part);
}

static void
test_good(void **state)
{
    static const struct {
        const char *config;
        unsigned minor;
        const char *home;
    } cases[] = {
        /* venv */
        { "home = /usr/bin\ninclude-system-site-packages = false\n"
          "version = 3.11.2\nexecutable = /usr/bin/python3.11\n",
          11, "/usr/bin" },
        /* virtualenv */
        { "home = /usr\nversion_info = 3.9.18.final.0\nprompt = 3.12\n", 9,
          "/usr" },
        /* uv */
        { "home = /usr/bin\nimplementation = CPython\nuv = 0.4.0\n"
          "version_info = 3.13.0\n",
          13, "/usr/bin" },
        /* by hand: blanks, case, CR LF, no newline at the end */
        { "  HOME=/usr\r\nVersion  =  3.10\r\n", 10, "/usr" },
        { "version=3.14", 14, "" },
        { "version = nonsense\nversion_info = 3.12.1\n", 12, "" },
        { "# comment\n\nno equals sign\nversion = 3.12rc1\n", 12, "" },
    };
    struct venv v;
    char *folder, slashes[4200], name[16];

    for (size_t i = 0; i < COUNT(cases); i++) {
        snprintf(name, sizeof(name), "v%zu", i);
        folder = make_venv(state, name, cases[i].config);
        if (venv_read(folder, &v, why, sizeof(why)) != 0) {
            fail_msg("case %zu: %s", i, why);
        }
        assert_int_equal(v.version.major, 3);
        assert_int_equal(v.version.minor, cases[i].minor);
        assert_string_equal(v.home, cases[i].home);
        assert_string_equal(v.folder, folder);
        snprintf(slashes, sizeof(slashes), "%s//", folder);
        assert_int_equal(venv_read(slashes, &v, why, sizeof(why)), 0);
        assert_string_equal(v.folder, folder);
        free(folder);
    }
}

static void
test_bad_folders(void **state)
{
    char *folder, *path, file[4200];

    path = unit_path(state, "none");
    refused(path, "there is no folder");
    assert_contains(why, path);
    free(path);
    refused("relative/none", "from where forebay was started");
    refused("", "empty");

    path = unit_path(state, "file");
    put_file(path, "x", 0644);
    refused(path, "is a file");
    snprintf(file, sizeof(file), "%s/below", path);
    refused(file, "there is no folder");
    free(path);

    folder = make_venv(state, "whole", NULL);
    refused(folder, "no pyvenv.cfg");
    assert_contains(why, "whole Python installation");
    snprintf(file, sizeof(file), "%s/bin/python", folder);
    unlink(file);
    refused(folder, "no bin/python either");
    snprintf(file, sizeof(file), "%s/conda-meta", folder);
    mkdir(file, 0755);
    refused(folder, "conda environment");
    free(folder);

    folder = make_venv(state, "no-version", "home = /usr/bin\nversions = 3\n");
    refused(folder, "no line \"version = 3.x\"");
    assert_contains(why, "pyvenv.cfg");
    free(folder);
    folder = make_venv(state, "moved", "home = /nowhere/x\nversion = 3.11\n");
    refused(folder, "/nowhere/x, which is not there");
    free(folder);
}

/* Who may not read what, and where it stops. */
static void
test_not_readable(void **state)
{
    char *folder = make_venv(state, "secret", "version = 3.11\n");
    char *outer = unit_path(state, "outer"), *inner;
    int status;
    pid_t pid;

    if (geteuid() != 0) {
        skip();
    }
    assert_int_equal(chmod(*state, 0755), 0);
    assert_int_equal(mkdir(outer, 0700), 0);
    inner = make_venv(state, "outer/venv", "version = 3.11\n");
    assert_int_equal(chmod(folder, 0700), 0);
    pid = fork();
    if (pid == 0) {
        struct venv v;
        int bad = setresuid(61234, 61234, 61234) != 0;

        bad |= venv_read(folder, &v, why, sizeof(why)) != -1;
        bad |= strstr(why, "by user 61234: Permission denied") == NULL;
        bad |= strstr(why, folder) == NULL;
        bad |= venv_read(inner, &v, why, sizeof(why)) != -1;
        bad |= strlen(why) < strlen(outer) ||
               strcmp(why + strlen(why) - strlen(outer), outer) != 0;
        _exit(bad);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    free(folder);
    free(outer);
    free(inner);
}

static void
test_python_setting(void **state)
{
    struct python_version v;
    char *folder, *path, *link, file[4200];

    assert_int_equal(venv_python_version("3.9", &v, why, sizeof(why)), 0);
    assert_int_equal(v.minor, 9);
    assert_int_equal(venv_python_version("3.13", &v, why, sizeof(why)), 0);
    assert_int_equal(v.minor, 13);
    for (size_t i = 0; i < 7; i++) {
        static const char *const bad[] = { "",    "3",      "3.",   "3.11.2",
                                           "3.x", "py3.11", " 3.11" };

        assert_int_equal(venv_python_version(bad[i], &v, why, sizeof(why)), -1);
        assert_contains(why, "neither a version");
    }
    assert_int_equal(
        venv_python_version("/no/such/python3.11", &v, why, sizeof(why)), -1);
    assert_contains(why, "cannot be run");

    /* By its own name, by what it links to, by its environment, by its library.
     */
    path = unit_path(state, "python3.10");
    put_file(path, "", 0755);
    assert_int_equal(venv_python_version(path, &v, why, sizeof(why)), 0);
    assert_int_equal(v.minor, 10);
    link = unit_path(state, "python3");
    assert_int_equal(symlink(path, link), 0);
    assert_int_equal(venv_python_version(link, &v, why, sizeof(why)), 0);
    assert_int_equal(v.minor, 10);
    chmod(path, 0644);
    assert_int_equal(venv_python_version(path, &v, why, sizeof(why)), -1);
    free(path);
    free(link);

    folder = make_venv(state, "v", "version = 3.12\n");
    snprintf(file, sizeof(file), "%s/bin/python", folder);
    assert_int_equal(venv_python_version(file, &v, why, sizeof(why)), 0);
    assert_int_equal(v.minor, 12);
    free(folder);

    folder = make_venv(state, "opt", NULL);
    snprintf(file, sizeof(file), "mkdir -p %s/lib/python3.14 %s/lib/python3.8",
             folder, folder);
    assert_int_equal(system(file), 0);
    snprintf(file, sizeof(file), "%s/bin/python", folder);
    assert_int_equal(venv_python_version(file, &v, why, sizeof(why)), -1);
    assert_contains(why, "give the version itself");
    snprintf(file, sizeof(file), "%s/lib/python3.14/os.py", folder);
    put_file(file, "", 0644);
    snprintf(file, sizeof(file), "%s/bin/python", folder);
    assert_int_equal(venv_python_version(file, &v, why, sizeof(why)), 0);
    assert_int_equal(v.minor, 14);
    free(folder);
}

static void
test_wanted(void **state)
{
    struct python_version v = { 9, 9 };
    char *folder = make_venv(state, "v", "version = 3.12.4\n");

    assert_int_equal(venv_wanted(NULL, NULL, &v, why, sizeof(why)), 0);
    assert_int_equal(v.major, 0);
    assert_int_equal(venv_wanted("3.11", NULL, &v, why, sizeof(why)), 0);
    assert_int_equal(v.minor, 11);
    assert_int_equal(venv_wanted(NULL, folder, &v, why, sizeof(why)), 0);
    assert_int_equal(v.minor, 12);
    assert_int_equal(venv_wanted("3.12", folder, &v, why, sizeof(why)), 0);
    assert_int_equal(venv_wanted("3.11", folder, &v, why, sizeof(why)), -1);
    assert_contains(why, "python is 3.11");
    assert_contains(why, "3.12");
    assert_int_equal(venv_wanted("x", NULL, &v, why, sizeof(why)), -1);
    assert_int_equal(venv_wanted(NULL, "/no/such", &v, why, sizeof(why)), -1);
    free(folder);
}

/* Beside this program. */
static char *
beside(const char *name)
{
    char exe[4096], *path;
    ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

    assert_true(n > 0);
    exe[n] = '\0';
    assert_true(asprintf(&path, "%s/%s", dirname(exe), name) > 0);
    return path;
}

static void
test_workers(void **state)
{
    static const char *const names[] = {
        "forebay-worker-3.9", "forebay-worker-3.97",   "forebay-worker-3.98",
        "forebay-worker-3.x", "forebay-worker-3.96.1", "forebay-worker-3.95",
    };
    struct python_version wanted = { 3, 98 };
    struct venv_worker list[VENV_MAX_WORKERS];
    char *path[COUNT(names)], found[4096], small[4];
    unsigned n;

    (void)state;
    for (size_t i = 0; i < COUNT(names); i++) {
        path[i] = beside(names[i]);
        put_file(path[i], "", i == 5 ? 0644 : 0755); /* 3.95: no program */
    }
    n = venv_list_workers(list, VENV_MAX_WORKERS);
    assert_true(n >= 3);
    assert_int_equal(list[0].version.minor, 98);
    assert_int_equal(list[1].version.minor, 97);
    assert_string_equal(list[0].path, path[2]);
    for (unsigned i = 0; i < n; i++) {
        assert_int_not_equal(list[i].version.minor, 96);
        assert_int_not_equal(list[i].version.minor, 95);
    }
    assert_int_equal(venv_list_workers(list, 1), 1);

    assert_int_equal(
        venv_find_worker(&wanted, found, sizeof(found), why, sizeof(why)), 0);
    assert_string_equal(found, path[2]);
    wanted.minor = 9;
    assert_int_equal(
        venv_find_worker(&wanted, found, sizeof(found), why, sizeof(why)), 0);
    assert_string_equal(found, path[0]);
    assert_int_equal(
        venv_find_worker(&wanted, small, sizeof(small), why, sizeof(why)), -1);
    assert_contains(why, "too long");
    wanted.minor = 99;
    assert_int_equal(
        venv_find_worker(&wanted, found, sizeof(found), why, sizeof(why)), -1);
    assert_contains(why, "Python 3.99 is wanted");
    assert_contains(why, "forebay-worker-3.99");
    assert_contains(why, "3.98, 3.97");

    /* Any: there is one. */
    wanted.major = wanted.minor = 0;
    assert_int_equal(
        venv_find_worker(&wanted, found, sizeof(found), why, sizeof(why)), 0);
    assert_int_equal(access(found, X_OK), 0);
    for (size_t i = 0; i < COUNT(names); i++) {
        unlink(path[i]);
        free(path[i]);
    }
}

#define IN_FOLDER(f)                                                           \
    cmocka_unit_test_setup_teardown(f, unit_make_folder, unit_remove_folder)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_good),         IN_FOLDER(test_bad_folders),
        IN_FOLDER(test_not_readable), IN_FOLDER(test_python_setting),
        IN_FOLDER(test_wanted),       cmocka_unit_test(test_workers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
