"""The server process: uvicorn with bounded connections; settings, logs and metrics."""

__all__: list[str] = []
