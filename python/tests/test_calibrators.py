"""Every calibrator behaves as scikit-learn's estimators do, and computes what the library computes."""

from __future__ import annotations

import inspect
import json
import pickle

import joblib
import numpy as np
import ordercal
import pytest
from conftest import Split
from ordercal import _native
from ordercal._calibrator import REGISTRY
from sklearn.base import clone

KEYS = list(_native.keys())
CLASSES = [REGISTRY[key] for key in KEYS if key in REGISTRY]
FITTED: dict[str, ordercal.Calibrator] = {}


def fitted(cls: type[ordercal.Calibrator], calib: Split) -> ordercal.Calibrator:
    """Each method is fitted once."""
    if cls._key not in FITTED:
        FITTED[cls._key] = cls().fit(calib.scores, calib.labels)
    return FITTED[cls._key]


def test_every_method_has_a_class() -> None:
    assert set(KEYS) == set(REGISTRY)
    for cls in CLASSES:
        assert getattr(ordercal, cls.__name__) is cls
        assert cls.__name__ in ordercal.__all__
        assert cls.__doc__


@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c._key)
def test_keywords_and_defaults_are_the_librarys(cls: type[ordercal.Calibrator]) -> None:
    defaults = json.loads(_native.defaults(cls._key))
    assert json.loads(cls()._method()) == defaults
    shown = {name: p.default for name, p in inspect.signature(cls).parameters.items()}
    assert shown.pop("kind") == "logits"
    assert ("keep_order" in shown) == (not _native.promises_order(cls._key))
    shown.pop("keep_order", None)
    del defaults["method"]
    assert {name.rstrip("_") for name in shown} == set(defaults)
    for name, value in shown.items():
        default = defaults[name.rstrip("_")]
        if isinstance(default, dict):
            assert value is None
        elif isinstance(default, list):
            assert list(value) == default
        else:
            assert value == default and type(value) is type(default)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c._key)
def test_scikit_learns_manners(cls: type[ordercal.Calibrator], calib: Split, tmp_path: object) -> None:
    est = cls()
    names = set(inspect.signature(cls).parameters)
    assert set(est.get_params()) == names
    copy = clone(est)
    assert type(copy) is cls and copy.get_params() == est.get_params()
    assert set(vars(est)) == names, "`__init__` stores its keywords and nothing else"
    assert repr(est) == f"{cls.__name__}()"
    with pytest.raises(ordercal.OrdercalError, match="no keyword `nonsense`"):
        est.set_params(nonsense=1)
    with pytest.raises(TypeError, match="no keyword `nonsense`"):
        cls(nonsense=1)
    assert est.set_params(kind="probs").kind == "probs"
    est.set_params(kind="logits")
    with pytest.raises(ordercal.NotFittedError):
        est.predict_proba(calib.scores)

    est = fitted(cls, calib)
    assert not hasattr(clone(est), "model_")
    probs = est.predict_proba(calib.scores)
    assert probs.dtype == np.float32 and probs.shape == calib.scores.shape
    np.testing.assert_allclose(probs.sum(axis=1), 1.0, atol=1e-5)
    again = pickle.loads(pickle.dumps(est))
    assert np.array_equal(again.predict_proba(calib.scores), probs)
    path = f"{tmp_path}/m.joblib"
    joblib.dump(est, path)
    assert np.array_equal(joblib.load(path).predict_proba(calib.scores), probs)
    assert est.report_.nll_before == pytest.approx(ordercal.evaluate(calib.scores, calib.labels)["nll"], rel=1e-6)
    assert isinstance(est.report_.stop, (str, dict))


@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c._key)
def test_files_and_promises(cls: type[ordercal.Calibrator], calib: Split, test: Split, tmp_path: object) -> None:
    est = fitted(cls, calib)
    path = f"{tmp_path}/m.safetensors"
    est.save(path)
    loaded = ordercal.load(path)
    assert type(loaded) is cls and loaded.get_params() == est.get_params()
    probs = est.predict_proba(test.scores)
    assert np.array_equal(loaded.predict_proba(test.scores), probs)
    assert np.array_equal(cls.load(path).predict(test.scores), est.predict(test.scores))
    assert vars(loaded.report_) == vars(est.report_)
    if est.order_preserving_:
        assert np.array_equal(est.predict(test.scores), test.scores.argmax(axis=1))
        order = np.argsort(test.scores, axis=1)
        ranked = np.take_along_axis(est.predict_logits(test.scores), order, axis=1)
        assert (np.diff(ranked, axis=1) > 0).all()
    logits = est.predict_logits(test.scores, dtype=np.float64)
    soft = np.exp(logits - logits.max(axis=1, keepdims=True))
    np.testing.assert_allclose(probs, soft / soft.sum(axis=1, keepdims=True), atol=1e-6)
    np.testing.assert_allclose(
        np.exp(est.predict_log_proba(test.scores, dtype=np.float64)), soft / soft.sum(axis=1, keepdims=True), atol=1e-12
    )


def test_keep_order_projects(calib: Split, test: Split, tmp_path: object) -> None:
    free = ordercal.StructuredMatrixScaling(lambda_=0.01).fit(calib.scores, calib.labels)
    kept = ordercal.StructuredMatrixScaling(lambda_=0.01, keep_order=True).fit(calib.scores, calib.labels)
    assert not free.order_preserving_ and kept.order_preserving_
    assert (free.predict(test.scores) != test.scores.argmax(axis=1)).any()
    assert np.array_equal(kept.predict(test.scores), test.scores.argmax(axis=1))
    path = f"{tmp_path}/m.safetensors"
    kept.save(path)
    loaded = ordercal.load(path)
    assert isinstance(loaded, ordercal.StructuredMatrixScaling)
    assert loaded.keep_order and loaded.lambda_ == 0.01
    with pytest.raises(ordercal.OrdercalError, match="the model is a StructuredMatrixScaling"):
        ordercal.TemperatureScaling.load(path)


def test_fit_returns_the_calibrator(calib: Split) -> None:
    est = ordercal.TemperatureScaling()
    assert est.fit(calib.scores, calib.labels) is est


def test_calibrators_by_key() -> None:
    assert isinstance(ordercal.calibrator("oi", hidden=(7,)), ordercal.OrderInvariant)
    assert ordercal.calibrator("sms+order").get_params()["keep_order"]
    with pytest.raises(ordercal.OrdercalError, match="ts"):
        ordercal.calibrator("ts+order")
    with pytest.raises(ordercal.OrdercalError, match="uncalibrated ts ets"):
        ordercal.calibrator("nonsense")


def test_calibration_helps(calib: Split, test: Split) -> None:
    before = ordercal.evaluate(test.scores, test.labels)
    est = ordercal.TemperatureScaling().fit(calib.scores, calib.labels)
    after = ordercal.evaluate(est.predict_proba(test.scores), test.labels, kind="probs")
    assert after["ece"] < before["ece"] / 2 and after["nll"] < before["nll"]
    assert after["accuracy"] == before["accuracy"]
    assert est.parameters_["beta"] == pytest.approx(1 / 3, abs=0.05)


def test_weights_count_as_repeated_rows(calib: Split) -> None:
    weights = np.arange(len(calib.labels)) % 3
    rows = np.repeat(np.arange(len(calib.labels)), weights)
    weighted = ordercal.TemperatureScaling().fit(calib.scores, calib.labels, weights)
    repeated = ordercal.TemperatureScaling().fit(calib.scores[rows], calib.labels[rows])
    assert weighted.parameters_["beta"] == pytest.approx(repeated.parameters_["beta"], rel=1e-6)


def test_settings_that_are_out_of_range_are_refused_by_name(calib: Split) -> None:
    for est, words in [
        (ordercal.Diagonal(smoothness=-1.0), "smoothness"),
        (ordercal.OrderInvariant(hidden=()), "hidden"),
        (ordercal.OrderInvariant(hidden="wide"), "invalid type"),
        (ordercal.OrderInvariant(optimizer={"kind": "magic"}), "magic"),
        (ordercal.Histogram(bins=0), "bins"),
        (ordercal.TemperatureScaling(kind="odds"), "odds"),
        (ordercal.VectorScaling(optimizer={"nonsense": 1}), "nonsense"),
        (ordercal.VectorScaling(optimizer=object()), "VectorScaling"),
    ]:
        with pytest.raises(ordercal.OrdercalError, match=words):
            est.fit(calib.scores, calib.labels)


def test_numpy_settings_are_settings(calib: Split) -> None:
    est = ordercal.OrderInvariant(hidden=np.array([4]), lambda_=np.float64(0.01), seed=np.int64(3))
    est.fit(calib.scores, calib.labels)
    assert json.loads(est.model_.method)["hidden"] == [4]


def test_none_is_the_default_but_for_top() -> None:
    method = json.loads(ordercal.OrderInvariant(hidden=None, optimizer=None, top=None)._method())
    own = json.loads(ordercal.OrderInvariant()._method())
    assert own["top"] == 16
    assert method == {**own, "top": None}


def test_auto_says_what_it_will_take() -> None:
    small, large = (ordercal.Auto().estimate(rows, 100) for rows in (1_000, 100_000))
    assert small is not None and large is not None
    assert 0 < small.seconds < large.seconds and 0 < small.bytes < large.bytes
    quick = ordercal.Auto(effort="quick").estimate(100_000, 100)
    assert quick is not None and quick.seconds < large.seconds / 4
    assert ordercal.TemperatureScaling().estimate(1_000, 100) is None
