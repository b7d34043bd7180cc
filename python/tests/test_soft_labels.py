"""Labels that are distributions over the classes, and groups of rows."""

from __future__ import annotations

import numpy as np
import pytest

import ordercal


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(3)
    scores = 3.0 * rng.normal(size=(200, 4))
    labels = np.array([rng.choice(4, p=p) for p in _softmax(scores / 2.0)])
    shares = 0.8 * np.eye(4)[labels] + 0.05
    return scores, labels, shares


def _softmax(scores):
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("method", [ordercal.TemperatureScaling, ordercal.StructuredMatrixScaling, ordercal.Auto])
def test_one_hot_labels_give_the_same_model(rows, method, tmp_path):
    scores, labels, _ = rows
    for name, given in [("hard", labels), ("soft", np.eye(4)[labels])]:
        method().fit(scores, given).save(tmp_path / f"{name}.safetensors")
    assert (tmp_path / "hard.safetensors").read_bytes() == (tmp_path / "soft.safetensors").read_bytes()


def test_proper_scores_are_expectations(rows):
    scores, _, shares = rows
    found = ordercal.evaluate(scores, shares)
    assert set(found) == {"nll", "brier", "brier_sum"}
    probs = _softmax(scores)
    assert found["nll"] == pytest.approx(-(shares * np.log(probs)).sum(axis=1).mean(), rel=1e-6)
    squares = ((probs[:, None, :] - np.eye(4)) ** 2).sum(axis=2)
    assert found["brier_sum"] == pytest.approx((shares * squares).sum(axis=1).mean(), rel=1e-6)
    fitted = ordercal.TemperatureScaling().fit(scores, shares)
    after = ordercal.evaluate(fitted.predict_logits(scores), shares)
    assert after["nll"] < found["nll"]
    assert after["nll"] == pytest.approx(fitted.report_.nll_after, rel=1e-5)


def test_what_needs_classes_says_so(rows):
    scores, _, shares = rows
    with pytest.raises(ordercal.OrdercalError, match="ece"):
        ordercal.evaluate(scores, shares, metrics="ece")
    with pytest.raises(ordercal.OrdercalError, match="bootstrap with soft labels"):
        ordercal.evaluate(scores, shares, bootstrap=50)
    with pytest.raises(ordercal.OrdercalError, match="row 0: the soft label sums to"):
        ordercal.evaluate(scores, 2.0 * shares / 3.0)
    with pytest.raises(ordercal.OrdercalError, match="3 columns for 4 classes"):
        ordercal.TemperatureScaling().fit(scores, shares[:, :3])
    with pytest.raises(ordercal.OrdercalError, match="one label per row"):
        ordercal.reliability(scores, shares)


def test_groups_stay_together_in_the_folds_of_auto(rows):
    scores, labels, _ = rows
    groups = [f"patient {row // 5}" for row in range(200)]
    plain = ordercal.Auto().fit(scores, labels).report_.loss
    assert ordercal.Auto().fit(scores, labels, groups=groups).report_.loss != plain
    with pytest.raises(ordercal.OrdercalError, match="groups are about folds"):
        ordercal.TemperatureScaling().fit(scores, labels, groups=groups)
    with pytest.raises(ordercal.OrdercalError, match="there are 199 groups"):
        ordercal.Auto().fit(scores, labels, groups=groups[:-1])


def test_layers_have_the_limit_of_the_tool(rows):
    scores, labels, _ = rows
    with pytest.raises(ordercal.OrdercalError, match="1 to 16384 units"):
        ordercal.OrderInvariant(hidden=[1_000_000_000]).fit(scores, labels)
