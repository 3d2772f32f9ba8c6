"""Commands that make, list, revoke and rotate keys of the REST interface."""

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from dueledger.cli import options
from dueledger.cli.options import DsnOption, JsonOption, LimitOption
from dueledger.cli.output import print_document, print_fields, print_list, say
from dueledger.cli.session import ledger_connection, register_person, run

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
        typer.Option("--scope", help="read, emit, operate, approve, audit; may be repeated."),
    ],
    tenant: Annotated[
        list[str] | None,
        typer.Option("--tenant", help="Only for this tenant; may be repeated."),
    ] = None,
    all_tenants: Annotated[
        bool, typer.Option("--all-tenants", help="For every tenant, also later ones.")
    ] = False,
    expires: ExpiresOption = None,
    json_: JsonOption = False,
    dsn: DsnOption = None,
) -> None:
    """Make a key and show it once. Give it to one service or person."""
    from dueledger.ledger.identity import TENANT_SHAPE
    from dueledger.ledger.store.api_keys import NAME_SHAPE, Scope

    if not NAME_SHAPE.fullmatch(name):
        raise typer.BadParameter(f"{name!r} can be no name: 1 to 100 of A-Z a-z 0-9 . _ -")
    known = [each.value for each in Scope]
    if unknown := [each for each in scope if each not in known]:
        message = f"there is no scope {unknown[0]!r}; the scopes are {', '.join(known)}"
        raise typer.BadParameter(message, param_hint="--scope")
    if bool(tenant) == all_tenants:
        message = "name its tenants, or give --all-tenants"
        raise typer.BadParameter(message, param_hint="--tenant")
    if unusable := [each for each in tenant or () if not TENANT_SHAPE.fullmatch(each)]:
        message = f"{unusable[0]!r} can be no tenant: 1 to 100 of A-Z a-z 0-9 . _ -"
        raise typer.BadParameter(message, param_hint="--tenant")
    expires_at = None if expires is None else options.read_due_instant(expires, "--expires")
    made = run(_create(dsn, name, sorted(set(scope)), sorted(set(tenant or ())), expires_at))
    _show(made, as_json=json_)


async def _create(
    dsn: str | None,
    name: str,
    scopes: list[str],
    tenants: list[str],
    expires_at: "datetime | None",
) -> "NewApiKey":
    from dueledger.ledger.errors import Conflict
    from dueledger.ledger.store.api_keys import create_key

    async with ledger_connection(dsn) as connection, connection.transaction():
        made = await create_key(
            connection,
            f"key:{name}",
            scopes=scopes,
            tenants=tenants or None,
            expires_at=expires_at,
            created_by=await register_person(connection),
        )
    if made is None:
        message = f"Keys named {name} are for other tenants. Choose another name."
        raise Conflict(message, name=name)
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
        *("created_at", "created_by", "revoked_at", "revoked_by"),
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
        return await list_keys(connection, None if name is None else f"key:{name}", limit)


@keys.command("revoke")
def revoke(prefix: PrefixArgument, json_: JsonOption = False, dsn: DsnOption = None) -> None:
    """Revoke a key at once."""
    run(_revoke(dsn, prefix))
    if json_:
        print_document({"prefix": prefix, "revoked": True})
    else:
        say(f"revoked: {prefix}")


async def _revoke(dsn: str | None, prefix: str) -> None:
    from dueledger.ledger.store.api_keys import revoke_key

    async with ledger_connection(dsn) as connection, connection.transaction():
        person = await register_person(connection)
        if not await revoke_key(connection, prefix, revoked_by=person):
            raise _no_such_key(prefix)


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
    from dueledger.ledger.store.api_keys import create_key, expire_key

    async with ledger_connection(dsn) as connection, connection.transaction():
        person = await register_person(connection)
        rights = await expire_key(connection, prefix, overlap)
        if rights is None:
            raise _no_such_key(prefix)
        made = await create_key(
            connection,
            rights.name,
            scopes=rights.scopes,
            tenants=rights.tenants,
            expires_at=expires_at,
            created_by=person,
        )
        if made is None:
            raise _no_such_key(prefix)  # its actor's tenants are its own
        return made


def _no_such_key(prefix: str) -> Exception:
    from dueledger.ledger.errors import NotFound

    message = f"There is no valid key {prefix}. `dueledger key list` shows all."
    return NotFound(message, prefix=prefix)


def _show(made: "NewApiKey", *, as_json: bool) -> None:
    document = {"key": made.text, "prefix": made.prefix}
    if as_json:
        print_document(document)
    else:
        print_fields(document)
        say("It is not shown again. Send it as `Authorization: Bearer KEY`.")
