import subprocess
import sys

import dueledger

HEAVY = {"aiokafka", "asyncpg", "jinja2", "pydantic", "rich", "structlog", "typer", "yaml"}


def test_public_names_resolve_and_are_listed() -> None:
    listed = dir(dueledger)
    for name in dueledger.__all__:
        assert getattr(dueledger, name) is not None
        assert name in listed


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(dueledger, "Handler")


def test_a_handler_module_imports_no_client_of_a_server() -> None:
    code = (
        "import sys; from dueledger import Completed, DueItem, Handlers, Verdict;"
        "import dueledger.workers;"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    loaded = subprocess.run(  # noqa: S603  # this interpreter, on the code above
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert HEAVY.intersection(loaded) == set()
