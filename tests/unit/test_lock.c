/* test_lock.c - one holder at a time, in this process and in another; what a killed one leaves is no lock; the file is
 * removed without a second holder; a holder notices who removes it; where there are no locks a file stands for one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[64], lock_path[100], owner_path[100];

static int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/retort-test-lock-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    snprintf(lock_path, sizeof lock_path, "%s/retort.lock", folder);
    snprintf(owner_path, sizeof owner_path, "%s/retort.owner", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rt_dir_remove(folder);
    return 0;
}

static rt_lock *take(void)
{
    rt_err e = { 0 };
    rt_lock *l = NULL;
    if (rt_lock_take(&l, folder, "OUT", &e) < 0) fail_msg("%s", e.text);
    assert_non_null(l);
    return l;
}

static void expect_held(const char *by)
{
    rt_err e = { 0 };
    rt_lock *l;
    assert_int_equal(rt_lock_take(&l, folder, "OUT", &e), RT_INVALID);
    assert_null(l);
    if (!strstr(e.text, "OUT is in use by") || !strstr(e.text, by)) fail_msg("%s", e.text);
    e = (rt_err){ 0 };
    assert_int_equal(rt_lock_check(folder, "OUT", &e), RT_INVALID);
    if (!strstr(e.text, by)) fail_msg("%s", e.text);
}

static void text_of(const char *path, char text[600])
{
    rt_str s = { 0 };
    assert_int_equal(rt_file_read(path, 599, &s, NULL), RT_OK);
    snprintf(text, 600, "%s", s.data ? s.data : "");
    rt_str_free(&s);
}

static void test_one_holder(void **state)
{
    (void)state;
    char self[128], host[64] = "", text[600], free_text[600];
    assert_int_equal(rt_lock_check(folder, "OUT", NULL), RT_OK); /* nothing there */
    assert_false(rt_path_exists(lock_path));
    rt_lock *l = take();
    assert_int_equal(gethostname(host, sizeof host - 1), 0);
    snprintf(self, sizeof self, "process %ld on host %s since 2", (long)getpid(), host);
    expect_held(self);
    expect_held("test_lock"); /* the command */
    rt_lock_free(l, false);
    assert_int_equal(rt_lock_check(folder, "OUT", NULL), RT_OK);
    text_of(lock_path, free_text);
    assert_null(strstr(free_text, "process")); /* who had it is no longer told */
    l = take();
    text_of(lock_path, text);
    assert_memory_equal(text, free_text, strlen(free_text));
    rt_lock_free(l, true); /* it was not created by this one */
    assert_true(rt_path_exists(lock_path));
    text_of(lock_path, text);
    assert_string_equal(text, free_text);
    assert_int_equal(unlink(lock_path), 0);
    rt_lock_free(take(), true);
    assert_false(rt_path_exists(lock_path));
    rt_lock_free(NULL, true);
}

static void test_refused(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_lock *l;
    char text[600];
    assert_int_equal(rt_lock_take(&l, "/nonexistent/folder", "OUT", &e), RT_NOT_FOUND);
    assert_int_equal(rt_lock_check("/nonexistent/folder", "OUT", &e), RT_OK);
    assert_int_equal(rt_file_write(lock_path, "my own\n", 7, &e), RT_OK);
    assert_int_equal(rt_lock_take(&l, folder, "OUT", &e), RT_INVALID);
    assert_non_null(strstr(e.text, "no lock of retort's"));
    text_of(lock_path, text);
    assert_string_equal(text, "my own\n");
    assert_int_equal(unlink(lock_path), 0);
    assert_int_equal(mkdir(lock_path, 0777), 0);
    assert_true(rt_lock_take(&l, folder, "OUT", &e) < 0);
    assert_int_equal(rmdir(lock_path), 0);
    assert_int_equal(symlink("elsewhere", lock_path), 0); /* never through a link */
    assert_true(rt_lock_take(&l, folder, "OUT", &e) < 0);
    assert_int_equal(unlink(lock_path), 0);
    assert_int_equal(mkfifo(lock_path, 0666), 0); /* and not held up */
    assert_int_equal(rt_lock_take(&l, folder, "OUT", &e), RT_INVALID);
}

/* What a power failure leaves of the file: a beginning, zeros, or a beginning and zeros; but not what only resembles
 * it. */
static void test_cut_off(void **state)
{
    (void)state;
    char whole[600], left[600] = { 0 };
    rt_lock *l;
    rt_lock_free(take(), false);
    text_of(lock_path, whole);
    size_t n = strlen(whole);
    for (size_t kept = 0; kept <= n; kept++)
        for (size_t zeros = 0; zeros <= 100; zeros += 50) {
            memset(left, 0, sizeof left);
            memcpy(left, whole, kept);
            assert_int_equal(rt_file_write(lock_path, left, kept + zeros, NULL), RT_OK);
            rt_lock_free(take(), false);
        }
    const struct {
        const char *text;
        size_t n;
    } others[] = { { "retort.lock 2: ", 15 }, { "retort\0x", 8 }, { "\0\0x", 3 }, { "x", 1 } };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_int_equal(rt_file_write(lock_path, others[i].text, others[i].n, NULL), RT_OK);
        assert_int_equal(rt_lock_take(&l, folder, "OUT", NULL), RT_INVALID);
    }
}

/* A child that runs fn and says so, then waits to be killed. */
static pid_t start(void (*fn)(void))
{
    int say[2];
    char c;
    assert_int_equal(pipe(say), 0);
    pid_t pid = fork();
    if (pid == 0) {
        fn();
        if (write(say[1], "x", 1) != 1) _exit(1);
        for (;;) pause();
    }
    assert_true(pid > 0);
    close(say[1]);
    assert_int_equal(read(say[0], &c, 1), 1);
    close(say[0]);
    return pid;
}

static void end(pid_t pid)
{
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void take_in_child(void)
{
    rt_lock *l;
    if (rt_lock_take(&l, folder, "OUT", NULL) < 0) _exit(1);
}

static void test_dies_with_its_process(void **state)
{
    (void)state;
    char who[32], text[600];
    pid_t pid = start(take_in_child);
    snprintf(who, sizeof who, "process %ld on", (long)pid);
    expect_held(who);
    end(pid);
    text_of(lock_path, text);
    assert_non_null(strstr(text, who)); /* nobody wrote it off, and it is free */
    assert_int_equal(rt_lock_check(folder, "OUT", NULL), RT_OK);
    rt_lock_free(take(), false);
    assert_int_equal(truncate(lock_path, 0), 0); /* as when it was killed between creating and writing */
    rt_lock_free(take(), false);
}

/* Takes the lock, adds to a number in a file that everybody takes turns with, and lets go, removing the lock at times.
 */
static void take_turns(void)
{
    enum { TURNS = 60 };
    char counter[120], text[32];
    snprintf(counter, sizeof counter, "%s/counter", folder);
    for (int done = 0; done < TURNS;) {
        rt_lock *l;
        int rc = rt_lock_take(&l, folder, "OUT", NULL);
        if (rc == RT_INVALID) continue;
        if (rc < 0) _exit(2);
        int fd = open(counter, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        ssize_t n = read(fd, text, sizeof text - 1);
        text[n > 0 ? n : 0] = '\0';
        n = snprintf(text, sizeof text, "%d", atoi(text) + 1);
        if (pwrite(fd, text, (size_t)n, 0) != n) _exit(3);
        close(fd);
        rt_lock_free(l, done % 2 == 0);
        done++;
    }
    _exit(0);
}

/* A file that is removed under a lock never gives two processes the lock: no count is lost. */
static void test_removed_and_made_again(void **state)
{
    (void)state;
    enum { PROCESSES = 4 };
    pid_t pids[PROCESSES];
    char counter[120], text[600];
    int status;
    for (int i = 0; i < PROCESSES; i++)
        if ((pids[i] = fork()) == 0) take_turns();
    for (int i = 0; i < PROCESSES; i++) {
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
    snprintf(counter, sizeof counter, "%s/counter", folder);
    text_of(counter, text);
    assert_int_equal(atoi(text), PROCESSES * 60);
}

static void expect_lost(const rt_lock *l)
{
    rt_err e = { 0 };
    assert_int_equal(rt_lock_held(l, "OUT", &e), RT_INVALID);
    if (!strstr(e.text, "OUT no longer belongs to this process") || !strstr(e.text, lock_path)) fail_msg("%s", e.text);
}

/* Somebody removes the lock or renames the folder under its holder, who notices, and lets the file of another be. */
static void test_taken_away(void **state)
{
    (void)state;
    char away[80];
    snprintf(away, sizeof away, "%s-away", folder);
    rt_lock *l = take(), *other;
    assert_int_equal(rt_lock_held(l, "OUT", NULL), RT_OK);
    assert_int_equal(unlink(lock_path), 0);
    expect_lost(l);
    other = take();
    expect_lost(l);
    assert_int_equal(rt_lock_held(other, "OUT", NULL), RT_OK);
    rt_lock_free(l, true);
    expect_held("process");
    assert_int_equal(rename(folder, away), 0);
    expect_lost(other);
    assert_int_equal(mkdir(folder, 0777), 0);
    expect_lost(other);
    l = take();
    rt_lock_free(other, true);
    assert_int_equal(rt_lock_held(l, "OUT", NULL), RT_OK);
    rt_lock_free(l, true);
    assert_false(rt_path_exists(lock_path));
    rt_dir_remove(away);
}

/* From now on this process finds no locks, as on a file system that has none. */
static bool lose_locks(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_fcntl, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_OFD_SETLK, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOLCK),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof code / sizeof *code, code };
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static void take_without_locks(void)
{
    if (lose_locks()) take_in_child();
}

/* 0: refused with the right words, here and by a process that has locks; 1: it was given; 2: cannot be tried. */
static int try_without_locks(void)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        rt_err e = { 0 };
        rt_lock *l;
        if (!lose_locks()) _exit(2);
        int rc = rt_lock_take(&l, folder, "OUT", &e);
        if (rc == RT_OK && (rt_lock_held(l, "OUT", NULL) < 0 || unlink(owner_path) != 0)) _exit(4);
        if (rc == RT_OK && rt_lock_held(l, "OUT", NULL) != RT_INVALID) _exit(5); /* it was taken for a killed one's */
        if (rc == RT_OK) rt_lock_free(l, false);
        bool told =
            strstr(e.text, "OUT is in use by process") && strstr(e.text, "remove") && strstr(e.text, owner_path);
        _exit(rc == RT_OK ? 1 : rc == RT_INVALID && told ? 0 : 3);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WEXITSTATUS(status);
}

static void test_without_locks(void **state)
{
    (void)state;
    if (try_without_locks() != 1) skip(); /* no seccomp here */
    assert_true(rt_path_exists(lock_path));
    assert_false(rt_path_exists(owner_path));
    pid_t pid = start(take_without_locks);
    assert_true(rt_path_exists(owner_path));
    assert_int_equal(try_without_locks(), 0);
    assert_int_equal(rt_lock_check(folder, "OUT", NULL), RT_INVALID);
    end(pid);
    assert_int_equal(try_without_locks(), 0); /* nobody can tell that it is no more */
    assert_int_equal(unlink(owner_path), 0);
    assert_int_equal(try_without_locks(), 1);
}

static void test_names(void **state)
{
    (void)state;
    assert_true(rt_lock_is_name("retort.lock") && rt_lock_is_name("retort.owner"));
    assert_false(rt_lock_is_name("lock") || rt_lock_is_name("retort.lock2") || rt_lock_is_name(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_one_holder, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cut_off, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_dies_with_its_process, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_removed_and_made_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_taken_away, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_without_locks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_names, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
