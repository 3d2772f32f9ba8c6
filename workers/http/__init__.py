"""Dispatch by HTTP: a handler that sends each item to the endpoint its definition names."""

from workers.http.run import run_http_worker
from workers.http.settings import DirectHttpSettings, HttpSettings

__all__ = ["DirectHttpSettings", "HttpSettings", "run_http_worker"]
