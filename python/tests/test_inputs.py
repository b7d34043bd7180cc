"""Whatever holds numbers can be scores; whatever names classes can be labels."""

from __future__ import annotations

import importlib.util
import re
import tracemalloc
from typing import Any

import numpy as np
import ordercal
import pandas as pd
import polars as pl
import pytest
from conftest import Split
from ordercal._inputs import read_scores

REFERENCE = ordercal.TemperatureScaling


class OnlyArray:
    """Something that can only be seen as an array."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.asarray(self.values, dtype=dtype)


class OnlyDlpack:
    """Something that can only be exchanged."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self.values.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> Any:
        return self.values.__dlpack_device__()


class Tensor:
    """What a torch tensor looks like from here; bfloat16 is a type that numpy does not have."""

    def __init__(self, values: np.ndarray, dtype: str = "torch.float32") -> None:
        self.values, self.dtype, self.on_cpu, self.attached = values, dtype, False, True

    def detach(self) -> Tensor:
        self.attached = False
        return self

    def cpu(self) -> Tensor:
        self.on_cpu = True
        return self

    def float(self) -> Tensor:
        self.dtype = "torch.float32"
        return self

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        if not self.on_cpu or self.attached or self.dtype == "torch.bfloat16":
            raise TypeError("can't convert this tensor to numpy")
        return np.asarray(self.values, dtype=dtype)


def frame(scores: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(scores, columns=[f"c{i}" for i in range(scores.shape[1])])


@pytest.mark.parametrize(
    "wrap",
    [
        np.asarray,
        np.asfortranarray,
        lambda a: a[::-1][::-1],
        lambda a: np.repeat(a, 2, axis=1)[:, ::2],
        lambda a: a.astype(">f4"),
        lambda a: a.astype(np.longdouble),
        lambda a: a.astype(object),
        lambda a: a.tolist(),
        lambda a: [tuple(row) for row in a.tolist()],
        frame,
        lambda a: pl.DataFrame(a, schema=[f"c{i}" for i in range(a.shape[1])]),
        OnlyArray,
        OnlyDlpack,
        Tensor,
        lambda a: Tensor(a, "torch.bfloat16"),
    ],
    ids=range(15),
)
def test_scores_of_any_kind(wrap: Any, calib: Split) -> None:
    plain = REFERENCE().fit(calib.scores, calib.labels)
    other = REFERENCE().fit(wrap(calib.scores), calib.labels)
    assert other.parameters_["beta"] == plain.parameters_["beta"]
    found = other.predict_proba(wrap(calib.scores), dtype=np.float32)
    assert np.array_equal(found, plain.predict_proba(calib.scores))


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_real_tensors(calib: Split) -> None:
    import torch

    scores = torch.from_numpy(calib.scores).requires_grad_()
    plain = REFERENCE().fit(calib.scores, calib.labels)
    assert REFERENCE().fit(scores, torch.from_numpy(calib.labels)).parameters_ == plain.parameters_
    REFERENCE().fit(scores.bfloat16(), calib.labels)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_float_types(dtype: Any, calib: Split) -> None:
    scores = calib.scores.astype(dtype)
    est = REFERENCE().fit(scores, calib.labels)
    wanted = np.float64 if dtype == np.float64 else np.float32
    assert est.predict_proba(scores).dtype == wanted
    assert est.predict_proba(scores, dtype="float64").dtype == np.float64
    with pytest.raises(ordercal.OrdercalError, match="float32 or float64"):
        est.predict_proba(scores, dtype=np.float16)


def test_row_major_32_bit_scores_are_not_copied() -> None:
    scores = np.random.default_rng(0).normal(size=(50_000, 20)).astype(np.float32)
    assert read_scores(scores)[0] is scores
    labels = np.zeros(len(scores), dtype=np.int64)
    before = scores.copy()
    tracemalloc.start()
    REFERENCE().fit(scores, labels)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < scores.nbytes / 4
    assert np.array_equal(scores, before)


def test_a_frame_names_the_classes(calib: Split) -> None:
    names = np.array(["zebra", "ant", "bee", "cat", "dog"])
    table = pd.DataFrame(calib.scores, columns=names)
    est = REFERENCE().fit(table, pd.Series(names[calib.labels]))
    assert est.classes_.tolist() == names.tolist()
    assert np.array_equal(est.predict(table), names[calib.scores.argmax(axis=1)])
    polars = pl.DataFrame(calib.scores, schema=names.tolist())
    again = REFERENCE().fit(polars, pl.Series(names[calib.labels]))
    assert again.parameters_ == est.parameters_


def test_names_of_classes(calib: Split, tmp_path: Any) -> None:
    names = np.array(["ant", "bee", "cat", "dog", "elk"])
    by_number = REFERENCE().fit(calib.scores, calib.labels)
    for labels in [names[calib.labels], names[calib.labels].tolist(), names[calib.labels].astype(object)]:
        est = REFERENCE().fit(calib.scores, labels)
        assert est.parameters_ == by_number.parameters_
        assert est.classes_.tolist() == names.tolist()
    shuffled = ["dog", "elk", "ant", "bee", "cat"]
    est = REFERENCE().fit(calib.scores, np.array(shuffled)[calib.labels], classes=shuffled)
    assert est.parameters_["beta"] == by_number.parameters_["beta"]
    est.save(tmp_path / "m.safetensors")
    loaded = ordercal.load(tmp_path / "m.safetensors")
    assert loaded.classes_.tolist() == shuffled
    assert np.array_equal(loaded.predict(calib.scores), est.predict(calib.scores))
    years = REFERENCE().fit(calib.scores, calib.labels + 2000, classes=range(2000, 2005))
    assert years.predict(calib.scores).min() >= 2000


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int16, np.uint64, np.float32])
def test_numbers_of_classes(dtype: Any, calib: Split) -> None:
    labels = (calib.labels % 2).astype(dtype)
    reference = REFERENCE().fit(calib.scores, calib.labels % 2)
    assert REFERENCE().fit(calib.scores, labels).parameters_ == reference.parameters_


def test_log_probabilities_and_probabilities(calib: Split) -> None:
    logs = calib.scores - np.log(np.exp(calib.scores).sum(axis=1, keepdims=True))
    logits = REFERENCE().fit(calib.scores, calib.labels)
    for kind, scores in [("log-probs", logs), ("probs", np.exp(logs.astype(np.float64)))]:
        est = REFERENCE(kind=kind).fit(scores, calib.labels)
        assert est.parameters_["beta"] == pytest.approx(logits.parameters_["beta"], rel=1e-4)
        np.testing.assert_allclose(est.predict_proba(scores), logits.predict_proba(calib.scores), atol=1e-4)


def broken(calib: Split, row: int, column: int, value: float) -> np.ndarray:
    scores = calib.scores.copy()
    scores[row, column] = value
    return scores


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda c: (broken(c, 3, 2, np.nan), c.labels), ValueError, "row 3, column 2: the score is NaN"),
        (lambda c: (broken(c, 7, 1, np.inf), c.labels), ValueError, "row 7, column 1: the score inf is too large"),
        (lambda c: (c.scores, c.labels + 3), ValueError, "is not one of the 5 classes; labels count from 0 to 4"),
        (lambda c: (c.scores, c.labels[:-1]), ValueError, "there are 799 labels for 800 rows"),
        (lambda c: (c.scores[:, :1], c.labels), ValueError, "is not one of the 2 classes"),
        (lambda c: (c.scores[:0], c.labels[:0]), ValueError, "there are no rows"),
        (lambda c: (c.scores[0], c.labels), ValueError, "there are 800 labels for 5 rows"),
        (lambda c: (c.scores[None], c.labels), ValueError, "a matrix is needed"),
        (lambda c: (c.scores.astype(complex), c.labels), TypeError, "scores must be numbers"),
        (lambda c: ([["a", "b"]], [0]), TypeError, "scores must be numbers"),
        (lambda c: ([[1.0, 2.0], [1.0]], [0, 1]), ValueError, "differ in length"),
        (lambda c: (c.scores, c.labels + 0.5), ValueError, "row 0: the label .* is not a whole number"),
        (lambda c: (c.scores, ["a", "b"] * 400), ValueError, "2 different labels for 5 classes"),
        (lambda c: (c.scores, np.eye(4)[c.labels % 4]), ValueError, "4 columns for 5 classes"),
    ],
    ids=range(14),
)
def test_errors_name_the_culprit(make: Any, error: type[Exception], words: str, calib: Split) -> None:
    scores, labels = make(calib)
    with pytest.raises(error, match=words) as caught:
        REFERENCE().fit(scores, labels)
    assert isinstance(caught.value, ordercal.OrdercalError)


def test_other_mistakes(calib: Split, tmp_path: Any) -> None:
    est = REFERENCE().fit(calib.scores, calib.labels)
    with pytest.raises(ordercal.OrdercalError, match="5"):
        est.predict_proba(calib.scores[:, :4])
    with pytest.raises(ordercal.OrdercalError, match="weight"):
        REFERENCE().fit(calib.scores, calib.labels, -np.ones(800))
    missing = tmp_path / "none.safetensors"
    with pytest.raises(FileNotFoundError, match="there is no such file") as caught:
        ordercal.load(missing)
    assert isinstance(caught.value, ValueError) and str(missing) in str(caught.value)
    other = tmp_path / "other.safetensors"
    other.write_bytes(b"nonsense")
    with pytest.raises(ordercal.OrdercalError, match=re.escape(str(other))):
        ordercal.load(other)
    with pytest.raises(ordercal.OrdercalError, match="not one of the classes"):
        REFERENCE().fit(calib.scores, calib.labels, classes=["a", "b", "c", "d", "e"])
    with pytest.raises(ordercal.OrdercalError, match="2 class names for 5 classes"):
        REFERENCE().fit(calib.scores, calib.labels, classes=["a", "b"])


@pytest.mark.parametrize("classes", [5, 2000])
@pytest.mark.parametrize("kind", ["probs", "log-probs"])
def test_probabilities_of_16_bits_sum_to_1_within_what_they_can_hold(kind: Any, classes: int) -> None:
    import ml_dtypes

    rng = np.random.default_rng(4)
    logits = rng.normal(size=(300, classes)) * np.linspace(0.0, 3.0, 300)[:, None]
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = rng.integers(classes, size=300)
    labels[: min(classes, 300)] = np.arange(min(classes, 300))
    exact = probs if kind == "probs" else np.log(probs)
    for dtype, off in ((np.float16, 5e-3), (ml_dtypes.bfloat16, 5e-2)):
        narrow = exact.astype(dtype)
        with np.errstate(all="ignore"):
            fitted = ordercal.TemperatureScaling(kind=kind)
            found = fitted.fit(narrow, labels).predict_proba(narrow, dtype=np.float64)
        beta = fitted.parameters_.get("beta", 1.0)
        if "beta" in fitted.parameters_:
            tempered = probs**beta / (probs**beta).sum(axis=1, keepdims=True)
            assert np.abs(found - tempered).max() < off
        # What rounding cannot explain is still refused.
        wrong = narrow.astype(np.float64)
        wrong[7] = wrong[7] * 1.2 if kind == "probs" else wrong[7] + 0.2
        with pytest.raises(ordercal.OrdercalError, match="row 7"):
            ordercal.evaluate(wrong.astype(dtype), labels, kind=kind, metrics="nll")


def test_bfloat16_tensors_of_probabilities() -> None:
    class Tensor:
        """What a torch tensor of bfloat16 does here; test_torch.py has real ones."""

        dtype = "torch.bfloat16"

        def __init__(self, values: Any) -> None:
            self.values = values

        def detach(self) -> Any:
            return self

        def cpu(self) -> Any:
            return self

        def float(self) -> Any:
            return self.values

    # 1/3 in 8 bits, three times: 1.002.
    narrow = np.full((4, 3), 0.333984375, dtype=np.float32)
    with pytest.raises(ordercal.OrdercalError, match="row 0"):
        ordercal.evaluate(narrow, [0, 1, 2, 0], kind="probs", metrics="nll")
    found = ordercal.evaluate(Tensor(narrow), [0, 1, 2, 0], kind="probs", metrics="nll")
    assert found["nll"] == pytest.approx(np.log(3), abs=1e-6)
