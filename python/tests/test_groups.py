"""Calibrators per group."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import ordercal
import pytest
from ordercal import OrdercalError


def made(groups: int, rows: int, seed: int) -> tuple[Any, Any, Any]:
    """Logits that are too large by a factor of each group's own."""
    factors = 2.0 * np.exp(0.4 * np.random.default_rng(0).normal(size=groups))
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(groups), rows)
    honest = 1.5 * rng.normal(size=(len(group), 4))
    chances = np.exp(honest)
    chances /= chances.sum(axis=1, keepdims=True)
    labels = (chances.cumsum(axis=1) > rng.random((len(group), 1))).argmax(axis=1)
    return (honest * factors[group, None]).astype(np.float32), labels, group


@pytest.fixture(scope="module")
def fitted() -> ordercal.GroupedModel:
    scores, labels, group = made(30, 80, 1)
    return ordercal.fit_groups(scores, labels, {"tenant": group}, method="ts")


def nll(probs: Any, labels: Any) -> float:
    return float(-np.log(probs[np.arange(len(labels)), labels]).mean())


def test_it_beats_one_model_and_separate_models(fitted: ordercal.GroupedModel) -> None:
    scores, labels, group = made(30, 80, 1)
    new, truth, new_group = made(30, 500, 2)
    shrunk = nll(fitted.predict_proba(new, new_group, dtype="float64"), truth)
    one = ordercal.TemperatureScaling().fit(scores, labels)
    pooled = nll(one.predict_proba(new, dtype="float64"), truth)
    parts = []
    for g in range(30):
        own = ordercal.TemperatureScaling().fit(scores[group == g], labels[group == g])
        parts.append(nll(own.predict_proba(new[new_group == g], dtype="float64"), truth[new_group == g]))
    assert shrunk < pooled and shrunk < np.mean(parts), (shrunk, pooled, np.mean(parts))
    report = fitted.report_
    assert report.nll_after < report.nll_pooled and report.nll_after <= report.nll_separate
    assert len(report.groups) == 30 and all(0 < g["weight"] < 1 for g in report.groups)


def test_every_row_is_calibrated_by_its_group(fitted: ordercal.GroupedModel) -> None:
    scores, _, group = made(30, 5, 3)
    order = np.random.default_rng(4).permutation(len(scores))
    scores, group = scores[order], group[order]
    probs = fitted.predict_proba(scores, group)
    assert fitted.order_preserving_ and np.array_equal(probs.argmax(axis=1), scores.argmax(axis=1))
    for g in (0, 7, 29):
        rows = group == g
        assert np.array_equal(probs[rows], fitted.model(g).predict_proba(scores[rows]))
    unknown = fitted.predict_proba(scores, np.full(len(scores), "never seen"))
    assert np.array_equal(unknown, fitted.model().predict_proba(scores))


def test_files_and_pickles(fitted: ordercal.GroupedModel, tmp_path: Path) -> None:
    scores, _, group = made(30, 5, 3)
    expected = fitted.predict_proba(scores, {"tenant": group})
    fitted.save(tmp_path / "groups.safetensors")
    again = ordercal.GroupedModel.load(tmp_path / "groups.safetensors")
    assert again.by == ["tenant"] and again.report_.groups == fitted.report_.groups
    for model in (again, pickle.loads(pickle.dumps(fitted))):
        assert np.array_equal(model.predict_proba(scores, group), expected)
    with pytest.raises(OrdercalError, match="GroupedModel.load"):
        ordercal.load(tmp_path / "groups.safetensors")
    damaged = bytearray((tmp_path / "groups.safetensors").read_bytes())
    damaged[-1] ^= 1
    with pytest.raises(OrdercalError, match="checksum"):
        ordercal.GroupedModel.from_bytes(bytes(damaged))


def test_tables_have_the_groups_as_a_column(fitted: ordercal.GroupedModel) -> None:
    pa = pytest.importorskip("pyarrow")
    scores, _, group = made(30, 5, 3)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(scores.reshape(-1)), 4)
    batch = pa.record_batch({"tenant": group, "logits": lists})
    found = fitted.apply_arrow(batch)
    probs = np.array(found["probs"].to_pylist(), dtype=np.float32)
    assert np.array_equal(probs, fitted.predict_proba(scores, group))
    with pytest.raises(OrdercalError, match="no column `tenant`"):
        fitted.apply_arrow(batch.drop_columns(["tenant"]))


def test_small_groups_fall_back(fitted: ordercal.GroupedModel) -> None:
    scores, labels, group = made(3, 200, 5)
    keep = (group < 2) | (np.arange(len(group)) % 200 < 10)
    country = np.where(group == 1, "b", "a")
    columns = {"country": country[keep], "tenant": group[keep]}
    model = ordercal.fit_groups(scores[keep], labels[keep], columns, method="ts")
    fallback = {tuple(g["key"]): g["fallback"] for g in model.report_.groups}
    assert fallback["a", "2"] in ([], ["a"]) and fallback["b",] != ["b"]
    assert np.array_equal(
        model.predict_proba(scores[:9], {"country": ["a"] * 9, "tenant": [2] * 9}),
        model.model("a").predict_proba(scores[:9]),
    )
    for groups, said in [(group[:5], "5 groups"), (np.zeros((600, 3)), "3 columns")]:
        with pytest.raises(OrdercalError, match=said):
            model.predict_proba(scores, groups)
    with pytest.raises(OrdercalError, match="no column 'region'"):
        ordercal.fit_groups(scores, labels, {"tenant": group}, by=["region"])


def test_soft_labels_are_refused() -> None:
    scores, labels, group = made(2, 60, 4)
    with pytest.raises(OrdercalError, match="one label per row is needed"):
        ordercal.fit_groups(scores, np.eye(4)[labels], {"tenant": group}, method="ts")
