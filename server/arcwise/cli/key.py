"""`arcwise key`: make, list and revoke the keys of a server, in its store."""

from __future__ import annotations

import json
import time
from contextlib import closing
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from arcwise.cli.main import CommandGroup
from arcwise.cli.stored_tasks import named_task
from arcwise.digits import counted
from arcwise.errors import ParameterError, StoreError
from arcwise.server.access.administration import audited
from arcwise.server.access.keys import SCOPES, new_key
from arcwise.server.collect.gateway_keys import GatewayKeyFile
from arcwise.server.store import open_store
from arcwise.tasks import DAY, Task

if TYPE_CHECKING:
    from collections.abc import Sequence

    from arcwise.server.store import StoredKey, StoredTask

_store = click.option(
    "--store",
    "url",
    default="sqlite:///arcwise.db",
    show_default=True,
    envvar="ARCWISE_STORE",
    help="The server's store, or set ARCWISE_STORE.",
)


@click.group(cls=CommandGroup)
def key() -> None:
    """Make, list and revoke the keys of a server, and make those of its gateway.

    A server without keys serves only its own machine. Once there is a key, requests need one.
    """


@key.command()
@click.option(
    "--scope",
    type=click.Choice(SCOPES),
    required=True,
    help="ingest sends reports; read reads tasks and estimates; metrics reads /metrics; admin reads all of "
    "these and manages tasks and keys.",
)
@click.option(
    "--task",
    "tasks",
    multiple=True,
    metavar="TASK",
    help="Restrict the key to this task: its name in the store, its id, or its file. Repeatable.",
)
@click.option("--label", default="", help="Label of the key, for the list of keys.")
@_store
def new(*, scope: str, tasks: tuple[str, ...], label: str, url: str) -> None:
    """Make a key and print it once: the store keeps only its SHA-256.

    Running servers accept it within ten seconds.
    """
    ids = _task_ids(url, tasks) if tasks else None
    secret, stored = new_key(scope, tasks=ids, label=label, now=time.time())
    with closing(open_store(url)) as store:  # created only now, when all arguments are checked
        audited(store, f"make {scope} key", stored.id, lambda: store.add_key(stored), now=stored.created)
    click.echo(secret)
    click.echo(f"The key {stored.id} is shown once. arcwise key revoke {stored.id} revokes it.", err=True)


@key.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@_store
def list_(*, as_json: bool, url: str) -> None:
    """List the keys by id, with scopes, tasks and times. The keys themselves are not stored."""
    with closing(open_store(url, create=False)) as store:
        keys = store.keys()
        names = {entry.task.id: entry.task.name for entry in store.tasks()}
    if as_json:
        click.echo(json.dumps([_shown(stored) for stored in keys]))
        return
    if not keys:
        click.echo("No keys: a server with this store serves its own machine only. Make one: arcwise key new")
    width = max((len(stored.scope) for stored in keys), default=0)
    for stored in keys:
        good_for = "all tasks" if stored.tasks is None else ", ".join(names.get(t, t) for t in stored.tasks)
        times = f"made {_time(stored.created)}"
        if stored.revoked is not None:
            times += f", revoked {_time(stored.revoked)}"
        click.echo(f"{stored.id}  {stored.scope:<{width}}  {good_for}  {times}  {stored.label}".rstrip())


@key.command()
@click.argument("key_id", metavar="ID")
@_store
def revoke(*, key_id: str, url: str) -> None:
    """Revoke a key, which ends its logins. Running servers refuse it within ten seconds.

    This cannot be undone.

    ID is the key's id, as `arcwise key list` shows it; the key itself works too.
    """
    # People who have only the key itself must be able to revoke it.
    name = key_id.split("_")[2] if key_id.count("_") == 3 else key_id
    with closing(open_store(url, create=False)) as store:
        keys = store.keys()
        if all(stored.id != name for stored in keys):
            raise ParameterError("ID must be the id of a key in this store; `arcwise key list` shows them")
        now = int(time.time())
        revoked = audited(store, "revoke key", name, lambda: store.revoke_key(name, now), now=now)
    if not revoked:
        raise ParameterError(f"the key {name} is already revoked")
    click.echo(f"revoked {name}; running servers refuse it within ten seconds")


@key.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--rotate", is_flag=True, help="Add a new key at the start of an existing FILE.")
@click.option(
    "--keep-days",
    type=click.IntRange(0, 36_500),
    default=730,
    show_default=True,
    metavar="DAYS",
    help="With --rotate: days for which the previous key opens requests, for apps that ship with it.",
)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="Write the public keys that apps ship with (application/ohttp-keys) to this file.  "
    "[default: FILE.ohttp-keys]",
)
def gateway(*, file: Path, rotate: bool, keep_days: int, config: Path | None) -> None:
    """Make or rotate the keys with which a server opens oblivious requests.

    FILE holds private keys: only the server may read it. `arcwise serve --gateway-keys FILE` uses it; running
    servers follow a rotation within ten seconds.
    """
    from arcwise.oblivious import encode_key_configs

    keys = GatewayKeyFile(file)
    made = keys.rotate(time.time(), keep_seconds=keep_days * DAY) if rotate else keys.make()
    public = config or file.with_name(f"{file.name}.ohttp-keys")
    public.write_bytes(encode_key_configs([made.config]))
    click.echo(f"wrote key {made.key_id} to {file}, and the file that apps ship with to {public}")
    if rotate:
        click.echo(f"the previous key opens requests for {counted(keep_days, 'more day')}")


def _task_ids(url: str, texts: Sequence[str]) -> list[str]:
    try:
        with closing(open_store(url, create=False)) as store:
            stored = list(store.tasks())
    except StoreError:
        if not all(Path(text).is_file() for text in texts):
            raise
        stored = []  # keys for task files can be made before a store exists
    return [_task_id(stored, text) for text in texts]


def _task_id(stored: Sequence[StoredTask], text: str) -> str:
    if (found := named_task(stored, text, "--task")) is not None:
        return found.task.id
    if Path(text).is_file():
        return Task.load(text).id
    names = ", ".join(sorted({each.task.name for each in stored})) or "none yet"
    raise ParameterError(f"--task must be a name or id in the store ({names}), or a task file, got {text!r}")


def _shown(stored: StoredKey) -> dict[str, Any]:
    return {
        "id": stored.id,
        "scope": stored.scope,
        "tasks": stored.tasks,
        "label": stored.label,
        "created": stored.created,
        "revoked": stored.revoked,
    }


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
