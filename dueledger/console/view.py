"""What a page is made with: its session, the ledger's time, addresses, and the templates."""

import base64
import hashlib
import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, Self, TypeAlias
from urllib.parse import quote, quote_plus

import orjson
from fastapi import Depends, Request, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from dueledger.console import cells
from dueledger.console.assets import load_assets
from dueledger.console.clock import UTC_NAME, PageClock, iso, zone_of
from dueledger.console.downloads import DOWNLOAD_ROWS_MAX, ListPart
from dueledger.console.listing import Column, Listing
from dueledger.console.navigation import NAVIGATION, NavigationEntry
from dueledger.console.sessions import ConsoleSession, cookie_name, session_of, set_cookie
from dueledger.console.states import STATE_BADGES
from dueledger.ledger.errors import NotFound
from dueledger.ledger.visible_text import escape_json, visible, visible_lines
from dueledger.preview.occurrences import offset_text
from dueledger.service.routes.fields import Text
from dueledger.time_spans import brief_span

if TYPE_CHECKING:
    from dueledger.service.settings import ServiceSettings

THEMES: Final = ("auto", "light", "dark")
ZONES: Final = ("utc", "browser")
BROWSER_ZONE: Final = "dueledger_zone"
"""Cookie in which the script writes the browser's zone."""
PageFormat: TypeAlias = Literal["html", "csv", "json"]
UNPAGED_ROWS_MAX: Final = 10_000
"""Rows of a file of a list that has no pages."""
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.-]*")
_NOTICE_CHARS_MAX: Final = 1_000
_ZONES_MAX: Final = 5
"""Zones of tenants that are offered."""
_OTHER_ZONES: Final = 2
"""Zones in which a time is shown to who points at it, beside the chosen one and UTC."""


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters.update(
        code=_code,
        count=cells.count_of,
        compact_json=_compact_json,
        iso=iso,
        json=_json,
        offset=offset_text,
        shown=_shown,
        shown_lines=visible_lines,
        span=brief_span,
    )
    names: dict[str, Any] = environment.globals
    names["assets"] = {name: asset.name for name, asset in load_assets().items()}
    names["cells"] = cells
    names["state_badges"] = STATE_BADGES
    return environment


class Head(NamedTuple):
    """The head of a column: where it leads, and in which order the rows are by it.

    `order` is as `aria-sort` has it. A head that sorts has an id: keys that chose it stay there.
    """

    column: Column
    href: str | None = None
    order: str | None = None
    id: str | None = None


@dataclass(frozen=True, slots=True)
class View:
    """Makes the answer to one request. Without a session it shows none of the ledger."""

    request: Request
    session: ConsoleSession | None
    clock: PageClock
    theme: str
    zone_choice: str
    zones: Sequence[str] = ZONES
    """What may be chosen: those of every console, and the names of the tenants' own."""
    format: PageFormat = "html"
    table: str | None = None
    """Which table of the page is the download, or is sorted; None: its list."""
    sort: str | None = None
    download_rows_max: int = DOWNLOAD_ROWS_MAX

    @classmethod
    def of(
        cls,
        request: Request,
        now: datetime | None = None,
        form: PageFormat = "html",
        table: str | None = None,
        sort: str | None = None,
    ) -> Self:
        """Return the view of a request, with what its cookies prefer."""
        theme = request.cookies.get(cookie_name(request, "theme"), "")
        choice = request.cookies.get(cookie_name(request, "zone"), "")
        session = session_of(request)
        zones = [*ZONES, *_zones_of_tenants(request, session)]
        choice = choice if choice in zones else ZONES[0]
        names = {"utc": UTC_NAME, "browser": request.cookies.get(BROWSER_ZONE, UTC_NAME)}
        theme = theme if theme in THEMES else THEMES[0]
        name, zone = zone_of(names.get(choice, choice))
        clock = PageClock(now, name, zone, _others(name, (names["browser"], *zones[len(ZONES) :])))
        return cls(request, session, clock, theme, choice, zones, form, table, sort)

    @property
    def zone_choices(self) -> list[tuple[str, str]]:
        """Return the zones that may be chosen, each with its words."""
        words = {"utc": "UTC", "browser": "The browser's zone"}
        return [(each, words.get(each, each)) for each in self.zones]

    @property
    def navigation(self) -> list[NavigationEntry]:
        """Return the pages that the session may open."""
        session = self.session
        sees_all = session is not None and session.caller.tenants is None
        return [
            entry
            for entry in NAVIGATION
            if self.may(entry.scope) and (sees_all or not entry.is_of_all)
        ]

    def has_page(self, path: str) -> bool:
        """Return whether the session may open a page of the navigation."""
        return any(entry.path == path for entry in self.navigation)

    def may(self, scope: str) -> bool:
        """Return whether the session has a scope; what needs another one is not shown."""
        return self.session is not None and scope in self.session.caller.scopes

    def url(self, path: str, /, **query: object) -> str:
        """Return the address of a page below the console; parameters that are None are left out."""
        given = "&".join(
            f"{_quoted(name)}={_quoted(value)}"
            for name, value in query.items()
            if value is not None
        )
        address = f"{self.request.scope['root_path']}{path}"
        return f"{address}?{given}" if given else address

    def here(self, **changes: object) -> str:
        """Return the address of this page with other parameters; None removes one."""
        query = {**self.request.query_params, **changes}
        return self.url(self.path, **query)

    def download(self, form: PageFormat, table: str | None) -> str:
        """Return the address of a table as a file, from its first row, sorted as it is shown."""
        sort = self.sort if self.table == table else None
        return self.here(format=form, table=table, limit=None, cursor=None, sort=sort)

    def record_url(self, topic: str, partition: int, offset: int | None) -> str | None:
        """Return where the Kafka UI of the settings shows a record; None without one."""
        settings: ServiceSettings = self.request.app.state.settings
        template = settings.service_kafka_ui
        if template is None or offset is None:
            return None
        return template.format(topic=quote(topic, safe=""), partition=partition, offset=offset)

    @property
    def path(self) -> str:
        """Return the path of this page below the console."""
        root: str = self.request.scope["root_path"]
        return self.request.url.path.removeprefix(root)

    def page(
        self, template: str, /, *, title: str, listing: Listing | None = None, **values: object
    ) -> Response:
        """Return a page of a template; `values` are what it names.

        A page with a `listing` is also a download of it, if `format` asks for one, or of the one
        among the values that `table` names. Raises NotFound for another name.
        """
        if listing is not None:
            listing = self.sorted(listing, None)
        for name, value in values.items():
            if isinstance(value, Listing):
                values[name] = self.sorted(value, name)
        if self.format != "html":
            asked = listing if self.table is None else values.get(self.table)
            if isinstance(asked, Listing) and asked.downloads:
                return ListPart(asked, self.format, self.here(cursor=asked.next_cursor))
            if self.table is not None:
                message = f"The page has no table {self.table}."
                raise NotFound(message, table=self.table)
        notice = self._notice()
        text = (
            _templates()
            .get_template(template)
            .render(view=self, title=title, notice=notice, listing=listing, **values)
        )
        response = Response(text, media_type="text/html; charset=utf-8")
        if notice is not None:
            response.delete_cookie(cookie_name(self.request, "notice"))
        return response

    def sorted(self, listing: Listing, table: str | None) -> Listing:
        """Return a table of the page as the reader wants it sorted, if all of its rows are there.

        Raises InvalidInput for a column that it does not have.
        """
        is_cut = listing.next_cursor is not None or listing.note is not None
        is_paged = table is None or self.format != "html"
        if is_cut or not listing.downloads or (is_paged and "cursor" in self.request.query_params):
            return listing if table is None else replace(listing, table=table)
        sorting = replace(listing, table=table, sorts=True)
        return sorting.sorted_by(self.sort or "") if self.is_sorted(sorting) else sorting

    def is_sorted(self, listing: Listing) -> bool:
        """Return whether the reader has chosen the order of a table."""
        return listing.sorts and self.sort is not None and self.table == listing.table

    def heads(self, listing: Listing) -> list[Head]:
        """Return the heads of a table: each sorts it, or one leads to the other order of its index.

        A head by which it is sorted leads to the reverse.
        """
        if not listing.sorts:
            return [self._turning(listing, each) for each in listing.columns]
        sort = self.sort if self.is_sorted(listing) else None
        here = self.here(sort=None, table=listing.table)
        address = f"{here}{'&' if '?' in here else '?'}sort="
        prefix = f"sort-{listing.table or 'list'}-"
        heads: list[Head] = []
        for column in listing.columns:
            key, id_ = column.key, prefix + column.key
            if not column.sorts:
                heads.append(Head(column))
            elif sort == key:
                heads.append(Head(column, f"{address}-{key}#{id_}", "ascending", id_))
            else:
                order = "descending" if sort == f"-{key}" else None
                heads.append(Head(column, f"{address}{key}#{id_}", order, id_))
        return heads

    def _turning(self, listing: Listing, column: Column) -> Head:
        """Return the head of a column, which leads to the other order if the index has both."""
        if listing.turns is None or listing.turns[0] != column.key:
            return Head(column)
        _, parameter, is_ascending = listing.turns
        turned = None if parameter in self.request.query_params else True
        address = self.here(cursor=None, **{parameter: turned})
        return Head(column, address, "ascending" if is_ascending else "descending")

    def rows_max(self, shown: int) -> int:
        """Return how many rows a list without pages has: a file has more than the page shows."""
        return shown if self.format == "html" else UNPAGED_ROWS_MAX

    def cut_note(self, rows: Sequence[object], shown: int) -> str | None:
        """Return what a list without pages leaves out, of rows of which one more was read."""
        rows_max = self.rows_max(shown)
        if len(rows) <= rows_max:
            return None
        more = "" if rows_max > shown else f" CSV and JSON have up to {UNPAGED_ROWS_MAX:,} rows."
        return f"The first {rows_max:,}; there are more.{more}"

    def is_filtered(self, listing: Listing) -> bool:
        """Return whether the address has a filter of a list."""
        query = self.request.query_params
        return any(query.get(name, "") not in {"", "false"} for name in listing.filters)

    def unfiltered_address(self, listing: Listing) -> str:
        """Return the address of this page without the filters of a list."""
        return self.here(cursor=None, **dict.fromkeys(listing.filters))

    def done(self, notice: str, path: str, /, **query: object) -> Response:
        """Return the answer of an action: the page to go to, which shows the notice once."""
        response = redirect(self.url(path, **query))
        if self.session is not None:
            given = base64.urlsafe_b64encode(notice[:_NOTICE_CHARS_MAX].encode()).decode()
            value = f"{given}.{_signature(self.session, given)}"
            set_cookie(self.request, response, "notice", value)
        return response

    def _notice(self) -> str | None:
        """Return the notice of the last action, if this session was given it."""
        given, _, signature = self.request.cookies.get(
            cookie_name(self.request, "notice"), ""
        ).partition(".")
        if self.session is None or not given:
            return None
        if not hmac.compare_digest(signature, _signature(self.session, given)):
            return None
        return base64.urlsafe_b64decode(given).decode()


def _others(chosen: str, names: Sequence[str]) -> list[tzinfo]:
    """Return the first zones of these names that are neither chosen nor UTC."""
    others = dict(map(zone_of, names))
    return [zone for name, zone in others.items() if name not in {chosen, UTC_NAME}][:_OTHER_ZONES]


def _zones_of_tenants(request: Request, session: ConsoleSession | None) -> list[str]:
    """Return the zones that the settings have for the tenants of a session."""
    settings: ServiceSettings = request.app.state.settings
    tenants = None if session is None else session.caller.tenants
    zones = {
        zone
        for tenant, zone in settings.service_zones.items()
        if session is not None and (tenants is None or tenant in tenants)
    }
    return sorted(zones)[:_ZONES_MAX]


async def _open_view(
    request: Request,
    format: PageFormat = "html",  # noqa: A002 - the parameter's name
    table: Annotated[str | None, Text] = None,
    sort: Annotated[str | None, Text] = None,
) -> View:
    return View.of(request, request.state.now, format, table, sort)


CurrentView = Annotated[View, Depends(_open_view)]


def redirect(address: str) -> Response:
    """Return the answer that leads to another page, by GET."""
    return Response(None, 303, {"Location": address})


def own_address(request: Request, to: str) -> str:
    """Return an address of the console; its first page for any other."""
    root: str = request.scope["root_path"]
    is_own = to.startswith(f"{root}/") and to.isprintable() and "\\" not in to
    return to if is_own else f"{root}/"


def _signature(session: ConsoleSession, text: str) -> str:
    return hmac.digest(session.id.encode(), b"notice" + text.encode(), hashlib.sha256).hex()


def _quoted(value: object) -> str:
    """Return a value as a parameter of an address has it."""
    match value:
        case bool():
            return "true" if value else "false"
        case datetime():
            return quote_plus(iso(value))
        case _:
            text = str(value)
            return text if _PLAIN.fullmatch(text) else quote_plus(text)


# Filters of templates.


def _shown(value: object) -> str:
    """Return a text with what cannot be seen in it escaped; empty for None."""
    return "" if value is None else visible(str(value))


def _json(value: object) -> str:
    """Return a value as JSON for a person, with what cannot be seen in it escaped."""
    text = orjson.dumps(value, default=str, option=orjson.OPT_INDENT_2).decode()
    return escape_json(text)


def _compact_json(value: object) -> str:
    """Return a value as JSON that a form sends back."""
    return orjson.dumps(value).decode()


def _code(text: str) -> Markup:
    """Return a text whose parts in backticks are code; HTML as it is."""
    if isinstance(text, Markup):
        return text
    return Markup(cells.code_of(text))  # noqa: S704 - it is escaped there
