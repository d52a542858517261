"""The file of a gateway's private keys. Backups of the store lack it, so they cannot open recorded requests.

JSON, the newest key first: ``{"keys": [{"key_id": 1, "private_key": HEX, "until": null}]}``. A replaced key
opens requests until the Unix time in `until`, so that apps that ship with this key continue to work.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, NamedTuple

from arcwise.errors import ParameterError, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from arcwise.oblivious import GatewayKey

_MOST_KEYS = 255


class KeptKey(NamedTuple):
    """A key of the file, and the Unix time after which it opens no requests.

    `until` is None for the newest key, which is valid until it is replaced.
    """

    key: GatewayKey
    until: int | None


class GatewayKeyFile:
    """The file of gateway keys, which is read and replaced as a whole."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def read(self) -> list[KeptKey]:
        """Return the keys, the newest first.

        Raises `StoreError`, which does not repeat the content, when the file cannot be read or is not a file
        of keys.
        """
        from arcwise.oblivious import GatewayKey

        try:
            kept = [
                KeptKey(GatewayKey(entry["key_id"], bytes.fromhex(entry["private_key"])), entry["until"])
                for entry in json.loads(self.path.read_text(encoding="ascii"))["keys"]
            ]
        except OSError as error:
            raise StoreError(
                f"the file of gateway keys {str(self.path)!r} cannot be read: {error.strerror}; "
                "`arcwise key gateway FILE` makes one"
            ) from None
        except (ValueError, KeyError, TypeError):
            kept = []
        if [type(entry.until) for entry in kept] != [NoneType, *[int] * (len(kept) - 1)]:
            raise StoreError(
                f"{str(self.path)!r} is not a file of gateway keys; `arcwise key gateway FILE` makes one"
            )
        return kept

    def valid(self, now: float) -> list[GatewayKey]:
        """Return the keys that open requests at the time `now`, the newest first; raises as `read` does."""
        return [kept.key for kept in self.read() if kept.until is None or now < kept.until]

    def make(self) -> GatewayKey:
        """Make the file with a first key, and return the key.

        Raises `ParameterError` when the file already exists, and `StoreError` when it cannot be written.
        """
        from arcwise.oblivious import GatewayKey

        self._refuse_another()
        key = GatewayKey.generate(1)
        with self._alone():
            self._refuse_another()
            self._write([KeptKey(key, None)])
        return key

    def rotate(self, now: float, *, keep_seconds: float) -> GatewayKey:
        """Put a new key first, and return it; the previous key opens requests for `keep_seconds` more.

        Expired keys are dropped; raises as `read` and `make` do.
        """
        from arcwise.oblivious import GatewayKey

        self.read()  # raises if there is nothing to rotate
        with self._alone():
            before = self.read()
            until = int(now + keep_seconds)
            kept = [
                KeptKey(entry.key, until if entry.until is None else entry.until)
                for entry in before
                if entry.until is None or now < entry.until
            ]
            used = {entry.key.key_id for entry in kept}
            if len(used) > _MOST_KEYS:
                raise StoreError(
                    f"{str(self.path)!r} already holds {len(used)} valid keys; wait until one expires"
                )
            newest = kept[0].key.key_id
            key_id = next(each % 256 for each in range(newest + 1, newest + 257) if each % 256 not in used)
            key = GatewayKey.generate(key_id)
            self._write([KeptKey(key, None), *kept])
        return key

    def _refuse_another(self) -> None:
        if self.path.exists():
            raise ParameterError(
                f"FILE must not exist yet, or be rotated with --rotate; {str(self.path)!r} exists"
            )

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other processes from changing the file, where the system has such locks.

        The lock is on a permanent file next to the file of keys, because the file of keys itself is replaced.
        """
        try:
            descriptor = os.open(self.path.with_name(f"{self.path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise self._not_written(error) from None
        try:
            if sys.platform != "win32":
                import fcntl

                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX)
                except OSError as error:
                    raise self._not_written(error) from None
            yield
        finally:
            os.close(descriptor)

    def _not_written(self, error: OSError) -> StoreError:
        file = str(error.filename or self.path)
        return StoreError(f"{file!r} cannot be written: {error.strerror}")

    def _write(self, kept: list[KeptKey]) -> None:
        entries = [
            {"key_id": entry.key.key_id, "private_key": entry.key.private_key.hex(), "until": entry.until}
            for entry in kept
        ]
        new = self.path.with_name(f"{self.path.name}.new")
        try:
            new.unlink(missing_ok=True)
            # Readable by this user only, from its first byte on.
            descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                json.dump({"keys": entries}, file, indent=2)
                file.write("\n")
                file.flush()
                os.fsync(file.fileno())
            new.replace(self.path)
        except OSError as error:
            raise self._not_written(error) from None
