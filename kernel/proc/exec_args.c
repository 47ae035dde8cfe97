/*
 * exec_args.c - a new program's strings, and the stack that it finds.
 *
 * From the top of the stack downwards, as on Linux:
 *
 *     8 zero bytes
 *     the path (AT_EXECFN), the environment's strings, the arguments' strings
 *     "x86_64" (AT_PLATFORM), 16 random bytes (AT_RANDOM)
 *     auxiliary vector, pointers to environment, pointers to arguments, argc   <- sp, 16-aligned
 *
 * Strings are collected into a chain of kernel pages first, since the old space's memory cannot be
 * read while the new one is written; then everything is written through the frames of the new
 * space.
 */
#include "kernel/proc/exec.h"

#define ARG_STRING_MAX (32u * VL_PAGE_SIZE) /* one string */
#define ARG_BYTES_MAX  ((size_t)6 << 20)    /* three quarters of 8 MiB, whatever the limit */
#define ARG_BYTES_MIN  (32u * VL_PAGE_SIZE)
#define TAIL_BYTES     64u /* platform, random bytes, alignment */

enum auxv_type {
    AT_NULL = 0,
    AT_PHDR = 3,
    AT_PHENT = 4,
    AT_PHNUM = 5,
    AT_PAGESZ = 6,
    AT_BASE = 7,
    AT_FLAGS = 8,
    AT_ENTRY = 9,
    AT_UID = 11,
    AT_EUID = 12,
    AT_GID = 13,
    AT_EGID = 14,
    AT_PLATFORM = 15,
    AT_HWCAP = 16,
    AT_CLKTCK = 17,
    AT_SECURE = 23,
    AT_RANDOM = 25,
    AT_HWCAP2 = 26,
    AT_EXECFN = 31,
    AT_MINSIGSTKSZ = 51
};

/* ---------------------------------------------------------------------------- collecting */

static size_t arg_bytes_max(void)
{
    uint64_t stack = rlimit_soft(RLIMIT_STACK) / 4;
    size_t most = stack > ARG_BYTES_MAX ? ARG_BYTES_MAX : (size_t)stack;

    return most < ARG_BYTES_MIN ? ARG_BYTES_MIN : most;
}

/* Room in the last page, of which there is at least one byte. NULL: no memory. */
static char *strings_room(struct exec_strings *strings, size_t *out_room)
{
    struct exec_page *page = strings->last;

    if (page == NULL || page->used == sizeof(page->bytes)) {
        page = vl_kmalloc(sizeof(*page), VL_WAIT);
        if (page == NULL) {
            return NULL;
        }
        page->next = NULL;
        page->used = 0;
        if (strings->last == NULL) {
            strings->first = page;
        } else {
            strings->last->next = page;
        }
        strings->last = page;
    }
    *out_room = sizeof(page->bytes) - page->used;
    return page->bytes + page->used;
}

/* One string from user memory; it may run over pages. Returns: its length with the 0. */
static long string_user(struct exec_strings *strings, uint64_t user)
{
    size_t total = 0;

    for (;;) {
        size_t room;
        char *at = strings_room(strings, &room);
        long len;

        if (at == NULL) {
            return -ENOMEM;
        }
        if (room > ARG_STRING_MAX - total) {
            room = ARG_STRING_MAX - total;
        }
        if (room == 0) {
            return -E2BIG;
        }
        len = strncpy_from_user(at, user + total, room);
        if (len < 0) {
            return len;
        }
        if ((size_t)len < room) {
            strings->last->used += (uint32_t)len + 1;
            return (long)(total + (size_t)len + 1);
        }
        strings->last->used += (uint32_t)room;
        total += room;
    }
}

static long string_kernel(struct exec_strings *strings, const char *string)
{
    size_t len = strlen(string) + 1;
    size_t done = 0;

    while (done < len) {
        size_t room;
        char *at = strings_room(strings, &room);
        size_t part = len - done < room ? len - done : room;

        if (at == NULL) {
            return -ENOMEM;
        }
        memcpy(at, string + done, part);
        strings->last->used += (uint32_t)part;
        done += part;
    }
    return (long)len;
}

/* All strings of one array. @most: bytes that strings and pointers may take in all. */
static long array_user(struct exec_strings *strings, uint64_t array, size_t most,
                       uint32_t *out_count)
{
    uint64_t user;
    long len;

    *out_count = 0;
    if (array == 0) {
        return 0;
    }
    for (;;) {
        if (get_user64(&user, array + (uint64_t)*out_count * 8) != VL_OK) {
            return -EFAULT;
        }
        if (user == 0) {
            return 0;
        }
        len = string_user(strings, user);
        if (len < 0) {
            return len;
        }
        strings->bytes += (size_t)len;
        ++*out_count;
        if (strings->bytes + ((size_t)strings->args + *out_count) * 8 > most) {
            return -E2BIG;
        }
    }
}

/* Linux: a program always has an argv[0]. */
static long args_at_least_one(struct exec_strings *strings)
{
    long len;

    if (strings->args != 0) {
        return 0;
    }
    len = string_kernel(strings, "");
    if (len < 0) {
        return len;
    }
    strings->bytes += (size_t)len;
    strings->args = 1;
    return 0;
}

long exec_strings_user(struct exec_strings *strings, uint64_t argv, uint64_t envp)
{
    size_t most = arg_bytes_max();
    uint32_t args = 0;
    long result = array_user(strings, argv, most, &args);

    strings->args = args;
    if (result == 0) {
        result = args_at_least_one(strings);
    }
    strings->arg_bytes = strings->bytes;
    return result != 0 ? result : array_user(strings, envp, most, &strings->envs);
}

static long array_kernel(struct exec_strings *strings, const char *const *array,
                         uint32_t *out_count)
{
    uint32_t count = 0;
    long len;

    for (; array[count] != NULL; count++) {
        len = string_kernel(strings, array[count]);
        if (len < 0) {
            return len;
        }
        strings->bytes += (size_t)len;
    }
    *out_count = count;
    return 0;
}

long exec_strings_kernel(struct exec_strings *strings, const char *const *argv,
                         const char *const *envp)
{
    long result = array_kernel(strings, argv, &strings->args);

    if (result == 0) {
        result = args_at_least_one(strings);
    }
    strings->arg_bytes = strings->bytes;
    return result != 0 ? result : array_kernel(strings, envp, &strings->envs);
}

void exec_strings_free(struct exec_strings *strings)
{
    while (strings->first != NULL) {
        struct exec_page *page = strings->first;

        strings->first = page->next;
        vl_kfree(page);
    }
    vl_kfree(strings->prefix);
}

/* ------------------------------------------------------------------------------- scripts */

static long prefix_push(struct exec_strings *strings, const char *string)
{
    size_t len = strlen(string) + 1;

    if (len > strings->prefix_start) {
        return -E2BIG;
    }
    strings->prefix_start -= len;
    memcpy(strings->prefix + strings->prefix_start, string, len);
    strings->prefix_count++;
    return 0;
}

/* argv[0] goes, the first time: it may run over pages. */
static void argv0_skip(struct exec_strings *strings)
{
    const struct exec_page *page = strings->first;
    uint32_t skip = 0;
    uint32_t at = 0;

    while (page->bytes[at] != 0) {
        skip++;
        at++;
        if (at == page->used) {
            page = page->next;
            at = 0;
        }
    }
    skip++;
    strings->skip = skip;
    strings->bytes -= skip;
    strings->arg_bytes -= skip;
    strings->args--;
}

/* An interpreter that is a script itself: its name, first in the prefix, is replaced likewise. */
static void prefix_pop(struct exec_strings *strings)
{
    strings->prefix_start += strlen(strings->prefix + strings->prefix_start) + 1;
    strings->prefix_count--;
}

long exec_strings_script(struct exec_strings *strings, const char *interpreter,
                         const char *argument, const char *script)
{
    long result;

    if (strings->prefix == NULL) {
        strings->prefix = vl_kmalloc(EXEC_PREFIX_BYTES, VL_WAIT);
        if (strings->prefix == NULL) {
            return -ENOMEM;
        }
        strings->prefix_start = EXEC_PREFIX_BYTES;
        argv0_skip(strings);
    } else {
        prefix_pop(strings);
    }
    result = prefix_push(strings, script);
    if (result == 0 && argument != NULL) {
        result = prefix_push(strings, argument);
    }
    return result != 0 ? result : prefix_push(strings, interpreter);
}

/* --------------------------------------------------------------------------------- stack */

/* Writes 64-bit words upwards, through a small buffer. */
struct word_writer {
    struct vl_space *space;
    vl_va at; /* where the buffer goes */
    uint32_t count;
    long result;
    uint64_t word[64];
};

static void words_flush(struct word_writer *writer)
{
    if (writer->result == 0) {
        writer->result = space_write(writer->space, writer->at, writer->word, writer->count * 8u);
    }
    writer->at += writer->count * 8u;
    writer->count = 0;
}

static void word_put(struct word_writer *writer, uint64_t word)
{
    if (writer->count == VLI_COUNT_OF(writer->word)) {
        words_flush(writer);
    }
    writer->word[writer->count++] = word;
}

static void auxv_put(struct word_writer *writer, enum auxv_type type, uint64_t value)
{
    word_put(writer, type);
    word_put(writer, value);
}

/* Writes the strings at @at upwards; argv's, envp's. */
static long strings_write(const struct exec *exec, vl_va at)
{
    const struct exec_strings *strings = &exec->strings;
    const struct exec_page *page;
    uint32_t skip = strings->skip;
    long result = 0;

    if (strings->prefix_count != 0) {
        size_t len = EXEC_PREFIX_BYTES - strings->prefix_start;

        result = space_write(exec->space, at, strings->prefix + strings->prefix_start, len);
        at += len;
    }
    for (page = strings->first; page != NULL && result == 0; page = page->next) {
        uint32_t from = skip < page->used ? skip : page->used;

        skip -= from;
        result = space_write(exec->space, at, page->bytes + from, page->used - from);
        at += page->used - from;
    }
    return result;
}

/* A place among the strings, while their pointers are laid out. */
struct string_cursor {
    const struct exec_page *page;
    uint32_t at;
    vl_va address;
};

/* Puts the address of @count strings, then 0; the cursor moves behind them. */
static void pointers_put(struct word_writer *writer, struct string_cursor *cursor, uint32_t count)
{
    while (count-- != 0) {
        bool ended = false;

        word_put(writer, cursor->address);
        while (!ended) {
            if (cursor->at == cursor->page->used) {
                cursor->page = cursor->page->next;
                cursor->at = 0;
            }
            ended = cursor->page->bytes[cursor->at++] == 0;
            cursor->address++;
        }
    }
}

static void arguments_put(const struct exec *exec, struct word_writer *writer)
{
    const struct exec_strings *strings = &exec->strings;
    struct string_cursor cursor = {.page = strings->first, .address = exec->arg_start};
    uint32_t skip = strings->skip;
    size_t at;

    word_put(writer, strings->args + strings->prefix_count);
    for (at = strings->prefix_start; strings->prefix_count != 0 && at < EXEC_PREFIX_BYTES;) {
        size_t len = strlen(strings->prefix + at) + 1;

        word_put(writer, cursor.address);
        cursor.address += len;
        at += len;
    }
    while (skip > cursor.page->used) {
        skip -= cursor.page->used;
        cursor.page = cursor.page->next;
    }
    cursor.at = skip;
    pointers_put(writer, &cursor, strings->args);
    word_put(writer, 0);
    pointers_put(writer, &cursor, strings->envs);
    word_put(writer, 0);
}

static void auxiliary_put(const struct exec *exec, struct word_writer *writer, vl_va platform,
                          vl_va random, vl_va path)
{
    const struct credentials *cred = current_cred();

    auxv_put(writer, AT_HWCAP, cpu_hwcap());
    auxv_put(writer, AT_PAGESZ, VL_PAGE_SIZE);
    auxv_put(writer, AT_CLKTCK, 100);
    auxv_put(writer, AT_PHDR, exec->program_headers);
    auxv_put(writer, AT_PHENT, 56);
    auxv_put(writer, AT_PHNUM, exec->program_header_count);
    auxv_put(writer, AT_BASE, exec->interpreter_base);
    auxv_put(writer, AT_FLAGS, 0);
    auxv_put(writer, AT_ENTRY, exec->program_entry);
    auxv_put(writer, AT_UID, cred->uid);
    auxv_put(writer, AT_EUID, cred->euid);
    auxv_put(writer, AT_GID, cred->gid);
    auxv_put(writer, AT_EGID, cred->egid);
    auxv_put(writer, AT_SECURE, cred->uid != cred->euid || cred->gid != cred->egid);
    auxv_put(writer, AT_RANDOM, random);
    auxv_put(writer, AT_HWCAP2, 0);
    auxv_put(writer, AT_EXECFN, path);
    auxv_put(writer, AT_PLATFORM, platform);
    auxv_put(writer, AT_MINSIGSTKSZ, fpu_user_bytes() + 440u + 128u + 64u);
    auxv_put(writer, AT_NULL, 0);
}
#define AUXV_WORDS 40u

static long stack_map(struct exec *exec, vl_va lowest)
{
    vl_va start = vli_round_down(lowest, VL_PAGE_SIZE) - EXEC_STACK_SLACK;
    struct vl_map_request request = {.hint = start,
                                     .len = EXEC_STACK_TOP - start,
                                     .prot = exec->stack_prot,
                                     .place = VL_MAP_FIXED,
                                     .grows_down = true};
    vl_va at;

    return (long)vl_space_map(exec->space, &request, &at);
}

long exec_stack(struct exec *exec)
{
    static const char platform[8] = "x86_64";
    const struct exec_strings *strings = &exec->strings;
    struct word_writer writer = {.space = exec->space};
    size_t path_bytes = strlen(exec->path) + 1;
    size_t prefix_bytes =
        strings->prefix_count != 0 ? EXEC_PREFIX_BYTES - strings->prefix_start : 0;
    vl_va path = EXEC_STACK_TOP - 8 - path_bytes;
    uint64_t random[2] = {cpu_random64(), cpu_random64()};
    vl_va tail;
    size_t words;
    long result;

    exec->arg_start = path - strings->bytes - prefix_bytes;
    exec->arg_end = exec->arg_start + prefix_bytes + strings->arg_bytes;
    exec->env_start = exec->arg_end;
    exec->env_end = path;
    tail = vli_round_down(exec->arg_start - TAIL_BYTES, 16);
    words = 1 + strings->args + strings->prefix_count + 1 + strings->envs + 1 + AUXV_WORDS;
    exec->sp = vli_round_down(tail - words * 8, 16);
    result = stack_map(exec, exec->sp);
    if (result != 0) {
        return result;
    }
    writer.at = exec->sp;
    arguments_put(exec, &writer);
    auxiliary_put(exec, &writer, tail + 16, tail, path);
    words_flush(&writer);
    if (writer.result == 0) {
        writer.result = space_write(exec->space, tail, random, sizeof(random));
    }
    if (writer.result == 0) {
        writer.result = space_write(exec->space, tail + 16, platform, sizeof(platform));
    }
    if (writer.result == 0) {
        writer.result = strings_write(exec, exec->arg_start);
    }
    if (writer.result == 0) {
        writer.result = space_write(exec->space, path, exec->path, path_bytes);
    }
    return writer.result;
}
