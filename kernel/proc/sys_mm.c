/*
 * sys_mm.c - the mmap family: Linux's arguments and errors in front of the core's spaces.
 */
#include "kernel/proc/internal.h"

#define MAP_SHARED          0x01u
#define MAP_PRIVATE         0x02u
#define MAP_SHARED_VALIDATE 0x03u
#define MAP_TYPE            0x0fu
#define MAP_FIXED           0x10u
#define MAP_ANONYMOUS       0x20u
#define MAP_GROWSDOWN       0x0100u
#define MAP_LOCKED          0x2000u
#define MAP_POPULATE        0x8000u
#define MAP_NONBLOCK        0x10000u
#define MAP_HUGETLB         0x40000u
#define MAP_SYNC            0x80000u
#define MAP_FIXED_NOREPLACE 0x100000u

#define PROT_GROWSDOWN 0x01000000u
#define PROT_GROWSUP   0x02000000u
#define PROT_ALL       (VL_READ | VL_WRITE | VL_EXEC)

#define MREMAP_MAYMOVE   1u
#define MREMAP_FIXED     2u
#define MREMAP_DONTUNMAP 4u

#define MS_ASYNC      1u
#define MS_INVALIDATE 2u
#define MS_SYNC       4u

#define MINCORE_CHUNK 256u

/* ---------------------------------------------------------------------------------- mmap */

/* What of the flags decides the request. Returns: 0 or a negated errno. */
static long map_request(struct vl_map_request *request, uint32_t flags, bool anonymous)
{
    uint32_t type = flags & MAP_TYPE;

    if (type == MAP_SHARED || (type == MAP_SHARED_VALIDATE && !anonymous)) {
        request->kind = VL_MAP_SHARED;
    } else if (type == MAP_PRIVATE) {
        request->kind = VL_MAP_PRIVATE;
    } else {
        return -EINVAL;
    }
    if (type == MAP_SHARED_VALIDATE && (flags & MAP_SYNC) != 0) {
        return -EOPNOTSUPP;
    }
    if ((flags & MAP_FIXED_NOREPLACE) != 0) {
        request->place = VL_MAP_FIXED_NOREPLACE;
    } else if ((flags & MAP_FIXED) != 0) {
        request->place = VL_MAP_FIXED;
    }
    request->grows_down = (flags & MAP_GROWSDOWN) != 0;
    if (request->grows_down && !(anonymous && request->kind == VL_MAP_PRIVATE)) {
        return -EINVAL;
    }
    request->populate =
        (flags & MAP_LOCKED) != 0 || (flags & (MAP_POPULATE | MAP_NONBLOCK)) == MAP_POPULATE;
    return 0;
}

static long map_status(enum vl_status status, const struct vl_map_request *request)
{
    if (status == VL_EPERM && request->hint + request->len > VL_USER_END) {
        return -ENOMEM;
    }
    return (long)status;
}

/* Linux's order of checks: descriptor, length, address space, offset, flags, the file's mode. */
static long map_checked(struct vl_map_request *request, uint32_t flags, struct file *file,
                        vl_va *out)
{
    bool fixed = (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) != 0;
    struct vl_object *object = NULL;
    uint32_t prot_max = 0;
    long result;

    if (request->len == 0) {
        return -EINVAL;
    }
    if (!fixed) {
        request->hint = vli_round_down(request->hint, VL_PAGE_SIZE);
        if (request->hint < VL_USER_MIN || request->hint > VL_USER_END ||
            request->len > VL_USER_END - request->hint) {
            request->hint = 0; /* only a wish */
        }
    }
    if (request->len > VL_USER_END) {
        return -ENOMEM;
    }
    request->len = vli_round_up(request->len, VL_PAGE_SIZE);
    if (request->offset + request->len < request->offset) {
        return -EOVERFLOW;
    }
    if (fixed && (request->len > VL_USER_END || request->hint > VL_USER_END - request->len)) {
        return -ENOMEM;
    }
    if (fixed && request->hint % VL_PAGE_SIZE != 0) {
        return -EINVAL;
    }
    result = map_request(request, flags, file == NULL);
    if (result == 0 && file != NULL) {
        result = file_map(file, request->prot, request->kind == VL_MAP_SHARED, &object, &prot_max);
        request->object = object;
        request->prot_max = prot_max;
        if (object == NULL) {
            request->offset = 0;
        }
    } else if (result == 0) {
        request->offset = 0;
    }
    if (result != 0) {
        return result;
    }
    return map_status(vl_space_map(current_process()->space, request, out), request);
}

SYSCALL(mmap)
{
    uint32_t flags = (uint32_t)d;
    struct vl_map_request request = {
        .hint = (vl_va)a, .len = (size_t)b, .prot = (uint32_t)c & PROT_ALL, .offset = (uint64_t)f};
    struct file *file = NULL;
    vl_va at = 0;
    long result;

    if (((uint64_t)f & VL_PAGE_MASK) != 0) {
        return -EINVAL;
    }
    if ((flags & MAP_ANONYMOUS) == 0) {
        file = files_file_get(current_files(), (int)e);
        if (file == NULL) {
            return -EBADF;
        }
    } else if ((flags & MAP_HUGETLB) != 0) {
        return -ENOMEM; /* as Linux with an empty pool of huge pages */
    }
    result = map_checked(&request, flags, file, &at);
    if (file != NULL) {
        file_put(file);
    }
    return result != 0 ? result : (long)at;
}

/* Does [@start, @start + @len), rounded up to pages, lie in user space? */
static bool range_rounds_up(uint64_t start, uint64_t *len)
{
    if (start % VL_PAGE_SIZE != 0 || *len > VL_USER_END) {
        return false;
    }
    *len = vli_round_up(*len, VL_PAGE_SIZE);
    return start <= VL_USER_END && *len <= VL_USER_END - start;
}

SYSCALL(munmap)
{
    uint64_t len = (uint64_t)b;

    if (!range_rounds_up((uint64_t)a, &len) || len == 0) {
        return -EINVAL;
    }
    return (long)vl_space_unmap(current_process()->space, (vl_va)a, len);
}

/* The start of the area that grows down, for PROT_GROWSDOWN. */
static long protect_growing(vl_va *start, uint64_t *len)
{
    struct vl_area_info area;

    if (vl_space_find(current_process()->space, *start, &area) != VL_OK ||
        area.start >= *start + *len) {
        return -ENOMEM;
    }
    if (!area.grows_down) {
        return -EINVAL;
    }
    *len += *start - area.start;
    *start = area.start;
    return 0;
}

SYSCALL(mprotect)
{
    vl_va start = (vl_va)a;
    uint64_t len = (uint64_t)b;
    uint32_t prot = (uint32_t)c;
    uint32_t grows = prot & (PROT_GROWSDOWN | PROT_GROWSUP);
    long result;

    if (grows == (PROT_GROWSDOWN | PROT_GROWSUP) || start % VL_PAGE_SIZE != 0) {
        return -EINVAL;
    }
    if (len == 0) {
        return 0;
    }
    if (!range_rounds_up(start, &len)) {
        return -ENOMEM;
    }
    if ((prot & ~(PROT_ALL | 8u | grows)) != 0 || (grows & PROT_GROWSUP) != 0) {
        return -EINVAL;
    }
    if (grows != 0) {
        result = protect_growing(&start, &len);
        if (result != 0) {
            return result;
        }
    }
    return (long)vl_space_protect(current_process()->space, start, len, prot & PROT_ALL);
}

SYSCALL(brk)
{
    return (long)vl_space_brk(current_process()->space, (vl_va)a);
}

SYSCALL(mremap)
{
    uint64_t old_len = (uint64_t)b;
    uint64_t new_len = (uint64_t)c;
    uint32_t flags = (uint32_t)d;
    vl_va old_va = (vl_va)a;
    vl_va new_va = (vl_va)e;
    vl_va out;
    enum vl_status status;

    if ((flags & ~(MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP)) != 0 ||
        ((flags & (MREMAP_FIXED | MREMAP_DONTUNMAP)) != 0 && (flags & MREMAP_MAYMOVE) == 0)) {
        return -EINVAL;
    }
    new_len = vli_round_up(new_len, VL_PAGE_SIZE); /* may wrap to 0 */
    if (old_va % VL_PAGE_SIZE != 0 || new_len == 0 || old_len > VL_USER_END) {
        return -EINVAL;
    }
    old_len = vli_round_up(old_len, VL_PAGE_SIZE);
    if ((flags & MREMAP_DONTUNMAP) != 0 && old_len != new_len) {
        return -EINVAL;
    }
    if ((flags & MREMAP_FIXED) != 0) {
        if (new_va % VL_PAGE_SIZE != 0 || new_len > VL_USER_END || new_va > VL_USER_END - new_len ||
            (old_va < new_va + new_len && new_va < old_va + old_len)) {
            return -EINVAL;
        }
    }
    if (old_va > VL_USER_END || old_len > VL_USER_END - old_va) {
        return -EFAULT;
    }
    if (new_len > VL_USER_END) {
        return -ENOMEM;
    }
    status =
        vl_space_remap(current_process()->space, old_va, old_len, new_len, flags, new_va, &out);
    return status != VL_OK ? (long)status : (long)out;
}

/* -------------------------------------------------------------------------------- advice */

enum linux_advice {
    MADV_NORMAL = 0,
    MADV_RANDOM = 1,
    MADV_SEQUENTIAL = 2,
    MADV_WILLNEED = 3,
    MADV_DONTNEED = 4,
    MADV_FREE = 8,
    MADV_DONTFORK = 10,
    MADV_DOFORK = 11,
    MADV_MERGEABLE = 12,
    MADV_UNMERGEABLE = 13,
    MADV_HUGEPAGE = 14,
    MADV_NOHUGEPAGE = 15,
    MADV_DONTDUMP = 16,
    MADV_DODUMP = 17,
    MADV_COLD = 20,
    MADV_PAGEOUT = 21,
    MADV_POPULATE_READ = 22,
    MADV_POPULATE_WRITE = 23,
    MADV_DONTNEED_LOCKED = 24
};

/* Fault in every page of the range for @access. */
static long populate(vl_va start, uint64_t len, uint32_t access)
{
    struct vl_space *space = current_process()->space;
    vl_va va;

    for (va = start; va < start + len; va += VL_PAGE_SIZE) {
        enum vl_status status = vl_space_fault(space, va, access);

        if (status != VL_OK) {
            return status == VL_EFAULT      ? -ENOMEM
                   : status == VL_EACCES    ? -EINVAL
                   : status == VL_EBUSERROR ? -EFAULT
                                            : (long)status;
        }
        if (thread_signal_pending(current())) {
            return -EINTR;
        }
    }
    return 0;
}

/* Advice that needs nothing done, but whose range Linux checks for holes. */
static long advice_nothing(vl_va start, uint64_t len)
{
    struct vl_area_info area;
    vl_va at = start;

    while (at < start + len) {
        if (vl_space_find(current_process()->space, at, &area) != VL_OK || area.start > at) {
            return -ENOMEM;
        }
        at = area.end;
    }
    return 0;
}

SYSCALL(madvise)
{
    static const uint8_t core_advice[] = {
        [MADV_NORMAL] = VL_ADVISE_NORMAL,         [MADV_RANDOM] = VL_ADVISE_RANDOM,
        [MADV_SEQUENTIAL] = VL_ADVISE_SEQUENTIAL, [MADV_WILLNEED] = VL_ADVISE_WILLNEED,
        [MADV_DONTNEED] = VL_ADVISE_DONTNEED,     [MADV_FREE] = VL_ADVISE_FREE};
    uint32_t advice = (uint32_t)c;
    uint64_t len = (uint64_t)b;
    vl_va start = (vl_va)a;

    if (advice > MADV_DONTNEED_LOCKED || (advice > MADV_DONTNEED && advice < MADV_FREE) ||
        advice == 9 || advice == 18 || advice == 19 || advice == MADV_MERGEABLE ||
        advice == MADV_UNMERGEABLE) {
        return -EINVAL;
    }
    if (!range_rounds_up(start, &len) || (len == 0 && b != 0)) {
        return -EINVAL;
    }
    if (len == 0) {
        return 0;
    }
    switch (advice) {
    case MADV_NORMAL:
    case MADV_RANDOM:
    case MADV_SEQUENTIAL:
    case MADV_WILLNEED:
    case MADV_DONTNEED:
    case MADV_FREE:
        return (long)vl_space_advise(current_process()->space, start, len,
                                     (enum vl_advice)core_advice[advice]);
    case MADV_DONTNEED_LOCKED:
        return (long)vl_space_advise(current_process()->space, start, len, VL_ADVISE_DONTNEED);
    case MADV_POPULATE_READ:
        return populate(start, len, VL_READ);
    case MADV_POPULATE_WRITE:
        return populate(start, len, VL_WRITE);
    default:
        return advice_nothing(start, len);
    }
}

SYSCALL(mincore)
{
    uint8_t resident[MINCORE_CHUNK];
    uint64_t len = (uint64_t)b;
    vl_va start = (vl_va)a;
    uint64_t out = (uint64_t)c;
    size_t pages;

    if (start % VL_PAGE_SIZE != 0) {
        return -EINVAL;
    }
    if (!range_rounds_up(start, &len)) {
        return -ENOMEM;
    }
    pages = (size_t)(len / VL_PAGE_SIZE);
    if (!user_range_ok(out, pages)) {
        return -EFAULT;
    }
    while (pages != 0) {
        size_t part = pages < MINCORE_CHUNK ? pages : MINCORE_CHUNK;
        enum vl_status status =
            vl_space_resident(current_process()->space, start, part * VL_PAGE_SIZE, resident);

        if (status != VL_OK) {
            return (long)status;
        }
        if (copy_to_user(out, resident, part) != VL_OK) {
            return -EFAULT;
        }
        start += part * VL_PAGE_SIZE;
        out += part;
        pages -= part;
    }
    return 0;
}

/* Files live in memory: a shared mapping is the file. What is left are the checks. */
SYSCALL(msync)
{
    uint64_t len = (uint64_t)b;
    vl_va start = (vl_va)a;
    uint32_t flags = (uint32_t)c;

    if ((flags & ~(MS_ASYNC | MS_INVALIDATE | MS_SYNC)) != 0 ||
        (flags & (MS_ASYNC | MS_SYNC)) == (MS_ASYNC | MS_SYNC) || start % VL_PAGE_SIZE != 0) {
        return -EINVAL;
    }
    if (!range_rounds_up(start, &len)) {
        return -ENOMEM;
    }
    return advice_nothing(start, len);
}

/* --------------------------------------------------------------------------------- mlock */

/* Nothing is ever paged out, so that locking is making resident. */
static long lock_range(vl_va start, uint64_t len, bool make_resident)
{
    uint64_t into = start % VL_PAGE_SIZE;
    struct vl_area_info area;
    vl_va at;

    start -= into;
    if (len > VL_USER_END || len + into < len) {
        return -EINVAL;
    }
    len += into;
    if (!range_rounds_up(start, &len)) {
        return start + len < start ? -EINVAL : -ENOMEM;
    }
    for (at = start; at < start + len; at = area.end) {
        if (vl_space_find(current_process()->space, at, &area) != VL_OK || area.start > at) {
            return -ENOMEM;
        }
        if (make_resident && area.prot != 0) {
            vl_va end = area.end < start + len ? area.end : start + len;
            uint32_t access =
                (area.prot & VL_WRITE) != 0 && area.kind == VL_MAP_PRIVATE ? VL_WRITE : VL_READ;

            if (populate(at, end - at, access) != 0) {
                return -ENOMEM;
            }
        }
    }
    return 0;
}

SYSCALL(mlock)
{
    return lock_range((vl_va)a, (uint64_t)b, true);
}

SYSCALL(mlock2)
{
    return ((uint32_t)c & ~1u) != 0 ? -EINVAL : lock_range((vl_va)a, (uint64_t)b, (c & 1) == 0);
}

SYSCALL(munlock)
{
    return lock_range((vl_va)a, (uint64_t)b, false);
}

SYSCALL(mlockall)
{
    uint32_t flags = (uint32_t)a;

    return flags == 0 || (flags & ~7u) != 0 || flags == 4 ? -EINVAL : 0;
}

SYSCALL(munlockall)
{
    return 0;
}

/* ----------------------------------------------------------------------- protection keys */

/* Keys are not switched on in the CPU: as on a Linux machine that has none. */
SYSCALL(pkey_alloc)
{
    return a != 0 || ((uint64_t)b & ~(uint64_t)3) != 0 ? -EINVAL : -ENOSPC;
}

SYSCALL(pkey_free)
{
    return -EINVAL;
}

SYSCALL(pkey_mprotect)
{
    return (int)d == -1 ? sys_mprotect(a, b, c, 0, 0, 0) : -EINVAL;
}
