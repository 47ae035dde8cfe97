/*
 * hostile_elf.c - executing files that are truncated, wrong or hostile, and scripts that are.
 * guest: seconds=90
 *
 * Goal: the errno, or the signal, that Linux gives, and the kernel lives on. Method: a good small
 * program is read, one field of it spoilt, and the result executed by a child, which tells the
 * errno by a pipe; then 400 random ones, of which only survival is asked.
 */
#include "check.h"
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define PATH_BAD "/tmp/hostile"

static unsigned char good[1 << 17], bad[1 << 17];
static size_t size;

static Elf64_Ehdr *header(void)
{
    return (Elf64_Ehdr *)bad;
}

/* The n-th loadable segment of the spoilt file. */
static Elf64_Phdr *load(unsigned n)
{
    Elf64_Phdr *at = (Elf64_Phdr *)(bad + sizeof(Elf64_Ehdr));
    for (unsigned i = 0; i < ((Elf64_Ehdr *)good)->e_phnum; i++) {
        if (at[i].p_type == PT_LOAD && n-- == 0) {
            return &at[i];
        }
    }
    abort();
}

/* A program header that is not needed, to be made into another kind. */
static Elf64_Phdr *spare(void)
{
    Elf64_Phdr *at = (Elf64_Phdr *)(bad + sizeof(Elf64_Ehdr));
    for (unsigned i = 0; i < ((Elf64_Ehdr *)good)->e_phnum; i++) {
        if (at[i].p_type == PT_GNU_RELRO || at[i].p_type == PT_NOTE ||
            at[i].p_type == PT_GNU_STACK) {
            return &at[i];
        }
    }
    abort();
}

static bool write_file(const void *data, size_t bytes)
{
    unlink(PATH_BAD);
    int fd = open(PATH_BAD, O_WRONLY | O_CREAT | O_TRUNC, 0755);
    bool done = fd >= 0 && write(fd, data, bytes) == (ssize_t)bytes;
    close(fd);
    return done;
}

/* Executes PATH_BAD in a child; its output goes nowhere. Returns the errno or -1, and the status.
 */
static int execute(char *const arguments[], char *const environment[], int *status)
{
    int ends[2], error = -1;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return -2;
    }
    pid_t child = fork();
    if (child == 0) {
        int null = open("/dev/null", O_RDWR);
        dup2(null, 1);
        dup2(null, 2);
        alarm(5);
        execve(PATH_BAD, arguments, environment);
        error = errno;
        _exit(write(ends[1], &error, sizeof(error)) == sizeof(error) ? 99 : 98);
    }
    close(ends[1]);
    if (read(ends[0], &error, sizeof(error)) != sizeof(error)) {
        error = -1;
    }
    close(ends[0]);
    waitpid(child, status, 0);
    return error;
}

static void try_bytes(const char *name, size_t bytes)
{
    char *arguments[] = {"hostile", NULL};
    char *environment[] = {NULL};
    int status = 0;
    check(write_file(bad, bytes), name);
    int error = execute(arguments, environment, &status);
    if (error >= 0) {
        printf("  errno %d\n", error);
    } else {
        record_status("  it", status);
    }
    memcpy(bad, good, sizeof(good));
}

#define TRY(name, change)                                                                          \
    do {                                                                                           \
        change;                                                                                    \
        try_bytes(name, size);                                                                     \
    } while (0)

static void truncated(void)
{
    static const size_t lengths[] = {0, 1, 4, 16, 63, 64, 65, 100};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        char name[32];
        snprintf(name, sizeof(name), "%zu bytes", lengths[i]);
        try_bytes(name, lengths[i]);
    }
    try_bytes("headers only", sizeof(Elf64_Ehdr) + 56ul * header()->e_phnum);
    try_bytes("half", size / 2);
}

static void headers(void)
{
    TRY("unchanged", (void)0);
    TRY("magic", bad[1] = 'F');
    TRY("class 32", bad[EI_CLASS] = ELFCLASS32);
    TRY("big endian", bad[EI_DATA] = ELFDATA2MSB);
    TRY("type none", header()->e_type = ET_NONE);
    TRY("type relocatable", header()->e_type = ET_REL);
    TRY("type core", header()->e_type = ET_CORE);
    TRY("machine", header()->e_machine = EM_AARCH64);
    TRY("version", header()->e_version = 77);
    TRY("phentsize 0", header()->e_phentsize = 0);
    TRY("phentsize 57", header()->e_phentsize = 57);
    TRY("phnum 0", header()->e_phnum = 0);
    TRY("phnum 65535", header()->e_phnum = 65535);
    TRY("phoff beyond", header()->e_phoff = size + 4096);
    TRY("phoff -1", header()->e_phoff = ~0ul);
    TRY("phoff 2^63", header()->e_phoff = 1ul << 63);
    TRY("entry 0", header()->e_entry = 0);
    TRY("entry in the kernel", header()->e_entry = 0xffffffff80000000ul);
    TRY("entry not canonical", header()->e_entry = 0x8000000000000000ul);
}

static void segments(void)
{
    TRY("no segment to load", for (unsigned i = 0; i < 4; i++) load(0)->p_type = PT_NULL);
    TRY("filesz above memsz", load(0)->p_filesz = load(0)->p_memsz + 1);
    TRY("memsz 2^47", load(0)->p_memsz = 1ul << 47);
    TRY("memsz -1", load(0)->p_memsz = ~0ul);
    TRY("filesz and memsz -1", load(0)->p_memsz = load(0)->p_filesz = ~0ul);
    TRY("address in the kernel", load(0)->p_vaddr = 0xffffffff80000000ul);
    TRY("address at the top", load(0)->p_vaddr = 0x7ffffffff000ul);
    TRY("address and memsz overflow",
        (load(0)->p_vaddr = ~0ul - 4095, load(0)->p_memsz = load(0)->p_filesz = 8192));
    TRY("offset beyond the file", load(0)->p_offset = 1ul << 30);
    TRY("offset -4096", load(0)->p_offset = ~0ul - 4095);
    TRY("offset not as the address", load(0)->p_offset += 1);
    TRY("not executable", load(0)->p_flags = load(1)->p_flags = PF_R);
    TRY("no access", load(0)->p_flags = load(1)->p_flags = 0);
    TRY("second over the first", load(1)->p_vaddr = load(0)->p_vaddr);
    TRY("alignment 3", load(0)->p_align = 3);
    TRY("alignment 2^63", load(0)->p_align = 1ul << 63);
}

static void interpreter(const char *name, const char *path, size_t bytes)
{
    Elf64_Phdr *at = spare();
    at->p_type = PT_INTERP;
    at->p_offset = size;
    at->p_filesz = at->p_memsz = bytes;
    memcpy(bad + size, path, strlen(path) + 1);
    try_bytes(name, size + strlen(path) + 1);
}

static void interpreters(void)
{
    interpreter("interpreter missing", "/nowhere", 9);
    interpreter("interpreter is a directory", "/tmp", 5);
    interpreter("interpreter without an end", "/nowhere", 8);
    interpreter("interpreter of no length", "/nowhere", 0);
    interpreter("interpreter of 1 byte", "/nowhere", 1);
    interpreter("interpreter of 2^20 bytes", "/nowhere", 1 << 20);
    interpreter("interpreter of -1 bytes", "/nowhere", ~0ul);
    interpreter("interpreter is a script", "/init", 6);
    interpreter("interpreter is no program", "/etc/passwd", 12);
}

static void script(const char *name, const char *text)
{
    memcpy(bad, text, strlen(text));
    try_bytes(name, strlen(text));
}

static void scripts(void)
{
    static char text[6000];
    script("script", "#!/bin/true\n");
    script("script with an argument", "#! /bin/sh -c true\n");
    script("script without a newline", "#!/bin/true");
    script("script, interpreter missing", "#!/nowhere\n");
    script("script, interpreter is a directory", "#!/tmp\n");
    script("script, nothing", "#!\n");
    script("script, spaces", "#!   \n");
    script("script of itself", "#!" PATH_BAD "\n");
    memset(text, 'x', sizeof(text) - 1);
    memcpy(text, "#!/", 3);
    script("script, long interpreter", text);
    memset(text + 2, ' ', 300);
    script("script, long of spaces", text);
}

static void arguments_too_big(void)
{
    static char *many[70000];
    static char long_one[200000];
    char *none[] = {NULL};
    int status = 0;
    memcpy(bad, good, sizeof(good));
    check(write_file(bad, size), "a good file again");
    for (size_t i = 0; i < 69999; i++) {
        many[i] = "0123456789012345678901234567890123456789";
    }
    memset(long_one, 'a', sizeof(long_one) - 1);
    char *one[] = {long_one, NULL};
    printf("3 MB of arguments: errno %d\n", execute(many, none, &status));
    printf("one of 200000 bytes: errno %d\n", execute(one, none, &status));
    long_one[131071] = 0;
    printf("one of 131071 bytes: errno %d\n", execute(one, none, &status));
    char *empty[] = {NULL};
    printf("no arguments: errno %d\n", execute(empty, none, &status));
    record_status("it", status);
    chmod(PATH_BAD, 0644);
    printf("not executable: errno %d\n", execute(one, none, &status));
}

static void random_ones(void)
{
    char *arguments[] = {"hostile", NULL};
    char *environment[] = {NULL};
    uint64_t seed = 20260101;
    int ended = 0;
    for (int i = 0; i < 400; i++) {
        memcpy(bad, good, sizeof(good));
        for (int j = 0; j < 1 + i % 4; j++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            bad[4 + (seed >> 33) % (60 + 56ul * header()->e_phnum % 600)] =
                (unsigned char)(seed >> 57 == 0 ? 0xff : seed >> 25);
        }
        int status = 0;
        if (write_file(bad, size) && execute(arguments, environment, &status) != -2) {
            ended++;
        }
    }
    printf("random: %d of 400 ended\n", ended);
}

int main(void)
{
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    int fd = open("/bin/hello", O_RDONLY);
    ssize_t count = read(fd, good, sizeof(good) / 2);
    close(fd);
    check(count > 4096, "a good program to spoil");
    size = (size_t)count;
    memcpy(bad, good, sizeof(good));
    truncated();
    headers();
    segments();
    interpreters();
    scripts();
    arguments_too_big();
    random_ones();
    unlink(PATH_BAD);
    return check_done();
}
