/*
 * sysv.c - System V shared memory, semaphores, message queues.
 *
 * Goal: contents, counts, errors and undoing are as on Linux, and nothing outlives its removal.
 * Method: each call at its edges, between processes; results are printed and compared with Linux.
 */
#include "check.h"
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <time.h>

#define PAGE 4096

union semun {
    int val;
    struct semid_ds *buf;
    unsigned short *array;
};

static int wait_for_child(pid_t child)
{
    int status = -1;

    waitpid(child, &status, 0);
    return status;
}

static long attachments(int id)
{
    struct shmid_ds info;

    return shmctl(id, IPC_STAT, &info) == 0 ? (long)info.shm_nattch : -1;
}

static void shared_memory(void)
{
    int id = shmget(IPC_PRIVATE, 3 * PAGE + 1, IPC_CREAT | 0600);
    char *first = shmat(id, NULL, 0);
    char *second = shmat(id, NULL, SHM_RDONLY);
    pid_t child;

    check(first != (void *)-1 && second != (void *)-1 && first != second, "attach twice");
    record("attachments", attachments(id));
    strcpy(first + PAGE, "shared");
    check(strcmp(second + PAGE, "shared") == 0, "both see what one wrote");
    child = fork();
    if (child == 0) {
        strcpy(first + 2 * PAGE, "child");
        _exit(attachments(id) == 4 ? 0 : 1);
    }
    check(wait_for_child(child) == 0, "a child is attached too");
    check(strcmp(second + 2 * PAGE, "child") == 0, "the child's writing arrives");
    record("attachments after its end", attachments(id));
    record("remove", shmctl(id, IPC_RMID, NULL));
    check(strcmp(first + PAGE, "shared") == 0, "removed, but attached: it lives");
    record("detach", shmdt(second));
    record("detach twice", shmdt(second));
    record("attachments of the removed", attachments(id));
    record("detach the last", shmdt(first));
    record("attachments of the ended", attachments(id));
    record_good("attach the ended", (long)shmat(id, NULL, 0));
}

static void shared_memory_errors(void)
{
    key_t key = 0x56454c31;
    int id = shmget(key, PAGE, IPC_CREAT | IPC_EXCL | 0600);
    struct shmid_ds info;
    char *at;

    record_good("create by key", id);
    record("create it again", shmget(key, PAGE, IPC_CREAT | IPC_EXCL | 0600));
    check(shmget(key, 1, 0) == id, "found by key");
    record("found but too small", shmget(key, 2 * PAGE, 0));
    record("no such key", shmget(0x56454c32, PAGE, 0));
    record("no size", shmget(IPC_PRIVATE, 0, IPC_CREAT | 0600));
    record("more than memory is", shmget(IPC_PRIVATE, (size_t)1 << 62, IPC_CREAT | 0600));
    record("more than a file has", shmget(IPC_PRIVATE, (size_t)1 << 63, IPC_CREAT | 0600));
    record("wraps round", shmget(IPC_PRIVATE, SIZE_MAX - 4, IPC_CREAT | 0600));
    record_good("unaligned", (long)shmat(id, (void *)0x200000001, 0));
    at = shmat(id, (void *)0x200000001, SHM_RND);
    check(at == (char *)0x200000000, "rounded down");
    record_good("taken", (long)shmat(id, at, 0));
    record_good("remapped", (long)shmat(id, at, SHM_REMAP));
    record_good("remapped nowhere", (long)shmat(id, NULL, SHM_REMAP));
    record("half of it unmapped", munmap(at, PAGE));
    record("attachments", attachments(id));
    record("bad command", shmctl(id, 99, &info));
    record("bad pointer", shmctl(id, IPC_STAT, (void *)8));
    info.shm_perm.mode = 0400;
    info.shm_perm.uid = info.shm_perm.gid = 0;
    record("set", shmctl(id, IPC_SET, &info));
    record("stat", shmctl(id, IPC_STAT, &info));
    record("mode", info.shm_perm.mode & 0777);
    record("size", (long)info.shm_segsz);
    record("remove", shmctl(id, IPC_RMID, NULL));
    record("remove twice", shmctl(id, IPC_RMID, NULL));
    record("key after", shmget(key, PAGE, 0));
}

static void split_attachment(void)
{
    int id = shmget(IPC_PRIVATE, 4 * PAGE, IPC_CREAT | 0600);
    char *at = shmat(id, NULL, 0);

    record("protect the middle", mprotect(at + PAGE, PAGE, PROT_READ));
    record("attachments", attachments(id));
    record("detach", shmdt(at));
    record("attachments", attachments(id));
    record("remove", shmctl(id, IPC_RMID, NULL));
}

/* ------------------------------------------------------------------------------ semaphores */

static int sem_change(int id, int number, int change, int flags)
{
    struct sembuf operation = {(unsigned short)number, (short)change, (short)flags};

    return semop(id, &operation, 1);
}

static int sem_value(int id, int number)
{
    return semctl(id, number, GETVAL);
}

static void semaphores(void)
{
    int id = semget(IPC_PRIVATE, 3, IPC_CREAT | 0600);
    struct sembuf both[2] = {{0, -1, 0}, {1, -1, IPC_NOWAIT}};
    unsigned short values[3] = {1, 0, 7};
    unsigned short read_back[3] = {0, 0, 0};
    struct timespec soon = {0, 20000000};
    union semun argument = {.array = values};

    record_good("create", id);
    record("set all", semctl(id, 0, SETALL, argument));
    argument.array = read_back;
    record("get all", semctl(id, 0, GETALL, argument));
    check(memcmp(values, read_back, sizeof(values)) == 0, "what was set is read");
    record("both or none", semop(id, both, 2));
    record("none", sem_value(id, 0));
    record("wait for zero, not zero", sem_change(id, 2, 0, IPC_NOWAIT));
    record("zero", sem_change(id, 1, 0, 0));
    record("time runs out", semtimedop(id, &(struct sembuf){1, -1, 0}, 1, &soon));
    record("no such number", sem_change(id, 3, 1, 0));
    record("too high", sem_change(id, 2, 32767, 0));
    record("no operations", semop(id, both, 0));
    record("too many", semop(id, both, 501));
    argument.val = 40000;
    record("set too high", semctl(id, 0, SETVAL, argument));
    record("pid is ours", semctl(id, 1, GETPID) == getpid());
    record("nobody waits", semctl(id, 1, GETNCNT));
    record("remove", semctl(id, 0, IPC_RMID));
    record("use after", sem_change(id, 0, 1, 0));
    record("too large a set", semget(IPC_PRIVATE, 40000, IPC_CREAT | 0600));
    record("no size", semget(IPC_PRIVATE, 0, IPC_CREAT | 0600));
}

/* Two processes hand a token to and fro. */
static void ping_pong(void)
{
    int id = semget(IPC_PRIVATE, 2, IPC_CREAT | 0600);
    pid_t child = fork();
    int i;

    if (child == 0) {
        for (i = 0; i < 500; i++) {
            if (sem_change(id, 0, -1, 0) != 0 || sem_change(id, 1, 1, 0) != 0) {
                _exit(1);
            }
        }
        _exit(0);
    }
    for (i = 0; i < 500; i++) {
        if (sem_change(id, 0, 1, 0) != 0 || sem_change(id, 1, -1, 0) != 0) {
            break;
        }
    }
    record("rounds", i);
    check(wait_for_child(child) == 0, "the child did as many");
    semctl(id, 0, IPC_RMID);
}

static void undoing(void)
{
    int id = semget(IPC_PRIVATE, 1, IPC_CREAT | 0600);
    union semun argument = {.val = 5};
    pid_t child;

    semctl(id, 0, SETVAL, argument);
    child = fork();
    if (child == 0) {
        _exit(sem_change(id, 0, -3, SEM_UNDO) == 0 && sem_change(id, 0, 1, SEM_UNDO) == 0 &&
                      sem_value(id, 0) == 3
                  ? 0
                  : 1);
    }
    check(wait_for_child(child) == 0, "a child takes");
    record("its end gives back", sem_value(id, 0));
    child = fork();
    if (child == 0) {
        sem_change(id, 0, -5, SEM_UNDO);
        argument.val = 2;
        semctl(id, 0, SETVAL, argument);
        _exit(0);
    }
    wait_for_child(child);
    record("a set value is not undone", sem_value(id, 0));
    child = fork();
    if (child == 0) {
        _exit(sem_change(id, 0, -9, 0) == -1 && errno == EIDRM ? 0 : 1);
    }
    while (semctl(id, 0, GETNCNT) != 1) {
        usleep(1000);
    }
    record("remove under a sleeper", semctl(id, 0, IPC_RMID));
    check(wait_for_child(child) == 0, "the sleeper is told");
}

/* --------------------------------------------------------------------------------- messages */

struct text {
    long type;
    char text[64];
};

static int message_send(int id, long type, const char *text)
{
    struct text message = {.type = type};

    strcpy(message.text, text);
    return msgsnd(id, &message, strlen(text), IPC_NOWAIT);
}

static void message_get(int id, long type, int flags)
{
    struct text message;
    ssize_t len;

    memset(&message, 0, sizeof(message));
    len = msgrcv(id, &message, sizeof(message.text), type, flags | IPC_NOWAIT);
    if (len < 0) {
        printf("type %ld: errno %d\n", type, errno);
    } else {
        printf("type %ld: %zd bytes of type %ld: %s\n", type, len, message.type, message.text);
    }
}

static void messages(void)
{
    int id = msgget(IPC_PRIVATE, IPC_CREAT | 0600);
    struct text message = {.type = 1};
    struct msqid_ds info;

    record_good("create", id);
    message_send(id, 3, "three");
    message_send(id, 1, "one");
    message_send(id, 2, "two");
    message_send(id, 3, "three again");
    message_get(id, 2, 0);
    message_get(id, -3, 0);
    message_get(id, 3, MSG_EXCEPT);
    record("too long", msgrcv(id, &message, 2, 0, IPC_NOWAIT));
    record("cut", msgrcv(id, &message, 2, 0, IPC_NOWAIT | MSG_NOERROR));
    message_get(id, 0, 0);
    message_get(id, 0, 0);
    record("type 0", message_send(id, 0, "x"));
    record("too many bytes", msgsnd(id, &message, 9000, IPC_NOWAIT));
    record("bad pointer", msgsnd(id, (void *)8, 10, IPC_NOWAIT));
    while (message_send(id, 9, "0123456789abcdef0123456789abcdef") == 0) {
    }
    record("full", -1);
    msgctl(id, IPC_STAT, &info);
    record("bytes", (long)info.msg_cbytes);
    record("messages", (long)info.msg_qnum);
    record("remove", msgctl(id, IPC_RMID, NULL));
    record("use after", message_send(id, 1, "x"));
}

static void message_sleepers(void)
{
    int id = msgget(IPC_PRIVATE, IPC_CREAT | 0600);
    struct text message;
    pid_t child = fork();

    if (child == 0) {
        long sum = 0;

        for (int i = 0; i < 300; i++) {
            if (msgrcv(id, &message, sizeof(message.text), 0, 0) != 5) {
                _exit(1);
            }
            sum += message.type;
        }
        if (sum != 300 * 301 / 2) {
            _exit(2);
        }
        _exit(msgrcv(id, &message, sizeof(message.text), 0, 0) == -1 && errno == EIDRM ? 0 : 3);
    }
    for (long i = 1; i <= 300; i++) {
        memset(&message, 0, sizeof(message));
        message.type = i;
        if (msgsnd(id, &message, 5, 0) != 0) {
            record("send", -1);
        }
    }
    usleep(50000);
    record("remove under a sleeper", msgctl(id, IPC_RMID, NULL));
    record_status("receiver", wait_for_child(child));
}

int main(void)
{
    shared_memory();
    shared_memory_errors();
    split_attachment();
    semaphores();
    ping_pong();
    undoing();
    messages();
    message_sleepers();
    return check_failures != 0;
}
