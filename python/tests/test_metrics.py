"""Metrics and diagrams say what the library says."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import ordercal
import pytest
from conftest import Split
from ordercal import _native

#: The metrics of two classes, and of more.
TWO = _native.metrics()
KEYS = [key for key in TWO if key != "ece_positive"]


def test_metrics_by_hand() -> None:
    probs = np.array([[0.7, 0.2, 0.1], [0.1, 0.5, 0.4], [0.3, 0.3, 0.4]])
    labels = [0, 2, 2]
    found = ordercal.evaluate(probs, labels, kind="probs")
    assert list(found) == KEYS and (found.n, found.classes) == (3, 3) and found.interval == {}
    at_label = probs[range(3), labels]
    assert found["nll"] == pytest.approx(-np.log(at_label).mean(), abs=1e-6)
    assert found["accuracy"] == pytest.approx(2 / 3)
    assert found["brier"] == pytest.approx(((probs - np.eye(3)[labels]) ** 2).mean(), abs=1e-6)
    some = ordercal.evaluate(probs, labels, kind="probs", metrics=["nll", "ece"])
    assert list(some) == ["nll", "ece"] and some["nll"] == found["nll"]
    assert list(ordercal.evaluate(probs, labels, kind="probs", metrics="ks")) == ["ks"]
    with pytest.raises(ordercal.OrdercalError, match="classwise_ece_sum"):
        ordercal.evaluate(probs, labels, kind="probs", metrics=["nonsense"])


def test_intervals_are_seeded(test: Split) -> None:
    ask: dict[str, Any] = {"metrics": ["nll", "ece"], "bootstrap": 50}
    found = ordercal.evaluate(test.scores, test.labels, **ask)
    assert set(found.interval) == {"nll", "ece"}
    low, high = found.interval["nll"]
    assert low < found["nll"] < high
    assert ordercal.evaluate(test.scores, test.labels, **ask).interval == found.interval
    assert ordercal.evaluate(test.scores, test.labels, seed=1, **ask).interval != found.interval


def test_weights_are_repeated_rows(test: Split) -> None:
    weights = np.arange(len(test.labels)) % 3
    rows = np.repeat(np.arange(len(test.labels)), weights)
    weighted = ordercal.evaluate(test.scores, test.labels, sample_weight=weights)
    repeated = ordercal.evaluate(test.scores[rows], test.labels[rows])
    for key in KEYS:
        assert weighted[key] == pytest.approx(repeated[key], abs=1e-9), key


def test_diagrams(test: Split) -> None:
    found = ordercal.reliability(test.scores, test.labels)
    ece = ordercal.evaluate(test.scores, test.labels, metrics="ece")["ece"]
    assert found.error == pytest.approx(ece, abs=1e-12)
    assert len(found.lower) == 15 and found.count.sum() == 600
    some = found.count > 0
    np.testing.assert_allclose(found.gap[some], (found.confidence - found.accuracy)[some], atol=1e-15)
    assert np.isnan(found.gap[~some]).all()
    low, high = found.interval[some].T
    assert ((low <= found.accuracy[some]) & (found.accuracy[some] <= high)).all()
    mass = ordercal.reliability(test.scores, test.labels, binning="equal-mass", bins=10)
    assert set(mass.count) == {60}
    names = np.array(["a", "b", "c", "d", "e"])
    one = ordercal.reliability(test.scores, names[test.labels], target="c")
    assert one.share.sum() == pytest.approx(1.0)
    with pytest.raises(ordercal.OrdercalError, match="there is no class 'x'"):
        ordercal.reliability(test.scores, names[test.labels], target="x")
    with pytest.raises(ordercal.OrdercalError, match="there is no binning"):
        ordercal.reliability(test.scores, test.labels, binning="odd")


def test_states_merge_to_the_same_bytes(test: Split) -> None:
    whole = ordercal.MetricState(5, marginal=True).update(test.scores, test.labels)
    parts = [
        ordercal.MetricState(5, marginal=True).update(test.scores[i::3], test.labels[i::3]) for i in (2, 0, 1)
    ]
    merged = parts[0].merge(parts[1]).merge(parts[2])
    assert merged.rows == whole.rows == 600 and merged.classes == 5
    assert merged.to_bytes() == whole.to_bytes()
    assert ordercal.MetricState.from_bytes(whole.to_bytes()).finalize() == whole.finalize()
    assert pickle.loads(pickle.dumps(whole)).to_bytes() == whole.to_bytes()
    exact = ordercal.evaluate(test.scores, test.labels)
    bounds = whole.bounds()
    for key, value in whole.finalize().items():
        assert abs(value - exact[key]) <= bounds[key] + 1e-9, key
    whole.merge(whole)
    assert whole.rows == 1200
    with pytest.raises(ordercal.OrdercalError):
        whole.merge(ordercal.MetricState(4))


def test_states_are_values(test: Split) -> None:
    parts = [ordercal.MetricState(5).update(test.scores[i::3], test.labels[i::3]) for i in range(3)]
    whole = ordercal.MetricState(5).update(test.scores, test.labels)
    rows = [part.rows for part in parts]
    assert parts[0] + parts[1] + parts[2] == whole == sum(parts)
    assert [part.rows for part in parts] == rows
    joined = ordercal.MetricState(5)
    for part in parts:
        joined += part
    assert joined == whole and whole != parts[0] and whole != 5
    assert repr(whole) == "<MetricState of 600 rows: classes=5, bins=15>"
    with pytest.raises(TypeError):
        whole + 5
    with pytest.raises(TypeError):
        hash(whole)


def test_a_state_that_threads_share(test: Split) -> None:
    from concurrent.futures import ThreadPoolExecutor

    state = ordercal.MetricState(5)
    alone = ordercal.MetricState(5)
    batches = [slice(i, i + 20) for i in range(0, 600, 20)] * 10
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda rows: state.update(test.scores[rows], test.labels[rows]), batches))
    for rows in batches:
        alone.update(test.scores[rows], test.labels[rows])
    assert state.rows == 6000 and state == alone


def test_diagrams_and_intervals_of_a_state(test: Split) -> None:
    state = ordercal.MetricState(5).update(test.scores[:300], test.labels[:300])
    state += ordercal.MetricState(5).update(test.scores[300:], test.labels[300:])
    for target in (None, 3):
        found = state.reliability(target)
        exact = ordercal.reliability(test.scores, test.labels, target=target)
        np.testing.assert_array_equal(found.count, exact.count)
        np.testing.assert_allclose(found.gap, exact.gap, atol=1e-12)
        np.testing.assert_allclose(found.interval, exact.interval, atol=1e-9)
    with pytest.raises(ordercal.OrdercalError):
        state.reliability(5)
    found = state.interval()
    exact_values = ordercal.evaluate(test.scores, test.labels, bootstrap=500)
    for key, (low, high) in found.items():
        assert low <= exact_values[key] <= high, key
        wanted = exact_values.interval[key]
        if key != "mce":
            assert low == pytest.approx(wanted[0], abs=0.02) and high == pytest.approx(wanted[1], abs=0.02), key
    assert state.interval() == found


def test_intervals_contain_their_estimate() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        logits = rng.normal(size=(500, 4)) * 2
        chances = np.exp(logits)
        chances /= chances.sum(axis=1, keepdims=True)
        labels = (chances.cumsum(axis=1) > rng.random((500, 1))).argmax(axis=1)
        found = ordercal.evaluate(logits, labels, bootstrap=60)
        for key, (low, high) in found.interval.items():
            assert low <= found[key] <= high, (seed, key)


def test_bootstraps_can_be_watched_and_ended(test: Split) -> None:
    told = []
    ordercal.evaluate(
        test.scores, test.labels, bootstrap=300, metrics="ece", progress=lambda done, of, _: told.append((done, of))
    )
    assert told[-1] == (300, 300) and len(told) > 2

    def stop(done: int, of: int, _: float) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        ordercal.evaluate(test.scores, test.labels, bootstrap=100_000, metrics="ece", progress=stop)


@pytest.mark.parametrize("classes", [2, 5])
def test_metrics_to_threshold_by_are_those_of_scikit_learn(classes: int) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    linear_model = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(classes)
    # Rounded, so that confidences are tied.
    logits = np.round(rng.normal(size=(800, classes)) * 8) / 4
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = (probs.cumsum(axis=1) ** 1.2 < rng.uniform(size=(800, 1))).sum(axis=1).clip(0, classes - 1)
    weight = rng.integers(1, 4, size=800)
    found = ordercal.evaluate(logits, labels, sample_weight=weight)
    confidence, hit = np.round(probs.max(axis=1), 14), logits.argmax(axis=1) == labels
    auroc = metrics.roc_auc_score(hit, confidence, sample_weight=weight)
    assert found["auroc"] == pytest.approx(auroc, abs=1e-9)
    ap = metrics.average_precision_score(hit, confidence, sample_weight=weight)
    assert found["ap"] == pytest.approx(ap, abs=1e-9)
    brier = np.average(((probs - np.eye(classes)[labels]) ** 2).sum(axis=1), weights=weight)
    assert found["brier_sum"] == pytest.approx(brier, abs=1e-6)
    p, happened = (probs[:, 1], labels) if classes == 2 else (probs.max(axis=1), hit)
    odds = np.log(p / (1 - p))[:, None]
    cox = linear_model.LogisticRegression(C=1e12, tol=1e-12, max_iter=10_000).fit(odds, happened, sample_weight=weight)
    assert found["cox_slope"] == pytest.approx(cox.coef_[0, 0], abs=1e-4)
    assert found["cox_intercept"] == pytest.approx(cox.intercept_[0], abs=1e-4)


def test_the_positive_class_has_an_error_of_its_own() -> None:
    rng = np.random.default_rng(0)
    p = rng.uniform(size=500)
    labels = (rng.uniform(size=500) < p**2).astype(int)
    found = ordercal.evaluate(p, labels, kind="probs")
    assert list(found) == TWO
    assert found["ece_positive"] == pytest.approx(ordercal.reliability(p, labels, kind="probs", target=1).error, abs=1e-9)
    with pytest.raises(ordercal.OrdercalError, match="two classes and there are 3"):
        ordercal.evaluate(np.eye(3), [0, 1, 2], metrics="ece_positive")


def test_every_metric_is_described() -> None:
    for key in TWO:
        found = ordercal.describe_metric(key)  # type: ignore[arg-type]
        assert found.key == key and found.asks.endswith(".") and found.caveat.endswith(".")
        assert found.formula in str(found) and found.equals and found.range
    with pytest.raises(ordercal.OrdercalError, match="aurok"):
        ordercal.describe_metric("aurok")  # type: ignore[arg-type]
