"""What is decided by HTTP with a key is found to be decided, as what a person decides is."""

from datetime import timedelta
from uuid import UUID

from dueledger.ledger.store import PlanProfile, open_pool
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.api_keys import Scope
from dueledger.ledger.store.clock import read_now
from dueledger.reconciler import PassLimits, Reconciler, ReconcilerSources
from tests.logins import with_login
from tests.published_records import nothing_published
from tests.service.conftest import Api

_TENANT = "/v1/tenants/acme"


async def find_tampered(api: Api) -> list[tuple[UUID, str, str]]:
    """Run a pass, and return the findings that somebody decided what he may not, or nobody."""
    actor_no = await register_actor(api.owner, "reconciler:test", ActorKind.RECONCILER)
    dsn = with_login(api.dsn, "reconciler")
    async with open_pool(dsn, application_name="test", profile=PlanProfile.ANALYTIC) as pool:
        reconciler = Reconciler(
            pool,
            ReconcilerSources(),
            actor_no,
            limits=PassLimits(stuck_seconds=0),
            record_index=nothing_published(),
        )
        await reconciler.run_pass()
    rows = await api.owner.fetch(
        "select id, sentence, resolution from ledger.finding"
        " where type in ('TAMPERED', 'UNEXCUSED') order by sentence"
    )
    return [(row["id"], row["sentence"], row["resolution"]) for row in rows]


async def test_decisions_with_a_key_are_no_findings_and_what_it_explains_stays_explained(
    api: Api,
) -> None:
    key = await api.make_key("boss", *Scope)
    now = await read_now(api.owner)
    due, later = ((now + timedelta(days=days)).isoformat() for days in (3, 4))
    ids = await api.emit(key, *(api.item(f"D-{n}", due_at=due) for n in range(3)))
    for verb, item in zip(("trigger", "cancel", "snooze"), ids, strict=True):
        until = {"until": later} if verb == "snooze" else {}
        body = {"verb": verb, "ids": [str(item)], "reason": "INC-3", **until}
        answer = await api.ask("POST", f"{_TENANT}/decisions", key=key, body=body)
        assert [each["result"] for each in answer.document["items"]] == ["done"], answer.text
    scope = {"kind": "PolicyRenewalDue"}
    for verb, body in (("pause", {**scope, "reason": "INC-3"}), ("resume", scope)):
        assert (await api.ask("POST", f"{_TENANT}/{verb}", key=key, body=body)).status == 200
    assert await find_tampered(api) == []

    subject = await register_actor(api.owner, "oidc:anna", ActorKind.OIDC)
    await api.owner.execute("update ledger.pause set actor_no = $1", subject)
    assert await find_tampered(api) == []
    service = await register_actor(api.owner, "service:test", ActorKind.SERVICE)
    await api.owner.execute("update ledger.pause set actor_no = $1", service)
    [(finding, sentence, resolution)] = await find_tampered(api)
    assert (sentence.split(": ")[1], resolution) == ("whom it names may not decide.", "open")
    path = f"/v1/findings/{finding}/explain"
    explained = await api.ask("POST", path, key=key, body={"reason": "INC-3: by hand"})
    assert explained.status == 200, explained.text
    assert await find_tampered(api) == [(finding, sentence, "explained")]
