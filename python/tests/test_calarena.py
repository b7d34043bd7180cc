"""CalArena: its manners, its file layout and its summary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import ordercal
import pytest
from conftest import overconfident
from ordercal.calarena import CALIBRATORS, read

h5py = pytest.importorskip("h5py")

#: What is slow on data of any size; the same code as the others.
QUICK = [name for name in CALIBRATORS if not any(part in name for part in ("auto", "unconstrained"))]


def probabilities(rows: int, classes: int, seed: int) -> tuple[Any, Any]:
    data = overconfident(rows, classes, seed)
    logits = data.scores.astype(np.float64)
    probs = np.exp(logits - logits.max(axis=1, keepdims=True))
    probs /= probs.sum(axis=1, keepdims=True)
    return probs.astype(np.float32), data.labels


@pytest.fixture(scope="module")
def benchmark(tmp_path_factory: Any) -> Path:
    """Two datasets with two models each; one dataset is binary, with one column less."""
    path = tmp_path_factory.mktemp("calarena") / "small.h5"
    with h5py.File(path, "w") as file:
        for dataset, classes in (("letters", 4), ("coins", 2)):
            for seed, model in enumerate(("Forest", "Net")):
                group = file.create_group(f"{dataset}/{model}")
                for place, part in enumerate(("cal", "test")):
                    probs, labels = probabilities(300, classes, 10 * seed + place)
                    group[f"probas_{part}"] = probs[:, 1] if classes == 2 else probs
                    group[f"labels_{part}"] = labels.astype(np.int32)
    return path


@pytest.mark.parametrize("name", [*QUICK, "ordercal-auto"])
def test_every_method_does_as_calarena_does(benchmark: Path, name: str) -> None:
    with h5py.File(benchmark, "r") as file:
        for experiment in ("letters/Net", "coins/Net"):
            group = file[experiment]
            calibrator = CALIBRATORS[name]()
            calibrator.fit(group["probas_cal"][:], group["labels_cal"][:])
            found = calibrator.predict_proba(group["probas_test"][:])
            labels = group["labels_test"][:]
            assert found.shape == (300, 4 if experiment.startswith("letters") else 2)
            np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-5)
            given = group["probas_test"][:]
            before = ordercal.evaluate(given, labels, kind="probs", metrics="brier")["brier"]
            after = ordercal.evaluate(found, labels, kind="probs", metrics="brier")["brier"]
            # Bins need more than 300 rows to help; nothing may ruin.
            binned = any(part in name for part in ("histogram", "bbq", "uncalibrated"))
            assert after < before * (1.2 if binned else 1.0), (experiment, before, after)


def test_a_file_is_compared_and_summed_up(benchmark: Path) -> None:
    data = read(benchmark)
    assert list(data) == ["coins/Forest", "coins/Net", "letters/Forest", "letters/Net"]
    found = ordercal.compare(data, ["ts", "ets"], kind="probs", metrics=["brier", "nll"], bootstrap=0)
    board = {one.method: one for one in found.leaderboard("brier")}
    values = np.array([[m["metrics"]["brier"] for m in d["methods"]] for d in found["datasets"]])
    for place, method in enumerate(("uncalibrated", "ts", "ets")):
        others = np.delete(values, place, axis=1)
        assert board[method].win_rate == pytest.approx((others > values[:, [place]]).mean())
        low, high = board[method].win_rate_interval
        assert low <= board[method].win_rate <= high
    assert sum(one.mean_rank for one in board.values()) == pytest.approx(6.0)
    assert board["uncalibrated"].win_rate == 0.0 and board["uncalibrated"].mean_rank == 3.0
    assert [one.win_rate for one in found.leaderboard("brier")] == sorted((b.win_rate for b in board.values()), reverse=True)
    with pytest.raises(ordercal.OrdercalError, match="`ece` was not compared"):
        found.leaderboard("ece")


def test_datasets_are_drawn_as_blocks(benchmark: Path) -> None:
    data = read(benchmark)
    found = ordercal.compare(data, ["ts"], kind="probs", metrics="nll", bootstrap=0)
    # ts wins everywhere: make it lose on one dataset, both models.
    for entry in found["datasets"][:2]:
        found["ranks"]["nll"][entry["name"]] = {"uncalibrated": 1, "ts": 2}
    blocks = {one.method: one for one in found.leaderboard("nll")}
    # Two blocks are both of one kind in a quarter of the draws each.
    assert blocks["ts"].win_rate == 0.5 and blocks["ts"].win_rate_interval == (0.0, 1.0)
    assert found.leaderboard("nll") == found.leaderboard("nll")


def test_a_file_of_another_layout_is_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "odd.h5", "w") as file:
        file["letters/Net/probas_cal"] = np.ones((3, 2))
    with pytest.raises(ordercal.OrdercalError, match="letters/Net has no labels_cal, probas_test, labels_test"):
        read(tmp_path / "odd.h5")
