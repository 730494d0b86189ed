/* main.c - picks the subcommand, prints its error, maps its status to the exit code of the process. */
#include "cli/cli.h"

#include "base/json.h"
#include "base/str.h"

#include <jansson.h>
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

static const char about[] = "distils large language models", usage[] = "retort COMMAND [flags]";

static void print_usage(FILE *to)
{
    rt_page p = rt_page_of(to);
    fprintf(to, "retort %s: %s\n\nusage: %s\n\ncommands:\n", rt_cli_version, about, usage);
    for (int i = 0; i < COMMANDS; i++) rt_page_row(&p, 13, commands[i].name, commands[i].text);
    fprintf(to, "\nretort help COMMAND says more.\nretort --version prints the version.\n");
}

/* What the man pages and the completions need besides the help of each command. */
static int print_json(rt_err *e)
{
    json_t *list = json_array(), *statuses = json_array();
    for (int i = 0; i < COMMANDS; i++)
        json_array_append_new(list, json_pack("{s:s, s:s}", "name", commands[i].name, "text", commands[i].text));
#define X(name, value, text) json_array_append_new(statuses, json_pack("{s:i, s:s}", "code", -(value), "text", text));
    RT_STATUS_LIST(X)
#undef X
    return rt_print_json(json_pack("{s:s, s:s, s:s, s:s, s:o, s:o}", "name", "retort", "version", rt_cli_version,
                                   "text", about, "usage", usage, "commands", list, "statuses", statuses),
                         e);
}

static int run_command(const char *word, int argc, char **argv, rt_err *e)
{
    const char *names[COMMANDS + 1] = { 0 }, *name = rt_guess_command(word);
    for (int i = 0; i < COMMANDS; i++) {
        if (strcmp(name, commands[i].name) == 0) return commands[i].run(argc, argv, e);
        names[i] = commands[i].name;
    }
    return rt_guess_unknown_command(word, argc, argv, names, e);
}

static int dispatch(int argc, char **argv, rt_err *e)
{
    if (argc < 2) {
        print_usage(stderr);
        return rt_fail(e, RT_USAGE, "retort: a command is needed");
    }
    bool help = strcmp(argv[1], "help") == 0;
    if (help && argc == 3) return run_command(argv[2], 1, (char *[]){ "--help" }, e);
    if (help && argc > 3)
        return rt_fail(e, RT_USAGE, "retort help: '%s' is one argument too many; usage: retort help COMMAND", argv[3]);
    if (help || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_usage(stdout);
        return RT_OK;
    }
    if (strcmp(argv[1], "--help=json") == 0) return print_json(e);
    if (strcmp(argv[1], "--version") == 0) {
        printf("retort %s (%s)\n", rt_cli_version, rt_cli_build);
        return RT_OK;
    }
    return run_command(argv[1], argc - 2, argv + 2, e);
}

int main(int argc, char **argv)
{
    rt_err e = { 0 };
    rt_process_begin();
    rt_json_init();
    int rc = dispatch(argc, argv, &e);
    if (rc >= 0) rc = rt_stdout_close(&e);
    if (rc < 0) {
        rt_put_to(stderr, "%s\n", e.text[0] ? e.text : rt_status_text(rc));
    }
    return rt_status_exit(rc);
}
