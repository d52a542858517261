"""`arcwise audit`: a lower bound on the epsilon of any mechanism, from its outputs."""

from __future__ import annotations

import importlib
import json
import sys
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import click

from arcwise.analysis.auditing.audit import LEVEL, SAMPLES
from arcwise.analysis.auditing.audit import audit as audit_mechanism
from arcwise.cli.mechanisms import NAMES
from arcwise.cli.mechanisms import mechanism_for as named_mechanism
from arcwise.cli.options import EXISTING, domain_options, lattice_options, read_domain
from arcwise.cli.terminal import progress_bar, whole_number
from arcwise.errors import ArcwiseError
from arcwise.tasks import Group, Task

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Unpack

    from arcwise.cli.options import DomainOptions
    from arcwise.domains import Domain


@click.command()
@click.argument("mechanism", required=False, metavar="[MODULE:FUNCTION | NAME]")
@click.option(
    "--task",
    "task_file",
    type=EXISTING,
    help="Audit the task in this file against the claim that the file makes.",
)
@click.option(
    "--group",
    "group_file",
    type=EXISTING,
    help="Audit the group in this file: all that a device reports in a round, together.",
)
@click.option("--epsilon", type=float, help="The claimed epsilon.")
@click.option(
    "--delta",
    type=float,
    help="The claimed delta, 0 unless given; with NAME, the delta that the mechanism aims for.",
)
@domain_options
@lattice_options
@click.option(
    "--input",
    "inputs",
    type=float,
    multiple=True,
    help="Try only these inputs; about 25 inputs are tried unless given.",
)
@click.option(
    "--samples",
    metavar="N",
    callback=whole_number,
    default=str(SAMPLES),
    show_default=True,
    help="Total number of calls: half of them to choose a test, half to run this test.",
)
@click.option("--level", type=float, default=LEVEL, show_default=True, help="Confidence of the bound.")
@click.option(
    "--vectorised", is_flag=True, help="The function takes an array of n values and returns n outputs."
)
@click.option(
    "--seed", type=int, help="Seed, to repeat an audit; functions may draw from their parameter rng."
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def audit(  # noqa: PLR0917 (click calls it by keyword)
    mechanism: str | None,
    task_file: Path | None,
    group_file: Path | None,
    epsilon: float | None,
    delta: float | None,
    inputs: tuple[float, ...],
    samples: int,
    level: float,
    vectorised: bool,
    seed: int | None,
    as_json: bool,
    **options: Unpack[DomainOptions],
) -> None:
    """Audit a mechanism: find a lower bound on its epsilon, and outputs that only some inputs reach.

    MODULE:FUNCTION is imported from the current folder or from an installed package. It is a function of one
    value that returns a float, an int, a string or a tuple of these, or it is a mechanism, a task or a group
    of arcwise. NAME is a mechanism of arcwise.

    Exits with 1 if epsilon is above the claim at the confidence level. If the claim is true, this happens
    with a probability of at most 1 - level. Finding nothing proves nothing.

    \b
    arcwise audit mymodule:noisy --epsilon 1 --domain 0:1
    arcwise audit mymodule:noisy --epsilon 1 --circle 360 --vectorised --samples 1e7
    arcwise audit laplace --epsilon 1 --domain 0:1
    arcwise audit --task heading.json
    """  # noqa: D301 (\b is click's mark for a block that it must not rewrap)
    if [mechanism, task_file, group_file].count(None) != 2:
        raise click.UsageError("give one of MODULE:FUNCTION, the NAME of a mechanism, --task and --group")
    domain = None
    if options["domain_text"] is not None or options["circle"] is not None:
        domain = read_domain(options)
    elif options["step"] is not None or options["rounding"] is not None:
        raise click.UsageError("--step and --rounding are for a --domain or a --circle")
    if mechanism is None and domain is not None:
        raise click.UsageError(
            "leave out --domain and --circle: the file of --task or --group contains the domain"
        )
    try:
        if task_file is not None:
            audited: object = Task.load(task_file)
        elif group_file is not None:
            audited = Group.load(group_file)
        elif ":" in str(mechanism):
            audited = _imported(str(mechanism))
        else:
            audited, delta = _named(str(mechanism), domain, epsilon, delta), None
        with progress_bar() as progress:
            found = audit_mechanism(
                audited,
                domain,
                epsilon,
                delta=delta,
                samples=samples,
                level=level,
                vectorised=vectorised,
                inputs=inputs or None,
                seed=seed,
                progress=progress,
            )
    except ArcwiseError as error:  # exits with 2: exit code 1 means that epsilon is above the claim
        raise click.UsageError(str(error)) from error
    click.echo(json.dumps(found.to_dict(), indent=2) if as_json else str(found))
    if found.above:
        raise click.exceptions.Exit(1)


def _named(name: str, domain: Domain | None, epsilon: float | None, delta: float | None) -> object:
    if name not in NAMES:
        raise click.UsageError(
            f"{name!r} is neither MODULE:FUNCTION nor a mechanism of arcwise: {', '.join(NAMES)}"
        )
    if domain is None or epsilon is None:
        raise click.UsageError(f"give --epsilon and --domain LOW:HIGH or --circle PERIOD with {name}")
    return named_mechanism(domain, epsilon, goal=None, name=name, delta=delta)


def _imported(text: str) -> Any:
    """Return the object that MODULE:NAME names, with imports from the current folder as with `python -m`."""
    module, _, names = text.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found: Any = importlib.import_module(module)
    except Exception as error:
        raise click.UsageError(f"cannot import {module!r}: {error}") from error
    try:
        return attrgetter(names)(found)
    except AttributeError:
        raise click.UsageError(f"module {module!r} has no {names!r}") from None
