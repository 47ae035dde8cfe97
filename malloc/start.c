/*
 * start.c - options, and the start of the heap.
 *
 * The first call may come from the dynamic loader, long before any constructor: the heap starts at
 * the first call that finds nothing on its fast path, by whatever thread, once. It uses nothing of
 * libc but system calls and what needs no start of its own. The rest (handlers around fork, the key
 * that tells of a thread's end, statistics at exit) waits until libc is up, which shows in
 * `environ`.
 *
 * VELLUM_MALLOC is a list of words, separated by commas: docs/malloc.md. A list that is not
 * understood is said so, in one line, and has no effect at all: half of a list would be worse than
 * none. A program that runs with more rights than its user gets the defaults.
 */
#include "malloc/fast.h"
#include "core/base/memory.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

extern char **environ;

#define OPTIONS_DEFAULT                                                                            \
    {                                                                                              \
        .percpu = true, .map = true, .purge_ms = 1000, .reserve = (uint64_t)1 << 40                \
    }

struct vli_options vli_options = OPTIONS_DEFAULT;

/* ------------------------------------------------------------------------------------- options */

static size_t length_of(const char *text)
{
    size_t length = 0;

    while (text[length] != '\0') {
        length++;
    }
    return length;
}

/* A word of the list: name[=value], not ended by 0. */
struct word {
    const char *name;
    size_t name_length;
    const char *value; /* NULL: none */
    size_t value_length;
};

static bool is_name(const struct word *word, const char *name)
{
    return length_of(name) == word->name_length && memcmp(name, word->name, word->name_length) == 0;
}

static bool is_value(const struct word *word, const char *value)
{
    return word->value != NULL && length_of(value) == word->value_length &&
           memcmp(value, word->value, word->value_length) == 0;
}

/* A decimal number, with K, M, G or T behind it where @units. */
static bool read_number(const struct word *word, bool units, uint64_t *out)
{
    static const char letters[] = "KMGT";
    uint64_t value = 0;
    size_t i = 0;

    if (word->value == NULL) {
        return false;
    }
    for (; i < word->value_length && word->value[i] >= '0' && word->value[i] <= '9'; i++) {
        if (value > UINT64_MAX / 10 - 9) {
            return false;
        }
        value = value * 10 + (uint64_t)(word->value[i] - '0');
    }
    if (i == 0) {
        return false;
    }
    for (unsigned k = 0; units && i + 1 == word->value_length && letters[k] != '\0'; k++) {
        if (word->value[i] == letters[k]) {
            unsigned shift = 10u * (k + 1);

            *out = value << shift;
            return value <= UINT64_MAX >> shift;
        }
    }
    *out = value;
    return i == word->value_length;
}

/* name, name=0 or name=1. */
static bool read_switch(const struct word *word, bool *out)
{
    *out = word->value == NULL || is_value(word, "1");
    return *out || is_value(word, "0");
}

static bool read_purge(const struct word *word, int64_t *out)
{
    uint64_t ms;

    if (is_value(word, "never")) {
        *out = -1;
        return true;
    }
    if (!read_number(word, false, &ms) || ms > INT32_MAX) {
        return false;
    }
    *out = (int64_t)ms;
    return true;
}

static bool read_huge(const struct word *word, enum vli_huge *out)
{
    *out = is_value(word, "never") ? VLI_HUGE_NEVER : VLI_HUGE_ALWAYS;
    if (is_value(word, "default")) {
        *out = VLI_HUGE_DEFAULT;
    }
    return is_value(word, "never") || is_value(word, "always") || is_value(word, "default");
}

static bool read_word(const struct word *word, struct vli_options *to)
{
    if (is_name(word, "stats")) {
        return read_switch(word, &to->stats);
    }
    if (is_name(word, "secure")) {
        return read_switch(word, &to->secure);
    }
    if (is_name(word, "percpu")) {
        return read_switch(word, &to->percpu);
    }
    if (is_name(word, "map")) {
        return read_switch(word, &to->map);
    }
    if (is_name(word, "align16")) {
        return read_switch(word, &to->align16);
    }
    if (is_name(word, "purge")) {
        return read_purge(word, &to->purge_ms);
    }
    if (is_name(word, "huge")) {
        return read_huge(word, &to->huge);
    }
    if (is_name(word, "limit")) {
        return read_number(word, true, &to->limit);
    }
    if (is_name(word, "reserve")) {
        return read_number(word, true, &to->reserve);
    }
    return false;
}

/* One line; the word may be of any length. */
static void not_understood(const char *word, size_t length)
{
    char text[64];
    size_t shown = length < sizeof(text) ? length : sizeof(text) - 1;

    memcpy(text, word, shown);
    text[shown] = '\0';
    vli_say("vellum malloc: VELLUM_MALLOC: '%s' is not understood; the defaults hold", text);
}

static void read_options(const char *text)
{
    struct vli_options fresh = vli_options;
    const char *at = text;

    while (*at != '\0') {
        struct word word = {.name = at};
        size_t length = 0;

        while (at[length] != '\0' && at[length] != ',') {
            if (at[length] == '=' && word.value == NULL) {
                word.name_length = length;
                word.value = at + length + 1;
            }
            length++;
        }
        if (word.value == NULL) {
            word.name_length = length;
        } else {
            word.value_length = length - word.name_length - 1;
        }
        if (length != 0 && !read_word(&word, &fresh)) {
            not_understood(at, length);
            return;
        }
        at += length + (at[length] == ',' ? 1 : 0);
    }
    vli_options = fresh;
}

/* The value of a variable in a list as environ has it, or NULL. */
static const char *variable(const char *name, char *const *list)
{
    size_t length = length_of(name);

    for (; *list != NULL; list++) {
        if (length_of(*list) > length && memcmp(*list, name, length) == 0 &&
            (*list)[length] == '=') {
            return *list + length + 1;
        }
    }
    return NULL;
}

/* A file, read by the byte, without allocation. */
struct source {
    int file;
    ssize_t had;
    ssize_t at;
    char buffer[1024];
};

/* The next byte, or -1. */
static int next_byte(struct source *source)
{
    if (source->at == source->had) {
        source->had = read(source->file, source->buffer, sizeof(source->buffer));
        source->at = 0;
    }
    return source->at < source->had ? (unsigned char)source->buffer[source->at++] : -1;
}

/* Does the next string begin with @start? The byte that differed is in @out_last. */
static bool begins_with(struct source *source, const char *start, int *out_last)
{
    do {
        *out_last = next_byte(source);
    } while (*start != '\0' && *out_last == *start++ && *start != '\0');
    return *start == '\0' && *out_last == start[-1];
}

/* The same before libc has set environ: from the kernel's copy, which may be of any length. The
 * value is cut where it does not fit, and so not understood. */
static const char *variable_early(const char *name_and_sign, char *value, size_t size)
{
    struct source source = {.file = open("/proc/self/environ", O_RDONLY | O_CLOEXEC)};
    size_t length = 0;
    bool is_found;
    int last = 0;

    if (source.file < 0) {
        return NULL;
    }
    while (!(is_found = begins_with(&source, name_and_sign, &last)) && last >= 0) {
        while (last > 0) { /* to the end of this one */
            last = next_byte(&source);
        }
    }
    while (is_found && length + 1 < size && (last = next_byte(&source)) > 0) {
        value[length++] = (char)last;
    }
    value[length] = '\0';
    (void)close(source.file);
    return is_found ? value : NULL;
}

static bool read_environment(void)
{
    char buffer[1024];
    const char *value;

    if (getauxval(AT_SECURE) != 0) {
        return true;
    }
    value = environ != NULL ? variable("VELLUM_MALLOC", environ)
                            : variable_early("VELLUM_MALLOC=", buffer, sizeof(buffer));
    if (value != NULL) {
        read_options(value);
    }
    return true;
}

/* --------------------------------------------------------------------------------------- start */

/* The kernel's masks of CPUs have room for every number that it can ever give one. What /sys says
 * is not asked: a container may show less there than rseq will. */
size_t vli_cpus_possible(void)
{
    unsigned long mask[VLI_AREAS_MAX / 64u];
    long bytes = syscall(SYS_sched_getaffinity, 0, sizeof(mask), mask);

    return bytes > 0 && (size_t)bytes <= sizeof(mask) ? (size_t)bytes * 8u : VLI_AREAS_MAX;
}

size_t vli_cpus_usable(void)
{
    unsigned long mask[VLI_AREAS_MAX / 64u];
    long bytes = syscall(SYS_sched_getaffinity, 0, sizeof(mask), mask);
    size_t count = 0;

    for (long i = 0; i < bytes / (long)sizeof(mask[0]); i++) {
        count += (size_t)__builtin_popcountl(mask[i]);
    }
    return count != 0 ? count : 1;
}

_Atomic uint32_t vli_start_word;
static _Atomic bool is_ready;
static _Atomic bool is_late_done;
_Atomic size_t vli_coarse_limit;
_Atomic uint64_t vli_fast_pages;

static bool start_frame(void)
{
    struct vli_percpu *area = vli_percpu_of(0);

    area->self = area;
    area->cpu = 0;
    return vli_frame_init() == VL_OK;
}

static bool start_memory(void)
{
    vl_frame_set_stock(false);
    vl_frame_set_reclaim(vli_range_reclaim);
    return vli_range_grow(1) != 0;
}

static bool start_slab(void)
{
    return vli_slab_init() == VL_OK && vli_class_init();
}

static bool start_fast_paths(void)
{
    if (vli_options.stats) {
        vli_say_at_exit();
    }
    vli_fast_start(vli_range_page_map);
    if (!vli_options.secure) {
        /* Release: pairs with the acquires of the fast paths, which see all that was started. */
        atomic_store_explicit(&vli_fast_pages, vli_range_pages, memory_order_release);
        atomic_store_explicit(&vli_coarse_limit, VLI_CLASS_MAX + 1u, memory_order_release);
        atomic_store_explicit(&vli_fast_limit, VLI_TABLE_FINE + 1u, memory_order_release);
    }
    return true;
}

/* Each step is done once. One that needs memory may fail, and is tried again at the next call. */
static bool start(void)
{
    static bool (*const steps[])(void) = {read_environment, vli_range_reserve, vli_area_start,
                                          start_frame,      start_memory,      start_slab,
                                          start_fast_paths};
    static size_t done;

    while (done < VLI_COUNT_OF(steps)) {
        if (!steps[done]()) {
            return false;
        }
        done++;
    }
    return true;
}

/* What needs a libc that is up; may allocate. */
static void late(void)
{
    vli_area_late();
    vli_fork_init();
}

static bool start_once(void)
{
    int saved = errno;
    bool good;

    vl_host_lock(&vli_start_word);
    good = start();
    errno = saved;
    /* Release: pairs with the acquire in vli_malloc_ready(). */
    atomic_store_explicit(&is_ready, good, memory_order_release);
    vl_host_unlock(&vli_start_word);
    return good;
}

bool vli_malloc_ready(void)
{
    /* Acquire: pairs with the release in start_once(). */
    if (VLI_UNLIKELY(!atomic_load_explicit(&is_ready, memory_order_acquire) && !start_once())) {
        return false;
    }
    if (VLI_UNLIKELY(!atomic_load_explicit(&is_late_done, memory_order_relaxed)) &&
        environ != NULL && !atomic_exchange_explicit(&is_late_done, true, memory_order_relaxed)) {
        late();
    }
    return true;
}
