/*
 * tty_state.h - the inside of a terminal, between tty.c (files, ioctl, job control) and
 * tty_line.c (the line discipline).
 */
#ifndef KERNEL_DEV_TTY_STATE_H
#define KERNEL_DEV_TTY_STATE_H

#include "kernel/dev/tty.h"

/* Linux's struct termios as TCGETS copies it. */
#define TTY_CC_COUNT 19u
struct termios {
    uint32_t input;
    uint32_t output;
    uint32_t control;
    uint32_t local;
    uint8_t line;
    uint8_t cc[TTY_CC_COUNT];
};
_Static_assert(sizeof(struct termios) == 36, "struct termios");

enum termios_char {
    CC_INTR,
    CC_QUIT,
    CC_ERASE,
    CC_KILL,
    CC_EOF,
    CC_TIME,
    CC_MIN,
    CC_SWTC,
    CC_START,
    CC_STOP,
    CC_SUSP,
    CC_EOL,
    CC_REPRINT,
    CC_DISCARD,
    CC_WERASE,
    CC_LNEXT,
    CC_EOL2
};

/* input */
#define ISTRIP  0000040u
#define INLCR   0000100u
#define IGNCR   0000200u
#define ICRNL   0000400u
#define IXON    0002000u
#define IXANY   0004000u
#define IMAXBEL 0020000u
#define IUTF8   0040000u
/* output */
#define OPOST  0000001u
#define ONLCR  0000004u
#define OCRNL  0000010u
#define ONOCR  0000020u
#define ONLRET 0000040u
#define TABDLY 0014000u
#define XTABS  0014000u
/* local */
#define ISIG    0000001u
#define ICANON  0000002u
#define ECHO    0000010u
#define ECHOE   0000020u
#define ECHOK   0000040u
#define ECHONL  0000100u
#define NOFLSH  0000200u
#define TOSTOP  0000400u
#define ECHOCTL 0001000u
#define ECHOKE  0004000u
#define IEXTEN  0100000u

struct winsize {
    uint16_t rows;
    uint16_t columns;
    uint16_t width;
    uint16_t height;
};

#define TTY_RING_BYTES 4096u

/*
 * Input lies in a ring; positions count bytes for ever.
 *
 *     tail ........ line_end ........ head
 *     for readers    being edited      next byte
 *
 * In canonical mode readers see what lies before line_end; in the other modes all up to head.
 * A byte marked in `ends` ends a line; if it is marked in `eofs` too it is not data but the EOF
 * character.
 */
struct tty {
    struct vli_spinlock lock; /* KRANK_TTY, interrupts off: everything below but as noted */
    struct termios termios;
    struct winsize size;
    uint64_t tail;
    uint64_t line_end;
    uint64_t head;
    unsigned char ring[TTY_RING_BYTES];
    uint64_t ends[TTY_RING_BYTES / 64];
    uint64_t eofs[TTY_RING_BYTES / 64];
    uint32_t lines;       /* marks between tail and line_end */
    uint32_t column;      /* of the cursor, as far as is known */
    uint32_t line_column; /* where the line being edited began */
    bool is_literal;      /* the next byte is taken as it is (LNEXT) */
    bool is_stopped;      /* by STOP; output waits */
    uint32_t session;     /* id of the session that it controls, 0: none */
    uint32_t foreground;  /* its foreground group */
    uint32_t generation;  /* of hang-ups */
    uint32_t device;      /* (constant) */
    struct wait_queue readers;
    struct wait_queue writers;
    struct mutex read_mutex;  /* one reader at a time */
    struct mutex write_mutex; /* one write's bytes stay together */
};

/** tty_receive() - one byte from the line. Context: interrupt, interrupts off, no locks. */
void tty_receive(struct tty *tty, unsigned char byte);
/** tty_put() - @len bytes to the line, processed as termios.output says. The lock is held. */
void tty_put(struct tty *tty, const char *bytes, size_t len);
/** tty_flush_input() - throw away what was not read. The lock is held. */
void tty_flush_input(struct tty *tty);
/** tty_termios_changed() - the local modes were @old_local: canonical mode may have come or gone.
 * The lock is held. */
void tty_termios_changed(struct tty *tty, uint32_t old_local);
/** tty_take() - input for a reader, at most @max bytes and in canonical mode one line.
 * *@out_is_end: a line ended, or EOF. The lock is held. Returns: bytes. */
size_t tty_take(struct tty *tty, char *out, size_t max, bool *out_is_end);
/** tty_available() - bytes that a reader could have (canonical mode: in whole lines). The lock is
 * held. */
size_t tty_available(const struct tty *tty);

static inline bool tty_is_canonical(const struct tty *tty)
{
    return (tty->termios.local & ICANON) != 0;
}

#endif
