"""Displays of results: a picture, a table of pandas or Polars, or HTML in notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload
from zlib import crc32

from arcwise.analysis.tidy import frame, tidy_rows
from arcwise.digits import counted
from arcwise.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from arcwise.analysis.plotting.figure import Picture
    from arcwise.notebook import Form

    Axes = TypeVar("Axes")
    Fit = Literal["modes", "raw"]


class Shown:
    """Base of results that can be drawn and put into a table: estimates, time series and comparisons."""

    @overload
    def plot(self, *, ax: None = None, width: float | None = None, fit: Fit = "modes") -> Picture: ...

    @overload
    def plot(self, *, ax: Axes, width: float | None = None, fit: Fit = "modes") -> Axes: ...

    def plot(self, *, ax: Any = None, width: float | None = None, fit: Fit = "modes") -> Any:
        """Return the picture, a matplotlib figure that notebooks show: ``result.plot().savefig("x.svg")``.

        Parameters
        ----------
        ax
            Axes to draw onto, one or several, instead of a new figure; they are returned. The parts of the
            picture are drawn onto them in order. The picture of an estimate on an interval has a density and
            a distribution function; on a circle it has a rose, for axes with ``projection="polar"``. The
            picture of a series has a part for each estimate. The picture of a comparison has a part for
            differences of values and a part for differences of shares. Parts without axes are not drawn.
        width
            Width of a new figure, in inches. Below 6, parts are drawn below each other, not side by side.
        fit
            Drawing of an estimate's distribution: "modes" draws as many modes as the reports show
            (`Distribution.modes`); "raw" draws every peak of the fit, and most of these peaks are noise.

        Raises
        ------
        MissingExtraError
            If matplotlib is not installed: the extra is `plots`.
        ParameterError
            If `ax` has too many axes, a rose gets axes that are not polar, or `fit` is another word.
        """
        from arcwise.analysis.plotting.pictures import picture

        if fit not in {"modes", "raw"}:
            raise ParameterError(f'fit must be "modes" or "raw", got {fit!r}')
        return picture(self._raw() if fit == "raw" else self, ax=ax, width=width)

    def to_frame(self, library: Literal["pandas", "polars"] | None = None) -> Any:
        """Return the tidy table: a row for each number, as `arcwise.analysis.tidy_rows` yields them.

        Parameters
        ----------
        library
            "pandas" or "polars", the library of the DataFrame. The default is pandas if it is installed,
            otherwise Polars.

        Raises
        ------
        MissingExtraError
            If the library is not installed; without `library`, if neither is installed.
        ParameterError
            If `library` is neither "pandas" nor "polars".
        """
        return frame(list(tidy_rows(self._document())), library)

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the picture, if there is one, and a table."""
        from arcwise.analysis.charts import charts_of, svg

        result: Any = self
        charts = charts_of(result)
        # The id is a checksum of the text that it refers to, so pictures with the same text may share it.
        ident = f"chart-{crc32(' '.join(chart.summary for chart in charts).encode()):08x}"
        return self._form().html(svg(charts, ident=ident, standalone=True, style=False) if charts else "")

    def _raw(self) -> Shown:
        """Return the result with its distribution as it was fitted."""
        return self

    def _document(self) -> Mapping[str, Any]:
        """Return the JSON object that `tidy_rows` takes."""
        result: Any = self
        return result.to_dict()  # type: ignore[no-any-return]

    def _form(self) -> Form:
        """Return the form in which notebooks show the result next to the picture."""
        raise NotImplementedError


def short_repr(result: Any, values: Mapping[str, Any]) -> str:
    """Return a one-line description of a result: its kind, its number of reports, and its first value."""
    first = next((f": {name} {value}" for name, value in values.items()), "")
    return f"<{type(result).__name__} of {result.task!r}, {counted(result.n, 'report')}{first}>"
