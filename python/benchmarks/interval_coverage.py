"""How often do 95 % intervals contain the value of a metric on the population?

`python benchmarks/interval_coverage.py [SAMPLES] [RESAMPLES] [ROWS…]` prints what docs/intervals.md sums up.

Logits are normal with standard deviation 2, and a label is drawn from the softmax of β times its row: β = 1 is perfect
calibration, β < 1 is overconfidence. The population's value is that of 100,000 rows, each there once for every class with
the class's true probability as its weight, so that no chance of labels is left in it.
"""

from __future__ import annotations

import sys

import numpy as np
import ordercal
from numpy.typing import NDArray

CLASSES = 5
BETAS = (1.0, 0.9, 0.75, 0.5)


def softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    found = np.exp(logits - logits.max(axis=1, keepdims=True))
    return found / found.sum(axis=1, keepdims=True)


def population(beta: float) -> dict[str, float]:
    logits = np.random.default_rng(7).normal(size=(100_000, CLASSES)) * 2
    probs, truth = softmax(logits), softmax(beta * logits)
    each = np.repeat(probs, CLASSES, axis=0)
    labels = np.tile(np.arange(CLASSES), len(logits))
    return ordercal.evaluate(each, labels, kind="probs", sample_weight=truth.reshape(-1))


def main(samples: int = 300, resamples: int = 200, *sizes: int) -> None:
    keys = list(population(1.0))
    print("| metric | rows | β | population | mean value | contains it | too high | too low | mean width |")
    print("|---|---|---|---|---|---|---|---|---|")
    for rows in sizes or (500, 2000, 10_000):
        for beta in BETAS:
            true = population(beta)
            ends = np.empty((samples, len(keys), 3))
            for sample in range(samples):
                rng = np.random.default_rng((sample, rows, round(100 * beta)))
                logits = rng.normal(size=(rows, CLASSES)) * 2
                labels = (softmax(beta * logits).cumsum(axis=1) > rng.random((rows, 1))).argmax(axis=1)
                found = ordercal.evaluate(logits, labels, bootstrap=resamples, seed=sample)
                ends[sample] = [(*found.interval[key], found[key]) for key in keys]
            low, high, value = ends.transpose(2, 1, 0)
            assert ((low <= value) & (value <= high)).all(), "an interval without its own value"
            for place, key in enumerate(keys):
                above = (low[place] > true[key] + 1e-7).mean()
                below = (high[place] < true[key] - 1e-7).mean()
                width = (high[place] - low[place]).mean()
                print(
                    f"| {key} | {rows} | {beta} | {true[key]:.4f} | {value[place].mean():.4f} | "
                    f"{1 - above - below:.1%} | {above:.1%} | {below:.1%} | {width:.4f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
