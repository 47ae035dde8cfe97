/*
 * unpack.c - the root file system: what Linux has in it at first, and the archive that the boot
 * loader left in memory.
 *
 * The archive's frames are reserved memory. Pages of a file that lie on page boundaries in it
 * become the file's pages where they are (vl_object_adopt); other data is copied. What lies behind
 * the reader is given back as it goes, so that the peak is the archive and one file, not twice the
 * archive.
 *
 * As on Linux an archive that turns out to be corrupt leaves what was unpacked up to there.
 */
#include "kernel/boot/boot.h"
#include "kernel/fs/cpio.h"
#include "kernel/fs/inode_types.h"
#include "kernel/fs/pipe.h"
#include "kernel/fs/proc.h"
#include "kernel/lib/mem.h"
#include "kernel/lib/printk.h"

/* A file with several names, of which more may come. */
struct hard_link {
    struct hard_link *next;
    uint32_t inode, device_major, device_minor;
    struct dentry *dentry; /* its first name; counted */
};

#define LINK_BUCKETS 64u

/* A directory, whose time is set when nothing more is made in it. */
struct directory_time {
    struct directory_time *next;
    struct dentry *dentry; /* counted */
    uint64_t modified_ns;
};

struct unpack {
    struct cpio_reader reader;
    struct directory_time *times;
    struct vl_pa start;      /* of the archive */
    const unsigned char *at; /* the same, as the kernel sees it */
    uint64_t released;       /* frames before this address are given back or adopted */
    struct hard_link *links[LINK_BUCKETS];
    uint64_t files, bytes, adopted_pages;
};

/* Give back whole frames from where the last call ended up to @end. */
static void release_until(struct unpack *unpack, uint64_t end)
{
    end &= ~(uint64_t)VL_PAGE_MASK;
    if (end > unpack->released) {
        boot_initrd_release((struct vl_pa){unpack->released}, (struct vl_pa){end});
        unpack->released = end;
    }
}

/* Make whole pages of the archive pages of @object, as many as lie on page boundaries.
 * Returns: bytes done. */
static size_t adopt_pages(struct unpack *unpack, struct vl_object *object, size_t start, size_t len)
{
    uint64_t address = unpack->start.a + start;
    size_t done = 0;

    if ((address & VL_PAGE_MASK) != 0) {
        return 0;
    }
    release_until(unpack, address);
    while (len - done >= VL_PAGE_SIZE) {
        struct vl_pfn pfn = vl_pa_to_pfn((struct vl_pa){address + done});

        if (vl_object_adopt(object, done >> VL_PAGE_SHIFT, pfn, VL_PAGE_SIZE) != VL_OK) {
            break;
        }
        done += VL_PAGE_SIZE;
        unpack->released += VL_PAGE_SIZE;
    }
    unpack->adopted_pages += done >> VL_PAGE_SHIFT;
    if (done != 0 && vl_object_extend(object, done) != VL_OK) {
        vli_panic("a file of the archive is larger than files can be");
    }
    return done;
}

/* Put the data of an entry into @dentry's file. 0 or an errno. */
static long fill_file(struct unpack *unpack, struct dentry *dentry, const struct cpio_entry *entry)
{
    struct file *file;
    size_t done;
    long result = dentry_open(dentry, O_RDWR | O_TRUNC, &file);

    if (result != 0) {
        return result;
    }
    done = adopt_pages(unpack, dentry->inode->u.object, entry->data_start, entry->data_len);
    if (done < entry->data_len) {
        long written = file_write_kernel(file, unpack->at + entry->data_start + done,
                                         entry->data_len - done, done);

        result = written < 0 ? written : (size_t)written < entry->data_len - done ? -ENOSPC : 0;
    }
    inode_charge(dentry->inode);
    file_put(file);
    unpack->bytes += entry->data_len;
    return result;
}

static struct hard_link **link_find(struct unpack *unpack, const struct cpio_entry *entry)
{
    struct hard_link **at = &unpack->links[(entry->inode ^ entry->device_minor) % LINK_BUCKETS];

    while (*at != NULL &&
           ((*at)->inode != entry->inode || (*at)->device_major != entry->device_major ||
            (*at)->device_minor != entry->device_minor)) {
        at = &(*at)->next;
    }
    return at;
}

static void links_forget(struct unpack *unpack)
{
    for (unsigned i = 0; i < LINK_BUCKETS; i++) {
        while (unpack->links[i] != NULL) {
            struct hard_link *link = unpack->links[i];

            unpack->links[i] = link->next;
            dentry_put(link->dentry);
            vl_kfree(link);
        }
    }
}

/* Make the node of an entry, or another name of one made before. 0 and *@out with a reference. */
static long make_node(struct unpack *unpack, const struct cpio_entry *entry, const char *link_text,
                      struct dentry **out)
{
    bool has_names = entry->links >= 2 && (entry->mode & S_IFMT) != S_IFDIR;
    struct hard_link **at = link_find(unpack, entry);
    struct path_end end;
    long result = path_parent(AT_FDCWD, entry->name, &end);

    if (result != 0) {
        return result;
    }
    if (end.kind != END_NAME) {
        path_end_put(&end);
        return path_lookup(AT_FDCWD, entry->name, 0, out);
    }
    if (has_names && *at != NULL) {
        result = node_link((*at)->dentry, &end);
        *out = (*at)->dentry;
        dentry_get(*out);
    } else {
        result = node_make(&end, entry->mode, DEVICE(entry->node_major, entry->node_minor),
                           link_text, out);
    }
    path_end_put(&end);
    if (result == 0 && has_names && *at == NULL) {
        struct hard_link *link = vl_kmalloc(sizeof(*link), VL_WAIT);

        if (link != NULL) {
            *link = (struct hard_link){NULL, entry->inode, entry->device_major, entry->device_minor,
                                       *out};
            dentry_get(*out);
            *at = link;
        }
    }
    return result;
}

/* An entry whose name is there already replaces it, unless both are directories. */
static void remove_old(const struct cpio_entry *entry)
{
    struct dentry *old;
    struct path_end end;
    bool directory;

    if (path_lookup(AT_FDCWD, entry->name, 0, &old) != 0) {
        return;
    }
    directory = inode_is(old->inode, S_IFDIR);
    dentry_put(old);
    if ((directory && (entry->mode & S_IFMT) == S_IFDIR) ||
        path_parent(AT_FDCWD, entry->name, &end) != 0) {
        return;
    }
    (void)node_remove(&end, directory);
    path_end_put(&end);
}

/* Remember a directory's time; without memory it has that of its last entry. */
static void time_remember(struct unpack *unpack, struct dentry *dentry, uint64_t modified_ns)
{
    struct directory_time *time = vl_kmalloc(sizeof(*time), VL_WAIT);

    if (time != NULL) {
        dentry_get(dentry);
        *time = (struct directory_time){unpack->times, dentry, modified_ns};
        unpack->times = time;
    }
}

static void times_set(struct unpack *unpack)
{
    while (unpack->times != NULL) {
        struct directory_time *time = unpack->times;

        unpack->times = time->next;
        time->dentry->inode->modified_ns = time->modified_ns;
        dentry_put(time->dentry);
        vl_kfree(time);
    }
}

static long unpack_entry(struct unpack *unpack, const struct cpio_entry *entry)
{
    char *text = NULL;
    struct dentry *dentry = NULL;
    struct inode *inode;
    long result;

    if ((entry->mode & S_IFMT) == S_IFLNK) {
        if (entry->data_len == 0 || entry->data_len >= PATH_MAX_BYTES) {
            return -EINVAL;
        }
        text = vl_kmalloc(entry->data_len + 1, VL_WAIT);
        if (text == NULL) {
            return -ENOMEM;
        }
        memcpy(text, unpack->at + entry->data_start, entry->data_len);
        text[entry->data_len] = 0;
    }
    remove_old(entry);
    result = make_node(unpack, entry, text, &dentry);
    vl_kfree(text);
    if (result == -EEXIST && (entry->mode & S_IFMT) == S_IFDIR) {
        result = path_lookup(AT_FDCWD, entry->name, 0, &dentry);
    }
    if (result != 0) {
        return result;
    }
    inode = dentry->inode;
    if ((entry->mode & S_IFMT) == S_IFREG && entry->data_len != 0 && inode_is(inode, S_IFREG)) {
        result = fill_file(unpack, dentry, entry);
    }
    if (inode_is(inode, S_IFDIR) == ((entry->mode & S_IFMT) == S_IFDIR)) {
        inode->mode = (inode->mode & S_IFMT) | (entry->mode & 07777u);
    }
    inode->uid = entry->uid;
    inode->gid = entry->gid;
    inode->modified_ns = (uint64_t)entry->modified_s * 1000000000u;
    if (inode_is(inode, S_IFDIR)) {
        time_remember(unpack, dentry, inode->modified_ns);
    }
    unpack->files++;
    dentry_put(dentry);
    return result;
}

static void unpack_archive(struct unpack *unpack)
{
    struct cpio_entry entry;
    enum cpio_result result;
    bool is_new_archive;
    long error = 0;

    while ((result = cpio_next(&unpack->reader, &entry, &is_new_archive)) == CPIO_ENTRY) {
        long status;

        if (is_new_archive) {
            links_forget(unpack);
        }
        status = unpack_entry(unpack, &entry);
        error = status != 0 && error == 0 ? status : error;
        if (status == -ENOSPC || status == -ENOMEM) {
            printk(VL_LOG_ERROR, "initrd: no memory for %s: the rest is left out", entry.name);
            break;
        }
        /* The entry is done with, its name too; the next header lies behind its data. */
        release_until(unpack, unpack->start.a + entry.data_start + entry.data_len);
    }
    if (result == CPIO_BAD) {
        printk(VL_LOG_ERROR, "initrd: corrupt at byte %lu of %lu: %s",
               (unsigned long)unpack->reader.pos, (unsigned long)unpack->reader.len,
               unpack->reader.error);
    } else if (error != 0 && result == CPIO_END) {
        printk(VL_LOG_WARNING, "initrd: some entries could not be made: error %ld", error);
    }
    links_forget(unpack);
    times_set(unpack);
}

/* What Linux's built-in archive holds. */
static void make_first_names(void)
{
    static const struct {
        const char *path;
        uint32_t mode;
        uint32_t device;
    } names[] = {{"/dev", S_IFDIR | 0755, 0},
                 {"/dev/console", S_IFCHR | 0600, DEVICE(5, 1)},
                 {"/root", S_IFDIR | 0700, 0}};

    for (unsigned i = 0; i < VLI_COUNT_OF(names); i++) {
        struct path_end end;

        if (path_parent(AT_FDCWD, names[i].path, &end) != 0 ||
            node_make(&end, names[i].mode, names[i].device, NULL, NULL) != 0) {
            vli_panic("no memory for the root file system");
        }
        path_end_put(&end);
    }
}

void fs_init(void)
{
    struct boot_initrd initrd = boot_initrd();
    static struct unpack unpack; /* a list of 64 buckets: not on the stack */
    uint64_t end = (initrd.start.a + initrd.len_bytes + VL_PAGE_MASK) & ~(uint64_t)VL_PAGE_MASK;

    inode_init();
    dentry_init();
    file_init();
    fdtable_init();
    pipe_init();
    mount_root();
    load_average_init();
    make_first_names();
    if (initrd.len_bytes == 0) {
        printk(VL_LOG_INFO, "initrd: none");
        return;
    }
    unpack.start = initrd.start;
    unpack.at = vl_host_phys_to_virt(initrd.start);
    unpack.released = initrd.start.a & ~(uint64_t)VL_PAGE_MASK;
    cpio_begin(&unpack.reader, unpack.at, initrd.len_bytes);
    unpack_archive(&unpack);
    release_until(&unpack, end);
    mount_limit_root();
    printk(VL_LOG_INFO, "initrd: %lu KiB, %lu names, %lu KiB of files, %lu KiB in place",
           (unsigned long)(initrd.len_bytes >> 10), (unsigned long)unpack.files,
           (unsigned long)(unpack.bytes >> 10), (unsigned long)(unpack.adopted_pages << 2));
}
