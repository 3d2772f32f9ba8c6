"""The handler of HTTP dispatch: sends an item as one request; the response's status decides."""

import random
import re
from time import monotonic
from typing import TYPE_CHECKING, Final, final
from urllib.parse import quote

from dueledger.ledger.kafka.envelope import SOURCE_PREFIX, SPECVERSION, format_instant
from dueledger.workers.http.allow_list import TargetRefused
from dueledger.workers.http.body_template import BodyFailed
from dueledger.workers.http.client import HttpClient, RequestFailed
from dueledger.workers.http.database_clock import DatabaseClock
from dueledger.workers.http.exchange import (
    HttpRequest,
    HttpResponse,
    evidence_of,
    evidence_of_failure,
    reason_of,
    retry_after_seconds,
)
from dueledger.workers.http.targets import HttpTarget, HttpTargets, UnusableTarget
from dueledger.workers.http.webhook import ID_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER, sign
from dueledger.workers.retry import backoff_seconds
from dueledger.workers.verdicts import Completed, NotAttempted, Park, Retry, Verdict

if TYPE_CHECKING:
    from dueledger.workers.item import DueItem

USER_AGENT: Final = "dueledger"
ENDPOINT_CHANGED_SECONDS: Final = 1.0
UNUSABLE_SECONDS: Final = 60.0
JITTER_SHARE: Final = 0.1

_OK: Final = 200
_REDIRECT: Final = 300
_BAD: Final = 400
_TOO_MANY: Final = 429
_SERVER_FAILED: Final = 500
_STATUS_END: Final = 600
# CloudEvents' HTTP binding, section 3.1.3.2: printable ASCII stays, except space, " and %.
_UNQUOTED: Final = "".join(map(chr, range(0x21, 0x7F))).translate({0x22: None, 0x25: None})
_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


@final
class HttpDispatcher:
    """Sends items. One dispatcher serves every kind; what differs is in the targets."""

    def __init__(self, targets: HttpTargets, client: HttpClient, clock: DatabaseClock) -> None:
        self._targets = targets
        self._client = client
        self._clock = clock

    async def __call__(self, item: "DueItem") -> Verdict | NotAttempted:
        """Send an item to its endpoint and return the verdict for the response."""
        target = self._targets.find(item.tenant, item.kind)
        match target:
            case None:
                # Its definition has another dispatch now; the allocator will use that.
                return NotAttempted(ENDPOINT_CHANGED_SECONDS, "the kind is no longer sent by HTTP")
            case UnusableTarget(reason=reason):
                # Neither the item nor the endpoint is at fault: nothing is counted meanwhile.
                return NotAttempted(UNUSABLE_SECONDS, reason)
            case HttpTarget():
                return await self._send(target, item)

    async def _send(self, target: HttpTarget, item: "DueItem") -> Verdict:
        try:
            body = None if target.body is None else target.body.render(item)
        except BodyFailed as error:
            return Park(f"the body cannot be made: {error}")
        request = self._request(target, item, body)
        began = monotonic()
        try:
            response = await self._client.send(request)
        except TargetRefused as error:
            return Park(f"the request is refused: {error}")
        except RequestFailed as error:
            where = f"{request.method} {request.url.shown}"
            return Retry(
                backoff_seconds(item.attempt, target.backoff),
                f"{error} from {where}",
                evidence_of_failure(request, str(error), seconds=monotonic() - began),
            )
        return self._verdict(target, item, request, response, seconds=monotonic() - began)

    def _request(self, target: HttpTarget, item: "DueItem", body: bytes | None) -> HttpRequest:
        identity = str(item.id)
        sent_at = int(self._clock.now().timestamp())
        headers = {"user-agent": USER_AGENT, "accept-encoding": "identity"}
        if body is not None:
            headers["content-type"] = "application/json"
        headers |= {name.lower(): value for name, value in target.headers.items()}
        headers |= {
            name: quote(value, safe=_UNQUOTED) for name, value in _cloudevents_headers(item).items()
        }
        headers |= {
            ID_HEADER: identity,
            TIMESTAMP_HEADER: str(sent_at),
            "idempotency-key": identity,
        }
        if target.keys:
            headers[SIGNATURE_HEADER] = sign(target.keys, identity, sent_at, body or b"")
        if item.traceparent and _TRACEPARENT.fullmatch(item.traceparent):
            headers["traceparent"] = item.traceparent
        return HttpRequest(target.method, target.url, headers, body, target.timeout_seconds)

    def _verdict(
        self,
        target: HttpTarget,
        item: "DueItem",
        request: HttpRequest,
        response: HttpResponse,
        *,
        seconds: float,
    ) -> Verdict:
        status = response.status
        evidence = evidence_of(request, response, target.redactor, seconds=seconds)
        if _OK <= status < _REDIRECT:
            return Completed(evidence)
        reason = reason_of(request, response, target.redactor)
        if _REDIRECT <= status < _BAD:
            # The endpoint must not choose where payload and secrets go next.
            return Park(f"a redirect is not followed: {reason}", evidence)
        if status == _TOO_MANY or _SERVER_FAILED <= status < _STATUS_END:
            after = retry_after_seconds(response, self._clock.now())
            if after is None:
                return Retry(backoff_seconds(item.attempt, target.backoff), reason, evidence)
            # Spread over time, and never earlier than requested.
            jittered = after * random.uniform(1.0, 1.0 + JITTER_SHARE)  # noqa: S311 - no secret
            return Retry(jittered, reason, evidence)
        return Park(reason, evidence)


def _cloudevents_headers(item: "DueItem") -> dict[str, str]:
    """Return the `ce_…` headers of the Kafka contract, under CloudEvents' names for HTTP."""
    due_at = format_instant(item.due_at).decode()
    return {
        "ce-specversion": SPECVERSION,
        "ce-id": f"{item.id}:{item.fence}",
        "ce-source": SOURCE_PREFIX + item.tenant,
        "ce-type": item.kind,
        "ce-subject": item.business_key,
        "ce-time": due_at,
        "ce-duetenant": item.tenant,
        "ce-duecycle": item.cycle,
        "ce-dueeffective": item.effective_date.isoformat(),
        "ce-dueat": due_at,
        "ce-dueitem": str(item.id),
        "ce-dueattempt": str(item.attempt),
    }
