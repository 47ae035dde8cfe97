#!/bin/bash
# Goal: the library builds and works beside another libc than glibc: musl, which registers no
# restartable sequences, knows no indirect functions and declares less.
# Method: a static program with threads, of blocks that are written and looked at again. Speaks TAP.
set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$(dirname "$0")/../.." || exit 1

cat >"$folder/a.c" <<'TEXT'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vellum/malloc.h>

static int bad;

static void *churn(void *arg)
{
    static _Thread_local unsigned char *at[500];
    unsigned long random = (unsigned long)arg;
    unsigned long errors = 0;

    for (int i = 0; i < 300000; i++) {
        unsigned n = (random = random * 6364136223846793005u + 1442695040888963407u) >> 33;
        unsigned char **one = &at[n % 500];

        if (*one != NULL) {
            errors += **one != (unsigned char)(n % 500) ? 1 : 0;
            free(*one);
            *one = NULL;
        } else if ((*one = malloc(1 + n % (n % 64 == 0 ? 200000 : 2000))) != NULL) {
            **one = (unsigned char)(n % 500);
        }
    }
    return (void *)errors;
}

int main(void)
{
    pthread_t threads[4];

    free(NULL);
    free(&bad);
    for (unsigned long i = 0; i < 4; i++) {
        bad += pthread_create(&threads[i], NULL, churn, (void *)(i + 1)) != 0;
    }
    for (int i = 0; i < 4; i++) {
        void *errors = NULL;

        bad += pthread_join(threads[i], &errors) != 0 || errors != NULL;
    }
    printf("%d errors, per CPU %d\n", bad, vl_malloc_is_percpu());
    return bad != 0;
}
TEXT

echo 1..2
make -s malloc CC=musl-gcc >"$folder/log" 2>&1
library=$(make -s malloc-config CC=musl-gcc)/libvellum-malloc.a
if [ -e "$library" ] && musl-gcc -O2 -Iinclude -static "$folder/a.c" "$library" -o "$folder/a" >>"$folder/log" 2>&1; then
    echo "ok 1 - builds"
else
    sed 's/^/# /' "$folder/log"
    echo "not ok 1 - builds"
fi
said=$(timeout 60 "$folder/a")
if [ "$said" = "0 errors, per CPU 0" ]; then
    echo "ok 2 - works"
else
    echo "# $said"
    echo "not ok 2 - works"
fi
