"""Dask: metrics of partitions, computed where they are and merged; the result is that of all rows at once."""

from __future__ import annotations

import dask
import numpy as np
import ordercal


def run(partitions: int = 8) -> tuple[ordercal.MetricState, ordercal.MetricState]:
    """The state of all partitions together, and that of all rows at once."""
    rng = np.random.default_rng(0)
    logits = (3.0 * rng.normal(size=(4000, 4))).astype(np.float32)
    labels = (logits + rng.gumbel(size=logits.shape) * 3.0).argmax(axis=1)
    calibrator = ordercal.TemperatureScaling().fit(logits, labels)

    @dask.delayed
    def measure(scores: np.ndarray, truth: np.ndarray) -> ordercal.MetricState:
        return ordercal.MetricState(4).update(calibrator.predict_proba(scores), truth, kind="probs")

    parts = zip(np.array_split(logits, partitions), np.array_split(labels, partitions), strict=True)
    states = [measure(scores, truth) for scores, truth in parts]
    found = dask.delayed(sum)(states).compute()
    whole = ordercal.MetricState(4).update(calibrator.predict_proba(logits), labels, kind="probs")
    return found, whole


if __name__ == "__main__":
    found, whole = run()
    assert found == whole
    print({key: round(value, 4) for key, value in found.finalize().items()})
