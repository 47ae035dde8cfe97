/*
 * options.c - the command line.
 *
 * As Linux does it: words are divided by blanks, double quotes keep blanks inside a word; what is
 * not the kernel's goes to init, NAME=VALUE as environment, other words as arguments, and all
 * words behind "--" as arguments. A word with a dot before any '=' belongs to some module and is
 * passed over.
 */
#include "kernel/boot/options.h"
#include "kernel/lib/mem.h"
#include "kernel/lib/printk.h"

#define LINE_MAX_BYTES 2048u

static char line[LINE_MAX_BYTES];  /* as given */
static char words[LINE_MAX_BYTES]; /* cut into words */
static struct boot_options options = {.command_line = line, .rdinit = "/init"};

const struct boot_options *boot_options(void)
{
    return &options;
}

/* The value when @word is @name followed by '=', or NULL. */
static const char *value_of(const char *word, const char *name)
{
    size_t len = strlen(name);

    return strncmp(word, name, len) == 0 && word[len] == '=' ? word + len + 1 : NULL;
}

static int parse_int(const char *text)
{
    int sign = *text == '-' ? -1 : 1;
    int value = 0;

    for (text += *text == '-'; *text >= '0' && *text <= '9' && value < 1000000; text++) {
        value = value * 10 + (*text - '0');
    }
    return sign * value;
}

static void add_word(const char **list, unsigned *count, const char *word)
{
    if (*count < BOOT_INIT_ARGS_MAX) {
        list[(*count)++] = word;
    }
}

static void pass_to_init(const char *word)
{
    const char *equals = strchr(word, '=');
    const char *dot = strchr(word, '.');

    if (dot != NULL && (equals == NULL || dot < equals)) {
        return;
    }
    if (equals != NULL) {
        add_word(options.init_env, &options.init_env_count, word);
    } else {
        add_word(options.init_args, &options.init_arg_count, word);
    }
}

/* Words that Linux's own kernel consumes and that mean nothing here: init must not see them. */
static bool is_linux_only(const char *word)
{
    static const char *const names[] = {
        "root",        "rootfstype",  "rootflags", "earlyprintk", "initrd",   "loglevel",
        "mitigations", "clocksource", "tsc",       "nosmp",       "maxcpus",  "nokaslr",
        "ro",          "rw",          "debug",     "noapic",      "mem",      "reboot",
        "lpj",         "nr_cpus",     "acpi",      "rootwait",    "earlycon", "norandmaps"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        size_t len = strlen(names[i]);

        if (strncmp(word, names[i], len) == 0 && (word[len] == 0 || word[len] == '=')) {
            return true;
        }
    }
    return false;
}

static void take_word(const char *word)
{
    const char *value;

    if (strcmp(word, "quiet") == 0) {
        options.quiet = true;
    } else if (value_of(word, "console") != NULL) {
        return; /* the one serial line is the console */
    } else if ((value = value_of(word, "panic")) != NULL) {
        options.panic_seconds = parse_int(value);
    } else if ((value = value_of(word, "rdinit")) != NULL) {
        options.rdinit = value;
    } else if ((value = value_of(word, "init")) != NULL) {
        options.init = value;
    } else if ((value = value_of(word, "vellum.crash")) != NULL) {
        options.crash = parse_int(value);
    } else if (!is_linux_only(word)) {
        pass_to_init(word);
    }
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n';
}

void boot_options_parse(const char *text)
{
    bool all_to_init = false;
    char *at = words;

    strlcpy(line, text, sizeof(line));
    strlcpy(words, text, sizeof(words));
    while (*at != 0) {
        char *word;
        char *out;
        bool quoted = false;

        if (is_blank(*at)) {
            at++;
            continue;
        }
        for (word = out = at; *at != 0 && (quoted || !is_blank(*at)); at++) {
            if (*at == '"') {
                quoted = !quoted;
            } else {
                *out++ = *at;
            }
        }
        at += *at != 0;
        *out = 0;
        if (all_to_init) {
            add_word(options.init_args, &options.init_arg_count, word);
        } else if (strcmp(word, "--") == 0) {
            all_to_init = true;
        } else {
            take_word(word);
        }
    }
    printk_set_quiet(options.quiet);
}

const char *boot_option_value(const char *name, size_t *out_len)
{
    size_t name_len = strlen(name);
    const char *at = line;

    while (*at != 0) {
        const char *end = at;

        while (*end != 0 && !is_blank(*end)) {
            end++;
        }
        if ((size_t)(end - at) > name_len && strncmp(at, name, name_len) == 0 &&
            at[name_len] == '=') {
            *out_len = (size_t)(end - at) - name_len - 1;
            return at + name_len + 1;
        }
        at = *end != 0 ? end + 1 : end;
    }
    *out_len = 0;
    return NULL;
}
