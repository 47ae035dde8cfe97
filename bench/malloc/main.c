/*
 * main.c - the malloc benchmark: one test a process.
 *
 * usage: malloc TEST [SECONDS]
 */
#include <string.h>
#include "bench/malloc/bench.h"

static const struct {
    const char *name;
    void (*run)(double budget);
} tests[] = {
    {"order", test_order},
    {"pair", test_pair},
    {"order2", test_order2},
    {"stream", test_stream},
    {"larson", test_larson},
    {"churn1", test_churn1},
    {"churn2", test_churn2},
    {"resident", test_resident},
    {"whole", test_whole},
    {"overhead24", test_overhead24},
    {"overhead520", test_overhead520},
    {"overhead1040", test_overhead1040},
    {"free90", test_free90},
    {"trim90", test_trim90},
    {"raw", test_raw},
    {"floor", test_floor},
};

int main(int count, char **words)
{
    static char buffer[1 << 16]; /* stdio's own would come from malloc */

    setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
    pin(0);
    for (size_t i = 0; count > 1 && i < sizeof(tests) / sizeof(tests[0]); i++) {
        if (strcmp(words[1], tests[i].name) == 0) {
            tests[i].run(count > 2 ? atof(words[2]) : 0.2);
            fflush(stdout);
            return 0;
        }
    }
    fputs("usage: malloc TEST [SECONDS]\n", stderr);
    return 2;
}
