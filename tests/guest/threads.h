/*
 * threads.h - the test of POSIX threads, for threads.c (musl) and glibc_threads.c.
 *
 * Goal: what both libcs need of clone, futex, thread-local storage and exit works. Method: create,
 * join, mutex, condition, barrier, keys, cancellation, signals to one thread, exit of all.
 */
#ifndef GUEST_THREADS_H
#define GUEST_THREADS_H

#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#define THREADS 8

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static _Thread_local int own = 7;
static long counter;
static int turn;
static pthread_key_t key;
static int destroyed;

static void *add(void *argument)
{
    own = (int)(intptr_t)argument;
    for (int i = 0; i < 5000; i++) {
        pthread_mutex_lock(&mutex);
        counter++;
        pthread_mutex_unlock(&mutex);
    }
    return (void *)(intptr_t)(own * 2);
}

static void create_and_join(void)
{
    pthread_t threads[THREADS];
    long sum = 0;
    for (int i = 0; i < THREADS; i++) {
        check(pthread_create(&threads[i], NULL, add, (void *)(intptr_t)i) == 0, "create");
    }
    for (int i = 0; i < THREADS; i++) {
        void *result = NULL;
        pthread_join(threads[i], &result);
        sum += (long)(intptr_t)result;
    }
    check(counter == THREADS * 5000, "a mutex");
    check(sum == THREADS * (THREADS - 1), "results of join");
    check(own == 7, "thread-local storage");
}

static void *take_turns(void *argument)
{
    int mine = (int)(intptr_t)argument;
    for (int i = 0; i < 200; i++) {
        pthread_mutex_lock(&mutex);
        while (turn % 2 != mine) {
            pthread_cond_wait(&condition, &mutex);
        }
        turn++;
        pthread_cond_broadcast(&condition);
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

static void conditions(void)
{
    pthread_t one, two;
    pthread_create(&one, NULL, take_turns, (void *)0);
    pthread_create(&two, NULL, take_turns, (void *)1);
    pthread_join(one, NULL);
    pthread_join(two, NULL);
    check(turn == 400, "turns by a condition");
    struct timespec soon;
    clock_gettime(CLOCK_REALTIME, &soon);
    soon.tv_nsec += 30000000;
    if (soon.tv_nsec >= 1000000000) {
        soon.tv_sec++;
        soon.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&mutex);
    check(pthread_cond_timedwait(&condition, &mutex, &soon) == ETIMEDOUT, "a wait times out");
    pthread_mutex_unlock(&mutex);
}

static void count_destroyed(void *value)
{
    (void)value;
    __atomic_fetch_add(&destroyed, 1, __ATOMIC_SEQ_CST);
}

static pthread_barrier_t barrier;

static void *meet(void *argument)
{
    pthread_setspecific(key, argument);
    for (int i = 0; i < 50; i++) {
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

static void barriers_and_keys(void)
{
    pthread_t threads[4];
    pthread_barrier_init(&barrier, NULL, 4);
    pthread_key_create(&key, count_destroyed);
    for (intptr_t i = 0; i < 4; i++) {
        pthread_create(&threads[i], NULL, meet, (void *)(i + 1));
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    check(destroyed == 4, "a barrier, and destructors of keys");
}

static void *wait_long(void *argument)
{
    (void)argument;
    for (;;) {
        sleep(100);
    }
    return NULL;
}

static pthread_t signalled;
static volatile sig_atomic_t signalled_right;
static volatile sig_atomic_t signal_wait_over;

static void on_signal(int number)
{
    (void)number;
    signalled_right = pthread_equal(pthread_self(), signalled) != 0;
    signal_wait_over = 1;
}

static void *wait_signal(void *argument)
{
    (void)argument;
    while (!signal_wait_over) {
        usleep(1000);
    }
    return NULL;
}

static void cancel_and_signal(void)
{
    pthread_t thread;
    void *result = NULL;
    pthread_create(&thread, NULL, wait_long, NULL);
    check(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0 &&
              result == PTHREAD_CANCELED,
          "cancel");
    signal(SIGUSR1, on_signal);
    pthread_create(&signalled, NULL, wait_signal, NULL);
    pthread_kill(signalled, SIGUSR1);
    pthread_join(signalled, NULL);
    check(signalled_right == 1, "a signal to one thread");
}

static void *detached(void *semaphore)
{
    sem_post(semaphore);
    return NULL;
}

/* Many that end by themselves: their stacks must come back. */
static void many_detached(void)
{
    sem_t ended;
    pthread_attr_t attributes;
    sem_init(&ended, 0, 0);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    int made = 0;
    for (int i = 0; i < 200; i++) {
        pthread_t thread;
        made += pthread_create(&thread, &attributes, detached, &ended) == 0;
        if (made > i - 8) {
            while (sem_wait(&ended) != 0) {
            }
        }
    }
    check(made == 200, "200 detached threads");
}

/* A mutex in shared memory between two processes: futexes that are not private. */
static void shared_between_processes(void)
{
    struct {
        pthread_mutex_t mutex;
        sem_t semaphore;
        long count;
    } *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&shared->mutex, &attributes);
    sem_init(&shared->semaphore, 1, 0);
    pid_t child = fork();
    for (int i = 0; i < 3000; i++) {
        pthread_mutex_lock(&shared->mutex);
        shared->count++;
        pthread_mutex_unlock(&shared->mutex);
    }
    if (child == 0) {
        sem_post(&shared->semaphore);
        _exit(0);
    }
    while (sem_wait(&shared->semaphore) != 0) {
    }
    waitpid(child, NULL, 0);
    check(shared->count == 6000, "a mutex between processes");
}

static void exit_of_all(void)
{
    pthread_t thread;
    for (int i = 0; i < 4; i++) {
        pthread_create(&thread, NULL, wait_long, NULL);
    }
    exit(5);
}

static void *exec_now(void *argument)
{
    char *arguments[] = {"sh", "-c", "exit 9", NULL};
    (void)argument;
    execv("/bin/sh", arguments);
    return NULL;
}

/* Execution by a thread that is not the first ends the others and keeps the process's number. */
static void exec_by_thread(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, wait_long, NULL);
    pthread_create(&thread, NULL, exec_now, NULL);
    wait_long(NULL);
}

static void *die(void *argument)
{
    (void)argument;
    *(volatile int *)argument = 1;
    return NULL;
}

static void death_by_thread(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, wait_long, NULL);
    pthread_create(&thread, NULL, die, (void *)8);
    wait_long(NULL);
}

static void *leader_gone(void *argument)
{
    (void)argument;
    usleep(50000);
    exit(11);
}

/* The first thread ends alone; the process lives until the last does. */
static void first_ends(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, leader_gone, NULL);
    pthread_exit(NULL);
}

static int test_threads(void)
{
    create_and_join();
    conditions();
    barriers_and_keys();
    cancel_and_signal();
    many_detached();
    shared_between_processes();
    in_child("exit ends all threads", exit_of_all);
    in_child("exec by a thread", exec_by_thread);
    in_child("a fault of a thread ends all", death_by_thread);
    in_child("the first thread ends first", first_ends);
    check(syscall(SYS_gettid) == getpid(), "the first thread's number");
    record("tgkill of another's thread", syscall(SYS_tgkill, getpid(), 1, 0));
    return check_done();
}

#endif
