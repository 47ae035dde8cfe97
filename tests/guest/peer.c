/*
 * peer.c - process_vm_readv and process_vm_writev, and the NUMA calls on one node.
 *
 * Goal: bytes arrive, partial transfers and errors are as on Linux. Method: a child with a known
 * layout; transfers at its pages' edges; results are printed and compared with Linux.
 */
#include "check.h"
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define PAGE 4096

static long set_policy(int mode, unsigned long nodes, unsigned long bits)
{
    return syscall(SYS_set_mempolicy, mode, nodes != 0 ? &nodes : NULL, bits);
}

static void policies(void)
{
    unsigned long nodes = 7;
    int mode = 9;

    record("policy", syscall(SYS_get_mempolicy, &mode, NULL, 0, NULL, 0));
    record("mode", mode);
    record("bind to node 0", set_policy(2, 1, 64));
    syscall(SYS_get_mempolicy, &mode, NULL, 0, NULL, 0);
    record("mode", mode);
    record("bind to nothing", set_policy(2, 0, 0));
    record("bind to node 5", set_policy(2, 32, 64));
    record("no such mode", set_policy(77, 1, 64));
    record("default with nodes", set_policy(0, 1, 64));
    record("default", set_policy(0, 0, 0));
    record("allowed", syscall(SYS_get_mempolicy, NULL, &nodes, 64 * 16, NULL, 4));
    record("bad flags", syscall(SYS_get_mempolicy, &mode, NULL, 0, NULL, 64));
    record("address without the flag", syscall(SYS_get_mempolicy, &mode, NULL, 0, &mode, 0));
}

int main(void)
{
    char *theirs = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char buffer[64] = "";
    struct iovec local = {buffer, 10};
    struct iovec remote = {theirs + PAGE - 5, 10};
    int ready[2];
    int status;
    pid_t child;

    memcpy(theirs + PAGE - 5, "0123456789", 10);
    munmap(theirs + 2 * PAGE, PAGE);
    if (pipe(ready) != 0) {
        return 1;
    }
    child = fork();
    if (child == 0) {
        char go;
        close(ready[1]);
        if (read(ready[0], &go, 1) != 1) {
            _exit(2);
        }
        _exit(memcmp(theirs, "written", 7) == 0 ? 0 : 1);
    }
    record("read", process_vm_readv(child, &local, 1, &remote, 1, 0));
    check(memcmp(buffer, "0123456789", 10) == 0, "over a page's edge");
    local.iov_base = "written";
    local.iov_len = 7;
    remote.iov_base = theirs;
    record("write", process_vm_writev(child, &local, 1, &remote, 1, 0));
    check(theirs[0] == 0, "only the child's copy");
    local.iov_base = buffer;
    local.iov_len = 20;
    remote.iov_base = theirs + 2 * PAGE - 8;
    remote.iov_len = 20;
    record("up to a hole", process_vm_readv(child, &local, 1, &remote, 1, 0));
    remote.iov_base = theirs + 2 * PAGE;
    record("a hole", process_vm_readv(child, &local, 1, &remote, 1, 0));
    remote.iov_base = (void *)0xffff800000000000;
    record("kernel memory", process_vm_readv(child, &local, 1, &remote, 1, 0));
    record("flags", process_vm_readv(child, &local, 1, &remote, 1, 1));
    record("nobody", process_vm_readv(999999, &local, 1, &remote, 1, 0));
    record("too many", process_vm_readv(child, &local, 1, &remote, 2000, 0));
    record("go", write(ready[1], "x", 1));
    waitpid(child, &status, 0);
    record_status("child", status);
    policies();
    return check_failures != 0;
}
