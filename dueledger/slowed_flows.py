"""What slows a flood, in a sentence."""

from collections.abc import Mapping
from typing import Any


def slowed_text(flow: Mapping[str, Any]) -> str | None:
    """Return how a flow of `list_flows` is slowed and why; None if it is not."""
    share, since = flow["slowed_share"], flow["slowed_since"]
    if share is None:
        return None
    text = f"claimed in {share:.0%} of the time since {since:%H:%M:%S} UTC, as "
    if not flow["slowed_by"]:
        return text + "floods begin slowly beside flows with a lag target"
    lag, target = flow["slowed_lag_seconds"], flow["slowed_lag_target_seconds"]
    return (
        f"{text}the lag of {flow['slowed_by']} was {_duration(lag)}, above its target of "
        f"{_duration(target)}"
    )


def _duration(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.3g} s"
