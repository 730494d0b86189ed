/* main.c - picks the subcommand, prints its error, maps its status to the exit code of the process. */
#include "cli/cli.h"

#include "base/json.h"
#include "base/str.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

typedef struct command_entry {
    const char *name, *text;
    int (*run)(int argc, char **argv, rt_err *e);
} command_entry;

static const command_entry commands[] = {
#define X(name, text) { #name, text, rt_cmd_##name },
    RT_COMMAND_LIST(X)
#undef X
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static void print_usage(FILE *to)
{
    fprintf(to, "retort %s: distils large language models\n\nusage: retort COMMAND [flags]\n\ncommands:\n",
            rt_cli_version);
    for (int i = 0; i < COMMANDS; i++) fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].text);
    fprintf(to, "\nretort COMMAND --help says more; retort --version prints the version.\n");
}

static int unknown_command(const char *word, rt_err *e)
{
    const char *names[COMMANDS + 1] = { 0 };
    for (int i = 0; i < COMMANDS; i++) names[i] = commands[i].name;
    const char *near = rt_nearest(word, names);
    return rt_fail(e, RT_USAGE, "retort: unknown command '%s'%s%s%s see retort --help", word,
                   near ? "; did you mean " : "", near ? near : "", near ? "?" : ";");
}

static int dispatch(int argc, char **argv, rt_err *e)
{
    if (argc < 2) {
        print_usage(stderr);
        return rt_fail(e, RT_USAGE, "retort: a command is needed");
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        print_usage(stdout);
        return RT_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("retort %s (%s)\n", rt_cli_version, rt_cli_build);
        return RT_OK;
    }
    for (int i = 0; i < COMMANDS; i++)
        if (strcmp(argv[1], commands[i].name) == 0) return commands[i].run(argc - 2, argv + 2, e);
    return unknown_command(argv[1], e);
}

int main(int argc, char **argv)
{
    rt_err e = { 0 };
    rt_json_init();
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is then an error like a full disk, and told as one */
    int rc = dispatch(argc, argv, &e);
    if (rc >= 0) rc = rt_stdout_close(&e);
    if (rc < 0) {
        fflush(stdout);
        fprintf(stderr, "%s\n", e.text[0] ? e.text : rt_status_text(rc));
    }
    return rt_status_exit(rc);
}
