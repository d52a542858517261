"""`arcwise serve`: the app under uvicorn."""

from __future__ import annotations

import gc
import socket
from pathlib import Path
from typing import Any

import click
import uvicorn

from arcwise.server.app import create_app
from arcwise.server.settings import Settings
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
    required=True,
    help="Directory of task and group files (*.json), made with `arcwise task new` and `arcwise group new`.",
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
def serve(
    *, tasks: Path, store: str, host: str, port: int, retention_days: int, origins: tuple[str, ...]
) -> None:
    """Collect reports and serve estimates.

    Batches are acknowledged after a durable commit. Stop it with Ctrl-C or SIGTERM: what was taken is
    written first.
    """
    app = create_app(Settings(tasks, store=store, retention_days=retention_days, allow_origins=origins))
    open_store(store).close()  # says what is wrong with it before anything listens
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
