"""Forks programs from a process that has imported everything: what they do and end with is theirs.

    python fork_server.py DESCRIPTOR

DESCRIPTOR is a listening socket. Each connection asks for one program: four bytes with the length
of a JSON document `{"command", "folder", "environment"}`, beside them the descriptors that become
its output and its errors. The answers are two lines: its process id, and in the end its exit code.
"""

import atexit
import ctypes
import gc
import json
import logging
import os
import runpy
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module, reload
from pathlib import Path
from pkgutil import walk_packages
from types import FrameType
from typing import Any, Final, NoReturn

import tzdata

from dueledger.ledger.runtime import service
from dueledger.ledger.schedule import zones

PACKAGES: Final = ("dueledger", "uvloop")
PR_SET_PDEATHSIG: Final = 1
_PRCTL: Final = ctypes.CDLL(None).prctl if sys.platform == "linux" else None


def import_all() -> None:
    """Import what programs import when they run: most of their time goes there."""
    for name in PACKAGES:
        for module in walk_packages(import_module(name).__path__, f"{name}."):
            if not module.name.endswith("__main__"):
                import_module(module.name)


def die_with_parent(parent: int) -> None:
    """Be killed when the parent ends, where the kernel knows how."""
    if _PRCTL is not None:
        _PRCTL(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def receive(connection: socket.socket) -> tuple[Mapping[str, Any], list[int]]:
    """Read a request and its descriptors."""
    head, descriptors, _, _ = socket.recv_fds(connection, 4, 2)
    length = int.from_bytes(head, "big")
    text = b""
    while len(text) < length:
        text += connection.recv(length - len(text))
    return json.loads(text), descriptors


def run(request: Mapping[str, Any], descriptors: list[int]) -> None:
    """Become the program: `-m` and a module, `-c` and a text, or a script, and its arguments."""
    for number, descriptor in enumerate(descriptors, 1):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    read_tzdata(os.environ.get("PYTHONPATH", ""))
    name, _, count = os.environ.get(service.CRASH_VARIABLE, "").partition(":")
    service.__dict__.update(_crash_name=name, _crashes_left=int(count or 1))
    match request["command"]:
        case ["-m", module, *arguments]:
            sys.path[0] = request["folder"]
            sys.argv = [module, *arguments]
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case ["-c", text, *arguments]:
            sys.path[0] = ""
            sys.argv = ["-c", *arguments]
            exec(compile(text, "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102 - a test's own
        case [script, *arguments]:
            sys.path[0] = os.path.dirname(script)  # noqa: PTH120 - as Python itself does
            sys.argv = [script, *arguments]
            runpy.run_path(script, run_name="__main__")
        case _:
            sys.exit("no command")


def end_after(program: Callable[[], None]) -> NoReturn:
    """Run a program and end as Python does, but free none of the objects: that takes longest."""
    code: object = 0
    try:
        program()
    except SystemExit as ended:
        code = ended.code
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException as failure:  # noqa: BLE001 - whatever ends it
        sys.excepthook(type(failure), failure, failure.__traceback__)
        code = 1
    if not isinstance(code, int | None):
        print(code, file=sys.stderr)  # noqa: T201 - as `sys.exit` does
        code = 1
    for thread in threading.enumerate():
        if not thread.daemon and thread is not threading.current_thread():
            thread.join()
    atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage] - `os._exit` runs none
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # closed, or nobody reads it
            stream.flush()
    os._exit(code or 0)


def read_tzdata(search_path: str) -> None:
    """Take the tz database that is first on the path, as a process does that imports it itself."""
    for folder in filter(None, search_path.split(os.pathsep)):
        if Path(folder, "tzdata").is_dir():
            sys.path.insert(0, folder)
            sys.dont_write_bytecode = True  # a test may write another version in the same second
            reload(tzdata)
            zones.zone_names.cache_clear()
            zones.load_zone.cache_clear()
            return


def serve(listener: socket.socket) -> Callable[[], None] | None:
    """Fork programs until the standard input ends; in each of them, return what runs it."""
    server = os.getpid()
    waiting: dict[int, socket.socket] = {}
    woken, waker = socket.socketpair()
    waker.settimeout(0)  # as set_wakeup_fd needs it
    signal.signal(signal.SIGCHLD, wake)
    signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
    while True:
        ready, _, _ = select.select([listener, woken, sys.stdin], [], [])
        if woken in ready:
            woken.recv(4096)
            answer_ended(waiting)
        elif listener in ready:
            connection, _ = listener.accept()
            request, descriptors = receive(connection)
            program = os.fork()
            if program == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for each in (listener, woken, waker, connection, *waiting.values()):
                    each.close()
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                die_with_parent(server)
                return lambda: run(request, descriptors)
            for descriptor in descriptors:
                os.close(descriptor)
            waiting[program] = connection
            answer(connection, program)
        else:
            return None


def wake(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: a signal without a handler does not write to the wakeup descriptor."""


def answer_ended(waiting: dict[int, socket.socket]) -> None:
    """Answer with the exit code of each program that has ended."""
    while waiting:
        program, status = os.waitpid(-1, os.WNOHANG)
        if program == 0:
            return
        with waiting.pop(program) as connection:
            answer(connection, os.waitstatus_to_exitcode(status))


def answer(connection: socket.socket, number: int) -> None:
    """Send a line, unless nobody waits for it any more."""
    with suppress(OSError):
        connection.sendall(f"{number}\n".encode())


def main() -> None:
    """Serve, or be a program that was asked for."""
    die_with_parent(os.getppid())
    import_all()
    gc.freeze()
    atexit._clear()  # pyright: ignore[reportPrivateUsage] - DuckDB's collects garbage: 6 ms a program
    atexit.register(logging.shutdown)
    program = serve(socket.socket(fileno=int(sys.argv[1])))
    end_after(program or (lambda: None))


if __name__ == "__main__":
    main()
