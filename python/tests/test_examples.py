"""The example that makes claims keeps them; `cargo xtask docs` runs the others, and the code of the READMEs."""

from __future__ import annotations

import runpy
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
