"""Promised against seen: thresholds and prediction sets, learned on calibration rows and tried on test rows.

    python benchmarks/decisions.py DIR [--method auto] > table.md

DIR holds .npz bundles with `calib_logits`, `calib_labels`, `test_logits` and `test_labels`. The calibrator is fitted to one half
of the calibration rows, drawn at random, and decisions are learned on the other: the promise needs rows that nothing was
fitted to. `!` marks what is worse than promised by more than chance explains, one-sided at 5 %: the draw of the test rows for an
error (exact binomial test), that of the learned from and of the test rows for a coverage (normal approximation).
"""

from __future__ import annotations

import argparse
from math import exp, lgamma, log, log1p
from pathlib import Path

import numpy as np
import ordercal

MAX_ERROR, CONFIDENCE, COVERAGE = 0.02, 0.95, 0.9


def at_least(k: int, n: int, p: float) -> float:
    """P(X >= k) for X ~ Binomial(n, p)."""
    terms = (lgamma(n + 1) - lgamma(i + 1) - lgamma(n - i + 1) + i * log(p) + (n - i) * log1p(-p) for i in range(k, n + 1))
    return sum(map(exp, terms))


def too_many(wrong: int, rows: int) -> str:
    return " !" if rows and at_least(wrong, rows, MAX_ERROR) < 0.05 else ""


def too_low(coverage: float, learned: int, rows: int) -> str:
    deviation = (COVERAGE * (1 - COVERAGE) * (1 / learned + 1 / rows)) ** 0.5
    return " !" if coverage < COVERAGE - 1.645 * deviation else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--method", default="auto")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    print("| set | threshold | error bound | error on test | coverage on test | LAC: coverage, size | APS: coverage, size |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for path in sorted(args.folder.glob("*.npz")):
        with np.load(path) as bundle:
            calib, labels, test, test_labels = (bundle[f"{s}_{a}"] for s in ("calib", "test") for a in ("logits", "labels"))
        order = np.random.default_rng(args.seed).permutation(len(calib))
        fit, learn = order[: len(calib) // 2], order[len(calib) // 2 :]
        model = ordercal.calibrator(args.method).fit(calib[fit], labels[fit], verbose=False)
        held, new = (model.predict_proba(x, dtype=np.float64) for x in (calib[learn], test))
        found = ordercal.threshold(held, labels[learn], max_error=MAX_ERROR, confidence=CONFIDENCE, kind="probs")
        taken = new.max(axis=1) >= found.threshold
        wrong = int((new.argmax(axis=1) != test_labels)[taken].sum())
        if found.promised:
            seen = f"{wrong / max(taken.sum(), 1):.2%}{too_many(wrong, int(taken.sum()))}"
            cells = [f"{found.threshold:.4f}", f"{found.error_bound:.2%}", seen, f"{taken.mean():.1%}"]
        else:
            cells = ["none", "", "", "0%"]
        for method in ("lac", "aps"):
            sets = ordercal.prediction_sets(held, labels[learn], coverage=COVERAGE, method=method, kind="probs")
            report = sets.evaluate(new, test_labels)
            low = too_low(report.coverage, len(learn), len(new))
            cells.append(f"{report.coverage:.1%}{low}, {report.mean_size:.2f}")
        print(f"| {path.stem} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
