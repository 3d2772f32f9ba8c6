"""Dispatch by HTTP: a handler that sends each item to the endpoint of its definition."""

from dueledger.workers.http.process import run_http_worker
from dueledger.workers.http.settings import DirectHttpSettings, HttpSettings

__all__ = ["DirectHttpSettings", "HttpSettings", "run_http_worker"]
