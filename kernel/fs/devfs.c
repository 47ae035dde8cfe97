/*
 * devfs.c - device nodes and the simple devices: null, zero, full, random.
 *
 * devtmpfs is a file system in memory that starts with a node for each device that there is, and,
 * for programs that expect them, shm and the links to /proc/self/fd.
 */
#include "kernel/dev/tty.h"
#include "kernel/fs/inode_types.h"
#include "kernel/fs/poll.h"
#include "kernel/lib/mem.h"
#include "kernel/lib/printk.h"

static long null_read(struct file *file, struct user_iter *to, uint64_t *pos)
{
    (void)file;
    (void)to;
    (void)pos;
    return 0;
}

static long null_write(struct file *file, struct user_iter *from, uint64_t *pos)
{
    (void)file;
    (void)pos;
    return (long)from->left;
}

static long zero_read(struct file *file, struct user_iter *to, uint64_t *pos)
{
    size_t want = to->left;
    size_t done = 0;

    (void)file;
    (void)pos;
    while (done < want) { /* in pieces, so that a signal need not wait for 2 GiB */
        size_t piece = want - done < 16 * VL_PAGE_SIZE ? want - done : 16 * VL_PAGE_SIZE;
        size_t cleared = iter_zero(to, piece);

        done += cleared;
        if (cleared < piece) {
            return done != 0 ? (long)done : -EFAULT;
        }
        if (thread_signal_pending(current())) {
            break;
        }
    }
    return done != 0 || want == 0 ? (long)done : -ERESTARTSYS;
}

/* Anonymous memory, whether shared or not. */
static long zero_map(struct file *file, uint32_t prot, bool shared, struct vl_object **out_object,
                     uint32_t *out_prot_max)
{
    (void)file;
    (void)prot;
    (void)shared;
    *out_object = NULL;
    *out_prot_max = VL_READ | VL_WRITE | VL_EXEC;
    return 0;
}

static long full_write(struct file *file, struct user_iter *from, uint64_t *pos)
{
    (void)file;
    (void)pos;
    return from->left != 0 ? -ENOSPC : 0;
}

static long random_read(struct file *file, struct user_iter *to, uint64_t *pos)
{
    uint64_t words[32];
    size_t want = to->left;
    size_t done = 0;

    (void)file;
    (void)pos;
    while (done < want) {
        size_t piece = want - done < sizeof(words) ? want - done : sizeof(words);
        size_t copied;

        for (size_t i = 0; i * 8 < piece; i++) {
            words[i] = cpu_random64();
        }
        copied = iter_out(to, words, piece);
        done += copied;
        if (copied < piece) {
            return done != 0 ? (long)done : -EFAULT;
        }
        if (done > VL_PAGE_SIZE && thread_signal_pending(current())) {
            break;
        }
    }
    return (long)done;
}

/* Lines written here go to the log. */
static long kmsg_write(struct file *file, struct user_iter *from, uint64_t *pos)
{
    char line[160];
    size_t want = from->left;
    size_t len = iter_in(from, line, want < sizeof(line) - 1 ? want : sizeof(line) - 1);

    (void)file;
    (void)pos;
    if (len == 0) {
        return want != 0 ? -EFAULT : 0;
    }
    while (len != 0 && line[len - 1] == '\n') {
        len--;
    }
    line[len] = 0;
    printk(VL_LOG_INFO, "%s", line);
    return (long)want;
}

static long kmsg_read(struct file *file, struct user_iter *to, uint64_t *pos)
{
    char text[256];
    size_t len = printk_read(text, to->left < sizeof(text) ? to->left : sizeof(text), *pos);
    size_t copied = iter_out(to, text, len);

    (void)file;
    *pos += copied;
    return copied < len && copied == 0 ? -EFAULT : (long)copied;
}

static const struct file_ops null_ops = {
    .is_endless = true, .read = null_read, .write = null_write};
static const struct file_ops zero_ops = {
    .is_endless = true, .read = zero_read, .write = null_write, .map = zero_map};
static const struct file_ops full_ops = {
    .is_endless = true, .read = zero_read, .write = full_write};
static const struct file_ops random_ops = {
    .is_endless = true, .read = random_read, .write = null_write};
static const struct file_ops kmsg_ops = {.read = kmsg_read, .write = kmsg_write};

static const struct device {
    const char *name;
    uint32_t number;
    uint32_t mode;
    const struct file_ops *ops; /* NULL: a terminal */
} devices[] = {
    {"null", DEVICE(1, 3), 0666, &null_ops},
    {"zero", DEVICE(1, 5), 0666, &zero_ops},
    {"full", DEVICE(1, 7), 0666, &full_ops},
    {"random", DEVICE(1, 8), 0666, &random_ops},
    {"urandom", DEVICE(1, 9), 0666, &random_ops},
    {"kmsg", DEVICE(1, 11), 0644, &kmsg_ops},
    {"tty", DEVICE(5, 0), 0666, NULL},
    {"console", DEVICE(5, 1), 0600, NULL},
    {"ttyS0", DEVICE(4, 64), 0660, NULL},
};

long device_open(struct inode *inode, struct file *file, bool is_plain)
{
    if (!inode_is(inode, S_IFCHR)) {
        return -ENXIO;
    }
    for (unsigned i = 0; i < VLI_COUNT_OF(devices); i++) {
        if (devices[i].number == inode->device) {
            file->ops = devices[i].ops;
            return file->ops != NULL ? 0 : tty_open(file, inode->device, is_plain);
        }
    }
    return -ENXIO;
}

static const struct {
    const char *name;
    uint32_t mode;
    const char *link;
} extras[] = {{"shm", S_IFDIR | 01777, NULL},
              {"fd", S_IFLNK | 0777, "/proc/self/fd"},
              {"stdin", S_IFLNK | 0777, "/proc/self/fd/0"},
              {"stdout", S_IFLNK | 0777, "/proc/self/fd/1"},
              {"stderr", S_IFLNK | 0777, "/proc/self/fd/2"}};

static long dev_node(struct dentry *root, const char *name, uint32_t mode, uint32_t device,
                     const char *link)
{
    long result;

    mutex_lock(&root->inode->mutex);
    result = node_make_locked(root, name, strlen(name), mode, device, link, NULL);
    mutex_unlock(&root->inode->mutex);
    return result;
}

static long dev_fill(struct super *super, const char *options)
{
    long result = ram_fill(super, options);

    for (unsigned i = 0; result == 0 && i < VLI_COUNT_OF(devices); i++) {
        result = dev_node(super->root, devices[i].name, S_IFCHR | devices[i].mode,
                          devices[i].number, NULL);
    }
    for (unsigned i = 0; result == 0 && i < VLI_COUNT_OF(extras); i++) {
        result = dev_node(super->root, extras[i].name, extras[i].mode, 0, extras[i].link);
    }
    return result;
}

const struct fs_type devtmpfs_type = {"devtmpfs", 0x01021994, dev_fill};
