"""Model files keep what a prediction depends on, and tell damage."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import ordercal
import pytest
from conftest import Split


@pytest.mark.parametrize("kind", ["logits", "log-probs", "probs"])
def test_the_kind_is_kept_and_another_refused(kind: Any, calib: Split, tmp_path: Path) -> None:
    scores = calib.scores.astype(np.float64)
    log_probs = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    scores = {"logits": scores, "log-probs": log_probs, "probs": np.exp(log_probs)}[kind]
    fitted = ordercal.VectorScaling(kind=kind).fit(scores, calib.labels)
    path = tmp_path / "model.safetensors"
    fitted.save(path)
    for loaded in (ordercal.load(path), ordercal.load(path, kind=kind), ordercal.VectorScaling.load(path)):
        assert loaded.kind == kind
        np.testing.assert_array_equal(loaded.predict_proba(scores), fitted.predict_proba(scores))
    other: Any = "probs" if kind == "logits" else "logits"
    with pytest.raises(ordercal.OrdercalError, match=f"fitted to {kind}, not to {other}"):
        ordercal.load(path, kind=other)


@pytest.mark.parametrize(
    "classes",
    [[20, 30, 5, 40, 1], ["20", "30", "5", "40", "1"], [0.5, 1.5, 2.0, 1e300, -1.0], [4, 3, 2, 1, 0]],
    ids=lambda c: type(c[0]).__name__ + str(c[0]),
)
def test_names_keep_their_type(classes: list[Any], calib: Split, tmp_path: Path) -> None:
    names = np.array(classes)
    fitted = ordercal.TemperatureScaling().fit(calib.scores, names[calib.labels], classes=classes)
    path = tmp_path / "model.safetensors"
    fitted.save(path)
    loaded = ordercal.load(path)
    assert loaded.classes_.dtype == names.dtype and loaded.classes_.tolist() == classes
    assert loaded.predict(calib.scores).tolist() == fitted.predict(calib.scores).tolist()


def test_booleans_and_what_has_no_form(calib: Split, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    labels = calib.labels > 1
    fitted = ordercal.TemperatureScaling().fit(calib.scores[:, :2], labels, classes=[True, False])
    fitted.save(path)
    assert ordercal.load(path).classes_.tolist() == [True, False]
    days = np.array([datetime.date(2024, 1, day) for day in range(1, 6)], dtype=object)
    fitted = ordercal.TemperatureScaling().fit(calib.scores, days[calib.labels], classes=days)
    with pytest.raises(ordercal.OrdercalError, match="cannot be saved"):
        fitted.save(path)


def test_damage_is_told(calib: Split, tmp_path: Path) -> None:
    fitted = ordercal.Diagonal(hidden=(2,)).fit(calib.scores, calib.labels)
    path = tmp_path / "model.safetensors"
    fitted.save(path)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.integers(0, len(whole), 300):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << rng.integers(0, 8)
        path.write_bytes(damaged)
        with pytest.raises(ordercal.OrdercalError):
            ordercal.load(path)
