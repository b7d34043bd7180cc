"""`ordercal.spark` on a cluster of two executors: speed beside a pandas_udf, exactness and memory of evaluate, and groups.

    target/python/venv-spark/bin/python python/benchmarks/on_spark.py [--rows 20000000] [--groups 1000] > table.md

After `cargo xtask spark`, which installs what is needed. Rows are made by Spark and kept as Parquet files in a folder that is
removed at the end (50 bytes a row). Compare numbers of one run only.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import ordercal
import pandas as pd
import pyarrow as pa
import pyarrow.dataset
from ordercal import spark as oc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

CLASSES = 10


def made(rows: int, seed: int, factor: float = 2.0) -> tuple[Any, Any]:
    """Logits that are too large by a factor, and labels."""
    rng = np.random.default_rng(seed)
    honest = 1.5 * rng.standard_normal((rows, CLASSES), dtype=np.float32)
    # The largest of the logits with Gumbel noise is a draw from their softmax.
    labels = (honest + rng.gumbel(size=honest.shape)).argmax(axis=1)
    return (np.float32(factor) * honest), labels


def batch(ids: Any, scores: Any, labels: Any, **more: Any) -> pa.RecordBatch:
    offsets = pa.array(np.arange(0, scores.size + 1, CLASSES, dtype=np.int32))
    lists = pa.ListArray.from_arrays(offsets, pa.array(scores.reshape(-1)))
    return pa.RecordBatch.from_pydict({"id": ids, "logits": lists, "label": labels, **more})


def make_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for given in batches:
        ids = given["id"].to_numpy()
        yield batch(ids, *made(len(ids), int(ids[0])))


def make_groups(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for given in batches:
        for group in given["id"].to_pylist():
            size = int(np.random.default_rng(group).integers(500, 5001))
            scores, labels = made(size, 10_000 + group, factor_of(group))
            ids = np.arange(size, dtype=np.int64) + 10_000 * group
            yield batch(ids, scores, labels, group=np.full(size, group))


def factor_of(group: int) -> float:
    return float(2.0 * np.exp(0.1 * np.random.default_rng([7, group]).normal()))


def softmax(column: pd.Series) -> pd.Series:
    """What one would write without ordercal."""
    scores = np.stack(column.to_numpy())
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return pd.Series(list(powers / powers.sum(axis=1, keepdims=True)))


def seconds_of(job: Callable[[], Any]) -> float:
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def run(df: DataFrame) -> None:
    df.write.format("noop").mode("overwrite").save()


class Memory:
    """The peak of the resident memory of executors with their Python workers, and of the workers alone, in bytes."""

    def __init__(self) -> None:
        self.peak, self.workers = 0, 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.5):
            listing = subprocess.run(["ps", "-eww", "-o", "pid,ppid,rss,args"], capture_output=True, text=True, check=True)
            rows = [line.split(None, 3) for line in listing.stdout.splitlines()[1:]]
            children: dict[str, list[str]] = {}
            for pid, parent, *_ in rows:
                children.setdefault(parent, []).append(pid)
            size = {pid: 1024 * int(rss) for pid, _, rss, _ in rows}

            def below(pid: str) -> int:
                return sum(size[child] + below(child) for child in children.get(pid, []))

            for pid, _, _, args in rows:
                # Of this run: other sessions have another driver.
                if "CoarseGrainedExecutorBackend" in args and self.driver in args and args.startswith("/"):
                    self.workers = max(self.workers, below(pid))
                    self.peak = max(self.peak, size[pid] + below(pid))

    driver = ""


def speed(df: DataFrame, rows: int) -> None:
    scores, labels = made(5000, 1)
    models = {key: ordercal.calibrator(key).fit(scores, labels, verbose=False) for key in ("ts", "diag", "auto")}
    jobs = {
        "rows through `mapInArrow` as they are": df.mapInArrow(lambda batches: batches, df.schema),
        "`pandas_udf` with numpy's softmax": df.withColumn("probs", F.pandas_udf(softmax, "array<float>")("logits")),
        **{f"`spark.apply`, `{key}`": oc.apply(df, model) for key, model in models.items()},
    }
    many = np.tile(scores, (200, 1))
    bare = {}
    for key, model in models.items():
        model.predict_proba(many[:1000])
        best = min(seconds_of(lambda model=model: model.predict_proba(many)) for _ in range(3))
        bare[f"`spark.apply`, `{key}`"] = rows / len(many) * best
    run(jobs["`pandas_udf` with numpy's softmax"].limit(1000))
    print(f"| job on {rows:,} rows of {CLASSES} classes | s | rows/s | the library call alone, s |")
    print("|---|---|---|---|", flush=True)
    for name, job in jobs.items():
        taken = seconds_of(lambda job=job: run(job))
        alone = f"{bare[name]:.1f}" if name in bare else ""
        print(f"| {name} | {taken:.1f} | {rows / taken:,.0f} | {alone} |", flush=True)


def evaluation(df: DataFrame, folder: str) -> None:
    with Memory() as memory:
        found: list[Any] = []
        taken = seconds_of(lambda: found.append(oc.evaluate(df)))
    alone = ordercal.MetricState(CLASSES)
    alone_taken = seconds_of(lambda: alone.update_arrow(pa.dataset.dataset(folder).scanner().to_reader(), "logits"))
    assert found[0].state == alone, "not the state of one machine"
    print(f"\n`spark.evaluate`: {found[0].n:,} rows in {taken:.1f} s, NLL {found[0]['nll']:.6f}, ECE {found[0]['ece']:.6f}.")
    print(f"The state is that of one machine (`update_arrow` in {alone_taken:.1f} s), bit by bit.")
    peak, workers = memory.peak / 1e6, memory.workers / 1e6
    print(f"Peak memory of an executor with its Python workers: {peak:.0f} MB, of the workers alone {workers:.0f} MB.", flush=True)


def groups(session: SparkSession, count: int) -> None:
    schema = "id long, logits array<float>, label long, group long"
    df = session.range(count, numPartitions=8).mapInArrow(make_groups, schema).cache()
    rows = df.count()
    found: list[Any] = []
    taken = seconds_of(lambda: found.append(oc.fit_groups(df, "group", method="ts", id="id", max_rows=rows)))
    model = found[0]
    table = df.toArrow().sort_by([("group", "ascending"), ("id", "ascending")])
    group_of = table["group"].to_numpy()
    scores = np.asarray(table["logits"].combine_chunks().flatten()).reshape(-1, CLASSES)
    labels = table["label"].to_numpy()
    sums = np.zeros(3)
    for group in range(count):
        mine = slice(*np.searchsorted(group_of, [group, group + 1]))
        own = ordercal.TemperatureScaling().fit(scores[mine], labels[mine])
        new, truth = made(1000, 1_000_000 + group, factor_of(group))
        models = (model.model(), own, model.model(group))
        for place, one in enumerate(models):
            probs = one.predict_proba(new, dtype="float64")
            sums[place] -= np.log(probs[np.arange(len(truth)), truth]).mean() / count
    pooled, separate, shrunk = sums
    print(f"\n`spark.fit_groups`, {count:,} groups of 500 to 5,000 rows, {rows:,} in all: {taken:.1f} s.")
    print("\n| NLL of 1,000 new rows of each group | |\n|---|---|")
    print(f"| one model for all | {pooled:.6f} |\n| a model for each group alone | {separate:.6f} |")
    print(f"| `fit_groups`, m = {model.report_.shrinkage[0]:.0f} rows | {shrunk:.6f} |", flush=True)
    assert shrunk < min(pooled, separate), "shrinkage does not pay"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--partitions", type=int, default=40)
    args = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.executor.memory": "512m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.driver.maxResultSize": "2g",
        "spark.sql.shuffle.partitions": "16",
    }
    builder = SparkSession.builder.master("local-cluster[2,1,1024]").appName("ordercal")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    Memory.driver = f":{session.conf.get('spark.driver.port')}"
    with tempfile.TemporaryDirectory() as folder:
        rows = session.range(args.rows, numPartitions=args.partitions)
        rows.mapInArrow(make_rows, "id long, logits array<float>, label long").write.parquet(f"{folder}/rows")
        df = session.read.parquet(f"{folder}/rows")
        speed(df, args.rows)
        evaluation(df, f"{folder}/rows")
        groups(session, args.groups)
    session.stop()


if __name__ == "__main__":
    main()
