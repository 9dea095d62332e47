"""No process outlives the one that wanted it."""

import ctypes
import os
import shutil
import signal
import sys
import threading

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None, use_errno=True)


def die_with_parent():
    """Has the kernel kill this process when its parent ends. Called in the child, between fork and exec or without an exec."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() == 1:  # it has ended already
        os._exit(1)


def end_with_stdin(end=lambda: os._exit(0)):
    """Ends this process when the other end of its standard input is gone."""

    def watch():
        while os.read(0, 4096):
            pass
        end()

    threading.Thread(target=watch, name="stdin", daemon=True).start()


def detach():
    """Leaves the terminal and the process group, for a cloud that stays when the command returns."""
    if os.getpid() != os.getsid(0):
        os.setsid()
    with open(os.devnull) as null:
        os.dup2(null.fileno(), sys.stdin.fileno())


def keep(home):
    """Has a cloud's folder stay at its end, for whoever wants to know why it ended."""
    open(os.path.join(home, "keep"), "w").close()


def remove(home):
    """Removes a cloud's folder at its end, unless it is to be kept."""
    if not os.path.exists(os.path.join(home, "keep")):
        shutil.rmtree(home, ignore_errors=True)
