/*
 * descriptors.c - four threads open, close, replace, poll, read and write the same descriptors.
 *
 * guest: smp=2 seconds=40
 *
 * Goal: a call that is under way keeps its file while another thread closes the descriptor. Method:
 * random calls on 64 pipes that come and go; afterwards the descriptors must be usable and the
 * first free one must be where it was.
 */
#include "check.h"
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>

#define THREADS 4
#define ROUNDS  6000
#define PIPES   64
#define READERS 100
#define WRITERS 200

static void *churn(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg * 7919u;
    char bytes[10] = "";
    for (unsigned i = 0; i < ROUNDS; i++) {
        seed = seed * 1103515245u + 12345u;
        int at = (int)(seed >> 16 & 63u);
        int ends[2];
        struct pollfd two[2] = {{READERS + at, POLLIN, 0}, {WRITERS + at, POLLOUT, 0}};
        switch (seed >> 8 & 7u) {
        case 0:
        case 1:
            if (pipe2(ends, O_NONBLOCK) == 0) {
                dup2(ends[0], READERS + at);
                dup2(ends[1], WRITERS + at);
                close(ends[0]);
                close(ends[1]);
            }
            break;
        case 2:
            close(READERS + at);
            break;
        case 3:
            close(WRITERS + at);
            break;
        case 4:
            poll(two, 2, i % 64 == 0 ? 1 : 0);
            break;
        case 5:
        case 6:
            (void)!write(WRITERS + at, bytes, sizeof(bytes));
            break;
        default:
            (void)!read(READERS + at, bytes, sizeof(bytes));
            break;
        }
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    signal(SIGPIPE, SIG_IGN);
    int first = dup(0);
    close(first);
    for (uintptr_t i = 0; i < THREADS; i++) {
        pthread_create(&threads[i], NULL, churn, (void *)(i + 1));
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    for (int i = READERS; i < WRITERS + PIPES; i++) {
        close(i);
    }
    int last = dup(0);
    check(first == last, "the first free descriptor is where it was");
    int ends[2];
    char byte = 0;
    check(pipe(ends) == 0 && write(ends[1], "x", 1) == 1 && read(ends[0], &byte, 1) == 1 &&
              byte == 'x',
          "a pipe works");
    return check_done();
}
