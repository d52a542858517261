"""`arcwise serve`: the app under uvicorn, with the settings of options, environment and file."""

from __future__ import annotations

import socket
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from arcwise.errors import ParameterError
from arcwise.loopback import is_loopback
from arcwise.server.app import create_app
from arcwise.server.process.configuration import Configuration, configure
from arcwise.server.process.logs import configure_logs
from arcwise.server.process.server import run
from arcwise.server.store import open_store

__all__ = ["run", "serve"]

_LISTS = {"allow_origins": "--allow-origin", "trusted_proxies": "--trusted-proxy"}


def _with_options(command: click.Command) -> click.Command:
    """Give the command an option for every setting."""
    for name, setting in Configuration.model_fields.items():
        words: dict[str, Any] = {"help": setting.description}
        flag = _LISTS.get(name, f"--{name.replace('_', '-')}")
        if name in _LISTS:
            words |= {"multiple": True, "help": f"{setting.description} Can be given several times."}
        elif setting.annotation is bool:
            words |= {"is_flag": True, "default": None}
            if setting.default:
                flag += "/--no-" + flag.removeprefix("--")
        elif name == "tasks":
            words["type"] = click.Path(exists=True, file_okay=False, path_type=Path)
        elif setting.annotation in (int, float):
            words["type"] = setting.annotation
        if name not in _LISTS and setting.annotation is not bool and setting.default is not None:
            words["help"] = f"{setting.description}  [default: {setting.default}]"
        metavar = {"allow_origins": "ORIGIN", "trusted_proxies": "ADDRESS"}.get(name)
        command.params.append(click.Option([flag, name], metavar=metavar, **words))
    return command


@click.command()
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    envvar="ARCWISE_CONFIG",
    help="TOML file of settings, by the names of the options with underscores.",
)
def serve(*, config: Path | None, **options: Any) -> None:
    """Collect reports and serve estimates.

    Batches are acknowledged after a durable commit. Stop it with Ctrl-C or SIGTERM: what was taken is
    written first.

    Options count before the environment (ARCWISE_STORE, ARCWISE_PORT and so on), the environment before the
    file of --config.
    """
    given = {name: value for name, value in options.items() if value is not None and value != ()}
    settings = configure(given, config)
    configure_logs(settings.log_format, settings.log_level)
    app = create_app(settings.settings())
    _check_open(settings)
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        listener = socket.create_server((settings.host, settings.port), family=family, backlog=2048)
    except OSError as error:
        raise click.ClickException(
            f"cannot listen on {settings.host} port {settings.port}: {error.strerror}"
        ) from error
    run(
        app,
        listener,
        connections=settings.connections(),
        trusted_proxies=settings.trusted_proxies,
        drain_seconds=settings.drain_seconds,
    )


_with_options(serve)


def _check_open(settings: Configuration) -> None:
    """Say what is wrong with the store before anything listens, and do not serve the world by accident."""
    with closing(open_store(settings.store)) as store:
        if not (settings.open or is_loopback(settings.host) or store.keys()):
            raise ParameterError(
                f"the store has no keys, and {settings.host} is not this machine alone: everybody who "
                "reaches it could report and read. Make keys with `arcwise key new`, or say --open"
            )
