/*
 * nocall.c - makes system calls by number, without arguments, and says nothing; for looking at what
 * a kernel does with those that it does not have.
 */
#include <stdlib.h>
#include <unistd.h>

int main(int count, char **words)
{
    for (int i = 1; i < count; i++) {
        syscall(atol(words[i]), 0, 0, 0, 0, 0, 0);
    }
    return 0;
}
