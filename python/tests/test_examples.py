"""The examples and the code in the READMEs run, and keep their promises."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import ordercal
import pytest
from conftest import ROOT

matplotlib.use("Agg")


def code(path: Path) -> str:
    """All Python code of a page, as one program."""
    found = re.findall(r"^```python\n(.*?)^```", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    assert found
    return "\n".join(found)


@pytest.mark.parametrize("page", ["README.md", "python/README.md"])
def test_readme(page: str, tmp_path: Path) -> None:
    demo = Path("crates/ordercal-cli/demo")
    (tmp_path / demo).mkdir(parents=True)
    shutil.copy(ROOT / demo / "letters.npz", tmp_path / demo)
    program = tmp_path / "page.py"
    program.write_text(code(ROOT / page), encoding="utf-8")
    run = subprocess.run([sys.executable, program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    if page == "README.md":
        assert (tmp_path / "reliability.png").stat().st_size > 10_000
        assert (tmp_path / "calibrator.onnx").exists()


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


def test_dask() -> None:
    pytest.importorskip("dask")
    found, whole = example("with_dask.py")["run"]()
    assert found == whole and found.rows == 4000


def test_triton(tmp_path: Path, calib: Any) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    calibrator = ordercal.TemperatureScaling().fit(calib.scores, calib.labels)
    model = example("for_triton.py")["write"](tmp_path, "calibrator", calibrator)
    assert 'name: "calibrator"' in (tmp_path / "calibrator" / "config.pbtxt").read_text(encoding="utf-8")
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    (probs,) = session.run(["probabilities"], {"scores": calib.scores})
    assert np.abs(probs - calibrator.predict_proba(calib.scores)).max() < 1e-5
