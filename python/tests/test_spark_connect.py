"""Spark Connect: a server in a process of its own, to which only plans and functions go. `cargo xtask spark` runs it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import ordercal
import pytest

pytest.importorskip("pyspark")
pytest.importorskip("grpc")
pa = pytest.importorskip("pyarrow")

from ordercal import spark as oc  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    found = SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    assert not hasattr(found, "_jsparkSession"), "not a session of Spark Connect"
    yield found
    found.stop()


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    rng = np.random.default_rng(1)
    group = rng.integers(4, size=4000)
    honest = 1.5 * rng.normal(size=(4000, 3))
    labels = (honest + rng.gumbel(size=honest.shape)).argmax(axis=1)
    return {"scores": (honest * (1.0 + group[:, None])).astype(np.float32), "labels": labels, "group": group}


@pytest.fixture(scope="module")
def df(session: Any, data: dict[str, Any]) -> Any:
    columns = {
        "id": np.arange(4000),
        "logits": pa.array(list(data["scores"])),
        "label": data["labels"],
        "group": data["group"],
    }
    return session.createDataFrame(pa.table(columns)).repartition(5)


def in_order(df: Any) -> Any:
    return np.array(df.select("id", "probs").toArrow().sort_by("id")["probs"].to_pylist(), dtype=np.float32)


def test_apply_and_evaluate(df: Any, data: dict[str, Any]) -> None:
    model = ordercal.TemperatureScaling().fit(data["scores"], data["labels"])
    assert np.array_equal(in_order(oc.apply(df, model)), model.predict_proba(data["scores"]))
    expected = ordercal.MetricState(3)
    expected.update(data["scores"], data["labels"])
    assert oc.evaluate(df).state == expected
    assert list(oc.evaluate(df, by="group")) == [(0,), (1,), (2,), (3,)]


def test_fit_and_fit_groups(df: Any, data: dict[str, Any]) -> None:
    alone = ordercal.TemperatureScaling().fit(data["scores"], data["labels"])
    found = oc.fit(df, "ts")
    assert found.parameters_["beta"] == pytest.approx(alone.parameters_["beta"], rel=1e-9)
    groups = oc.fit_groups(df, "group", method="ts", id="id")
    assert {group["weight"] > 0 for group in groups.report_.groups} == {True}
    assert oc.groups_table(df.sparkSession, groups).count() == 4
    assert np.array_equal(in_order(oc.apply(df, groups)), groups.predict_proba(data["scores"], data["group"]))
