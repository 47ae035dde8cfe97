/*
 * slabinfo.c - /proc/slabinfo is version 2.1 to the letter.
 *
 * Goal: what reads it on Linux reads it here. Method: the two lines at its head are compared, and
 * each line below is taken apart and written again with Linux's widths: the same bytes must come
 * out, and the figures must agree with each other. Read in pieces it is the same text.
 */
#include "check.h"
#include <fcntl.h>
#include <sys/stat.h>

static char text[1 << 20];
static char line_again[512];

static size_t load(size_t piece)
{
    size_t used = 0;
    int fd = open("/proc/slabinfo", O_RDONLY);
    if (fd < 0) {
        return 0;
    }
    for (ssize_t count; (count = read(fd, text + used, piece)) > 0;) {
        used += (size_t)count;
    }
    close(fd);
    text[used] = 0;
    return used;
}

struct row {
    char name[64];
    unsigned long active, objects, active_slabs, slabs, shared;
    unsigned size, each, pages, limit, batch, factor;
};

static bool same_again(const char *line, size_t length, struct row *row)
{
    int fields =
        sscanf(line, "%63s %lu %lu %u %u %u : tunables %u %u %u : slabdata %lu %lu %lu", row->name,
               &row->active, &row->objects, &row->size, &row->each, &row->pages, &row->limit,
               &row->batch, &row->factor, &row->active_slabs, &row->slabs, &row->shared);
    if (fields != 12) {
        return false;
    }
    int again =
        snprintf(line_again, sizeof(line_again),
                 "%-17s %6lu %6lu %6u %4u %4u : tunables %4u %4u %4u"
                 " : slabdata %6lu %6lu %6lu",
                 row->name, row->active, row->objects, row->size, row->each, row->pages, row->limit,
                 row->batch, row->factor, row->active_slabs, row->slabs, row->shared);
    return again == (int)length && memcmp(line, line_again, length) == 0;
}

/* Do the figures of a row go together? */
static bool agree(const struct row *row)
{
    return row->active <= row->objects && row->active_slabs <= row->slabs && row->size % 8 == 0 &&
           row->each >= 1 && (size_t)row->each * row->size <= row->pages * (size_t)4096 &&
           row->objects <= row->slabs * row->each && (row->slabs == 0) == (row->objects == 0) &&
           row->limit == 0 && row->batch == 0 && row->factor == 0 && row->shared == 0 &&
           (row->pages & (row->pages - 1)) == 0;
}

static void rows(char *line)
{
    unsigned count = 0, wrong = 0, disagree = 0;
    for (char *end; (end = strchr(line, '\n')) != NULL; line = end + 1, count++) {
        struct row row;
        if (!same_again(line, (size_t)(end - line), &row)) {
            printf("# not its form: %.*s\n", (int)(end - line), line);
            wrong++;
        } else if (!agree(&row)) {
            printf("# does not add up: %.*s\n", (int)(end - line), line);
            disagree++;
        }
    }
    check(count > 20, "there are rows");
    check(*line == 0, "the last one ends");
    check(wrong == 0, "all have the form of 2.1");
    check(disagree == 0, "and their figures agree");
}

int main(void)
{
    static const char head[] =
        "slabinfo - version: 2.1\n"
        "# name            <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab>"
        " : tunables <limit> <batchcount> <sharedfactor>"
        " : slabdata <active_slabs> <num_slabs> <sharedavail>\n";
    static const char *const names[] = {"8",   "16",  "32", "64", "96", "128", "192",
                                        "256", "512", "1k", "2k", "4k", "8k"};
    struct stat info;
    check(stat("/proc/slabinfo", &info) == 0 && (info.st_mode & 07777) == 0400, "mode 0400");
    check(load(sizeof(text) - 1) > sizeof(head), "/proc/slabinfo");
    check(strncmp(text, head, sizeof(head) - 1) == 0, "its head");
    rows(text + sizeof(head) - 1);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char name[32];
        snprintf(name, sizeof(name), "\nkmalloc-%s ", names[i]);
        check(strstr(text, name) != NULL, name + 1);
    }
    check(load(100) > sizeof(head) && strncmp(text, head, sizeof(head) - 1) == 0, "in pieces");
    rows(text + sizeof(head) - 1);
    return check_done();
}
