"""`arcwise serve`: run the app under uvicorn, with settings from options, environment and file."""

from __future__ import annotations

import logging
from contextlib import closing
from pathlib import Path
from typing import Any, get_args

import click

from arcwise.cli.terminal import listening, progress_bar
from arcwise.errors import ParameterError
from arcwise.loopback import is_loopback
from arcwise.server.app import create_app
from arcwise.server.archive.folder import Folder
from arcwise.server.estimates.releasing import check_new
from arcwise.server.process.configuration import configure, unknown_variables
from arcwise.server.process.logs import configure_logs
from arcwise.server.process.server import run
from arcwise.server.settings import ProcessSettings, settings_of
from arcwise.server.store import open_store
from arcwise.server.store.staging import staging

_log = logging.getLogger("arcwise.server")


def _with_options(command: click.Command) -> click.Command:
    """Give the command an option for every setting."""
    for name, setting in settings_of(ProcessSettings).items():
        flag = setting.option or f"--{name.replace('_', '-')}"
        text, words = setting.help, dict[str, Any]()
        if setting.read_as == list[str]:
            words["multiple"] = True
            text += " Can be given several times."
        elif setting.read_as is bool:
            words |= {"is_flag": True, "default": None}
            if setting.default == "true":
                flag += "/--no-" + flag.removeprefix("--")
        elif setting.read_as is Path:
            words["type"] = click.Path(exists=True, file_okay=False, path_type=Path)
        else:
            choices = get_args(setting.read_as)
            words["type"] = click.Choice(choices) if choices else setting.read_as
            text += f"  [default: {setting.default}]" if setting.default else ""
        command.params.append(click.Option([flag, name], help=text, metavar=setting.metavar, **words))
    return command


@click.command()
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    envvar="ARCWISE_CONFIG",
    help="TOML file of settings; its keys are the options' names with underscores.",
)
def serve(*, config: Path | None, **options: Any) -> None:
    """Collect reports and serve estimates.

    Batches are acknowledged after a durable commit. Stop it with Ctrl-C or SIGTERM: it first stores the
    batches that it has accepted.

    Options override the environment (ARCWISE_STORE, ARCWISE_PORT and so on), which overrides the file of
    --config.
    """
    given = {name: value for name, value in options.items() if value is not None and value != ()}
    settings = configure(given, config)
    configure_logs(settings.log_format, settings.log_level)
    for unknown in unknown_variables():
        _log.warning("no setting has this name, so the environment variable is ignored: %s", unknown)
    app = create_app(settings)
    with progress_bar("opening the store", counted=False):
        _check_open(settings)
    run(app, listening(settings.host, settings.port), settings)


_with_options(serve)


def _check_open(settings: ProcessSettings) -> None:
    """Report problems of the store, new tasks or the archive before the server listens.

    A server that others can reach must not be open by accident.
    """
    with closing(open_store(settings.store)) as store:
        if not (settings.open or is_loopback(settings.host) or store.keys()):
            raise ParameterError(
                f"the store has no keys, and {settings.host} is not an address of this machine alone: "
                "everybody who reaches it could report and read. Make keys with `arcwise key new`, or pass "
                "--open"
            )
        check_new(store, settings.served)
        if settings.archive:
            Folder(Path(settings.archive), staging(store))
