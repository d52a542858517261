"""The base class of tasks and groups: immutable, with canonical bytes, an id and a JSON file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import msgpack

from arcwise.errors import TaskError
from arcwise.tasks.files import load_json
from arcwise.values import Value

if TYPE_CHECKING:
    import os

    from typing_extensions import Self

    from arcwise.tasks.caps import Caps, Charge


class Document(Value):
    """Base of `Task` and `Group`. Two documents are equal if their ids are equal.

    A subclass sets its attributes, then calls `_seal`. Its `_from_fields` and `_from_json` read a document.
    """

    __slots__ = ("_bytes", "caps", "charge", "id", "name")

    _kind: ClassVar[str]
    """The document's name in messages."""

    _max_bytes: ClassVar[int | None] = None

    name: str
    caps: Caps
    charge: Charge
    id: str
    _bytes: bytes

    def _fields(self) -> list[Any]:
        raise NotImplementedError

    @classmethod
    def _from_fields(cls, fields: Any) -> Self:
        raise NotImplementedError

    @classmethod
    def _from_json(cls, data: Any) -> tuple[Self, Any]:
        """Return the document that a JSON object describes, and the id given in it."""
        raise NotImplementedError

    def _seal(self) -> None:
        """Set the canonical bytes and the id, after all other attributes are set."""
        import hashlib  # also loads OpenSSL, which takes longer than any other import on a device

        data = bytes(msgpack.packb(self._fields()))
        self._check_size(data, ": take fewer nodes or codes, or a larger step on a lattice")
        self._set(_bytes=data, id=hashlib.sha256(data).hexdigest())

    @classmethod
    def _check_size(cls, data: bytes, advice: str = "") -> None:
        if cls._max_bytes is not None and len(data) > cls._max_bytes:
            raise TaskError(f"a {cls._kind} takes at most {cls._max_bytes} bytes, got {len(data)}{advice}")

    def _key(self) -> tuple[Any, ...]:
        return (self.id,)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_bytes, (self._bytes,)

    def to_bytes(self) -> bytes:
        """Return the canonical bytes; their SHA-256 is the id."""
        return self._bytes

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read a document from its canonical bytes.

        Raises
        ------
        TaskError
            When the bytes are not the canonical bytes of a task or group known to this version.
        CertificateError
            When a kernel in them does not satisfy its epsilon.
        """
        cls._check_size(data)
        try:
            fields = msgpack.unpackb(data)
        except (ValueError, TypeError, msgpack.UnpackException) as error:
            raise TaskError(f"not the bytes of a {cls._kind}: {error}") from None
        document = cls._from_fields(fields)
        if document._bytes != data:
            raise TaskError(f"not the canonical bytes of a {cls._kind}: encoding it again gives other bytes")
        return document

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object that people can read; 64-bit integers are decimal strings."""
        raise NotImplementedError

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """Read the output of `to_json`; each id in it must match its content.

        Raises
        ------
        TaskError
            When the object does not describe a task or group, or an id does not match.
        CertificateError
            When a kernel in it does not satisfy its epsilon.
        """
        document, stated = cls._from_json(data)
        if stated != document.id:
            raise TaskError(
                f"the id in the file, {stated!r}, is not that of the {cls._kind} it describes, "
                f"{document.id!r}: the file was edited or damaged, or has a key that only a later arcwise "
                f"knows; make a new one with `arcwise {cls._kind} new`"
            )
        return document

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a JSON file that people can read."""
        import json
        from pathlib import Path

        text = json.dumps(self.to_json(), indent=2, ensure_ascii=False) + "\n"
        Path(path).write_text(text, encoding="utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a file written by `save`.

        Raises
        ------
        TaskError
            When the file does not hold a task or group, or cannot be read; the message names the file.
        FileNotFoundError
            When there is no such file.
        CertificateError
            When a kernel in it does not satisfy its epsilon.
        """
        return load_json(path, cls.from_json)
