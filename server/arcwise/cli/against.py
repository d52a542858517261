"""What `arcwise estimate` compares its estimates with: other reports, or a given population."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from arcwise.analysis.estimators.comparison import compare_reference, compare_samples
from arcwise.analysis.timeseries.epochs import Span, epoch_start, epochs_across, merged, utc
from arcwise.cli.counts import CountFile, opened_counts, read_counts, read_span
from arcwise.cli.options import EXISTING, together
from arcwise.cli.stored_tasks import reports_of_namesakes
from arcwise.server.store import open_store
from arcwise.tasks import Task

if TYPE_CHECKING:
    from pathlib import Path
    from typing import TextIO

    from arcwise.analysis.estimators.comparison import Comparison
    from arcwise.typing import IntArray

against_options = together(
    click.option(
        "--against",
        type=click.File("r"),
        help="Counts of other devices, as for --counts: how far their estimates are from these, with "
        "intervals, and a test whether both come from one population.",
    ),
    click.option(
        "--against-task",
        type=EXISTING,
        help="The task of the other devices, on the same domain; alone with --store, its reports there.",
    ),
    click.option(
        "--against-from",
        metavar="TIME",
        help="With --store: the other reports are those of epochs that start then or later.",
    ),
    click.option(
        "--against-to",
        metavar="TIME",
        help="With --store: the other reports are those of epochs that start before then.",
    ),
    click.option(
        "--reference",
        metavar="DISTRIBUTION",
        help='A given population such as "normal:40,12" (see arcwise simulate --help): how far it is from '
        "these estimates, and a test whether the reports come from it.",
    ),
)


class Against(NamedTuple):
    """The options, by their names."""

    against: TextIO | None
    against_task: Path | None
    against_from: str | None
    against_to: str | None
    reference: str | None

    def given(self) -> dict[str, Any]:
        """Return the options as they are written, with what was given."""
        return {f"--{name.replace('_', '-')}": value for name, value in self._asdict().items()}

    def others(self, task: Task, span: Span, store: str | None) -> tuple[Task, IntArray, int] | None:
        """Return the task of the other reports, these and their epochs; None with none to compare with.

        `task`, `span` and `store` are those of the first sample; no report may be in both samples.
        """
        times = self.against_from, self.against_to
        other_task = task if self.against_task is None else Task.load(self.against_task)
        if self.against is not None:
            if times != (None, None):
                raise click.UsageError("--against-from and --against-to are for --store, not for --against")
            given = opened_counts(self.against, "--against")
            if isinstance(given, CountFile):
                by_epoch = given.by_epoch(other_task)
                return other_task, merged(other_task, by_epoch, Span()), epochs_across(by_epoch)
            return other_task, read_counts(given, "--against"), 1
        if self.against_task is None and times == (None, None):
            return None
        if store is None:
            raise click.UsageError(
                "--against-task, --against-from and --against-to need --store or --against"
            )
        others = read_span(other_task, *times, options=("--against-from", "--against-to"))
        with closing(open_store(store, create=False)) as opened:
            epochs = list(opened.reports_by_epoch(other_task, *others))
            (counts,) = opened.sums(other_task, dict.fromkeys(epochs, 0))
            namesakes = reports_of_namesakes(opened, other_task)
        both = [epoch for epoch in epochs if epoch in span]
        if task == other_task and both:
            raise click.UsageError(
                f"no report may be in both samples, but those of {utc(epoch_start(task, both[0]))} are: give "
                "--from and --to, or --against-from and --against-to, that leave out the other sample"
            )
        if not counts.any():
            raise click.ClickException(
                f"{other_task.name}: {namesakes or 'no other reports to compare with'}"
            )
        return other_task, counts, epochs_across(epochs)

    def comparisons(
        self, task: Task, counts: IntArray, span: Span, store: str | None, **options: Any
    ) -> dict[str, Comparison]:
        """Return the comparisons that were asked for, by name; `options` are those of `compare_samples`."""
        found = {}
        other = self.others(task, span, store)
        if other is not None:
            other_task, others, epochs = other
            found["difference"] = compare_samples(
                task, counts, others, other_task=other_task, other_epochs=epochs, **options
            )
        if self.reference is not None:
            found["reference"] = compare_reference(task, counts, self.reference, **options)
        return found
