"""Commands that grant and revoke the roles of logins."""

from typing import Annotated, Final

import typer

from dueledger.cli.options import DsnOption, JsonOption
from dueledger.cli.output import print_document, say
from dueledger.cli.session import PersonsChange, ledger_connection, register_person, run

app = typer.Typer(rich_markup_mode=None)

_EMITTING: Final = ({"emitter"}, {"relay"})


@app.command()
def grant(
    words: Annotated[
        list[str], typer.Argument(help="Roles, TO, and a login.", metavar="ROLE… TO LOGIN")
    ],
    tenant: Annotated[
        list[str] | None,
        typer.Option(
            "--tenant", help="With emitter or relay: emit for this tenant only; may be repeated."
        ),
    ] = None,
    json_: JsonOption = False,
    dsn: DsnOption = None,
) -> None:
    """Grant roles to a login, as in: grant allocator upkeep TO due_allocator."""
    from dueledger.ledger.identity import TENANT_SHAPE

    roles, login = _read(words, "TO")
    if tenant and set(roles) not in _EMITTING:
        raise typer.BadParameter(
            "only an emitter or relay is bound to tenants", param_hint="--tenant"
        )
    if unusable := [name for name in tenant or () if not TENANT_SHAPE.fullmatch(name)]:
        message = f"{unusable[0]!r} can be no tenant: 1 to 100 of A-Z a-z 0-9 . _ -"
        raise typer.BadParameter(message, param_hint="--tenant")
    run(_grant(roles, login, tenant, dsn))
    _report(roles, login, "granted", as_json=json_)


@app.command()
def revoke(
    words: Annotated[
        list[str], typer.Argument(help="Roles, FROM, and a login.", metavar="ROLE… FROM LOGIN")
    ],
    json_: JsonOption = False,
    dsn: DsnOption = None,
) -> None:
    """Revoke roles from a login, as in: revoke operator FROM jane."""
    roles, login = _read(words, "FROM")
    run(_revoke(roles, login, dsn))
    _report(roles, login, "revoked", as_json=json_)


def _read(words: list[str], preposition: str) -> tuple[list[str], str]:
    """Return the roles and the login of `ROLE… TO LOGIN`."""
    from dueledger.ledger.store.roles import ROLES

    match words:
        case [*named, word, login] if named and login and word.upper() == preposition:
            roles = [name.lower().removeprefix("ledger_").replace("-", "_") for name in named]
        case _:
            raise typer.BadParameter(f"write: ROLE… {preposition} LOGIN")
    for name, role in zip(named, roles, strict=True):
        if role not in ROLES:
            raise typer.BadParameter(f"there is no role {name}; the roles are {', '.join(ROLES)}")
    return roles, login


async def _grant(roles: list[str], login: str, tenants: list[str] | None, dsn: str | None) -> None:
    from dueledger.audited_changes import roles_detail
    from dueledger.ledger.store.roles import grant_role, list_login_roles

    async with ledger_connection(dsn) as connection, connection.transaction():
        before = await list_login_roles(connection, login)
        for role in roles:
            await grant_role(connection, role, login, tenants)
        change = PersonsChange(connection, await register_person(connection))
        detail = roles_detail(roles, before, await list_login_roles(connection, login))
        await change.audit("grantRoles", f"logins/{login}", tenants, **detail)


async def _revoke(roles: list[str], login: str, dsn: str | None) -> None:
    from dueledger.audited_changes import roles_detail
    from dueledger.ledger.store.roles import list_login_roles, revoke_role

    async with ledger_connection(dsn) as connection, connection.transaction():
        before = await list_login_roles(connection, login)
        for role in roles:
            await revoke_role(connection, role, login)
        change = PersonsChange(connection, await register_person(connection))
        detail = roles_detail(roles, before, await list_login_roles(connection, login))
        await change.audit("revokeRoles", f"logins/{login}", None, **detail)


def _report(roles: list[str], login: str, done: str, *, as_json: bool) -> None:
    if as_json:
        print_document({"login": login, done: roles})
    else:
        say(f"{done}: {', '.join(roles)} ({login})")
