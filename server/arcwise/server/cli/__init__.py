"""The `arcwise` command. It alone may use the client and the server together."""

from arcwise.server.cli.main import main

__all__ = ["main"]
