"""No time that a field takes is too far for the ledger, Python or a zone."""

import sys
from typing import Final

from pydantic import BaseModel

from dueledger.console.app import PAGES
from dueledger.ledger.store.api_keys import NewApiKey
from dueledger.service.scoped_routes import CallRoute
from tests.console.conftest import Browser
from tests.service.conftest import SCHEDULE, Api

ZONES: Final = ("Pacific/Kiritimati", "Etc/GMT+12")
"""The first zone that has a day, and the last one."""
FAR: Final = (
    *("9999-12-31T23:59", "0001-01-01T00:00", "9999-12-31", "0001-01-01"),
    *("9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59", "1e300", "253402300799"),
)
NEAR: Final = ("2199-12-31T23:59", "2199-12-30T23:59", "1970-01-01T00:00", "1970-01-02T00:00")
SENT: Final = {
    "until": ("/console/flows/acme/pause", "/console/schedules/acme/far/pause"),
    "effective_from": ("/console/schedules/preview", "/console/schedules/define"),
    **dict.fromkeys(("since", "due_from", "due_before"), ("/console/reviews/acme/decide",)),
}
"""Where each field of a form that is a time is sent."""
TEXT: Final = """
tenant: acme
definition: far
kind: FarDue
business_key: statements
when: {cron: "0 9 * * *", timezone: Europe/Berlin}
dispatch: {direct: {}}
"""
SHOWN: Final = {200, 303, 404, 409, 412, 422}


def takes_time(annotation: object) -> bool:
    return "datetime" in repr(annotation).lower()


def fields_of_forms() -> set[str]:
    return {
        name
        for path, module in [*sys.modules.items()]
        if path.startswith("dueledger.console.pages.")
        for form in vars(module).values()
        if isinstance(form, type) and issubclass(form, BaseModel) and form.__name__.endswith("Form")
        for name, field in form.model_fields.items()
        if takes_time(field.annotation)
    }


async def test_no_time_of_a_page_or_a_form_overflows(
    api: Api, browser: Browser, key: NewApiKey
) -> None:
    await api.emit(key, api.item("F-1", kind="FarDue"))
    await api.define("acme", "far", SCHEDULE | {"kind": "FarDue"})
    pages = [
        (f"/console{route.path.replace('{tenant}', 'acme')}", parameter.alias)
        for route in PAGES
        if isinstance(route, CallRoute)
        for parameter in route.dependant.query_params
        if takes_time(parameter.field_info.annotation)
    ]
    assert {path for path, _ in pages} >= {"/console/items", "/console/audit"}
    assert fields_of_forms() == set(SENT)
    form = {"kind": "FarDue", "over": "lane", "reason": "INC-1", "text": TEXT, "verb": "redrive"}
    for zone in ZONES:
        browser.session.cookie_jar.update_cookies({"dueledger_zone": zone}, browser.origin)
        await browser.send("/console/preferences", {"zone": "browser", "to": "/console/"})
        for time in (*FAR, *NEAR):
            for path, name in pages:
                shown = await browser.open(path, params={name: time})
                assert shown.status in {200, 422}, (path, name, time, shown.text)
            for name, paths in SENT.items():
                for path in paths:
                    shown = await browser.send(path, {**form, name: time})
                    expected = {422} if time in FAR else SHOWN
                    assert shown.status in expected, (path, time, shown.text)
