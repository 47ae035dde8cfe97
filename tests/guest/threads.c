/*
 * threads.c - POSIX threads by musl (threads.h says what is tested).
 * guest: smp=2 seconds=90
 * guest: smp=8 seconds=90
 */
#include "threads.h"

int main(void)
{
    return test_threads();
}
