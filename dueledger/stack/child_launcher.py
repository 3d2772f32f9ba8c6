"""Become another program that dies with its parent. Run as a script, never imported.

    python -I -S child_launcher.py PARENT_PID SIGNAL USER REACH -- PROGRAM ARGUMENT…

On Linux the kernel sends SIGNAL to PROGRAM when the parent *thread* ends, for any reason.
USER is `uid:gid` to become, or `-`. REACH 1 keeps the right to search directories of others,
so that an unprivileged server finds its files below a home directory that is closed to it, without
a change of directory modes. A script, not a `preexec_fn`: Python may not run between fork and
exec in a process with threads.
"""

import ctypes
import os
import struct
import sys

PR_SET_PDEATHSIG = 1
PR_SET_KEEPCAPS = 8
PR_SET_SECUREBITS = 28
SECBIT_NO_SETUID_FIXUP = 1 << 2
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_RAISE = 2
CAP_DAC_OVERRIDE = 1
CAP_DAC_READ_SEARCH = 2
CAPABILITY_VERSION_3 = 0x20080522


def _become(user: str, *, keep_search: bool) -> None:
    uid, gid = (int(part) for part in user.split(":"))
    libc = ctypes.CDLL(None, use_errno=True)
    # With the default fix-up, access(2) ignores the rights of an unprivileged user, and PostgreSQL
    # calls it for its own programs. Without it, the rights are given up below.
    fixed_up = not keep_search or libc.prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0)
    if keep_search and fixed_up:
        libc.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0)
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
    if not keep_search:
        return
    # Containers often lack the narrower right but have the wider one.
    for capability in (CAP_DAC_READ_SEARCH, CAP_DAC_OVERRIDE):
        if _keep_only(libc, 1 << capability):
            libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability, 0, 0)
            return
    if not _keep_only(libc, 0):
        sys.exit("cannot drop the privileges of root")


def _keep_only(libc: ctypes.CDLL, rights: int) -> bool:
    header = struct.pack("=Ii", CAPABILITY_VERSION_3, 0)
    sets = struct.pack("=6I", rights, rights, rights, 0, 0, 0)
    return libc.capset(header, sets) == 0


def main() -> None:
    """Replace this process by the named program."""
    parent, signal, user, reach = sys.argv[1:5]
    program = sys.argv[6:]
    if user != "-":
        try:
            _become(user, keep_search=reach == "1")
        except OSError as error:
            sys.exit(f"cannot become the user {user}: {error.strerror}")
    if sys.platform == "linux":
        # After the change of user, which clears it.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal), 0, 0, 0)
        if os.getppid() != int(parent):
            sys.exit(1)
    os.execv(program[0], program)  # noqa: S606  (the caller's own list, no shell wanted)


if __name__ == "__main__":
    main()
