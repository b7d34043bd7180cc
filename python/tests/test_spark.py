"""Spark on a cluster of two executors, each a process of its own. Without pyspark, which brings 0.4 GB, nothing here runs:
`cargo xtask spark` installs it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import ordercal
import pytest

pytest.importorskip("pyspark")
pa = pytest.importorskip("pyarrow")

from ordercal import spark as oc  # noqa: E402
from pyspark import TaskContext  # noqa: E402
from pyspark.errors import PythonException  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402
from pyspark.sql import functions as F  # noqa: E402


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master("local-cluster[2,1,1024]").appName("ordercal")
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "700",
        "spark.executor.heartbeatInterval": "5s",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    found = builder.getOrCreate()
    found.sparkContext.setLogLevel("OFF")
    yield found
    found.stop()


def made(rows: int, seed: int = 1, groups: int = 4) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    group = rng.integers(groups, size=rows)
    honest = 1.5 * rng.normal(size=(rows, 3))
    chances = np.exp(honest)
    chances /= chances.sum(axis=1, keepdims=True)
    labels = (chances.cumsum(axis=1) > rng.random((rows, 1))).argmax(axis=1)
    scores = (honest * (1.0 + group[:, None])).astype(np.float32)
    weights = rng.integers(1, 4, size=rows).astype(np.float64)
    return {"scores": scores, "labels": labels, "group": group, "weights": weights}


def frame(session: SparkSession, data: dict[str, Any], partitions: int = 6) -> Any:
    flat = pa.array(data["scores"].reshape(-1))
    offsets = np.arange(0, flat.__len__() + 1, data["scores"].shape[1], dtype=np.int32)
    columns = {
        "id": np.arange(len(data["labels"])),
        "logits": pa.ListArray.from_arrays(pa.array(offsets), flat),
        "label": data["labels"],
        "group": data["group"],
        "weight": data["weights"],
        **({"part": data["part"]} if "part" in data else {}),
    }
    # One partition has most of the rows, one is empty.
    df = session.createDataFrame(pa.table(columns))
    place = F.when(F.col("id") % 10 < 7, F.lit(0)).otherwise((F.col("id") % (partitions - 1)).cast("int"))
    return df.repartitionByRange(partitions, place)


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    return made(20_000)


@pytest.fixture(scope="module")
def model(data: dict[str, Any]) -> ordercal.Calibrator:
    return ordercal.TemperatureScaling().fit(data["scores"], data["labels"])


def in_order(df: Any, column: str = "probs") -> Any:
    table = df.select("id", column).toArrow().sort_by("id")
    return np.array(table[column].to_pylist(), dtype=np.float32)


def test_apply_gives_what_arrays_give(session: SparkSession, data: dict[str, Any], model: ordercal.Calibrator) -> None:
    df = frame(session, data)
    stamped = df.withColumn("time", F.current_timestamp())
    found = oc.apply(stamped, model)
    assert found.columns == [*df.columns, "time", "probs"] and found.schema["time"] == stamped.schema["time"]
    assert np.array_equal(in_order(found), model.predict_proba(data["scores"]))
    wide = df.select("id", *(F.col("logits")[k].alias(f"logit_{k}") for k in range(3)))
    found = oc.apply(wide, model, "logit_*", "logits", name="calibrated_")
    columns = found.select("id", "calibrated_0", "calibrated_1", "calibrated_2").toArrow().sort_by("id")
    expected = model.predict_logits(data["scores"])
    assert np.array_equal(np.column_stack([columns[f"calibrated_{k}"] for k in range(3)]), expected)


def test_evaluate_is_exact_however_rows_are_divided(session: SparkSession, data: dict[str, Any]) -> None:
    scores, labels, weights = data["scores"], data["labels"], data["weights"]
    expected = ordercal.MetricState(3).update(scores, labels, sample_weight=weights)
    alone = ordercal.evaluate(scores, labels, sample_weight=weights)
    for partitions in (2, 40):
        found = oc.evaluate(frame(session, data, partitions), weights="weight")
        assert found.state == expected and found.n == len(labels)
        for key in ("nll", "brier", "accuracy", "ece", "classwise_ece"):
            assert found[key] == pytest.approx(alone[key], rel=1e-12)
    dated = frame(session, data, 3).withColumn("day", F.date_add(F.lit("2026-01-01"), F.col("group").cast("int")))
    assert ("2026-01-03",) in oc.evaluate(dated, by="day")
    groups = oc.evaluate(frame(session, data, 40), by=["group"])
    assert list(groups) == [(0,), (1,), (2,), (3,)]
    for (group,), found in groups.items():
        rows = data["group"] == group
        assert found.state == ordercal.MetricState(3).update(scores[rows], labels[rows])


def test_fit_does_not_depend_on_partitions(session: SparkSession, data: dict[str, Any], model: ordercal.Calibrator) -> None:
    one = oc.fit(frame(session, data, 2), "ts")
    assert one.parameters_["beta"] == pytest.approx(model.parameters_["beta"], rel=1e-6)
    with pytest.warns(UserWarning, match="of 20000 rows"):
        sample = oc.fit(frame(session, data, 3), "ts", max_rows=5000)
    with pytest.warns(UserWarning):
        again = oc.fit(frame(session, data, 9), "ts", max_rows=5000)
    assert sample.parameters_["beta"] == again.parameters_["beta"] != one.parameters_["beta"]
    assert sample.parameters_["beta"] == pytest.approx(one.parameters_["beta"], rel=0.05)
    assert "sample" in sample.report_.notes[-1]


def test_a_sample_takes_rare_classes_whole(session: SparkSession) -> None:
    rng = np.random.default_rng(5)
    scores = rng.normal(size=(30_000, 3)).astype(np.float32)
    labels = np.where(np.arange(30_000) < 200, 2, np.arange(30_000) % 2)
    rows = {"scores": scores, "labels": labels, "group": labels * 0, "weights": np.ones(30_000)}
    table, said = oc._collect(frame(session, rows), ["logits"], "label", None, "id", 3000, 1357)
    taken = np.asarray(table["label"].to_pylist())
    assert (taken == 2).sum() == 200 and abs(len(taken) - 3000) < 200 and said is not None
    weights = table["__ordercal_weight"].to_numpy()
    for label in range(3):
        assert weights[taken == label].sum() == pytest.approx((labels == label).sum())


def folds_of(df: Any, rows: int) -> tuple[Any, Any]:
    """The order of the rows by their hashes, and the fold of each row, as Spark has them."""
    found = df.select("id", oc._hash(oc.SEED, ["id"]).alias("hash")).toArrow().sort_by("id")
    hashes = found["hash"].to_numpy()
    assert len(hashes) == rows
    return np.argsort(hashes, kind="stable"), hashes % 5


def test_groups_are_those_of_one_machine(session: SparkSession, data: dict[str, Any], tmp_path: Path) -> None:
    # Two levels: the group 0 has a part that is too small, and the group 99 is too small itself.
    few = {name: np.concatenate([values, values[:37]]) for name, values in data.items()}
    part = np.arange(len(few["labels"])) % 3
    few["group"][-7:] = 99
    zero = np.flatnonzero(few["group"] == 0)
    part[zero[:11]] = 7
    df = frame(session, {**few, "part": part})
    found = oc.fit_groups(df, ["group", "part"], method="ts", weights="weight", id="id")
    order, fold_of = folds_of(df, len(part))
    alone = ordercal.fit_groups(
        few["scores"][order],
        few["labels"][order],
        {"group": few["group"][order], "part": part[order]},
        method="ts",
        sample_weight=few["weights"][order],
        folds=fold_of[order],
    )
    keys = np.column_stack([few["group"], part])
    expected = alone.predict_proba(few["scores"], keys, dtype="float64")
    assert np.abs(found.predict_proba(few["scores"], keys, dtype="float64") - expected).max() < 1e-9
    assert found.report_.shrinkage == alone.report_.shrinkage and len(found.report_.shrinkage) == 2
    for name in ("nll_pooled", "nll_separate", "nll_after"):
        assert getattr(found.report_, name) == pytest.approx(getattr(alone.report_, name), rel=1e-9)
    fallbacks = {tuple(group["key"]): group["fallback"] for group in found.report_.groups}
    assert fallbacks == {tuple(group["key"]): group["fallback"] for group in alone.report_.groups}
    assert fallbacks["0", "7"] == ["0"] and fallbacks["99",] == [] and fallbacks["1",] is None
    table = {(row["group"], row["part"]): row for row in oc.groups_table(session, found).collect()}
    assert table["0", "7"]["note"] == "too few rows: that of 0" and table["0", "7"]["rows"] == 11
    assert table["99", None]["note"] == "too few rows: that of all rows"
    assert table["1", "1"]["note"] == "its own map, mixed with that of 1"
    found.save(tmp_path / "groups.safetensors")
    again = ordercal.GroupedModel.load(tmp_path / "groups.safetensors")
    assert np.array_equal(in_order(oc.apply(df, again)), found.predict_proba(few["scores"], keys))


def test_groups_and_fits_of_skewed_partitions(session: SparkSession, data: dict[str, Any]) -> None:
    few = {name: values[:3000] for name, values in data.items()}
    df = frame(session, few, 12)
    sizes = [row[1] for row in df.groupBy(F.spark_partition_id()).count().collect()]
    # One partition has most rows, and some of the twelve have none.
    assert max(sizes) > 0.6 * sum(sizes) and len(sizes) < 12
    probs = in_order(oc.apply(df, ordercal.TemperatureScaling().fit(few["scores"], few["labels"])))
    assert len(probs) == 3000
    even, skewed = (
        oc.fit_groups(rows, "group", method="ts", id="id").to_bytes() for rows in (df.repartition(3), df)
    )
    assert even == skewed
    with pytest.raises(ordercal.OrdercalError, match="at least one column"):
        oc.fit_groups(df, [])
    holes = df.withColumn("group", F.when(F.col("id") == 5, None).otherwise(F.col("group")))
    with pytest.raises(PythonException, match="missing value"):
        oc.fit_groups(holes, "group", method="ts")


def test_a_poisoned_partition_is_named_or_left_null(
    session: SparkSession, data: dict[str, Any], model: ordercal.Calibrator
) -> None:
    poisoned = {**data, "scores": data["scores"].copy()}
    poisoned["scores"][1234, 1] = np.nan
    df = frame(session, poisoned)
    with pytest.raises(PythonException, match=r"partition \d+: .*row \d+, column 1"):
        oc.apply(df, model).select(F.sum(F.col("probs")[0])).collect()
    with pytest.raises(PythonException, match=r"partition \d+: .*row \d+, column 1"):
        oc.evaluate(df)
    found = oc.apply(df, model, errors="null").select("id", "probs").toArrow().sort_by("id")
    assert [row for row, p in enumerate(found["probs"].to_pylist()) if p is None] == [1234]


def executors() -> list[int]:
    """The processes of the executors, started by this test's own session."""
    listing = subprocess.run(["ps", "-eww", "-o", "pid,ppid,args"], capture_output=True, text=True, check=True).stdout
    lines = [line.split(None, 2) for line in listing.splitlines()[1:]]
    parents = {int(pid): int(parent) for pid, parent, _ in lines}

    def ours(pid: int) -> bool:
        while pid in parents and pid != os.getpid():
            pid = parents[pid]
        return pid == os.getpid()

    wanted = [int(pid) for pid, _, args in lines if "CoarseGrainedExecutorBackend" in args]
    return [pid for pid in wanted if ours(pid)]


def test_a_killed_executor_changes_nothing(
    session: SparkSession, data: dict[str, Any], model: ordercal.Calibrator, tmp_path: Path
) -> None:
    df = frame(session, data, 8)
    folder = str(tmp_path)

    def slowly(batches: Iterator[Any]) -> Iterator[Any]:
        """Leaves a note of the partition and of the executor, and waits in partition 0 until one was killed."""
        partition = TaskContext.get().partitionId()
        # The parent of this process starts the workers of an executor, and is a child of it.
        executor = subprocess.run(["ps", "-o", "ppid=", "-p", str(os.getppid())], capture_output=True, text=True, check=True)
        Path(folder, f"begun-{partition}-{executor.stdout.strip()}").touch()
        for batch in batches:
            while partition == 0 and not Path(folder, "killed").exists():
                time.sleep(0.05)
            yield batch

    slow = df.mapInArrow(slowly, df.schema)
    found: list[Any] = []
    worker = threading.Thread(target=lambda: found.append(in_order(oc.apply(slow, model))))
    worker.start()
    deadline = time.monotonic() + 120
    while not (begun := list(tmp_path.glob("begun-0-*"))):
        assert worker.is_alive() and time.monotonic() < deadline, "the job never began"
        time.sleep(0.05)
    executor = int(begun[0].name.split("-")[2])
    assert executor in executors() and worker.is_alive() and not found
    os.kill(executor, signal.SIGKILL)
    (tmp_path / "killed").touch()
    worker.join(timeout=180)
    assert found and np.array_equal(found[0], model.predict_proba(data["scores"]))
    # The partition was begun again, by another executor.
    assert len(list(tmp_path.glob("begun-0-*"))) == 2 and executor not in executors()
