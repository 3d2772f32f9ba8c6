"""The endpoints of all kinds, prepared: address, headers, keys and body of each."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, cast, final

from pydantic import SecretStr, ValidationError

from dueledger.ledger.definitions.http_dispatch import HttpDispatch
from dueledger.ledger.definitions.http_url import HttpUrl, read_url
from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.ledger.store.kinds import HttpKind
from dueledger.workers.handlers import HandlerOptions
from dueledger.workers.http.body_template import BodyTemplate
from dueledger.workers.http.redaction import Redactor
from dueledger.workers.http.webhook import SigningKey, read_keys

if TYPE_CHECKING:
    from dueledger.ledger.store.processes import KindTenants
    from dueledger.workers.http.settings import HttpSettings

# The rest of a lease is for recording the outcome before another worker may start the item.
LEASE_SHARE: Final = 0.8
ANSWER_SECONDS: Final = 5.0  # after the exchange's own time limit: then something is broken
_BODILESS: Final = frozenset({"GET", "DELETE"})

log = get_logger("worker")


@final
@dataclass(frozen=True, slots=True)
class HttpTarget:
    """Where and how the items of one kind of one tenant are sent. Its repr shows no secret."""

    tenant: str
    kind: str
    topic: str
    method: str
    url: HttpUrl
    headers: Mapping[str, str] = field(repr=False)
    keys: tuple[SigningKey, ...] = field(repr=False)
    redactor: Redactor = field(repr=False)
    body: BodyTemplate | None
    timeout_seconds: float
    concurrency: int
    backoff: HandlerOptions


@final
@dataclass(frozen=True, slots=True)
class UnusableTarget:
    """A kind's endpoint that this worker cannot call, and why."""

    tenant: str
    kind: str
    topic: str
    reason: str


@final
@dataclass(frozen=True, slots=True)
class EndpointLimits:
    """The limits of one endpoint, for the handler of its kind and topic."""

    concurrency: int
    timeout_seconds: float


@final
class HttpTargets:
    """The endpoint of each item's kind, as of the last read of the ledger."""

    def __init__(self, settings: "HttpSettings") -> None:
        self._secrets = settings.http_secrets
        self._timeout_seconds_max = settings.worker_lease_seconds * LEASE_SHARE
        self._by_kind: dict[tuple[str, str], HttpTarget | UnusableTarget] = {}
        self.kind_tenants: KindTenants = {}

    def replace(self, kinds: Iterable[HttpKind]) -> None:
        """Replace all targets. An endpoint that became unusable is logged."""
        before, self._by_kind = self._by_kind, {}
        for kind in kinds:
            target = self._read(kind)
            self._by_kind[kind.tenant, kind.kind] = target
            if isinstance(target, UnusableTarget) and target != before.get(
                (kind.tenant, kind.kind)
            ):
                log.warning(
                    LogEvent.TARGET_REFUSED,
                    tenant=kind.tenant,
                    kind=kind.kind,
                    reason=target.reason,
                )
        tenants: dict[str, list[str]] = {}
        for tenant, name in self._by_kind:
            tenants.setdefault(name, []).append(tenant)
        self.kind_tenants = tenants

    def find(self, tenant: str, kind: str) -> HttpTarget | UnusableTarget | None:
        """Return the target of a kind, or None if it is no longer sent by HTTP."""
        return self._by_kind.get((tenant, kind))

    def endpoint_limits(self) -> dict[tuple[str, str], EndpointLimits]:
        """Return the limits of all endpoints, by kind and topic."""
        found: dict[tuple[str, str], EndpointLimits] = {}
        for target in self._by_kind.values():
            concurrency, seconds = (
                (target.concurrency, target.timeout_seconds)
                if isinstance(target, HttpTarget)
                else (1, 1.0)
            )
            found[target.kind, target.topic] = EndpointLimits(concurrency, seconds + ANSWER_SECONDS)
        return found

    def _read(self, kind: HttpKind) -> HttpTarget | UnusableTarget:
        try:
            return self._make(kind, HttpDispatch.model_validate(kind.http))
        except ValidationError:
            reason = "its definition was accepted by another version of Dueledger; define it again"
        except _SecretUnusable as error:
            reason = str(error)
        return UnusableTarget(kind.tenant, kind.kind, kind.topic, reason)

    def _make(self, kind: HttpKind, http: HttpDispatch) -> HttpTarget:
        secret_headers = {
            header: self._secret(kind.tenant, name) for header, name in http.secret_headers.items()
        }
        signing = self._secret(kind.tenant, http.secret) if http.secret else None
        try:
            keys = read_keys(signing) if signing else ()
        except ValueError as error:
            raise _SecretUnusable(f"secret {http.secret}: {error}") from None
        said = [*secret_headers.values(), *(signing or "").split()]
        body = cast("str | dict[str, str] | None", http.body)
        return HttpTarget(
            tenant=kind.tenant,
            kind=kind.kind,
            topic=kind.topic,
            method=http.method,
            url=read_url(http.url),
            headers=http.headers | secret_headers,
            keys=keys,
            redactor=Redactor([*said, *(key.removeprefix("whsec_") for key in said)]),
            body=None if http.method in _BODILESS else BodyTemplate(body),
            timeout_seconds=min(http.timeout.total_seconds(), self._timeout_seconds_max),
            concurrency=http.concurrency,
            backoff=HandlerOptions(
                backoff_base_seconds=kind.backoff_base_seconds,
                backoff_cap_seconds=kind.backoff_cap_seconds,
            ),
        )

    def _secret(self, tenant: str, name: str) -> str:
        """Return a secret of this tenant. Secrets of other tenants cannot be named."""
        found: SecretStr | None = self._secrets.get(f"{tenant}/{name}")
        if found is None:
            raise _SecretUnusable(f"this worker has no secret {tenant}/{name}")
        return found.get_secret_value()


class _SecretUnusable(Exception):
    """A secret is missing, or is not a key."""
