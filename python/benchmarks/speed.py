"""What the Python call costs, and how fast probabilities come.

    python benchmarks/speed.py

1. A fit of 5000×100: the whole call against what the library itself took for it.
2. `predict_proba` of 1,000,000×10 32-bit floats against numpy's softmax of the same matrix.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import ordercal


def best(call: Callable[[], object], repeats: int = 7) -> float:
    """The shortest of several runs."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def softmax(logits: np.ndarray) -> np.ndarray:
    """As it is written everywhere."""
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)


def main() -> None:
    """Prints both tables."""
    rng = np.random.default_rng(0)
    scores = (rng.normal(size=(5000, 100)) * 4).astype(np.float32)
    labels = np.where(rng.random(5000) < 0.7, scores.argmax(axis=1), rng.integers(0, 100, 5000))
    print("fit of 5000×100      call, s   library, s   added")
    for key in ("ts", "diag", "svs", "oi"):
        est = ordercal.calibrator(key)
        whole, inside = [], []
        for _ in range(50 if key in ("ts", "svs") else 5):
            start = time.perf_counter()
            est.fit(scores, labels)
            whole.append(time.perf_counter() - start)
            inside.append(est.model_.fit_seconds or 0.0)
        # Medians: on a busy machine a thread may wait a few milliseconds for its turn.
        call, library = float(np.median(whole)), float(np.median(inside))
        added = float(np.median(np.subtract(whole, inside))) / library
        print(f"{key:18} {call:9.4f} {library:12.4f} {added:7.2%}")

    logits = (rng.normal(size=(1_000_000, 10)) * 4).astype(np.float32)
    plain = best(lambda: softmax(logits))
    print(f"\n1,000,000×10             seconds   against softmax\nnumpy softmax        {plain:10.4f}")
    for key in ("ts", "diag"):
        est = ordercal.calibrator(key).fit(scores[:, :10], labels % 10)
        seconds = best(lambda est=est: est.predict_proba(logits))
        print(f"{key:20} {seconds:10.4f} {seconds / plain:10.2f}")


if __name__ == "__main__":
    main()
