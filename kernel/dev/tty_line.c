/*
 * tty_line.c - the line discipline: what happens between a key and a reader.
 *
 * Canonical mode keeps the line being edited apart from the lines that are complete, so that
 * erase, kill and word erase work on the former only. What is echoed goes to the line at once, from
 * the interrupt; erasing a character rubs out as many columns as it took.
 */
#include "kernel/dev/tty_state.h"
#include "kernel/dev/serial.h"
#include "kernel/lib/mem.h"
#include "kernel/proc/signal.h"

#define BELL       7
#define IS_CTRL(c) ((c) < 32 || (c) == 127)

/* -------------------------------------------------------------------------------- output */

/* Room for what one byte may become: a tab is eight blanks. */
#define PUT_ROOM 8u

/* Write @byte as it goes to the line into @out. Returns: bytes. */
static size_t put_one(struct tty *tty, char byte, char *out)
{
    uint32_t flags = tty->termios.output;
    size_t len = 0;

    switch (byte) {
    case '\n':
        if ((flags & ONLCR) != 0) {
            out[len++] = '\r';
            tty->column = 0;
        }
        if ((flags & ONLRET) != 0) {
            tty->column = 0;
        }
        out[len++] = '\n';
        return len;
    case '\r':
        if ((flags & ONOCR) != 0 && tty->column == 0) {
            return 0;
        }
        tty->column = (flags & (OCRNL | ONLRET)) == OCRNL ? tty->column : 0;
        out[0] = (flags & OCRNL) != 0 ? '\n' : '\r';
        return 1;
    case '\t': {
        uint32_t width = 8 - tty->column % 8;

        tty->column += width;
        if ((flags & TABDLY) != XTABS) {
            out[0] = '\t';
            return 1;
        }
        memset(out, ' ', width);
        return width;
    }
    case '\b':
        tty->column -= tty->column > 0 ? 1 : 0;
        break;
    default:
        /* Control characters and the further bytes of a UTF-8 character take no column. */
        if (!IS_CTRL((unsigned char)byte) &&
            ((tty->termios.input & IUTF8) == 0 || ((unsigned char)byte & 0xc0u) != 0x80u)) {
            tty->column++;
        }
        break;
    }
    out[0] = byte;
    return 1;
}

void tty_put(struct tty *tty, const char *bytes, size_t len)
{
    char out[256];
    size_t filled = 0;

    if ((tty->termios.output & OPOST) == 0) {
        serial_write(bytes, len);
        return;
    }
    for (size_t i = 0; i < len; i++) {
        if (filled > sizeof(out) - PUT_ROOM) {
            serial_write(out, filled);
            filled = 0;
        }
        filled += put_one(tty, bytes[i], out + filled);
    }
    if (filled != 0) {
        serial_write(out, filled);
    }
}

/* Echo a character that was typed. */
static void echo(struct tty *tty, unsigned char byte)
{
    char text[2] = {(char)byte, 0};

    if ((tty->termios.local & ECHO) == 0 &&
        !(byte == '\n' && (tty->termios.local & (ECHONL | ICANON)) == (ECHONL | ICANON))) {
        return;
    }
    if (IS_CTRL(byte) && byte != '\n' && byte != '\t' && (tty->termios.local & ECHOCTL) != 0) {
        text[0] = '^';
        text[1] = (char)(byte ^ 0x40);
        tty_put(tty, text, 2);
    } else {
        tty_put(tty, text, 1);
    }
}

/* --------------------------------------------------------------------------------- the ring */

static bool mark_get(const uint64_t *marks, uint64_t position)
{
    uint64_t at = position % TTY_RING_BYTES;

    return (marks[at / 64] >> at % 64 & 1u) != 0;
}

static void mark_set(uint64_t *marks, uint64_t position, bool value)
{
    uint64_t at = position % TTY_RING_BYTES;

    if (value) {
        marks[at / 64] |= (uint64_t)1 << at % 64;
    } else {
        marks[at / 64] &= ~((uint64_t)1 << at % 64);
    }
}

static unsigned char byte_at(const struct tty *tty, uint64_t position)
{
    return tty->ring[position % TTY_RING_BYTES];
}

/* Append a byte. Returns: false when the ring is full. One place is kept for the end of a line. */
static bool append(struct tty *tty, unsigned char byte, bool is_end, bool is_eof)
{
    uint64_t limit = TTY_RING_BYTES - (is_end ? 0 : 1);

    if (tty->head - tty->tail >= limit) {
        if ((tty->termios.input & IMAXBEL) != 0) {
            static const char bell[1] = {BELL};

            serial_write(bell, 1);
        }
        return false;
    }
    tty->ring[tty->head % TTY_RING_BYTES] = byte;
    mark_set(tty->ends, tty->head, is_end);
    mark_set(tty->eofs, tty->head, is_eof);
    tty->head++;
    return true;
}

void tty_flush_input(struct tty *tty)
{
    tty->tail = tty->head;
    tty->line_end = tty->head;
    tty->lines = 0;
    tty->is_literal = false;
}

size_t tty_available(const struct tty *tty)
{
    return (size_t)((tty_is_canonical(tty) ? tty->line_end : tty->head) - tty->tail);
}

size_t tty_take(struct tty *tty, char *out, size_t max, bool *out_is_end)
{
    size_t len = tty_available(tty);
    size_t done = 0;

    *out_is_end = false;
    while (done < max && len != 0) {
        bool is_end = mark_get(tty->ends, tty->tail) && tty_is_canonical(tty);
        bool is_eof = is_end && mark_get(tty->eofs, tty->tail);

        if (!is_eof) {
            out[done++] = (char)byte_at(tty, tty->tail);
        }
        tty->tail++;
        len--;
        if (is_end) {
            tty->lines--;
            *out_is_end = true;
            break;
        }
    }
    /* A buffer that is just filled by the line before EOF: the EOF belongs to it. */
    if (done == max && !*out_is_end && len != 0 && tty_is_canonical(tty) &&
        mark_get(tty->eofs, tty->tail) && max != 0) {
        tty->tail++;
        tty->lines--;
        *out_is_end = true;
    }
    return done;
}

void tty_termios_changed(struct tty *tty, uint32_t old_local)
{
    if (((old_local ^ tty->termios.local) & ICANON) == 0) {
        return;
    }
    /* What was typed is one line, without an end, for those who read lines from now on; and what
     * ended lines before is plain data for those who read bytes. */
    for (uint64_t at = tty->tail; at != tty->head; at++) {
        mark_set(tty->ends, at, false);
        mark_set(tty->eofs, at, false);
    }
    tty->lines = 0;
    tty->line_end = tty->head;
    if (tty_is_canonical(tty) && tty->head != tty->tail) {
        mark_set(tty->ends, tty->head - 1, true);
        tty->lines = 1;
    }
    tty->is_literal = false;
    wake_all(&tty->readers);
}

/* ------------------------------------------------------------------------------- editing */

/* Columns that the byte at @position took when it was echoed at column @column. */
static uint32_t width_at(const struct tty *tty, uint64_t position, uint32_t column)
{
    unsigned char byte = byte_at(tty, position);

    if (byte == '\t') {
        return 8 - column % 8;
    }
    if (IS_CTRL(byte)) {
        return (tty->termios.local & ECHOCTL) != 0 ? 2 : 0;
    }
    if ((tty->termios.input & IUTF8) != 0 && (byte & 0xc0u) == 0x80u) {
        return 0;
    }
    return 1;
}

/* Columns that the last byte of the line being edited takes. */
static uint32_t last_width(const struct tty *tty)
{
    uint32_t column = tty->line_column;

    for (uint64_t at = tty->line_end; at + 1 < tty->head; at++) {
        column += width_at(tty, at, column);
    }
    return width_at(tty, tty->head - 1, column);
}

/* Take the last character of the line being edited away. */
static void erase_one(struct tty *tty, bool visibly)
{
    bool is_further;

    do {
        uint32_t width = last_width(tty);

        is_further = (tty->termios.input & IUTF8) != 0 &&
                     (byte_at(tty, tty->head - 1) & 0xc0u) == 0x80u &&
                     tty->head - 1 != tty->line_end;
        tty->head--;
        for (; visibly && width != 0; width--) {
            tty_put(tty, "\b \b", 3);
        }
    } while (is_further);
}

/* A letter, a digit or '_': what word erase takes as one word. */
static bool is_word(unsigned char byte)
{
    return (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') || byte == '_' ||
           (byte >= 'a' && byte <= 'z') || byte >= 0x80;
}

static void erase(struct tty *tty)
{
    bool visibly = (tty->termios.local & (ECHO | ECHOE)) == (ECHO | ECHOE);

    if (tty->head != tty->line_end) {
        erase_one(tty, visibly);
        if (!visibly) {
            echo(tty, tty->termios.cc[CC_ERASE]);
        }
    }
}

static void erase_word(struct tty *tty)
{
    bool visibly = (tty->termios.local & (ECHO | ECHOE)) == (ECHO | ECHOE);
    bool seen = false;

    while (tty->head != tty->line_end) {
        bool word = is_word(byte_at(tty, tty->head - 1));

        if (seen && !word) {
            break;
        }
        seen = seen || word;
        erase_one(tty, visibly);
    }
}

static void kill_line(struct tty *tty)
{
    bool visibly = (tty->termios.local & (ECHO | ECHOE | ECHOKE)) == (ECHO | ECHOE | ECHOKE);

    while (tty->head != tty->line_end) {
        erase_one(tty, visibly);
    }
    if (!visibly && (tty->termios.local & (ECHO | ECHOK)) != 0) {
        echo(tty, tty->termios.cc[CC_KILL]);
        if ((tty->termios.local & ECHOK) != 0) {
            echo(tty, '\n');
        }
    }
}

static void reprint(struct tty *tty)
{
    echo(tty, tty->termios.cc[CC_REPRINT]);
    echo(tty, '\n');
    tty->line_column = tty->column;
    for (uint64_t at = tty->line_end; at != tty->head; at++) {
        echo(tty, byte_at(tty, at));
    }
}

/* The line being edited is complete. */
static void end_line(struct tty *tty, unsigned char byte, bool is_eof)
{
    if (append(tty, byte, true, is_eof)) {
        tty->line_end = tty->head;
        tty->lines++;
        wake_all(&tty->readers);
    }
}

/* Is @byte the control character @which? Zero disables one. */
static bool is_char(const struct tty *tty, unsigned char byte, enum termios_char which)
{
    return byte != 0 && tty->termios.cc[which] == byte;
}

/* A character that edits the line. Returns: false: it is none. */
static bool edit(struct tty *tty, unsigned char byte)
{
    bool extended = (tty->termios.local & IEXTEN) != 0;

    if (is_char(tty, byte, CC_ERASE)) {
        erase(tty);
    } else if (is_char(tty, byte, CC_KILL)) {
        kill_line(tty);
    } else if (extended && is_char(tty, byte, CC_WERASE)) {
        erase_word(tty);
    } else if (extended && is_char(tty, byte, CC_REPRINT)) {
        reprint(tty);
    } else if (extended && is_char(tty, byte, CC_LNEXT)) {
        tty->is_literal = true;
        if ((tty->termios.local & (ECHO | ECHOCTL)) == (ECHO | ECHOCTL)) {
            tty_put(tty, "^\b", 2);
        }
    } else if (is_char(tty, byte, CC_EOF)) {
        end_line(tty, byte, true);
    } else if (byte == '\n' || is_char(tty, byte, CC_EOL) ||
               (extended && is_char(tty, byte, CC_EOL2))) {
        echo(tty, byte);
        end_line(tty, byte, false);
    } else {
        return false;
    }
    return true;
}

/* Plain data. */
static void data(struct tty *tty, unsigned char byte)
{
    if (tty->head == tty->line_end) {
        tty->line_column = tty->column;
    }
    if (!append(tty, byte, false, false)) {
        return;
    }
    echo(tty, byte);
    if (!tty_is_canonical(tty)) {
        tty->line_end = tty->head;
        wake_all(&tty->readers);
    }
}

/* Start and stop of the output. Returns: false: it is neither. */
static bool flow(struct tty *tty, unsigned char byte)
{
    bool is_start = is_char(tty, byte, CC_START);
    bool is_stop = is_char(tty, byte, CC_STOP);

    if ((tty->termios.input & IXON) == 0) {
        return false;
    }
    if (tty->is_stopped && !is_stop && (is_start || (tty->termios.input & IXANY) != 0)) {
        tty->is_stopped = false;
        wake_all(&tty->writers);
    } else if (is_stop) {
        tty->is_stopped = true;
    }
    return is_start || is_stop;
}

/* The signal that @byte asks for, 0: none. */
static int signal_of(const struct tty *tty, unsigned char byte)
{
    if ((tty->termios.local & ISIG) == 0) {
        return 0;
    }
    return is_char(tty, byte, CC_INTR)   ? SIGINT
           : is_char(tty, byte, CC_QUIT) ? SIGQUIT
           : is_char(tty, byte, CC_SUSP) ? SIGTSTP
                                         : 0;
}

/* Everything about one byte but the sending of a signal. Returns: that signal or 0. */
static int receive_locked(struct tty *tty, unsigned char byte)
{
    uint32_t flags = tty->termios.input;
    int signo;

    if ((flags & ISTRIP) != 0) {
        byte &= 0x7fu;
    }
    if (tty->is_literal) {
        tty->is_literal = false;
        data(tty, byte);
        return 0;
    }
    signo = signal_of(tty, byte);
    if (signo != 0) {
        if ((tty->termios.local & NOFLSH) == 0) {
            tty_flush_input(tty);
        }
        tty->is_stopped = false;
        wake_all(&tty->writers);
        echo(tty, byte);
        return signo;
    }
    if (flow(tty, byte)) {
        return 0;
    }
    if (byte == '\r') {
        if ((flags & IGNCR) != 0) {
            return 0;
        }
        byte = (flags & ICRNL) != 0 ? '\n' : byte;
    } else if (byte == '\n' && (flags & INLCR) != 0) {
        byte = '\r';
    }
    if (!tty_is_canonical(tty) || !edit(tty, byte)) {
        data(tty, byte);
    }
    return 0;
}

void tty_receive(struct tty *tty, unsigned char byte)
{
    unsigned long flags = vli_spin_lock_irq(&tty->lock, KRANK_TTY);
    int signo = receive_locked(tty, byte);
    uint32_t group = tty->foreground;

    vli_spin_unlock_irq(&tty->lock, KRANK_TTY, flags);
    if (signo != 0 && group != 0) {
        (void)signal_send_group(group, signo);
    }
}
