"""Reports on their way in: bodies, batches and the gateway of relays, and the clock that closes epochs."""

__all__: list[str] = []
