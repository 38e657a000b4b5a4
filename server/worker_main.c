/* SPDX-License-Identifier: MIT
 *
 * The program forebay-worker-3.x: a template and, by fork, its workers. Started
 * by the manager only; its arguments are descriptor numbers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "python/interp.h"
#include "server/template.h"
#include "server/process_title.h"

int
main(int argc, char **argv)
{
    struct template_start start;

    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        printf("forebay-worker %s, Python %s\n", FOREBAY_VERSION,
               interp_version());
        return 0;
    }
    if (argc == 3 && strcmp(argv[1], "--check") == 0 &&
        strncmp(argv[2], "--settings=", 11) == 0) {
        return template_check(atoi(argv[2] + 11));
    }
    if (template_args_read(argc, argv, &start) != 0) {
        fprintf(stderr, "%s is started by forebay; see forebay(8)\n", argv[0]);
        return EX_USAGE;
    }
    process_title_init(argc, argv);
    return template_main(&start);
}
