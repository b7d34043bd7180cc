"""SQL on calibrated probabilities: DuckDB's rows go through the calibrator as a stream of Arrow batches."""

from __future__ import annotations

import duckdb
import numpy as np
import ordercal
import pyarrow as pa


def run() -> list[tuple[object, ...]]:
    """How many rows of each confidence there are."""
    rng = np.random.default_rng(0)
    logits = (3.0 * rng.normal(size=(2000, 4))).astype(np.float32)
    labels = (logits + rng.gumbel(size=logits.shape) * 3.0).argmax(axis=1)
    calibrator = ordercal.TemperatureScaling().fit(logits[:1000], labels[:1000])

    connection = duckdb.connect()
    connection.sql("create table scored (id integer, logits float[4])")
    rows = pa.table({"id": np.arange(1000), "logits": pa.FixedSizeListArray.from_arrays(logits[1000:].reshape(-1), 4)})
    connection.register("new", rows)
    connection.sql("insert into scored select * from new")

    # A cursor of its own: a connection runs one query at a time, and this one is read while the next runs.
    scored = pa.RecordBatchReader.from_stream(connection.cursor().sql("from scored"))
    calibrated = calibrator.apply_arrow(scored)  # nothing is computed before it is read
    connection.register("calibrated", calibrated)
    query = "select round(list_max(probs::float[]), 1) as confidence, count(*) from calibrated group by 1 order by 1"
    return connection.sql(query).fetchall()


if __name__ == "__main__":
    for row in run():
        print(row)
