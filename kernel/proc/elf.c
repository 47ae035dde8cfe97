/*
 * elf.c - ELF programs of 64 bits for x86-64: fixed (ET_EXEC) and position-independent (ET_DYN),
 * static or with an interpreter.
 *
 * Nothing in a file is trusted: each header is copied before it is looked at (the file may be
 * written meanwhile), sums are checked before they are made, and what is odd is refused with
 * Linux's error. Segments are mapped from the file's object, so that programs share the page cache;
 * the part beyond the file's bytes is zeroed in its last page and anonymous after that.
 *
 * Addresses are those that Linux gives without randomisation: figures and runs repeat. A
 * position-independent program starts at EXEC_PIE_BASE, its interpreter where there is room.
 */
#include "kernel/proc/exec.h"

#define ET_EXEC      2
#define ET_DYN       3
#define EM_X86_64    62
#define PT_LOAD      1
#define PT_INTERP    3
#define PT_PHDR      6
#define PT_GNU_STACK 0x6474e551u
#define PF_X         1u
#define PF_W         2u
#define PF_R         4u

/* Linux: at most one 64 KiB block of program headers. */
#define HEADERS_BYTES_MAX 65536u

struct elf_header {
    unsigned char ident[16];
    uint16_t type;
    uint16_t machine;
    uint32_t version;
    uint64_t entry;
    uint64_t segments_offset;
    uint64_t sections_offset;
    uint32_t flags;
    uint16_t header_size;
    uint16_t segment_size;
    uint16_t segment_count;
    uint16_t section_size;
    uint16_t section_count;
    uint16_t names_index;
};
_Static_assert(sizeof(struct elf_header) == 64, "Elf64_Ehdr");

struct elf_segment {
    uint32_t type;
    uint32_t flags;
    uint64_t offset;
    uint64_t address;
    uint64_t physical;
    uint64_t file_bytes;
    uint64_t memory_bytes;
    uint64_t align;
};
_Static_assert(sizeof(struct elf_segment) == 56, "Elf64_Phdr");

/* One image: the program or its interpreter. */
struct elf_image {
    struct file *file;
    struct elf_header header;
    const struct elf_segment *segments; /* our own copy */
    struct elf_segment *allocated;      /* to be freed, or NULL when they are in the head */
    vl_va bias;                         /* added to the addresses in the file */
    vl_va brk;                          /* end of the highest segment */
};

/* ------------------------------------------------------------------------------- headers */

static bool header_is_ours(const struct elf_header *header)
{
    static const unsigned char magic[4] = {0x7f, 'E', 'L', 'F'};

    /* Class and byte order are not looked at, as on Linux: the machine says it all. */
    return memcmp(header->ident, magic, sizeof(magic)) == 0 &&
           (header->type == ET_EXEC || header->type == ET_DYN) && header->machine == EM_X86_64 &&
           header->segment_size == sizeof(struct elf_segment) && header->segment_count != 0 &&
           header->segment_count <= HEADERS_BYTES_MAX / sizeof(struct elf_segment);
}

/* Get the header and the segments: from @head as far as they are in it. */
static long image_read(struct elf_image *image, const unsigned char *head, uint64_t head_len)
{
    uint64_t bytes;
    uint64_t offset;

    if (head_len < sizeof(image->header)) {
        return -ENOEXEC;
    }
    memcpy(&image->header, head, sizeof(image->header));
    if (!header_is_ours(&image->header)) {
        return -ENOEXEC;
    }
    bytes = (uint64_t)image->header.segment_count * sizeof(struct elf_segment);
    offset = image->header.segments_offset;
    if (offset % _Alignof(struct elf_segment) == 0 && offset < head_len &&
        bytes <= head_len - offset) {
        image->segments = (const struct elf_segment *)(const void *)(head + offset);
        return 0;
    }
    image->allocated = vl_kmalloc((size_t)bytes, VL_WAIT);
    if (image->allocated == NULL) {
        return -ENOMEM;
    }
    image->segments = image->allocated;
    if (offset > INT64_MAX ||
        file_read_kernel(image->file, image->allocated, (size_t)bytes, offset) != (long)bytes) {
        vl_kfree(image->allocated);
        image->allocated = NULL;
        return -ENOEXEC;
    }
    return 0;
}

static const struct elf_segment *segment_find(const struct elf_image *image, uint32_t type)
{
    unsigned i;

    for (i = 0; i < image->header.segment_count; i++) {
        if (image->segments[i].type == type) {
            return &image->segments[i];
        }
    }
    return NULL;
}

/* ------------------------------------------------------------------------------- mapping */

static uint32_t segment_prot(const struct elf_segment *segment)
{
    return ((segment->flags & PF_R) != 0 ? VL_READ : 0) |
           ((segment->flags & PF_W) != 0 ? VL_WRITE : 0) |
           ((segment->flags & PF_X) != 0 ? VL_EXEC : 0);
}

/* Does the segment lie in user space, moved by @bias? Sums cannot wrap after this. */
static bool segment_is_sane(const struct elf_segment *segment, vl_va bias)
{
    return segment->file_bytes <= segment->memory_bytes && segment->memory_bytes <= VL_USER_END &&
           bias < VL_USER_END && segment->address < VL_USER_END &&
           segment->address + bias < VL_USER_END &&
           VL_USER_END - segment->memory_bytes >= segment->address + bias;
}

static long map_anonymous(struct vl_space *space, vl_va start, vl_va end, uint32_t prot)
{
    struct vl_map_request request = {
        .hint = start, .len = end - start, .prot = prot, .place = VL_MAP_FIXED};
    vl_va at;

    return end <= start ? 0 : (long)vl_space_map(space, &request, &at);
}

/*
 * Map one segment:   | page of the file ... last page, zeroed behind the file's bytes | anonymous |
 */
static long segment_map(struct vl_space *space, const struct elf_image *image,
                        const struct elf_segment *segment)
{
    uint32_t prot = segment_prot(segment);
    vl_va start = vli_round_down(segment->address + image->bias, VL_PAGE_SIZE);
    uint64_t into_page = (segment->address + image->bias) - start;
    vl_va file_end = segment->address + image->bias + segment->file_bytes;
    vl_va memory_end = segment->address + image->bias + segment->memory_bytes;
    vl_va mapped_end = vli_round_up(file_end, VL_PAGE_SIZE);
    struct vl_object *object;
    struct vl_map_request request = {.hint = start, .prot = prot, .place = VL_MAP_FIXED};
    uint32_t prot_max = 0;
    long result;
    vl_va at;

    if (segment->file_bytes == 0) {
        return map_anonymous(space, start, vli_round_up(memory_end, VL_PAGE_SIZE), prot);
    }
    if (segment->offset % VL_PAGE_SIZE != into_page || segment->offset > INT64_MAX ||
        segment->file_bytes > INT64_MAX - segment->offset) {
        return -EINVAL;
    }
    result = file_map(image->file, prot | VL_READ, false, &object, &prot_max);
    if (result != 0) {
        return result;
    }
    request.object = object;
    request.offset = segment->offset - into_page;
    request.len = mapped_end - start;
    result = (long)vl_space_map(space, &request, &at);
    if (result == 0 && memory_end > file_end) {
        if (mapped_end != file_end && (prot & VL_WRITE) != 0) {
            result = space_zero(space, file_end, mapped_end - file_end);
        }
        if (result == 0) {
            result = map_anonymous(space, mapped_end, vli_round_up(memory_end, VL_PAGE_SIZE), prot);
        }
    }
    return result;
}

/* The span of all loadable segments. Returns: false when there is none or one is not sane. */
static bool image_span(const struct elf_image *image, vl_va *out_start, vl_va *out_end)
{
    vl_va start = VL_USER_END;
    vl_va end = 0;
    unsigned i;

    for (i = 0; i < image->header.segment_count; i++) {
        const struct elf_segment *segment = &image->segments[i];

        if (segment->type != PT_LOAD) {
            continue;
        }
        if (!segment_is_sane(segment, 0)) {
            return false;
        }
        if (segment->address < start) {
            start = segment->address;
        }
        if (segment->address + segment->memory_bytes > end) {
            end = segment->address + segment->memory_bytes;
        }
    }
    *out_start = vli_round_down(start, VL_PAGE_SIZE);
    *out_end = vli_round_up(end, VL_PAGE_SIZE);
    return end > start;
}

static uint64_t image_align(const struct elf_image *image)
{
    uint64_t align = VL_PAGE_SIZE;
    unsigned i;

    for (i = 0; i < image->header.segment_count; i++) {
        const struct elf_segment *segment = &image->segments[i];

        if (segment->type == PT_LOAD && vli_is_power_of_2(segment->align) &&
            segment->align > align) {
            align = segment->align;
        }
    }
    return align;
}

/* Where a position-independent image goes. */
static long image_place(struct vl_space *space, struct elf_image *image, vl_va wish)
{
    struct vl_map_request request = {.prot = 0, .place = VL_MAP_ANYWHERE};
    uint64_t align = image_align(image);
    vl_va start;
    vl_va end;
    vl_va at;
    long result;

    if (!image_span(image, &start, &end)) {
        return -EINVAL;
    }
    if (wish != 0) {
        image->bias = vli_round_down(wish, align) - start;
        return 0;
    }
    if (align > VL_USER_END || end - start + align > VL_USER_END) {
        return -ENOMEM;
    }
    /* Ask for room, then give it back: the segments are mapped there one by one. */
    request.len = end - start + align - VL_PAGE_SIZE;
    result = (long)vl_space_map(space, &request, &at);
    if (result != 0) {
        return result;
    }
    result = (long)vl_space_unmap(space, at, request.len);
    image->bias = vli_round_up(at, align) - start;
    return result;
}

static long image_map(struct vl_space *space, struct elf_image *image)
{
    unsigned i;
    long result;

    for (i = 0; i < image->header.segment_count; i++) {
        const struct elf_segment *segment = &image->segments[i];
        vl_va end;

        if (segment->type != PT_LOAD) {
            continue;
        }
        if (!segment_is_sane(segment, image->bias)) {
            return -EINVAL;
        }
        if (segment->memory_bytes == 0) {
            continue;
        }
        result = segment_map(space, image, segment);
        if (result != 0) {
            return result;
        }
        end = segment->address + image->bias + segment->memory_bytes;
        if (end > image->brk) {
            image->brk = end;
        }
    }
    return 0;
}

/* Where the program finds its own headers: PT_PHDR, or the segment that holds them. */
static vl_va headers_address(const struct elf_image *image)
{
    const struct elf_segment *found = segment_find(image, PT_PHDR);
    uint64_t offset = image->header.segments_offset;
    unsigned i;

    if (found != NULL) {
        return found->address + image->bias;
    }
    for (i = 0; i < image->header.segment_count; i++) {
        const struct elf_segment *segment = &image->segments[i];

        if (segment->type == PT_LOAD && segment->offset <= offset &&
            offset - segment->offset < segment->file_bytes) {
            return segment->address + image->bias + (offset - segment->offset);
        }
    }
    return 0;
}

/* --------------------------------------------------------------------------- interpreter */

/* The path in PT_INTERP. */
static long interpreter_path(const struct elf_image *image, const struct elf_segment *segment,
                             char **out)
{
    char *path;

    if (segment->file_bytes > PATH_MAX_BYTES || segment->file_bytes < 2 ||
        segment->offset > INT64_MAX) {
        return -ENOEXEC;
    }
    path = vl_kmalloc((size_t)segment->file_bytes, VL_WAIT);
    if (path == NULL) {
        return -ENOMEM;
    }
    if (file_read_kernel(image->file, path, (size_t)segment->file_bytes, segment->offset) !=
            (long)segment->file_bytes ||
        path[segment->file_bytes - 1] != 0) {
        vl_kfree(path);
        return -ENOEXEC;
    }
    *out = path;
    return 0;
}

struct elf_interpreter {
    struct elf_image image;
    unsigned char head[EXEC_HEAD_BYTES];
};

/* Opens and checks the interpreter that @program names; *@out stays NULL when it names none. */
static long interpreter_open(const struct elf_image *program, struct elf_interpreter **out)
{
    const struct elf_segment *segment = segment_find(program, PT_INTERP);
    struct elf_interpreter *interpreter;
    char *path;
    long result;
    long len;

    if (segment == NULL) {
        return 0;
    }
    result = interpreter_path(program, segment, &path);
    if (result != 0) {
        return result;
    }
    interpreter = vl_kmalloc(sizeof(*interpreter), VL_WAIT);
    if (interpreter == NULL) {
        vl_kfree(path);
        return -ENOMEM;
    }
    interpreter->image = (struct elf_image){0};
    result = vfs_open_exec(AT_FDCWD, path, 0, &interpreter->image.file);
    vl_kfree(path);
    if (result != 0) {
        vl_kfree(interpreter);
        return result;
    }
    len = file_read_kernel(interpreter->image.file, interpreter->head, EXEC_HEAD_BYTES, 0);
    result = len < 0 ? len : image_read(&interpreter->image, interpreter->head, (uint64_t)len);
    *out = interpreter;
    return result == -ENOEXEC ? -ELIBBAD : result;
}

static void interpreter_close(struct elf_interpreter *interpreter)
{
    if (interpreter != NULL) {
        vl_kfree(interpreter->image.allocated);
        file_put(interpreter->image.file);
        vl_kfree(interpreter);
    }
}

static long interpreter_load(struct exec *exec, struct elf_interpreter *interpreter)
{
    struct elf_image *image = &interpreter->image;
    long result = 0;

    if (image->header.type == ET_DYN) {
        result = image_place(exec->space, image, 0);
    }
    if (result == 0) {
        result = image_map(exec->space, image);
    }
    exec->interpreter_base = image->bias;
    exec->entry = image->header.entry + image->bias;
    return result;
}

/* --------------------------------------------------------------------------- the program */

static long program_load(struct exec *exec, struct elf_image *image)
{
    const struct elf_segment *stack = segment_find(image, PT_GNU_STACK);
    long result;

    if (image->header.type == ET_DYN) {
        result = image_place(exec->space, image, EXEC_PIE_BASE);
        if (result != 0) {
            return result;
        }
    }
    result = image_map(exec->space, image);
    exec->program_entry = image->header.entry + image->bias;
    exec->program_headers = headers_address(image);
    exec->program_header_count = image->header.segment_count;
    exec->brk = vli_round_up(image->brk, VL_PAGE_SIZE);
    exec->entry = exec->program_entry;
    exec->stack_prot = VL_READ | VL_WRITE;
    if (stack != NULL && (stack->flags & PF_X) != 0) {
        exec->stack_prot |= VL_EXEC;
    }
    return result;
}

long elf_load(struct exec *exec)
{
    struct elf_image image = {.file = exec->file};
    struct elf_interpreter *interpreter = NULL;
    long result = image_read(&image, exec->head, exec->head_len);

    if (result == 0) {
        result = interpreter_open(&image, &interpreter);
    }
    if (result == 0) {
        exec->too_late = true;
        result = program_load(exec, &image);
    }
    if (result == 0 && interpreter != NULL) {
        result = interpreter_load(exec, interpreter);
    }
    if (result == 0 && exec->entry >= VL_USER_END) {
        result = -EINVAL;
    }
    interpreter_close(interpreter);
    vl_kfree(image.allocated);
    return result;
}
