"""Labels are paired with columns by name, or not at all."""

from __future__ import annotations

from typing import Any

import numpy as np
import ordercal
import pandas as pd
import polars as pl
import pytest
from conftest import Split
from ordercal.sklearn import ScoreCalibrator

NAMES = np.array(["e", "d", "c", "b", "a"])


@pytest.fixture
def plain(calib: Split) -> Any:
    """Free of order, so that a column taken for another shows."""
    return ordercal.VectorScaling().fit(calib.scores, calib.labels)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_columns_by_name(frame: Any, calib: Split, test: Split, plain: Any) -> None:
    order = [3, 1, 0, 4, 2]
    columns = dict(zip(NAMES, calib.scores.T))
    fitted = ordercal.VectorScaling().fit(frame(columns), NAMES[calib.labels])
    assert fitted.classes_.tolist() == NAMES.tolist()
    expected = plain.predict_proba(test.scores)
    shuffled = frame({NAMES[i]: test.scores[:, i] for i in order})
    np.testing.assert_array_equal(fitted.predict_proba(shuffled), expected)
    np.testing.assert_array_equal(fitted.predict_proba(test.scores), expected)
    with pytest.raises(ordercal.OrdercalError, match="the classes of the scores are"):
        fitted.predict_proba(frame({f"x{i}": test.scores[:, i] for i in order}))

    metrics = ordercal.evaluate(shuffled, NAMES[test.labels])
    exact = ordercal.evaluate(test.scores, test.labels)
    for key, value in exact.items():
        assert metrics[key] == pytest.approx(value, rel=1e-9), key
    state = ordercal.MetricState(5).update(shuffled, NAMES[test.labels]).finalize()
    assert state["nll"] == pytest.approx(exact["nll"])

    data = {"x": (frame(columns), NAMES[calib.labels], shuffled, NAMES[test.labels])}
    same = {"x": (calib.scores, calib.labels, test.scores, test.labels)}
    ask: Any = {"methods": ["ts"], "metrics": ["nll"], "bootstrap": 0}
    found, wanted = ordercal.compare(data, **ask), ordercal.compare(same, **ask)
    nll = [one["datasets"][0]["methods"][1]["metrics"]["nll"] for one in (found, wanted)]
    assert nll[0] == pytest.approx(nll[1], rel=1e-9)


def test_loaded_models_know_their_columns(calib: Split, test: Split, plain: Any, tmp_path: Any) -> None:
    fitted = ordercal.VectorScaling().fit(calib.scores, NAMES[calib.labels], classes=NAMES)
    fitted.save(tmp_path / "model")
    loaded = ordercal.load(tmp_path / "model")
    shuffled = pd.DataFrame(test.scores, columns=NAMES)[sorted(NAMES)]
    np.testing.assert_array_equal(loaded.predict_proba(shuffled), plain.predict_proba(test.scores))


def test_numbers_as_names(calib: Split, test: Split, plain: Any) -> None:
    numbers = np.array([20, 10, 0, 40, 30])
    frame = pd.DataFrame(calib.scores, columns=numbers)
    fitted = ordercal.VectorScaling().fit(frame, numbers[calib.labels])
    assert fitted.classes_.tolist() == numbers.tolist()
    np.testing.assert_array_equal(fitted.predict_proba(test.scores), plain.predict_proba(test.scores))
    # The same numbers as those of columns, in another order.
    permuted = np.array([4, 2, 0, 1, 3])
    frame = pd.DataFrame(calib.scores, columns=[str(n) for n in permuted])
    fitted = ordercal.VectorScaling().fit(frame, permuted[calib.labels])
    np.testing.assert_array_equal(fitted.predict_proba(test.scores), plain.predict_proba(test.scores))
    # Without names, integers are column numbers.
    np.testing.assert_array_equal(
        ordercal.VectorScaling().fit(pd.DataFrame(calib.scores), calib.labels).predict_proba(test.scores),
        plain.predict_proba(test.scores),
    )


def test_names_that_cannot_be_paired(calib: Split) -> None:
    frame = pd.DataFrame(calib.scores, columns=[f"logit_{name}" for name in NAMES])
    with pytest.raises(ordercal.OrdercalError, match="is not one of the classes"):
        ordercal.TemperatureScaling().fit(frame, NAMES[calib.labels])
    with pytest.raises(ordercal.OrdercalError, match="same name"):
        ordercal.TemperatureScaling().fit(pd.DataFrame(calib.scores, columns=list("aabcd")), calib.labels)
    some = calib.labels > 0
    with pytest.raises(ordercal.OrdercalError, match="4 different labels for 5 classes"):
        ordercal.evaluate(calib.scores[some], NAMES[calib.labels[some]])


@pytest.mark.parametrize("wrap", [pd.Categorical, lambda *a, **k: pd.Series(pd.Categorical(*a, **k))])
def test_categories_in_their_order(wrap: Any, calib: Split, test: Split, plain: Any) -> None:
    some = calib.labels > 0
    labels = wrap(NAMES[calib.labels], categories=NAMES)
    fitted = ordercal.VectorScaling().fit(calib.scores, labels)
    assert fitted.classes_.tolist() == NAMES.tolist()
    np.testing.assert_array_equal(fitted.predict_proba(test.scores), plain.predict_proba(test.scores))
    # A class that does not occur still has its column.
    absent = ordercal.VectorScaling().fit(calib.scores[some], wrap(NAMES[calib.labels[some]], categories=NAMES))
    wanted = ordercal.VectorScaling().fit(calib.scores[some], calib.labels[some])
    np.testing.assert_array_equal(absent.predict_proba(test.scores), wanted.predict_proba(test.scores))
    with pytest.raises(ordercal.OrdercalError, match="6 categories for 5 classes"):
        ordercal.VectorScaling().fit(calib.scores, wrap(NAMES[calib.labels], categories=[*NAMES, "f"]))


def test_polars_enums(calib: Split, test: Split, plain: Any) -> None:
    labels = pl.Series(NAMES[calib.labels], dtype=pl.Enum(NAMES.tolist()))
    fitted = ordercal.VectorScaling().fit(calib.scores, labels)
    np.testing.assert_array_equal(fitted.predict_proba(test.scores), plain.predict_proba(test.scores))


def test_masks(calib: Split) -> None:
    nothing = np.ma.masked_array(calib.scores, mask=False)
    ordercal.TemperatureScaling().fit(nothing, calib.labels)
    some = np.ma.masked_array(calib.scores, mask=calib.scores > 5)
    with pytest.raises(ordercal.OrdercalError, match="scores have masked values"):
        ordercal.TemperatureScaling().fit(some, calib.labels)
    labels = np.ma.masked_array(calib.labels, mask=calib.labels == 0)
    with pytest.raises(ordercal.OrdercalError, match="labels have masked values"):
        ordercal.evaluate(calib.scores, labels)
    with pytest.raises(ordercal.OrdercalError, match="weights have masked values"):
        ordercal.evaluate(calib.scores, calib.labels, sample_weight=labels)


def test_the_transformer(calib: Split, test: Split, plain: Any) -> None:
    expected = plain.predict_proba(test.scores)
    frame = pd.DataFrame(calib.scores, columns=NAMES)
    fitted = ScoreCalibrator("vs").fit(frame, NAMES[calib.labels])
    assert fitted.classes_.tolist() == NAMES.tolist()
    named = pd.DataFrame(test.scores, columns=NAMES)
    np.testing.assert_allclose(fitted.transform(named), expected, rtol=1e-5)
    with pytest.raises(ValueError, match="feature names"):
        fitted.transform(named[sorted(NAMES)])
    categories = pd.Categorical(NAMES[calib.labels], categories=NAMES)
    by_category = ScoreCalibrator("vs").fit(calib.scores, categories)
    np.testing.assert_allclose(by_category.transform(test.scores), expected, rtol=1e-5)
    some = calib.labels > 0
    with pytest.raises(ordercal.OrdercalError, match="4 different labels for 5 columns"):
        ScoreCalibrator("vs").fit(calib.scores[some], NAMES[calib.labels[some]])


def test_two_classes_in_one_column() -> None:
    rng = np.random.default_rng(0)
    logit = rng.normal(size=2000) * 3
    labels = (rng.random(2000) < 1 / (1 + np.exp(-logit / 2))).astype(int)
    both = np.column_stack([-logit / 2, logit / 2])
    p = 1 / (1 + np.exp(-logit))
    forms: list[tuple[Any, Any]] = [
        ("logits", logit),
        ("logits", logit[:, None]),
        ("logits", pd.Series(logit)),
        ("logits", logit.tolist()),
        ("probs", p),
        ("log-probs", np.log(p)),
    ]
    expected = ordercal.TemperatureScaling().fit(both, labels).predict_proba(both)
    metrics = ordercal.evaluate(both, labels)
    for kind, scores in forms:
        fitted = ordercal.TemperatureScaling(kind=kind).fit(scores, labels)
        found = fitted.predict_proba(scores)
        assert found.shape == (2000, 2)
        np.testing.assert_allclose(found, expected, atol=1e-6)
        assert fitted.predict(scores).tolist() == (logit > 0).astype(int).tolist()
        assert ordercal.evaluate(scores, labels, kind=kind)["nll"] == pytest.approx(metrics["nll"], rel=1e-5)
        state = ordercal.MetricState(2).update(scores, labels, kind=kind).finalize()
        assert state["ece"] == pytest.approx(metrics["ece"], abs=1e-5)
        diagram = ordercal.reliability(scores, labels, kind=kind, target=1)
        assert diagram.count.sum() == 2000 and diagram.lower[0] == 0.0
    named = np.where(labels == 1, "yes", "no")
    fitted = ordercal.TemperatureScaling().fit(logit, named)
    assert fitted.predict(logit[:1])[0] == ("yes" if logit[0] > 0 else "no")
    with pytest.raises(ordercal.OrdercalError):
        ordercal.TemperatureScaling().fit(both[:, [0, 1, 1]], labels).predict_proba(logit)


def test_one_class_as_target(test: Split) -> None:
    probs = np.exp(test.scores - test.scores.max(axis=1, keepdims=True)).astype(np.float64)
    probs /= probs.sum(axis=1, keepdims=True)
    found = ordercal.evaluate(test.scores, NAMES[test.labels], classes=NAMES, target="c")
    p, y = probs[:, 2], test.labels == 2
    assert found.classes == 2
    assert found["nll"] == pytest.approx(-np.mean(np.where(y, np.log(p), np.log1p(-p))), rel=1e-5)
    assert found["accuracy"] == pytest.approx(np.mean((p > 0.5) == y))
    with pytest.raises(ordercal.OrdercalError, match="there is no class 'z'"):
        ordercal.evaluate(test.scores, NAMES[test.labels], classes=NAMES, target="z")
    figure = __import__("ordercal.plot").plot.reliability(test.scores, test.labels, target=2)
    error = ordercal.reliability(test.scores, test.labels, target=2, binning="equal-mass").error
    assert f"{error:.4f}" in figure.axes[0].get_legend().get_texts()[0].get_text()


def test_empty_batches(calib: Split) -> None:
    fitted = ordercal.TemperatureScaling().fit(calib.scores, NAMES[calib.labels], classes=NAMES)
    empty = calib.scores[:0]
    for found in (fitted.predict_proba(empty), fitted.predict_logits(empty), fitted.predict_log_proba(empty)):
        assert found.shape == (0, 5) and found.dtype == np.float32
    assert fitted.predict_proba(empty, dtype=np.float64).dtype == np.float64
    assert fitted.predict(empty).shape == (0,)
    with pytest.raises(ordercal.OrdercalError):
        fitted.predict_proba(np.empty((0, 4)))
    state = ordercal.MetricState(5).update(calib.scores, calib.labels)
    before = state.to_bytes()
    assert state.update(empty, []).to_bytes() == before
    with pytest.raises(ordercal.OrdercalError):
        state.update(np.empty((0, 4)), [])
