"""Reads the settings of `arcwise serve`: options, else the environment (ARCWISE_*), else a TOML file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, ValidationError, create_model
from pydantic_core import PydanticCustomError
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from arcwise.checks import did_you_mean
from arcwise.errors import ParameterError
from arcwise.server.settings import ProcessSettings, settings_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from pydantic_core import ErrorDetails


_ELSEWHERE = ("ARCWISE_CACHE", "ARCWISE_CONFIG", "ARCWISE_KEY")
"""Variables with other readers: the cache of designs, commands, and examples."""
_PREFIX = "ARCWISE_"


def unknown_variables() -> list[str]:
    """Return a note on each environment variable that looks like a setting but is not a setting.

    They are not refused: container platforms may set some, such as ARCWISE_SERVICE_HOST.
    """
    settings = settings_of(ProcessSettings)
    given = sorted(name.upper() for name in os.environ if name.upper().startswith(_PREFIX))
    return [
        name + did_you_mean(name.removeprefix(_PREFIX).lower(), settings)
        for name in given
        if name not in _ELSEWHERE
        and name.removeprefix(_PREFIX).lower() not in settings
        and not name.startswith("ARCWISE_TEST_")
    ]


def configure(options: Mapping[str, Any], file: Path | None = None) -> ProcessSettings:
    """Return the settings from the options, else the environment, else a TOML file, else the defaults.

    The file has settings by name at its top level. Error messages do not repeat given text, because a store's
    URL may hold a password.
    """
    given = read_settings(options, file)
    # open=false means the default, None, which still serves this machine without a key.
    return ProcessSettings(**given | {"open": given.get("open") or None})


def read_settings(options: Mapping[str, Any], file: Path | None = None) -> dict[str, Any]:
    """Return the given settings, by name, in their declared types; see `configure`."""

    class Given(BaseSettings):
        model_config = SettingsConfigDict(
            env_prefix=_PREFIX, extra="forbid", hide_input_in_errors=True, validate_default=False
        )

        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            of_file = () if file is None else (TomlConfigSettingsSource(settings_cls, file),)
            return init_settings, env_settings, *of_file

    if file is not None and not file.is_file():
        raise ParameterError(f"config: {file} is not a file; give a TOML file of settings")
    declared: dict[str, Any] = {
        name: (_STRICT.get(setting.read_as, setting.read_as), None)
        for name, setting in settings_of(ProcessSettings).items()
    }
    try:
        return create_model("Settings", __base__=Given, **declared)(**options).model_dump(exclude_unset=True)
    except ValidationError as error:
        wrong = ", ".join(_in_words(each, declared) for each in error.errors())
        raise ParameterError(f"invalid settings (docs/reference/settings.md lists them): {wrong}") from None
    except ValueError as error:
        raise ParameterError(
            f"settings cannot be read: {error}; in the environment a list is written as JSON, such as "
            'ARCWISE_TRUSTED_PROXIES=["10.0.0.1"]'
        ) from None


def _number(value: object) -> object:
    """Refuse a bool, which Python accepts as a number: true in a file means something else."""
    if isinstance(value, bool):
        raise PydanticCustomError("number", "Input should be a valid number, not true or false")
    return value


def _integer(value: object) -> object:
    """Refuse other types that Python accepts as integers, except texts, which come from the environment."""
    if type(value) not in (int, str):
        raise PydanticCustomError("integer", "Input should be a valid integer")
    return value


_STRICT: dict[object, Any] = {
    int: Annotated[int, BeforeValidator(_integer)],
    float: Annotated[float, BeforeValidator(_number)],
}


def _in_words(error: ErrorDetails, known: Iterable[str]) -> str:
    name = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        return f"{name} is not a setting{did_you_mean(name, known)}"
    return f"{name}: {error['msg']}"
