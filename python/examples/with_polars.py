"""Calibrated probabilities as a column of a lazy Polars query: batches go through Arrow, without a copy."""

from __future__ import annotations

import numpy as np
import ordercal
import polars as pl


def calibrate(frame: pl.LazyFrame, calibrator: ordercal.Calibrator) -> pl.LazyFrame:
    """The query with a column `probs`."""
    schema = frame.collect_schema()
    schema["probs"] = pl.Array(pl.Float32, calibrator.n_features_in_)
    return frame.map_batches(calibrator.apply_arrow, schema=schema)


def run() -> pl.DataFrame:
    """A small query."""
    rng = np.random.default_rng(0)
    logits = (3.0 * rng.normal(size=(2000, 4))).astype(np.float32)
    labels = (logits + rng.gumbel(size=logits.shape) * 3.0).argmax(axis=1)
    calibrator = ordercal.TemperatureScaling().fit(logits[:1000], labels[:1000])
    frame = pl.DataFrame({"id": np.arange(1000), "logits": logits[1000:]}).lazy()
    confident = calibrate(frame, calibrator).filter(pl.col("probs").arr.max() > 0.5)
    return confident.select("id", pl.col("probs").arr.max().alias("confidence")).collect()


if __name__ == "__main__":
    print(run())
