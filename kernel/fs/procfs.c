/*
 * procfs.c - the mechanics of /proc and /sys: entries become dentries when they are looked up and
 * go with their last reference, so a process that is gone leaves nothing behind.
 *
 * The text of a file is made as a whole when it is read from its start, kept with the open file,
 * and handed out by position: one reader sees one state.
 */
#include "kernel/fs/proc.h"
#include "kernel/lib/mem.h"
#include "kernel/proc/process.h"

#define TEXT_FIRST 4096u
#define TEXT_MAX   ((size_t)4 << 20) /* one kmalloc */
#define STORE_MAX  4096u

static const struct inode_ops proc_dir_ops, proc_file_ops, proc_text_link_ops, proc_object_link_ops;
static const struct file_ops proc_dir_file_ops, proc_text_file_ops;

void proc_append(struct proc_text *text, const char *bytes, size_t len)
{
    if (text->len < text->size) {
        size_t room = text->size - text->len;

        memcpy(text->bytes + text->len, bytes, len < room ? len : room);
    }
    text->len += len;
}

void proc_print(struct proc_text *text, const char *format, ...)
{
    size_t room = text->len < text->size ? text->size - text->len : 0;
    va_list args;

    va_start(args, format);
    text->len += vli_format(room != 0 ? text->bytes + text->len : NULL, room, format, args);
    va_end(args);
}

void proc_report(struct proc_text *text, size_t (*report)(char *out, size_t size))
{
    size_t room = text->len < text->size ? text->size - text->len : 0;

    text->len += report(room != 0 ? text->bytes + text->len : NULL, room);
}

bool proc_number(const char *name, size_t len, uint32_t *out)
{
    uint32_t value = 0;

    if (len == 0 || len > 9 || (name[0] == '0' && len > 1)) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        if (name[i] < '0' || name[i] > '9') {
            return false;
        }
        value = value * 10 + (uint32_t)(name[i] - '0');
    }
    *out = value;
    return true;
}

bool proc_list_number(struct file *file, struct dir_sink *sink, uint32_t number, uint32_t mode,
                      uint64_t next_pos)
{
    char name[12];
    size_t len = vli_print(name, sizeof(name), "%u", number);

    if (!sink->add(sink, name, len, next_pos, ((uint64_t)number << 24) | 0xfffffu, mode)) {
        return false;
    }
    file->pos = next_pos;
    return true;
}

/* --------------------------------------------------------------------------------- inodes */

static const struct proc_entry *entry_of(const struct inode *inode)
{
    return inode->node_entry;
}

static struct proc_key key_of(const struct inode *inode)
{
    return (struct proc_key){(uint32_t)inode->key, (uint32_t)(inode->key >> 32)};
}

/* Files of a process belong to who runs it. */
static void take_owner(struct inode *inode, uint32_t pid)
{
    struct process *process = pid != 0 ? process_find(pid) : NULL;

    inode->uid = process != NULL ? process->cred.euid : 0;
    inode->gid = process != NULL ? process->cred.egid : 0;
    if (process != NULL) {
        process_put(process);
    }
}

static struct inode *proc_inode(struct super *super, const struct proc_entry *entry,
                                struct proc_key key)
{
    uint32_t type = entry->mode & S_IFMT;
    const struct inode_ops *ops = type == S_IFDIR         ? &proc_dir_ops
                                  : type == S_IFREG       ? &proc_file_ops
                                  : entry->follow != NULL ? &proc_object_link_ops
                                                          : &proc_text_link_ops;
    struct inode *inode = inode_make(super, entry->mode, ops,
                                     type == S_IFDIR ? &proc_dir_file_ops : &proc_text_file_ops);

    if (inode == NULL) {
        return NULL;
    }
    inode->node_entry = entry;
    inode->key = key.pid | (uint64_t)key.part << 32;
    inode->number =
        ((uintptr_t)entry & 0xffffffu) + ((uint64_t)key.pid << 24) + ((uint64_t)key.part << 40);
    take_owner(inode, key.pid);
    return inode;
}

static long make_dentry(struct dentry *dir, const char *name, size_t len,
                        const struct proc_entry *entry, struct proc_key key, struct dentry **out)
{
    struct inode *inode = proc_inode(dir->inode->super, entry, key);

    if (inode == NULL) {
        return -ENOMEM;
    }
    *out = dentry_make(dir, name, len, inode);
    inode_put(inode); /* the dentry has its own */
    return *out != NULL ? 0 : -ENOMEM;
}

static long proc_lookup(struct dentry *dir, const char *name, size_t len, struct dentry **out)
{
    const struct proc_entry *entry = dir->inode->node_entry;
    struct proc_key key = key_of(dir->inode);
    const struct proc_entry *child = entry->children;

    for (; child != NULL && child->name != NULL; child++) {
        if (strlen(child->name) == len && memcmp(child->name, name, len) == 0) {
            return make_dentry(dir, name, len, child, key, out);
        }
    }
    if (entry->lookup != NULL) {
        struct proc_key child_key = key;
        long result = entry->lookup(name, len, key, &child, &child_key);

        return result == 0 ? make_dentry(dir, name, len, child, child_key, out) : result;
    }
    return -ENOENT;
}

static long proc_list(struct file *file, struct dir_sink *sink)
{
    const struct proc_entry *entry = file->inode->node_entry;
    struct proc_key key = key_of(file->inode);
    uint64_t count = 0;

    while (entry->children != NULL && entry->children[count].name != NULL) {
        count++;
    }
    while (file->pos - 2 < count) {
        const struct proc_entry *child = &entry->children[file->pos - 2];

        if (!sink->add(sink, child->name, strlen(child->name), file->pos + 1,
                       ((uintptr_t)child & 0xffffffu) + ((uint64_t)key.pid << 24), child->mode)) {
            return 0;
        }
        file->pos++;
    }
    if (entry->list == NULL) {
        return 0;
    }
    if (file->pos < PROC_POS_DYNAMIC) {
        file->pos = PROC_POS_DYNAMIC;
    }
    return entry->list(file, sink, key);
}

/* ---------------------------------------------------------------------------------- links */

static long proc_read_link(struct inode *inode, char *out, size_t size)
{
    return entry_of(inode)->link(out, size, key_of(inode));
}

static long proc_follow(struct inode *inode, struct dentry **out)
{
    return entry_of(inode)->follow(out, key_of(inode));
}

/* ---------------------------------------------------------------------------------- texts */

/* Make the text of an open file afresh. 0 or an errno. */
static long text_make(struct file *file)
{
    const struct proc_entry *entry = entry_of(file->inode);
    struct proc_text *text = file->private_data;
    size_t size = TEXT_FIRST;

    for (;;) {
        long result;

        if (text->size < size) {
            vl_kfree(text->bytes);
            text->size = 0;
            text->bytes = vl_kmalloc(size, VL_WAIT);
            if (text->bytes == NULL) {
                return -ENOMEM;
            }
            text->size = size;
        }
        text->len = 0;
        result = entry->show(text, key_of(file->inode));
        if (result != 0 || text->len < text->size || size >= TEXT_MAX) {
            text->len = text->len < text->size ? text->len : text->size;
            return result;
        }
        while (size <= text->len && size < TEXT_MAX) {
            size *= 2;
        }
    }
}

static long proc_open(struct inode *inode, struct file *file)
{
    if (inode_is(inode, S_IFDIR)) {
        return 0;
    }
    file->private_data = vl_kmalloc(sizeof(struct proc_text), VL_WAIT | VL_ZEROED);
    return file->private_data != NULL ? 0 : -ENOMEM;
}

static void proc_release(struct file *file)
{
    struct proc_text *text = file->private_data;

    vl_kfree(text->bytes);
    vl_kfree(text);
}

static long text_read(struct file *file, struct user_iter *to, uint64_t *pos)
{
    struct proc_text *text = file->private_data;
    size_t len;
    size_t copied;

    if (entry_of(file->inode)->show == NULL) {
        return -EINVAL;
    }
    mutex_lock(&file->inode->mutex);
    if (*pos == 0 || text->bytes == NULL) {
        long result = text_make(file);

        if (result != 0) {
            mutex_unlock(&file->inode->mutex);
            return result;
        }
    }
    len = *pos < text->len ? text->len - (size_t)*pos : 0;
    len = len < to->left ? len : to->left;
    copied = len != 0 ? iter_out(to, text->bytes + *pos, len) : 0;
    mutex_unlock(&file->inode->mutex);
    *pos += copied;
    return copied < len && copied == 0 ? -EFAULT : (long)copied;
}

static long text_write(struct file *file, struct user_iter *from, uint64_t *pos)
{
    const struct proc_entry *entry = entry_of(file->inode);
    size_t len = from->left;
    char *bytes;
    long result;

    if (entry->store == NULL) {
        return -EINVAL;
    }
    if (len >= STORE_MAX) {
        return -EINVAL;
    }
    bytes = vl_kmalloc(len + 1, VL_WAIT);
    if (bytes == NULL) {
        return -ENOMEM;
    }
    if (iter_in(from, bytes, len) != len) {
        vl_kfree(bytes);
        return -EFAULT;
    }
    bytes[len] = 0;
    result = entry->store(bytes, len, key_of(file->inode));
    vl_kfree(bytes);
    if (result == 0) {
        *pos += len;
        result = (long)len;
    }
    return result;
}

static const struct inode_ops proc_dir_ops = {
    .lookup = proc_lookup, .list = proc_list, .open = proc_open};
static const struct inode_ops proc_file_ops = {.open = proc_open};
static const struct inode_ops proc_text_link_ops = {.read_link = proc_read_link};
static uint64_t proc_size(struct inode *inode)
{
    return entry_of(inode)->size;
}

static const struct inode_ops proc_object_link_ops = {.follow = proc_follow, .size = proc_size};
static const struct file_ops proc_dir_file_ops = {.list = proc_list};
static const struct file_ops proc_text_file_ops = {
    .read = text_read, .write = text_write, .release = proc_release};

/* ------------------------------------------------------------------------- the file systems */

static long tree_fill(struct super *super, const struct proc_entry *root)
{
    struct inode *inode = proc_inode(super, root, (struct proc_key){0, 0});

    if (inode == NULL) {
        return -ENOMEM;
    }
    super->root = dentry_make(NULL, "/", 1, inode);
    inode_put(inode); /* the dentry has its own */
    return super->root != NULL ? 0 : -ENOMEM;
}

/* /proc/PID. */
static long root_lookup(const char *name, size_t len, VLI_UNUSED struct proc_key key,
                        const struct proc_entry **out_entry, struct proc_key *out_key)
{
    struct process *process;
    uint32_t pid;

    if (!proc_number(name, len, &pid) || pid == 0) {
        return -ENOENT;
    }
    process = process_find(pid);
    if (process == NULL) {
        return -ENOENT;
    }
    process_put(process);
    *out_entry = &proc_pid_entry;
    *out_key = (struct proc_key){pid, 0};
    return 0;
}

static long root_list(struct file *file, struct dir_sink *sink, VLI_UNUSED struct proc_key key)
{
    for (;;) {
        struct process *process = process_next((uint32_t)(file->pos - PROC_POS_DYNAMIC));
        uint32_t pid;

        if (process == NULL) {
            return 0;
        }
        pid = process->pid;
        process_put(process);
        if (!proc_list_number(file, sink, pid, S_IFDIR, PROC_POS_DYNAMIC + pid + 1)) {
            return 0;
        }
    }
}

static long proc_fill(struct super *super, VLI_UNUSED const char *options)
{
    static const struct proc_entry root = {.mode = S_IFDIR | 0555,
                                           .children = proc_root_files,
                                           .lookup = root_lookup,
                                           .list = root_list};

    return tree_fill(super, &root);
}

/* "0-1": the CPUs that run. */
static long show_cpus(struct proc_text *text, VLI_UNUSED struct proc_key key)
{
    if (cpu_count() > 1) {
        proc_print(text, "0-%u\n", cpu_count() - 1);
    } else {
        proc_print(text, "0\n");
    }
    return 0;
}

/* What C libraries look up below /sys. */
static long sys_fill(struct super *super, VLI_UNUSED const char *options)
{
    static const struct proc_entry cpu[] = {
        {.name = "online", .mode = S_IFREG | 0444, .show = show_cpus},
        {.name = "possible", .mode = S_IFREG | 0444, .show = show_cpus},
        {.name = "present", .mode = S_IFREG | 0444, .show = show_cpus},
        {.name = NULL}};
    static const struct proc_entry system[] = {
        {.name = "cpu", .mode = S_IFDIR | 0755, .children = cpu}, {.name = NULL}};
    static const struct proc_entry devices[] = {
        {.name = "system", .mode = S_IFDIR | 0755, .children = system}, {.name = NULL}};
    static const struct proc_entry top[] = {
        {.name = "devices", .mode = S_IFDIR | 0755, .children = devices}, {.name = NULL}};
    static const struct proc_entry root = {.mode = S_IFDIR | 0555, .children = top};

    return tree_fill(super, &root);
}

const struct fs_type procfs_type = {"proc", 0x9fa0, proc_fill};
const struct fs_type sysfs_type = {"sysfs", 0x62656572, sys_fill};
