/*
 * glibc_threads.c - POSIX threads by glibc (threads.h says what is tested).
 * guest: smp=2 seconds=90
 */
#include "threads.h"

int main(void)
{
    return test_threads();
}
