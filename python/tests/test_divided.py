"""Fits to rows in many places, by sums: what `ordercal.spark.fit(exact=True)` does, without Spark."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import ordercal
import pytest
from ordercal import OrdercalError, _native

pa = pytest.importorskip("pyarrow")


def made(rows: int, classes: int, seed: int = 1) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    honest = 1.5 * rng.normal(size=(rows, classes)) + np.linspace(0, 1, classes)
    chances = np.exp(honest)
    chances /= chances.sum(axis=1, keepdims=True)
    labels = (chances.cumsum(axis=1) > rng.random((rows, 1))).argmax(axis=1)
    scores = (2.0 * honest).astype(np.float32)
    return {"scores": scores, "labels": labels, "weights": rng.random(rows)}


def asking(data: dict[str, Any], ends: list[int], batch: int, kind: str = "logits", names: list[str] | None = None) -> Any:
    """Answers as Spark would have them answered, for parts that end at the given rows."""
    scores = data["scores"]
    classes = scores.shape[1]
    begins = [0, *ends[:-1]]

    def table(begin: int, end: int) -> Any:
        flat = pa.array(scores[begin:end].reshape(-1))
        lists = pa.ListArray.from_arrays(pa.array(np.arange(0, len(flat) + 1, classes, dtype=np.int32)), flat)
        columns = {"logits": lists, "label": data["labels"][begin:end], "weight": data["weights"][begin:end]}
        return pa.RecordBatchReader.from_batches(
            pa.table(columns).schema, pa.table(columns).to_batches(max_chunksize=batch)
        )

    def ask(question: str) -> list[tuple[int, bytes]]:
        return [
            (part, _native.answer(question, part, table(begin, end), classes, ["logits"], kind, "label", "weight", names))
            for part, (begin, end) in enumerate(zip(begins, ends, strict=True))
        ]

    return ask


@pytest.mark.parametrize("method", ["ts", "svs", "diag"])
@pytest.mark.parametrize(("rows", "classes"), [(4000, 3), (60_000, 20)])
def test_it_is_the_fit_to_all_rows(method: str, rows: int, classes: int) -> None:
    data = made(rows, classes)
    alone = ordercal.calibrator(method).fit(data["scores"], data["labels"], data["weights"])
    expected = alone.predict_proba(data["scores"], dtype="float64")
    for ends, batch in (([rows], 10_000), ([0, 1, 900, 900, rows - 3, rows], 777)):
        found = ordercal.calibrator(method)._fit_divided(asking(data, ends, batch))
        assert np.abs(found.predict_proba(data["scores"], dtype="float64") - expected).max() < 1e-9
        assert found.report_.nll_before == pytest.approx(alone.report_.nll_before, rel=1e-9)
        assert found.report_.nll_after == pytest.approx(alone.report_.nll_after, rel=1e-9)
        assert found.report_.stop == alone.report_.stop


def test_zeros_and_names_are_read_as_on_one_machine() -> None:
    data = made(3000, 3)
    probs = np.exp(data["scores"].astype(np.float64))
    probs /= probs.sum(axis=1, keepdims=True)
    # Every other row is certain, and some of them are wrong.
    probs[::2] = np.eye(3)[probs[::2].argmax(axis=1)]
    names = np.array(["ant", "bee", "cat"])
    data = {**data, "scores": probs.astype(np.float32), "labels": names[data["labels"]]}
    alone = ordercal.TemperatureScaling(kind="probs").fit(
        data["scores"], data["labels"], data["weights"], classes=names
    )
    ask = asking(data, [1000, 3000], 500, "probs", list(names))
    found = ordercal.TemperatureScaling(kind="probs")._fit_divided(ask, names)
    assert "probability 0" in found.report_.notes[0] and found.report_.notes == alone.report_.notes
    assert list(found.classes_) == list(names)
    expected = alone.predict_proba(data["scores"], dtype="float64")
    assert np.abs(found.predict_proba(data["scores"], dtype="float64") - expected).max() < 1e-9


def test_what_goes_wrong_is_said() -> None:
    data = made(200, 3)
    with pytest.raises(OrdercalError, match="`auto` has no exact fit .* ts, svs, diag"):
        ordercal.Auto()._fit_divided(asking(data, [200], 50))
    with pytest.raises(OrdercalError, match="there are no rows"):
        ordercal.TemperatureScaling()._fit_divided(lambda _: [])
    with pytest.raises(OrdercalError, match="there are no rows"):
        weightless = {**data, "weights": np.zeros(200)}
        ordercal.TemperatureScaling()._fit_divided(asking(weightless, [200], 50))
    poisoned = {**data, "scores": data["scores"].copy()}
    poisoned["scores"][130, 2] = np.nan
    with pytest.raises(OrdercalError, match="row 30, column 2"):
        ordercal.TemperatureScaling()._fit_divided(asking(poisoned, [100, 200], 7))

    def interrupted(_: str) -> list[tuple[int, bytes]]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ordercal.TemperatureScaling()._fit_divided(interrupted)


def test_batches_without_weight_are_left_out() -> None:
    data = made(1000, 3)
    data["weights"][200:400] = 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = ordercal.TemperatureScaling()._fit_divided(asking(data, [1000], 100))
    alone = ordercal.TemperatureScaling().fit(data["scores"], data["labels"], data["weights"])
    assert found.parameters_["beta"] == pytest.approx(alone.parameters_["beta"], rel=1e-9)
