"""Reads the settings of `arcwise serve`: options, else the environment (ARCWISE_*), else a TOML file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import ValidationError, create_model
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


def configure(options: Mapping[str, Any], file: Path | None = None) -> ProcessSettings:
    """Return the settings from the options, else the environment, else a TOML file, else the defaults.

    The file has settings by name at its top level. Error messages repeat no text that was given, because a
    store's URL may hold a password.
    """
    given = read_settings(options, file)
    # Not to open a server to everybody is the default, in which it still serves its own machine.
    return ProcessSettings(**given | {"open": given.get("open") or None})


def read_settings(options: Mapping[str, Any], file: Path | None = None) -> dict[str, Any]:
    """Return the settings that are given, by name, of the types that are declared; see `configure`."""

    class Given(BaseSettings):
        model_config = SettingsConfigDict(
            env_prefix="ARCWISE_", extra="forbid", hide_input_in_errors=True, validate_default=False
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
        name: (setting.read_as, None) for name, setting in settings_of(ProcessSettings).items()
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


def _in_words(error: ErrorDetails, known: Iterable[str]) -> str:
    name = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        return f"{name} is not a setting{did_you_mean(name, known)}"
    return f"{name}: {error['msg']}"
