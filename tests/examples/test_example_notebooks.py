"""examples/notebooks: each is stored without outputs, and runs from its first cell to its last."""

from __future__ import annotations

from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples" / "notebooks").glob("*.ipynb"))
PICTURES = {"flights": 3, "lake": 2, "polars_pipeline": 1}
"""The number of pictures in each, including those inside tables."""


def test_no_notebook_is_left_out() -> None:
    assert {path.stem for path in NOTEBOOKS} == set(PICTURES)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_its_outputs(path: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    for cell in nbformat.read(path, 4).cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_as_it_stands(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # a notebook writes its files there
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    book = nbformat.read(path, 4)
    nbclient.NotebookClient(
        book, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    outputs = [output for cell in book.cells for output in cell.get("outputs", [])]
    assert not [output.text for output in outputs if output.get("name") == "stderr"]
    shown = [output.data for output in outputs if "data" in output]
    assert sum(_is_picture(data) for data in shown) == PICTURES[path.stem]


def _is_picture(data: dict[str, str]) -> bool:
    return bool({"image/svg+xml", "image/png"} & set(data)) or "<svg" in data.get("text/html", "")
