"""Each hindrance, made on a real installation: an item that it hinders, and what ends it."""

from typing import Final

from . import cases_of_claims, cases_of_flows, cases_of_items, cases_of_processes
from .hindered import Cases

CASES: Final[Cases] = (
    *cases_of_items.CASES,
    *cases_of_flows.CASES,
    *cases_of_processes.CASES,
    *cases_of_claims.CASES,
)
