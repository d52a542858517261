"""Settings of `arcwise serve`: options, else the environment (ARCWISE_*), else a TOML file, else defaults."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 (pydantic reads annotations)
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, ValidationError
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from arcwise.errors import ParameterError
from arcwise.server.process.connections import Connections
from arcwise.server.settings import STORED_TASKS, Settings
from arcwise.wire import MAX_BODY_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Configuration", "configure"]


class Configuration(BaseSettings):
    """Every setting of a server process. `docs/operating.md` has them in a table."""

    model_config = SettingsConfigDict(env_prefix="ARCWISE_", extra="forbid", hide_input_in_errors=True)

    tasks: Path | None = Field(
        None,
        description="Directory of task and group files (*.json), made with `arcwise task new` and `arcwise "
        "group new`. Tasks that the store has are served too; without this, only they.",
    )
    store: str = Field("sqlite:///arcwise.db", description="Where counts are kept.")
    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(8000, ge=0, le=65_535, description="Port to listen on; 0 takes a free one.")
    open: bool = Field(
        False, description="Let everybody who reaches the server report and read, without a key."
    )
    allow_origins: list[str] = Field(
        [],
        description="Origins such as https://app.example whose pages may report from a browser; * for all.",
    )
    trusted_proxies: list[str] = Field(
        [], description="Addresses of proxies whose X-Forwarded-For tells who sends; * for all."
    )
    retention_days: int = Field(30, description="Days after its epoch that a batch is still taken.")
    max_body_bytes: int = Field(MAX_BODY_BYTES, description="Largest body, at most 1 MiB.")
    max_batch_codes: int = Field(MAX_BODY_BYTES, description="Most codes in a batch.")
    max_reading_bytes: int = Field(64 << 20, description="Bytes of bodies on their way in at once; then 503.")
    max_waiting_bytes: int = Field(
        64 << 20, description="Bytes of batches that wait for the store; then 503."
    )
    max_connections: int = Field(4096, ge=1, le=10**6, description="Connections at once; then 503.")
    header_seconds: float = Field(10.0, gt=0, le=3600, description="Within which a request's head must come.")
    body_seconds: float = Field(30.0, description="Within which a request's body must come.")
    answer_seconds: float = Field(
        30.0,
        gt=0,
        le=3600,
        description="Within which an answer must be taken; as long again for every 512 KiB of it.",
    )
    max_unread_bytes: int = Field(
        64 << 20,
        ge=1 << 20,
        le=1 << 40,
        description="Bytes of answers that wait to be taken; then the connections that wait longest are cut.",
    )
    requests_per_minute_per_key: int = Field(0, description="Then 429; 0 is no limit.")
    requests_per_minute_per_address: int = Field(
        0, description="Then 429; 0 is no limit. Behind a proxy, name it in trusted_proxies first."
    )
    min_reports: int = Field(
        0,
        description="Reports that all that is shown must have, alone and as a difference; 0: any number.",
    )
    min_reports_days: int = Field(
        7,
        description="With min_reports: days, from Mondays on, whose epochs are shown together or not at all.",
    )
    estimates_apart: bool = Field(
        True,
        description="Compute estimates in a process of their own, so that readers cannot starve ingestion.",
    )
    drain_seconds: float = Field(
        0.0, ge=0, le=600, description="How long requests are taken after SIGTERM, while not ready."
    )
    log_format: Literal["json", "text"] = Field("text", description="Of the log on standard error.")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "warning", description="Least level that is logged."
    )

    def settings(self) -> Settings:
        """Return what the app is told.

        Raises
        ------
        ParameterError, TaskError, CertificateError
            When a setting or a task is not valid.
        """
        return Settings(
            STORED_TASKS if self.tasks is None else self.tasks,
            store=self.store,
            retention_days=self.retention_days,
            max_body_bytes=self.max_body_bytes,
            max_waiting_bytes=self.max_waiting_bytes,
            allow_origins=self.allow_origins,
            open=True if self.open else None,
            requests_per_minute_per_key=self.requests_per_minute_per_key,
            requests_per_minute_per_address=self.requests_per_minute_per_address,
            max_batch_codes=self.max_batch_codes,
            max_reading_bytes=self.max_reading_bytes,
            body_seconds=self.body_seconds,
            min_reports=self.min_reports,
            min_reports_days=self.min_reports_days,
            estimates_apart=self.estimates_apart,
        )

    def connections(self) -> Connections:
        """Return the bounds on connections."""
        return Connections(
            self.max_connections,
            self.header_seconds,
            self.body_seconds,
            self.answer_seconds,
            self.max_unread_bytes,
        )


def configure(options: Mapping[str, Any], file: Path | None = None) -> Configuration:
    """Return the settings: of the options, else of the environment, else of a TOML file, else the defaults.

    Parameters
    ----------
    options
        Settings by name.
    file
        A TOML file with settings by name at its top level.

    Raises
    ------
    ParameterError
        When the file cannot be read, or a setting is not known or not valid. The message has no values: a
        store's URL may hold a password.
    """

    class FromFile(Configuration):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            given = () if file is None else (TomlConfigSettingsSource(settings_cls, file),)
            return init_settings, env_settings, *given

    if file is not None and not file.is_file():
        raise ParameterError(f"config must be a TOML file, and {file} is none")
    try:
        return FromFile(**options)
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(str(part) for part in each['loc'])}: {each['msg']}" for each in error.errors()
        )
        raise ParameterError(f"settings must be those of docs/operating.md: {wrong}") from None
    except ValueError as error:
        raise ParameterError(f"settings cannot be read: {error}") from None
