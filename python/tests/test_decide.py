"""Thresholds, prediction sets and the parts of the NLL; the guarantees are simulated in the library's tests."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import ordercal
import pytest


def made(rows: int, seed: int = 0, sharpness: float = 1.0) -> Any:
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(rows, 4)) * 2.0
    probs = np.exp(logits)
    probs /= probs.sum(axis=1, keepdims=True)
    labels = (probs.cumsum(axis=1) < rng.uniform(size=(rows, 1))).sum(axis=1)
    return (sharpness * logits).astype(np.float32), np.minimum(labels, 3)


def softmax(logits: Any) -> Any:
    e = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def test_a_threshold_says_what_it_takes_and_what_it_promises() -> None:
    logits, labels = made(6000)
    found = ordercal.threshold(logits, labels, max_error=0.1)
    confidence = softmax(logits).max(axis=1)
    taken = confidence >= found.threshold
    assert found.promised and found.rows == 6000 and found.taken == taken.sum()
    assert found.coverage == pytest.approx(taken.mean())
    assert found.coverage_interval[0] < found.coverage < found.coverage_interval[1]
    wrong = logits.argmax(axis=1) != labels
    assert found.error == pytest.approx(wrong[taken].mean())
    assert found.error < found.error_bound <= 0.1
    # Names of classes change nothing.
    named = ordercal.threshold(logits, np.array(list("abcd"))[labels], max_error=0.1)
    assert named == found


def test_where_nothing_can_be_promised_it_says_so() -> None:
    logits, labels = made(100)
    found = ordercal.threshold(logits, labels)
    assert not found.promised and found.threshold == math.inf and found.coverage == 0.0
    assert "needs 149 rows" in found.reason
    with pytest.raises(ValueError, match="max_error"):
        ordercal.threshold(logits, labels, max_error=0.0)


@pytest.mark.parametrize(
    "settings",
    [{"method": "lac"}, {"method": "aps", "randomised": False}, {"method": "aps"}, {"method": "raps", "penalty": 0.1, "free": 1}],
)
def test_sets_cover_and_report_what_they_hold(settings: dict[str, Any]) -> None:
    logits, labels = made(4000)
    sets = ordercal.prediction_sets(logits[:2000], labels[:2000], coverage=0.8, **settings)
    members = sets.sets(logits[2000:], seed=5)
    report = sets.evaluate(logits[2000:], labels[2000:], seed=5)
    inside = members[np.arange(2000), labels[2000:]]
    assert members.dtype == bool and members.any(axis=1).all()
    assert report.coverage == pytest.approx(inside.mean())
    assert report.interval[0] < report.coverage < report.interval[1]
    assert 0.77 < report.coverage < 0.9
    assert report.mean_size == pytest.approx(members.sum(axis=1).mean())
    assert np.array_equal(report.sizes, np.bincount(members.sum(axis=1), minlength=5))
    for name in range(4):
        assert report.class_coverage[name] == pytest.approx(inside[labels[2000:] == name].mean())


def test_lac_is_its_definition() -> None:
    logits, labels = made(99)
    sets = ordercal.prediction_sets(logits, labels, coverage=0.9, method="lac")
    scores = np.sort(1.0 - softmax(logits)[np.arange(99), labels])
    # ⌈(99 + 1) · 0.9⌉ = 90.
    assert sets.quantile == pytest.approx(scores[89])
    too_few = ordercal.prediction_sets(logits[:5], labels[:5], coverage=0.9)
    assert too_few.quantile == math.inf and too_few.sets(logits).all()
    with pytest.raises(ValueError, match="there is no method `cqr`"):
        ordercal.prediction_sets(logits, labels, method="cqr")
    with pytest.raises(ValueError, match="coverage"):
        ordercal.prediction_sets(logits, labels, coverage=1.5)


def test_the_parts_of_the_nll_add_up_and_find_the_distortion() -> None:
    logits, labels = made(2000, sharpness=3.0)
    parts = ordercal.decompose(logits, labels, method="ts")
    before = ordercal.evaluate(logits, labels, metrics="nll")["nll"]
    truth = ordercal.evaluate(logits / 3.0, labels, metrics="nll")["nll"]
    assert parts.nll == pytest.approx(before)
    assert parts.nll_calibration + parts.nll_refinement == pytest.approx(before)
    low, high = parts.interval["nll_calibration"]
    assert low < before - truth < high and low > 0
    assert parts.nll_refinement == pytest.approx(truth, abs=0.01)
    same = ordercal.decompose(logits, labels, method=ordercal.TemperatureScaling())
    assert same == parts
