"""Run commands as processes of their own, each forked from one that has imported everything.

Reads a request a line: `{"arguments", "folder", "environment", "out", "err"}`, the last two paths
of files; answers each with its exit code. What a command does, prints and ends with is its own.
"""

import gc
import json
import os
import sys
from collections.abc import Mapping
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

from dueledger.cli import main

PACKAGES = ("dueledger", "uvloop")


def import_all() -> None:
    """Import what commands import when they run: most of their time goes there."""
    for name in PACKAGES:
        for module in walk_packages(import_module(name).__path__, f"{name}."):
            if not module.name.endswith("__main__"):
                import_module(module.name)


def run(request: Mapping[str, Any]) -> int:
    """Run a command in a child; return its exit code, as `subprocess` has it."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.chdir(request["folder"])
    sys.path[0] = request["folder"]
    os.environ.clear()
    os.environ.update(request["environment"])
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for descriptor, path in ((1, request["out"]), (2, request["err"])):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
    code = main(request["arguments"])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # taking every module apart would cost four times what a command does


if __name__ == "__main__":
    import_all()
    gc.freeze()
    with os.fdopen(os.dup(1), "w") as answers:
        for line in sys.stdin:
            answers.write(f"{run(json.loads(line))}\n")
            answers.flush()
