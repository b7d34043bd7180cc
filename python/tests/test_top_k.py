"""The best scores with the rest unknown: what is learned, what is measured, and the order that is kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import ordercal
import pytest

CLASSES = 30


def made(rows: int, seed: int, sharpness: float = 2.5) -> tuple[Any, Any]:
    """Overconfident logits, biased towards some classes."""
    rng = np.random.default_rng(seed)
    honest = rng.normal(size=(rows, CLASSES)) * 2.0
    chances = np.exp(honest)
    chances /= chances.sum(axis=1, keepdims=True)
    labels = (chances.cumsum(axis=1) > rng.random((rows, 1))).argmax(axis=1)
    return (honest * sharpness + np.linspace(-1, 1, CLASSES)).astype(np.float32), labels


@pytest.fixture(scope="module")
def split() -> Any:
    return made(3000, 1), made(3000, 2)


def hostile(rows: int, seed: int, k: int = 6) -> ordercal.TopScores:
    """Ties among the listed and with the rest's mean, tiny steps, masks, a rest of next to all and of next to nothing."""
    rng = np.random.default_rng(seed)
    scores = (rng.normal(size=(rows, CLASSES)) * 10.0 ** rng.integers(-2, 2, size=(rows, 1))).astype(np.float32)
    scores[::4] = np.round(scores[::4])
    top = ordercal.TopScores.of_dense(scores, k)
    logs = top.log_probs.copy()
    logs[1::5, -2:] = -np.inf
    # In any order.
    order = rng.permuted(np.tile(np.arange(k), (rows, 1)), axis=1)
    return ordercal.TopScores(np.take_along_axis(top.ids, order, axis=1), np.take_along_axis(logs, order, axis=1))


def shares(top: ordercal.TopScores, others: int | None) -> Any:
    """The log-probability of a class that is not listed."""
    listed = (top.ids >= 0).sum(axis=1)
    return top.log_rest - np.log(CLASSES - listed if others is None else others)


@pytest.mark.parametrize("classes", [CLASSES, None])
@pytest.mark.parametrize("method", ["ts", "oi", "auto", "sms+order"])
def test_the_order_is_kept_among_the_listed_and_against_a_class_of_the_rest(split: Any, method: Any, classes: Any) -> None:
    (logits, labels), _ = split
    top = ordercal.TopScores.of_dense(logits, 6)
    fitted = ordercal.TopK(method, classes=classes).fit(top[:800], labels[:800])
    assert fitted.order_preserving_
    before = hostile(3000, 3)
    after = fitted.apply(before)
    assert np.array_equal(after.ids, before.ids)
    np.testing.assert_allclose(after.probs.sum(axis=1) + after.rest, 1.0, atol=1e-9)
    others = None if classes else fitted.others
    # Among the listed it is strict.
    for one in range(6):
        for other in range(one):
            here = np.isfinite(before.log_probs[:, one])
            for compare in (np.greater, np.equal):
                old = compare(before.log_probs[here, one], before.log_probs[here, other])
                assert old.any() and np.array_equal(old, compare(after.log_probs[here, one], after.log_probs[here, other]))
    # The mean of the rest is computed, so that rounding blurs what is equal.
    old, new = (one.log_probs - shares(one, others)[:, None] for one in (before, after))
    above, below, equal = old > 1e-6, old < -1e-6, np.abs(old) < 1e-12
    assert above.any() and (new[above] > -1e-9).all()
    assert (new[below] < 1e-9).all()
    assert equal.any() or not classes
    assert np.abs(new[equal]).max(initial=0.0) < 1e-5


@pytest.mark.parametrize("classes", [CLASSES, None])
def test_it_is_nearly_as_good_as_all_the_scores(split: Any, classes: Any) -> None:
    (logits, labels), (test_logits, test_labels) = split
    top, test = (ordercal.TopScores.of_dense(x, 6) for x in (logits, test_logits))
    found = ordercal.TopK("svs+order" if classes else "ts", classes=classes).fit(top, labels).apply(test)
    full = ordercal.calibrator("svs+order" if classes else "ts").fit(logits, labels)
    probs = full.predict_log_proba(test_logits, dtype=np.float64)
    listed = np.take_along_axis(probs, test.ids, axis=1)
    collapsed = ordercal.TopScores(test.ids, listed, np.log1p(-np.exp(listed).sum(axis=1)))
    nll = {name: one.evaluate(test_labels)["nll"] for name, one in (("no", test), ("top", found), ("all", collapsed))}
    assert nll["top"] < 1.01 * nll["all"] < 0.9 * nll["no"], nll


def test_metrics_are_those_of_the_outcomes_and_of_the_best_listed_class(split: Any) -> None:
    logits, labels = split[1]
    top = ordercal.TopScores.of_dense(logits / 4, 3)
    found = top.evaluate(labels)
    hit = top.ids == labels[:, None]
    p_label = np.where(hit.any(axis=1), (top.probs * hit).sum(axis=1), top.rest)
    assert found["nll"] == pytest.approx(-np.log(p_label).mean(), abs=1e-6)
    squares = ((top.probs - hit) ** 2).sum(axis=1) + (top.rest - ~hit.any(axis=1)) ** 2
    assert found["brier_sum"] == pytest.approx(squares.mean(), abs=1e-6)
    # The best listed class is the prediction of all the scores, so that these agree, though the rest is often larger.
    assert (top.rest > top.probs[:, 0]).mean() > 0.1
    dense = ordercal.evaluate(logits / 4, labels)
    for key in ("accuracy", "ece", "adaptive_ece", "ks", "auroc", "aurc", "accuracy_at_coverage"):
        assert found[key] == pytest.approx(dense[key], abs=1e-6), key
    assert set(top.evaluate(labels, metrics="ece", bootstrap=20).interval) == {"ece"}
    with pytest.raises(ordercal.OrdercalError, match="`classwise_ece` needs the scores of all classes"):
        top.evaluate(labels, metrics=["classwise_ece"])


def test_options_are_normalised_by_request_and_may_be_fewer() -> None:
    # Four options, of which the third question has three; the rest of the mass is on other tokens.
    logs = np.log(np.array([[0.2, 0.1, 0.05, 0.05], [0.3, 0.3, 0.1, 0.1], [0.1, 0.2, 0.1, 1.0]]))
    logs[2, 3] = -np.inf
    options = ordercal.TopScores(np.tile(np.arange(4), (3, 1)), logs)
    np.testing.assert_allclose(options.rest, [0.6, 0.2, 0.6])
    alone = options.renormalised()
    assert np.isneginf(alone.log_rest).all()
    np.testing.assert_allclose(alone.probs, [[0.5, 0.25, 0.125, 0.125], [0.375, 0.375, 0.125, 0.125], [0.25, 0.5, 0.25, 0]])
    np.testing.assert_allclose(np.exp(alone.dense(4)), alone.probs)
    fitted = ordercal.TemperatureScaling(kind="log-probs").fit(alone.dense(4), [0, 1, 1])
    assert fitted.predict_proba(alone.dense(4))[2, 3] == 0.0
    with pytest.raises(ordercal.OrdercalError, match="row 2: the label is not listed"):
        ordercal.TopK("ts", classes=4).fit(alone, [0, 1, 3])


def test_labels_that_are_not_listed() -> None:
    logits, labels = made(400, 5)
    top = ordercal.TopScores.of_dense(logits, 2)
    named = ordercal.TopK("ts", classes=CLASSES).fit(top, labels).apply(top)
    unknown = np.where(top.places(labels) == 2, -1, labels)
    assert (unknown == -1).sum() > 20
    # For a method without classes it does not matter which of the others a label is.
    np.testing.assert_allclose(ordercal.TopK("ts", classes=CLASSES).fit(top, unknown).apply(top).probs, named.probs)
    assert top.evaluate(labels)["nll"] == top.evaluate(unknown)["nll"]


def test_mistakes_are_named() -> None:
    with pytest.raises(ordercal.OrdercalError, match="row 1, column 0: 2.5 is not a log-probability"):
        ordercal.TopScores([[1], [2]], [[-1.0], [2.5]])
    with pytest.raises(ordercal.OrdercalError, match="row 1 lists a class twice"):
        ordercal.TopScores([[1, 2], [3, 3]], np.log([[0.5, 0.4], [0.5, 0.4]]))
    with pytest.raises(ordercal.OrdercalError, match="row 0: the listed probabilities and the rest sum to 1.4"):
        ordercal.TopScores([[1]], np.log([[0.5]]), np.log([0.9]))
    with pytest.raises(ordercal.OrdercalError, match="matrices of one shape"):
        ordercal.TopScores([1, 2], [-1.0, -2.0])
    with pytest.raises(ordercal.OrdercalError, match="row 0 lists the class 9, and there are 5 classes"):
        ordercal.TopScores([[9]], np.log([[0.5]])).dense(5)
    with pytest.raises(ordercal.NotFittedError, match="not fitted yet"):
        ordercal.TopK().apply(ordercal.TopScores([[1]], np.log([[0.5]])))
    logits, labels = made(200, 7)
    fitted = ordercal.TopK("ts").fit(ordercal.TopScores.of_dense(logits, 4), labels)
    with pytest.raises(ordercal.OrdercalError, match="rows list 3 classes, and those of the fit listed 4"):
        fitted.apply(ordercal.TopScores.of_dense(logits, 3))
