"""The console: pages for people, on the routes, rights and statements of the REST interface.

A page is a function, a template, and an entry of the navigation; docs/design.md section 12 has an
example.
"""

from dueledger.console.app import open_console
from dueledger.console.embedded import open_app

__all__ = ["open_app", "open_console"]
