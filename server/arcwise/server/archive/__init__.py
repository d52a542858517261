"""The archive of `arcwise serve --archive`: accepted batches as Parquet, each of them exactly once."""

__all__: list[str] = []
