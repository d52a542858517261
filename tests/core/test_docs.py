"""`docs/contributing/adding-a-mechanism.md`: its blocks run, and the contract suite takes what they made."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from arcwise.domains import Interval
from arcwise.mechanisms.registry import MECHANISMS, PLACES
from tests.core import test_contract as contract
from tests.support import strategies

PAGE = Path(__file__).parents[2] / "docs" / "contributing" / "adding-a-mechanism.md"
MODULE = "arcwise.mechanisms.exponential"


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the blocks of the page in order, in one namespace, and undo what they registered."""
    file, line, example = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    monkeypatch.setattr("arcwise.mechanisms.registry.PLACES", dict(PLACES))
    monkeypatch.setattr(strategies, "EXAMPLES", dict(strategies.EXAMPLES))
    module = ModuleType(MODULE)
    monkeypatch.setitem(sys.modules, MODULE, module)
    exec(compile(file, "exponential.py", "exec"), module.__dict__)
    for block in (line, example):
        exec(block, module.__dict__)
    return "exponential"


def test_the_page_makes_a_mechanism_that_keeps_the_contract(added: str) -> None:
    assert (added, 1) in MECHANISMS
    examples = strategies.EXAMPLES[added, 1]
    assert [example.make(1.0).lattice is None for example in examples] == [True, False]
    run = 0
    for name, test in inspect.getmembers(contract, inspect.isfunction):
        arguments = list(inspect.signature(test).parameters)
        if not name.startswith("test_") or arguments not in (["mechanism"], ["at_one"]):
            continue
        for epsilon in (1.0,) if arguments == ["at_one"] else contract.EPSILONS:
            for example in examples:
                test(example.make(epsilon))
                run += 1
    assert run > 100


def test_the_suite_would_refuse_a_mechanism_that_breaks_its_promise(added: str) -> None:
    cls: Any = importlib.import_module(MODULE).Exponential
    stronger = cls(Interval(0, 1), 2.0)
    fields = stronger.kernel_fields()
    liar = cls.from_fields(Interval(0, 1), 1.0, "inset", fields)
    with pytest.raises(Exception, match="largest ratio of weights"):
        contract.test_the_certificate_holds_over_all_pairs_of_rows(liar)


def test_the_page_names_every_base_class() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for name in ("WindowMechanism", "TableMechanism", "CirculantMechanism"):
        assert f"`{name}`" in text
