/*
 * log.c - a small formatter, without allocation, floating point or locale.
 *
 * The output goes through a cursor that counts what the whole text would need and stores what fits,
 * so that every caller gets vsnprintf()'s contract from one place. A conversion that is not
 * understood is copied as it stands: a wrong log line is better than a wrong argument read.
 */
#include "core/base/log.h"

#define LINE_BYTES 160u

/* Where the text goes; len counts on beyond size. */
struct cursor {
    char *out;
    size_t size;
    size_t len;
};

/* One conversion: %[-0][width][.precision][length]letter. */
struct conversion {
    bool left;
    bool zero;
    size_t width;
    size_t precision; /* SIZE_MAX: none was given */
    unsigned longs;   /* 0 int, 1 long or size_t, 2 long long */
    char letter;
};

static void put(struct cursor *to, char c)
{
    if (to->len + 1 < to->size) {
        to->out[to->len] = c;
    }
    to->len++;
}

static void put_many(struct cursor *to, char c, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        put(to, c);
    }
}

static void put_padded(struct cursor *to, const struct conversion *conv, const char *text,
                       size_t len)
{
    size_t pad = conv->width > len ? conv->width - len : 0;

    if (!conv->left) {
        put_many(to, ' ', pad);
    }
    for (size_t i = 0; i < len; i++) {
        put(to, text[i]);
    }
    if (conv->left) {
        put_many(to, ' ', pad);
    }
}

static void put_number(struct cursor *to, const struct conversion *conv, uint64_t value,
                       unsigned base, const char *prefix)
{
    char digits[24];
    char text[48];
    size_t count = 0;
    size_t len = 0;
    size_t zeros;

    do {
        digits[count++] = "0123456789abcdef"[value % base];
        value /= base;
    } while (value != 0);
    for (; *prefix != '\0'; prefix++) {
        text[len++] = *prefix;
    }
    zeros = conv->zero && !conv->left && conv->width > len + count ? conv->width - len - count : 0;
    if (zeros > sizeof(digits)) {
        zeros = sizeof(digits) - 1;
    }
    if (zeros + len + count > sizeof(text)) {
        zeros = sizeof(text) - len - count;
    }
    for (size_t i = 0; i < zeros; i++) {
        text[len++] = '0';
    }
    while (count > 0) {
        text[len++] = digits[--count];
    }
    put_padded(to, conv, text, len);
}

static void put_string(struct cursor *to, const struct conversion *conv, const char *text)
{
    size_t len = 0;

    if (text == NULL) {
        text = "(null)";
    }
    while (len < conv->precision && text[len] != '\0') {
        len++;
    }
    put_padded(to, conv, text, len);
}

/* Reads digits; saturates so that a hostile width cannot wrap. */
static const char *parse_digits(const char *format, size_t *out)
{
    size_t value = 0;

    for (; *format >= '0' && *format <= '9'; format++) {
        if (value < 10000) {
            value = value * 10 + (size_t)(*format - '0');
        }
    }
    *out = value;
    return format;
}

/* Parses what follows a %; returns the place behind the letter (or at the ending 0). */
static const char *parse(const char *format, struct conversion *conv)
{
    *conv = (struct conversion){.precision = SIZE_MAX};
    for (; *format == '-' || *format == '0'; format++) {
        conv->left = conv->left || *format == '-';
        conv->zero = conv->zero || *format == '0';
    }
    format = parse_digits(format, &conv->width);
    if (*format == '.') {
        format = parse_digits(format + 1, &conv->precision);
    }
    for (; *format == 'l' || *format == 'z'; format++) {
        conv->longs++;
    }
    conv->letter = *format;
    return *format == '\0' ? format : format + 1;
}

static uint64_t take_unsigned(const struct conversion *conv, va_list *args)
{
    switch (conv->longs) {
    case 0:
        return va_arg(*args, unsigned);
    case 1:
        return va_arg(*args, unsigned long);
    default:
        return va_arg(*args, unsigned long long);
    }
}

static int64_t take_signed(const struct conversion *conv, va_list *args)
{
    switch (conv->longs) {
    case 0:
        return va_arg(*args, int);
    case 1:
        return va_arg(*args, long);
    default:
        return va_arg(*args, long long);
    }
}

/* Writes one conversion; false when its letter is not known. */
static bool convert(struct cursor *to, const struct conversion *conv, va_list *args)
{
    int64_t number;
    char c;

    switch (conv->letter) {
    case 's':
        put_string(to, conv, va_arg(*args, const char *));
        return true;
    case 'c':
        c = (char)va_arg(*args, int);
        put_padded(to, conv, &c, 1);
        return true;
    case 'd':
        number = take_signed(conv, args);
        put_number(to, conv, number < 0 ? 0 - (uint64_t)number : (uint64_t)number, 10,
                   number < 0 ? "-" : "");
        return true;
    case 'u':
        put_number(to, conv, take_unsigned(conv, args), 10, "");
        return true;
    case 'x':
        put_number(to, conv, take_unsigned(conv, args), 16, "");
        return true;
    case 'p':
        put_number(to, conv, (uintptr_t)va_arg(*args, void *), 16, "0x");
        return true;
    case '%':
        put(to, '%');
        return true;
    default:
        return false;
    }
}

size_t vli_format(char *out, size_t size, const char *format, va_list args)
{
    struct cursor to = {out, size, 0};
    struct conversion conv;
    const char *start;
    va_list copy;

    va_copy(copy, args);
    while (*format != '\0') {
        if (*format != '%') {
            put(&to, *format++);
            continue;
        }
        start = format;
        format = parse(format + 1, &conv);
        if (!convert(&to, &conv, &copy)) {
            for (; start < format; start++) {
                put(&to, *start);
            }
        }
    }
    va_end(copy);
    if (size > 0) {
        out[to.len < size ? to.len : size - 1] = '\0';
    }
    return to.len;
}

size_t vli_print(char *out, size_t size, const char *format, ...)
{
    va_list args;
    size_t len;

    va_start(args, format);
    len = vli_format(out, size, format, args);
    va_end(args);
    return len;
}

void vli_log(enum vl_log_level level, const char *format, ...)
{
    char line[LINE_BYTES];
    va_list args;

    va_start(args, format);
    vli_format(line, sizeof(line), format, args);
    va_end(args);
    vl_host_log(level, line);
}

void vli_panic(const char *format, ...)
{
    char line[LINE_BYTES];
    va_list args;

    va_start(args, format);
    vli_format(line, sizeof(line), format, args);
    va_end(args);
    vl_host_panic(line);
}
