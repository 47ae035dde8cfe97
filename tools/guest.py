"""A guest in QEMU, for the scripts beside this file: its command line, its serial console."""
import os
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
QEMU = 'qemu-system-x86_64'
APPEND = 'console=ttyS0 panic=-1'
# What makes Linux comparable: nothing that this kernel does not do either, four levels of tables.
# And it must boot on a busy machine: no check of the timer by the time that passes.
APPEND_LINUX = 'mitigations=off init_on_alloc=0 transparent_hugepage=never no5lvl no_timer_check'


def is_linux(kernel):
    """Is it a kernel of Debian rather than ours?"""
    return os.path.basename(kernel).startswith('vmlinuz')


def qemu_command(kernel, image, smp=2, mem='256M', append='', icount=False, kvm=False,
                 cpu='max,-erms,-fsrm'):
    """The command line of a guest without its serial line."""
    words = [QEMU, '-nodefaults', '-no-user-config', '-no-reboot', '-display', 'none',
             '-m', mem, '-kernel', kernel, '-initrd', image]
    if kvm:
        words += ['-accel', 'kvm', '-cpu', 'host', '-smp', str(smp)]
    elif icount:
        words += ['-icount', 'shift=0,sleep=off', '-smp', '1', '-cpu', cpu]
    else:
        words += ['-accel', 'tcg,thread=multi', '-cpu', cpu, '-smp', str(smp)]
    parts = [APPEND, APPEND_LINUX if is_linux(kernel) else '', append]
    return words + ['-append', ' '.join(p for p in parts if p)]


class Guest:
    """A running guest. `text` is all that its console has printed."""

    def __init__(self, kernel, image, show=None, extra=(), **settings):
        ours, theirs = socket.socketpair()
        words = qemu_command(kernel, image, **settings)
        words += ['-chardev', 'socket,id=serial,fd=%d' % theirs.fileno(),
                  '-serial', 'chardev:serial'] + list(extra)
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=self.errors,
                                        stderr=self.errors, pass_fds=[theirs.fileno()])
        theirs.close()
        self.line = ours
        self.show = show
        self.text = ''
        self.ended = False

    def read(self, seconds):
        """Waits up to `seconds` for output and takes it in; False when there was none."""
        if self.ended:
            return False
        ready, _, _ = select.select([self.line], [], [], max(seconds, 0))
        if not ready:
            return False
        data = self.line.recv(65536)
        if not data:
            self.ended = True
            return False
        piece = data.decode('utf-8', 'replace').replace('\r', '')
        self.text += piece
        if self.show:
            self.show(piece)
        return True

    def wait_for(self, wanted, seconds, start=0):
        """Reads until `wanted` stands after `start`; returns the index behind it, or -1."""
        deadline = time.monotonic() + seconds
        while True:
            found = self.text.find(wanted, start)
            if found >= 0:
                return found + len(wanted)
            left = deadline - time.monotonic()
            if left <= 0 or self.ended:
                return -1
            self.read(left)

    def wait_match(self, pattern, seconds, start=0):
        """As wait_for(), with a regular expression; `$` is the end of what has come."""
        deadline = time.monotonic() + seconds
        compiled = re.compile(pattern, re.S)
        while True:
            found = compiled.search(self.text[start:])
            if found:
                return start + found.end()
            left = deadline - time.monotonic()
            if left <= 0 or self.ended:
                return -1
            self.read(left)

    def wait_end(self, seconds):
        """Reads until the guest has ended; True when it did so in time and without an error."""
        deadline = time.monotonic() + seconds
        while not self.ended and time.monotonic() < deadline:
            self.read(deadline - time.monotonic())
        if not self.ended:
            return False
        try:
            return self.process.wait(max(deadline - time.monotonic(), 2)) == 0
        except subprocess.TimeoutExpired:
            return False

    def send(self, text):
        """Types on the serial line."""
        self.line.sendall(text.encode())

    def qemu_errors(self):
        """What QEMU itself said."""
        self.errors.seek(0)
        return self.errors.read().decode(errors='replace')

    def close(self):
        """Ends the guest if it still runs."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.line.close()
        self.errors.close()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()


def show(piece):
    """Passes the console on, as it comes."""
    sys.stdout.write(piece)
    sys.stdout.flush()
