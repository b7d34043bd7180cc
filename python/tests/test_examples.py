"""The example that makes claims keeps them; `cargo xtask docs` runs the others, and the code of the READMEs."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT


@pytest.mark.filterwarnings("ignore")
def test_better_than_scikit_learn(capsys: Any) -> None:
    example = runpy.run_path(str(ROOT / "python" / "examples" / "beats_scikit_learn.py"))
    found = example["run"]({"ordercal auto": "auto"})
    assert "changed" in capsys.readouterr().out
    for name, rows in found.items():
        best = min(loss for label, (loss, _) in rows.items() if not label.startswith("ordercal"))
        loss, changed = rows["ordercal auto"]
        assert changed == 0 and loss < best, f"{name}: {rows}"


@pytest.mark.filterwarnings("ignore")
def test_multiple_choice() -> None:
    found = runpy.run_path(str(ROOT / "python" / "examples" / "multiple_choice.py"))["run"]()
    for what, key in (("options", "options, auto"), ("tokens", "tokens, TopK")):
        before, after = found[f"{what} as they are"], found[key]
        assert after["accuracy"] == before["accuracy"]
        assert after["nll"] < 0.9 * before["nll"] and after["ece"] < 0.4 * before["ece"], (what, before, after)


def example(name: str) -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "python" / "examples" / name))


def test_polars() -> None:
    pytest.importorskip("polars")
    found = example("with_polars.py")["run"]()
    assert 0 < len(found) < 1000 and found["confidence"].min() > 0.5


def test_duckdb() -> None:
    pytest.importorskip("duckdb")
    found = example("with_duckdb.py")["run"]()
    assert sum(count for _, count in found) == 1000 and len(found) > 4
