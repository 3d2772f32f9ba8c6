"""Routes of pages: each under one scope of the REST interface, as its calls are."""

from collections.abc import Callable, Coroutine
from typing import Any, ClassVar, Final, TypeVar

from fastapi import Response

from dueledger.console.downloads import PageRoute
from dueledger.service.scoped_routes import CallRoute, ScopedRoutes

PATH: Final = "/console"
"""Below it are all pages."""

_Answering = TypeVar("_Answering", bound=Callable[..., Coroutine[Any, Any, Response]])


class PageRoutes(ScopedRoutes):
    """Makes pages, and actions of their forms, that need a session with one scope.

    A function takes `CurrentCall`, whose connection is in a transaction under the role of the
    scope, and `CurrentView`. What the REST interface has a function for, it calls.
    """

    page_route: ClassVar[type[CallRoute]] = PageRoute

    def page(self, path: str) -> Callable[[_Answering], _Answering]:
        """Make a page of a function that returns `view.page(...)`."""
        return self.add_page("GET", path)

    def answer(self, path: str) -> Callable[[_Answering], _Answering]:
        """Make the answer to a form that changes nothing, of a function that returns a page."""
        return self.add_page("POST", path)

    def action(
        self, path: str, operation_id: str, target: str | None = None
    ) -> Callable[[_Answering], _Answering]:
        """Make the action of a form of a function that returns `view.done(...)`.

        `operation_id` is that of the route that does the same by REST: the audit names both so.
        `target` is what that route changes, by parameters of the path, as the audit has it; without
        it, the function notes it.
        """
        return self.add_page("POST", path, operation_id, target)
