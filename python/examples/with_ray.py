"""Ray Data: calibrated probabilities by `map_batches` on Arrow tables. Needs `pip install "ray[data]"`; run by hand with Ray 2.60,
not in the tests."""

from __future__ import annotations

import ordercal
import ray


class Calibrate:
    """The model is read once by each worker."""

    def __init__(self, path: str) -> None:
        self.calibrator = ordercal.load(path)

    def __call__(self, table: object) -> object:
        return self.calibrator.apply_arrow(table, "logits")


def run(source: str, model: str, target: str) -> None:
    """Reads Parquet files with a column `logits`, and writes them with `probs`."""
    rows = ray.data.read_parquet(source)
    # A worker takes a processor, and one has to be left for writing: otherwise Ray waits for ever.
    workers = ray.data.ActorPoolStrategy(size=1)
    rows = rows.map_batches(Calibrate, fn_constructor_args=(model,), batch_format="pyarrow", compute=workers)
    rows.write_parquet(target)
