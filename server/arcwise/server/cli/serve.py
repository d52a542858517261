"""`arcwise serve`: the app under uvicorn."""

from __future__ import annotations

import gc
import socket
from contextlib import closing
from pathlib import Path
from typing import Any

import click
import uvicorn

from arcwise.errors import ParameterError
from arcwise.server.access.local import is_loopback
from arcwise.server.app import create_app
from arcwise.server.settings import STORED_TASKS, Settings
from arcwise.server.store import open_store

__all__ = ["serve"]


class _Server(uvicorn.Server):
    """Says where it listens once it does, and tunes the garbage collector for a long life."""

    url = ""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        # What is loaded by now lives as long as the process; scanning it again costs 20 us a request.
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 20)
        if self.started:
            click.echo(f"arcwise is listening on {self.url}")


@click.command()
@click.option(
    "--tasks",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Directory of task and group files (*.json), made with `arcwise task new` and `arcwise group new`. "
    "Tasks that the store has are served too; without this option, only they.",
)
@click.option("--store", default="sqlite:///arcwise.db", show_default=True, help="Where counts are kept.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=8000,
    show_default=True,
    help="Port to listen on; 0 takes a free one.",
)
@click.option(
    "--retention-days",
    default=30,
    show_default=True,
    help="Days after its epoch that a batch is still taken.",
)
@click.option(
    "--allow-origin",
    "origins",
    multiple=True,
    metavar="ORIGIN",
    help="An origin such as https://app.example whose pages may report from a browser; * for all. "
    "Can be given several times.",
)
@click.option(
    "--open",
    "open_",
    is_flag=True,
    help="Let everybody who reaches the server report and read, without a key.",
)
def serve(
    *,
    tasks: Path | None,
    store: str,
    host: str,
    port: int,
    retention_days: int,
    origins: tuple[str, ...],
    open_: bool,
) -> None:
    """Collect reports and serve estimates.

    Batches are acknowledged after a durable commit. Stop it with Ctrl-C or SIGTERM: what was taken is
    written first.
    """
    app = create_app(
        Settings(
            STORED_TASKS if tasks is None else tasks,
            store=store,
            retention_days=retention_days,
            allow_origins=origins,
            open=True if open_ else None,
        )
    )
    with closing(open_store(store)) as opened:  # says what is wrong with it before anything listens
        if not (open_ or is_loopback(host) or opened.keys()):
            raise ParameterError(
                f"the store has no keys, and {host} is not this machine alone: everybody who reaches it "
                "could report and read. Make keys with `arcwise key new`, or say --open"
            )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise click.ClickException(f"cannot listen on {host} port {port}: {error.strerror}") from error
    run(app, listener)


def run(app: Any, listener: socket.socket) -> None:
    """Serve an app on a listening socket until SIGINT or SIGTERM."""
    config = uvicorn.Config(
        app,
        access_log=False,  # it would hold addresses
        server_header=False,
        log_level="warning",
        timeout_graceful_shutdown=10,
    )
    server = _Server(config)
    host, port = listener.getsockname()[:2]
    server.url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    server.run(sockets=[listener])
    if not server.started:
        raise click.ClickException("the server did not start; the lines above say why")
