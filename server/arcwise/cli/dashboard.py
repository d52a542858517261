"""`arcwise dashboard`: a server's pages for a store, on this machine, without a server."""

from __future__ import annotations

import threading
import webbrowser
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from arcwise.cli.terminal import listening
from arcwise.errors import ParameterError
from arcwise.server.app import create_dashboard
from arcwise.server.process.configuration import read_settings
from arcwise.server.process.logs import configure_logs
from arcwise.server.process.server import run
from arcwise.server.settings import ProcessSettings
from arcwise.server.store import open_store
from arcwise.server.store.urls import checked_path, shown_url
from arcwise.tasks.central import CLOSED_EPOCHS

if TYPE_CHECKING:
    from collections.abc import Mapping

_HOST = "127.0.0.1"
_REMEMBERED = ("min_reports", "min_reports_days")


@click.command()
@click.argument("store")
@click.option("--port", type=int, default=0, help="Port to listen on.  [default: a free one]")
@click.option("--open", "open_browser", is_flag=True, help="Open a browser.")
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    envvar="ARCWISE_CONFIG",
    help="TOML file of the server's settings; only min_reports and min_reports_days are used.",
)
@click.option("--min-reports", type=int, help="Least number of reports behind every number shown.")
@click.option(
    "--min-reports-days", type=int, help="With --min-reports: days whose epochs are shown together."
)
def dashboard(
    store: str, *, port: int, open_browser: bool, config: Path | None, **options: int | None
) -> None:
    """Show the estimates of STORE in a browser on this machine, without changing the store.

    STORE is a file, sqlite:///FILE or postgresql://USER@HOST/DATABASE. Nothing is written to it, servers may
    go on writing, and no reports are accepted. The pages show the same as the store's server does, to this
    machine only and without a login. Stop it with Ctrl-C.
    """
    url = store if "://" in store else f"sqlite:///{checked_path(store)}"
    given = read_settings({name: value for name, value in options.items() if value is not None}, config)
    limits, assumed = _limits(url, given)
    settings = ProcessSettings(store=url, port=port, log_level="warning", estimates_apart=False, **limits)
    configure_logs(settings.log_format, settings.log_level)
    app = create_dashboard(settings)
    listener = listening(_HOST, settings.port)

    def say(at: str) -> None:
        for line in assumed:
            click.echo(line)
        click.echo(f"the dashboard of {shown_url(url)} is at {at}/ until Ctrl-C")
        if open_browser:  # which may take a while
            threading.Thread(target=webbrowser.open, args=(f"{at}/",), daemon=True).start()

    run(app, listener, settings, started=say)


def _limits(url: str, given: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the settings that withhold estimates, and notes on them for the user.

    Raises `ParameterError` if they would show more than the server of the store does.
    """
    with closing(open_store(url, read_only=True)) as opened:
        known = {name: opened.recall(name) for name in _REMEMBERED}
        closed = bool(opened.recall("closed_epochs"))
    limits = {name: given[name] for name in _REMEMBERED if given.get(name) is not None}
    if closed or given.get("release") == CLOSED_EPOCHS:
        limits["release"] = CLOSED_EPOCHS  # like the store's server
    least, days = known["min_reports"], known["min_reports_days"]
    if least is None or days is None:
        if limits:
            return limits, []
        return {}, [
            "This store does not know the min_reports of its server: 0 is assumed, so everything is shown. "
            "If the server shows less, pass its --config or --min-reports."
        ]
    if limits.get("min_reports", least) < least:
        raise ParameterError(
            f"min_reports must be at least {least}, as on this store's server; got {limits['min_reports']}"
        )
    if least and limits.get("min_reports_days", days) != days:
        raise ParameterError(
            f"min_reports_days must be {days}, as on this store's server: otherwise comparing the two can "
            f"reveal counts of fewer than min_reports reports; got {limits['min_reports_days']}"
        )
    return {"min_reports": least, "min_reports_days": days} | limits, []
