/*
 * cxx.c - C++ operators new and delete, in C: a program without C++ needs no libstdc++ for our
 * sake, and one with it gets its exceptions from there, by names that are weak here.
 *
 * The names are those of the Itanium C++ ABI on a 64-bit machine: _Znw new, _Zna new[], _Zdl
 * delete, _Zda delete[]; m: size_t, Pv: void *, St11align_val_t: alignment, RKSt9nothrow_t:
 * nothrow.
 *
 * A new that finds no memory calls the new-handler until there is some or there is no handler; then
 * it throws std::bad_alloc, or returns NULL if nothrow. A handler may throw itself, which a nothrow
 * form must turn into NULL: C cannot catch, so where a handler is set libstdc++'s own nothrow forms
 * do it, which call our throwing ones. An alignment that is no power of 2 counts as no memory.
 *
 * A program that is not C++ may load libraries that are, after us and out of sight of all but
 * themselves: what is weak and missing is looked for in the C++ runtime that is loaded by then.
 */
#include "malloc/face.h"
#include "core/base/bits.h"
#include <dlfcn.h>
#include <stdlib.h>

typedef void (*new_handler)(void);
typedef struct nothrow nothrow; /* std::nothrow_t: only its address is passed */

/* std::get_new_handler() and std::__throw_bad_alloc(). */
new_handler _ZSt15get_new_handlerv(void) VLI_WEAK;
_Noreturn void _ZSt17__throw_bad_allocv(void) VLI_WEAK;
void *dlsym(void *restrict handle, const char *restrict name) VLI_WEAK;

static void *allocate(size_t size, size_t align)
{
    if (align <= 16) {
        return malloc(size);
    }
    return vli_is_power_of_2(align) ? vli_aligned(align, size) : NULL;
}

/* Functions that are looked for. dlopen() and dlclose() are, too: the linker warns of whoever names
 * them in a static program. */
union dynamic {
    void *found;
    void *(*open)(const char *file, int mode);
    int (*close)(void *handle);
};

/* What a C++ runtime that came after us has under a name, or NULL. */
static void *of_runtime(const char *name)
{
    static const char *const runtimes[] = {"libstdc++.so.6", "libc++abi.so.1"};
    union dynamic open = {&dlsym != NULL ? dlsym(RTLD_DEFAULT, "dlopen") : NULL};
    union dynamic close = {&dlsym != NULL ? dlsym(RTLD_DEFAULT, "dlclose") : NULL};
    void *found = NULL;

    if (open.found == NULL || close.found == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < VLI_COUNT_OF(runtimes) && found == NULL; i++) {
        void *runtime = open.open(runtimes[i], RTLD_LAZY | RTLD_NOLOAD);

        found = runtime != NULL ? dlsym(runtime, name) : NULL;
        if (runtime != NULL) {
            (void)close.close(runtime); /* whose code calls us stays */
        }
    }
    return found;
}

union function {
    void *found;
    void (*call)(void);
    new_handler (*get)(void);
};

static new_handler handler_now(void)
{
    union function other = {NULL};

    if (&_ZSt15get_new_handlerv != NULL) {
        return _ZSt15get_new_handlerv();
    }
    other.found = of_runtime("_ZSt15get_new_handlerv");
    return other.found != NULL ? other.get() : NULL;
}

/* Throws std::bad_alloc, if there is anything to throw it with. */
static void throw_bad_alloc(void)
{
    union function other = {NULL};

    if (&_ZSt17__throw_bad_allocv != NULL) {
        _ZSt17__throw_bad_allocv();
    }
    other.found = of_runtime("_ZSt17__throw_bad_allocv");
    if (other.found != NULL) {
        other.call();
    }
}

static VLI_NOINLINE void *new_slow(size_t size, size_t align)
{
    void *p;

    do {
        new_handler handler = handler_now();

        if (handler == NULL) {
            throw_bad_alloc();
            vli_die("vellum malloc: operator new(%zu): no memory", size);
        }
        handler();
        p = allocate(size, align);
    } while (p == NULL);
    return p;
}

/* The form of libstdc++ that our names hide; NULL where there is none. */
static void *hidden(const char *name)
{
    return &dlsym != NULL ? dlsym(RTLD_NEXT, name) : NULL;
}

static VLI_NOINLINE void *nothrow_slow(size_t size, const nothrow *tag, const char *name)
{
    union {
        void *found;
        void *(*call)(size_t, const nothrow *);
    } other = {NULL};

    if (handler_now() != NULL) {
        other.found = hidden(name);
    }
    return other.found != NULL ? other.call(size, tag) : NULL;
}

static VLI_NOINLINE void *nothrow_aligned_slow(size_t size, size_t align, const nothrow *tag,
                                               const char *name)
{
    union {
        void *found;
        void *(*call)(size_t, size_t, const nothrow *);
    } other = {NULL};

    if (handler_now() != NULL) {
        other.found = hidden(name);
    }
    return other.found != NULL ? other.call(size, align, tag) : NULL;
}

/* ------------------------------------------------------------------------------------------- new
 */

VLI_EXPORT void *_Znwm(size_t size);
VLI_EXPORT void *_Znwm(size_t size)
{
    void *p = malloc(size);

    return VLI_LIKELY(p != NULL) ? p : new_slow(size, 1);
}

VLI_EXPORT void *_Znam(size_t size);
VLI_EXPORT void *_Znam(size_t size)
{
    void *p = malloc(size);

    return VLI_LIKELY(p != NULL) ? p : new_slow(size, 1);
}

VLI_EXPORT void *_ZnwmSt11align_val_t(size_t size, size_t align);
VLI_EXPORT void *_ZnwmSt11align_val_t(size_t size, size_t align)
{
    void *p = allocate(size, align);

    return VLI_LIKELY(p != NULL) ? p : new_slow(size, align);
}

VLI_EXPORT void *_ZnamSt11align_val_t(size_t size, size_t align);
VLI_EXPORT void *_ZnamSt11align_val_t(size_t size, size_t align)
{
    void *p = allocate(size, align);

    return VLI_LIKELY(p != NULL) ? p : new_slow(size, align);
}

VLI_EXPORT void *_ZnwmRKSt9nothrow_t(size_t size, const nothrow *tag);
VLI_EXPORT void *_ZnwmRKSt9nothrow_t(size_t size, const nothrow *tag)
{
    void *p = malloc(size);

    return VLI_LIKELY(p != NULL) ? p : nothrow_slow(size, tag, "_ZnwmRKSt9nothrow_t");
}

VLI_EXPORT void *_ZnamRKSt9nothrow_t(size_t size, const nothrow *tag);
VLI_EXPORT void *_ZnamRKSt9nothrow_t(size_t size, const nothrow *tag)
{
    void *p = malloc(size);

    return VLI_LIKELY(p != NULL) ? p : nothrow_slow(size, tag, "_ZnamRKSt9nothrow_t");
}

VLI_EXPORT void *_ZnwmSt11align_val_tRKSt9nothrow_t(size_t size, size_t align, const nothrow *tag);
VLI_EXPORT void *_ZnwmSt11align_val_tRKSt9nothrow_t(size_t size, size_t align, const nothrow *tag)
{
    void *p = allocate(size, align);

    return VLI_LIKELY(p != NULL)
               ? p
               : nothrow_aligned_slow(size, align, tag, "_ZnwmSt11align_val_tRKSt9nothrow_t");
}

VLI_EXPORT void *_ZnamSt11align_val_tRKSt9nothrow_t(size_t size, size_t align, const nothrow *tag);
VLI_EXPORT void *_ZnamSt11align_val_tRKSt9nothrow_t(size_t size, size_t align, const nothrow *tag)
{
    void *p = allocate(size, align);

    return VLI_LIKELY(p != NULL)
               ? p
               : nothrow_aligned_slow(size, align, tag, "_ZnamSt11align_val_tRKSt9nothrow_t");
}

/* ---------------------------------------------------------------------------------------- delete
 */

/* All forms are free(): the class is known by the address, so neither size nor alignment helps. */
#define DELETE(name, ...)                                                                          \
    VLI_EXPORT void name(__VA_ARGS__);                                                             \
    VLI_EXPORT void name(__VA_ARGS__)                                                              \
    {                                                                                              \
        free(p);                                                                                   \
    }

DELETE(_ZdlPv, void *p)
DELETE(_ZdaPv, void *p)
DELETE(_ZdlPvm, void *p, size_t size VLI_UNUSED)
DELETE(_ZdaPvm, void *p, size_t size VLI_UNUSED)
DELETE(_ZdlPvSt11align_val_t, void *p, size_t align VLI_UNUSED)
DELETE(_ZdaPvSt11align_val_t, void *p, size_t align VLI_UNUSED)
DELETE(_ZdlPvmSt11align_val_t, void *p, size_t size VLI_UNUSED, size_t align VLI_UNUSED)
DELETE(_ZdaPvmSt11align_val_t, void *p, size_t size VLI_UNUSED, size_t align VLI_UNUSED)
DELETE(_ZdlPvRKSt9nothrow_t, void *p, const nothrow *tag VLI_UNUSED)
DELETE(_ZdaPvRKSt9nothrow_t, void *p, const nothrow *tag VLI_UNUSED)
DELETE(_ZdlPvSt11align_val_tRKSt9nothrow_t, void *p, size_t align VLI_UNUSED,
       const nothrow *tag VLI_UNUSED)
DELETE(_ZdaPvSt11align_val_tRKSt9nothrow_t, void *p, size_t align VLI_UNUSED,
       const nothrow *tag VLI_UNUSED)
