/*
 * exec.c - what an executed program finds: arguments, environment, auxiliary vector, descriptors,
 * its stack; vfork.
 *
 * Goal: as Linux gives them. Method: the program executes itself with a word that says what to
 * look at.
 */
#include "check.h"
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

static const char *self;
extern char **environ;

static int look_arguments(int count, char **words)
{
    printf("%d words:", count);
    for (int i = 0; i < count; i++) {
        printf(" [%s]", words[i]);
    }
    printf("\nenvironment:");
    for (char **at = environ; *at; at++) {
        printf(" [%s]", *at);
    }
    printf("\n");
    check(words[count] == NULL, "the words end in a null");
    check(((uintptr_t)words & 7) == 0 && (uintptr_t)words > 0x7f0000000000,
          "they lie on the stack");
    return 0;
}

static int look_auxiliary(void)
{
    static const struct {
        const char *name;
        unsigned long type;
    } plain[] = {{"PAGESZ", AT_PAGESZ}, {"PHENT", AT_PHENT}, {"UID", AT_UID},
                 {"EUID", AT_EUID},     {"GID", AT_GID},     {"EGID", AT_EGID},
                 {"BASE", AT_BASE},     {"FLAGS", AT_FLAGS}, {"CLKTCK", AT_CLKTCK},
                 {"SECURE", AT_SECURE}};
    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
        printf("%s %lu\n", plain[i].name, getauxval(plain[i].type));
    }
    check(getauxval(AT_PHNUM) > 2, "PHNUM");
    const Elf64_Phdr *header = (const Elf64_Phdr *)getauxval(AT_PHDR);
    check(header != NULL && header[0].p_type <= 7, "PHDR");
    const unsigned char *random = (const unsigned char *)getauxval(AT_RANDOM);
    unsigned sum = 0;
    for (int i = 0; random && i < 16; i++) {
        sum += random[i];
    }
    check(sum > 0, "RANDOM");
    check(getauxval(AT_EXECFN) && strcmp((char *)getauxval(AT_EXECFN), self) == 0, "EXECFN");
    check(getauxval(AT_PLATFORM) && strcmp((char *)getauxval(AT_PLATFORM), "x86_64") == 0,
          "PLATFORM");
    check(getauxval(AT_HWCAP) != 0, "HWCAP");
    check(getauxval(AT_ENTRY) != 0, "ENTRY");
    return 0;
}

static int look_descriptors(void)
{
    record("kept", fcntl(10, F_GETFD));
    record("closed on exec", fcntl(11, F_GETFD));
    struct sigaction action;
    sigaction(SIGUSR1, NULL, &action);
    check(action.sa_handler == SIG_IGN, "ignored stays ignored");
    sigaction(SIGUSR2, NULL, &action);
    check(action.sa_handler == SIG_DFL, "handled becomes default");
    sigset_t mask;
    sigprocmask(SIG_SETMASK, NULL, &mask);
    check(sigismember(&mask, SIGTERM) == 1, "the mask stays");
    sigpending(&mask);
    check(sigismember(&mask, SIGTERM) == 1, "pending stays pending");
    stack_t stack;
    sigaltstack(NULL, &stack);
    check(stack.ss_flags == SS_DISABLE, "the other stack is gone");
    return 0;
}

/* Touches 4 MiB of stack, which must grow, and then more than its limit would let through. */
static int look_stack(void)
{
    volatile char *at = (volatile char *)__builtin_frame_address(0);
    for (size_t i = 0; i < (size_t)4 << 20; i += 4096) {
        at[-(long)i] = 1;
    }
    struct rlimit limit;
    getrlimit(RLIMIT_STACK, &limit);
    printf("stack limit %lu KiB\n", (unsigned long)limit.rlim_cur / 1024);
    return 0;
}

static void run(const char *what, char *const environment[])
{
    char *words[] = {"exec-test", (char *)what, "", "a b", NULL};
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        execve(self, words, environment);
        _exit(99);
    }
    int status = 1;
    waitpid(child, &status, 0);
    record_status(what, status);
}

static void handler(int number)
{
    (void)number;
}

static void prepare_descriptors(void)
{
    static char stack[16384];
    stack_t other = {.ss_sp = stack, .ss_size = sizeof(stack)};
    sigset_t mask;
    dup2(1, 10);
    dup2(1, 11);
    fcntl(11, F_SETFD, FD_CLOEXEC);
    signal(SIGUSR1, SIG_IGN);
    signal(SIGUSR2, handler);
    sigaltstack(&other, NULL);
    sigemptyset(&mask);
    sigaddset(&mask, SIGTERM);
    sigprocmask(SIG_BLOCK, &mask, NULL);
    raise(SIGTERM);
    char *words[] = {"exec-test", "descriptors", NULL};
    char *none[] = {NULL};
    execve(self, words, none);
    _exit(99);
}

static void vforks(void)
{
    volatile int shared = 1;
    pid_t child = vfork();
    if (child == 0) {
        shared = 2;
        _exit(4);
    }
    int status = 0;
    waitpid(child, &status, 0);
    record_status("vfork's child", status);
    check(shared == 2, "vfork shares memory");
    child = vfork();
    if (child == 0) {
        char *words[] = {"true", NULL};
        char *none[] = {NULL};
        execve("/bin/true", words, none);
        _exit(99);
    }
    waitpid(child, &status, 0);
    record_status("vfork and exec", status);
}

static void scripts(void)
{
    static const char *const texts[] = {"#!/bin/echo interp\n", "#!/bin/echo\n",
                                        "#!/tmp/exec-script0 more\n"};
    char name[32], other[32];
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof(name), "/tmp/exec-script%d", i);
        int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0755);
        check(fd >= 0 && write(fd, texts[i], strlen(texts[i])) > 0 && close(fd) == 0, name);
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            char *words[] = {"zero", "one", NULL};
            char *none[] = {NULL};
            execve(name, words, none);
            _exit(errno);
        }
        int status = 0;
        waitpid(child, &status, 0);
        record_status("script", status);
    }
    for (int i = 0; i < 3; i++) {
        snprintf(other, sizeof(other), "/tmp/exec-script%d", i);
        unlink(other);
    }
}

int main(int count, char **words)
{
    if (count > 1) {
        self = (const char *)getauxval(AT_EXECFN);
        const char *what = words[1];
        return strcmp(what, "arguments") == 0     ? look_arguments(count, words)
               : strcmp(what, "auxiliary") == 0   ? look_auxiliary()
               : strcmp(what, "descriptors") == 0 ? look_descriptors()
                                                  : look_stack();
    }
    self = words[0];
    char *environment[] = {"A=1", "EMPTY=", "B=two words", NULL};
    char *none[] = {NULL};
    run("arguments", environment);
    run("arguments", none);
    run("auxiliary", none);
    run("stack", none);
    in_child("descriptors", prepare_descriptors);
    vforks();
    scripts();
    char link[100] = {0};
    check(readlink("/proc/self/exe", link, sizeof(link) - 1) > 0 && strcmp(link, self) == 0,
          "/proc/self/exe");
    return check_done();
}
