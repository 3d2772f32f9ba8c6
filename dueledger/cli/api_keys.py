"""Commands that make, list, revoke and rotate keys of the REST interface."""

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from dueledger.cli import options
from dueledger.cli.options import DsnOption, JsonOption, LimitOption
from dueledger.cli.output import print_document, print_fields, print_list, say
from dueledger.cli.session import ledger_connection, persons_change, run

if TYPE_CHECKING:
    from datetime import datetime

    from dueledger.ledger.store.api_keys import NewApiKey

app = typer.Typer(rich_markup_mode=None)
keys = typer.Typer(help="Manage keys of the REST interface.", no_args_is_help=True)
app.add_typer(keys, name="key")

PrefixArgument = Annotated[
    str, typer.Argument(help="Prefix of the key, as `key list` shows it.", metavar="PREFIX")
]
ExpiresOption = Annotated[
    str | None,
    typer.Option("--expires", help="When it expires; UTC if it has no offset.", metavar="INSTANT"),
]


@keys.command("create")
def create(
    name: Annotated[str, typer.Argument(help="Name under which the journal has its calls.")],
    scope: Annotated[
        list[str],
        typer.Option(
            "--scope", help="read, emit, work, operate, approve, audit, admin; may be repeated."
        ),
    ],
    tenant: Annotated[
        list[str] | None,
        typer.Option("--tenant", help="Only for this tenant; may be repeated."),
    ] = None,
    all_tenants: Annotated[
        bool, typer.Option("--all-tenants", help="For every tenant, also later ones.")
    ] = False,
    expires: ExpiresOption = None,
    rate: Annotated[
        float | None,
        typer.Option("--rate", help="Requests a second in each process; default is its setting."),
    ] = None,
    burst: Annotated[
        int | None,
        typer.Option("--burst", help="Requests at once before; default is five seconds' worth."),
    ] = None,
    json_: JsonOption = False,
    dsn: DsnOption = None,
) -> None:
    """Make a key and show it once. Give it to one service or person."""
    if bool(tenant) == all_tenants:
        message = "name its tenants, or give --all-tenants"
        raise typer.BadParameter(message, param_hint="--tenant")
    expires_at = None if expires is None else options.read_due_instant(expires, "--expires")
    asked = NewKey(name, scope, tenant or None, expires_at, rate, burst)
    made = run(_create(dsn, asked))
    _show(made, as_json=json_)


class NewKey(NamedTuple):
    """A key to make, as the options of the command describe it."""

    name: str
    scopes: list[str]
    tenants: list[str] | None
    expires_at: "datetime | None"
    rate_per_second: float | None
    rate_burst: int | None


async def _create(dsn: str | None, asked: NewKey) -> "NewApiKey":
    from dueledger.api_keys import make_key, read_rate

    async with persons_change(dsn) as change:
        made = await make_key(
            change.connection,
            asked.name,
            scopes=asked.scopes,
            tenants=asked.tenants,
            expires_at=asked.expires_at,
            actor_no=change.actor_no,
            rate=read_rate(asked.rate_per_second, asked.rate_burst),
        )
        scopes, target = sorted(set(asked.scopes)), f"keys/{made.prefix}"
        await change.audit("createKey", target, asked.tenants, name=asked.name, scopes=scopes)
    return made


@keys.command("list")
def list_(
    name: Annotated[str | None, typer.Option("--name", help="Only keys of this name.")] = None,
    limit: LimitOption = 50,
    json_: JsonOption = False,
    dsn: DsnOption = None,
) -> None:
    """List keys without their secrets, the newest first."""
    columns = (
        *("prefix", "name", "scopes", "tenants", "is_valid", "expires_at", "last_used_at"),
        *("created_at", "created_by", "revoked_at", "revoked_by", "rate_per_second", "rate_burst"),
    )
    print_list(
        run(_list(dsn, name, limit + 1)),
        columns,
        limit=limit,
        as_json=json_,
        empty="There is no key. Make one: dueledger key create",
    )


async def _list(dsn: str | None, name: str | None, limit: int) -> list[dict[str, object]]:
    from dueledger.ledger.store.api_keys import list_keys

    async with ledger_connection(dsn) as connection:
        rows = await list_keys(connection, None if name is None else f"key:{name}", limit)
    return [{column: row[column] for column in row if column != "key_no"} for row in rows]


@keys.command("revoke")
def revoke(prefix: PrefixArgument, json_: JsonOption = False, dsn: DsnOption = None) -> None:
    """Revoke a key at once."""
    run(_revoke(dsn, prefix))
    if json_:
        print_document({"prefix": prefix, "revoked": True})
    else:
        say(f"revoked: {prefix}")


async def _revoke(dsn: str | None, prefix: str) -> None:
    from dueledger.api_keys import end_key
    from dueledger.audited_changes import revocation_detail

    async with persons_change(dsn) as change:
        revoked = await end_key(change.connection, prefix, actor_no=change.actor_no)
        await change.audit(
            "revokeKey", f"keys/{prefix}", revoked.tenants, **revocation_detail(revoked)
        )


@keys.command("rotate")
def rotate(
    prefix: PrefixArgument,
    overlap_hours: Annotated[
        float,
        typer.Option("--overlap-hours", min=0, help="How long the old key is valid beside it."),
    ] = 24.0,
    expires: ExpiresOption = None,
    json_: JsonOption = False,
    dsn: DsnOption = None,
) -> None:
    """Make a key with the rights of another one, which expires soon."""
    expires_at = None if expires is None else options.read_due_instant(expires, "--expires")
    made = run(_rotate(dsn, prefix, timedelta(hours=overlap_hours), expires_at))
    _show(made, as_json=json_)


async def _rotate(
    dsn: str | None, prefix: str, overlap: timedelta, expires_at: "datetime | None"
) -> "NewApiKey":
    from dueledger.api_keys import rotate_key
    from dueledger.audited_changes import successor_detail

    async with persons_change(dsn) as change:
        made, rights = await rotate_key(
            change.connection,
            prefix,
            overlap=overlap,
            expires_at=expires_at,
            actor_no=change.actor_no,
        )
        detail = successor_detail(made.prefix, rights)
        await change.audit("rotateKey", f"keys/{prefix}", rights.tenants, **detail)
    return made


@keys.command("sign-out")
def sign_out(
    actor: Annotated[
        str,
        typer.Argument(help="Whose sessions, as the journal has it.", metavar="oidc:SUBJECT"),
    ],
    json_: JsonOption = False,
    dsn: DsnOption = None,
) -> None:
    """End the sessions of the console that somebody has, at once."""
    ended = run(_sign_out(dsn, actor))
    if json_:
        print_document({"actor": actor, "sessions_ended": ended})
    else:
        say(f"sessions ended: {ended}")


async def _sign_out(dsn: str | None, actor: str) -> int:
    from dueledger.ledger.store.console_sessions import end_sessions_of_actor

    async with persons_change(dsn) as change:
        ended = await end_sessions_of_actor(change.connection, actor)
        if ended:
            await change.audit("endSessions", f"actors/{actor}", None, sessions=ended)
    return ended


def _show(made: "NewApiKey", *, as_json: bool) -> None:
    document = {"key": made.text, "prefix": made.prefix}
    if as_json:
        print_document(document)
    else:
        print_fields(document)
        say("It is not shown again. Send it as `Authorization: Bearer KEY`.")
