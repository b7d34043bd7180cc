"""The k best scores with the mass of the rest, beside all scores: NLL of the k + 1 outcomes, and ECE, on test rows.

    python benchmarks/top_k.py DIR [--only cifar100] [-k 10 20] > table.md

DIR holds .npz bundles with `calib_logits`, `calib_labels`, `test_logits` and `test_labels`. "all" is `auto` on the scores of all
classes, collapsed to the same outcomes.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import ordercal


def collapsed(log_probs: Any, ids: Any) -> ordercal.TopScores:
    listed = np.take_along_axis(log_probs, ids, axis=1)
    return ordercal.TopScores(ids, listed, np.log(np.maximum(1.0 - np.exp(listed).sum(axis=1), 1e-300)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("-k", type=int, nargs="+", default=[10, 20])
    args = parser.parse_args()
    names = ["as it is", "`auto`, all", "`TopK(classes=K)`", "`TopK()`"]
    print(f"| set | k | label not listed | {' | '.join(f'{name}: NLL, ECE' for name in names)} | `TopK(classes=K)` against all |")
    print("|---|---|---|" + "---|" * 5, flush=True)
    for path in sorted(args.folder.glob(f"*{args.only}*.npz")):
        with np.load(path) as bundle:
            calib, labels, test, test_labels = (bundle[f"{s}_{a}"] for s in ("calib", "test") for a in ("logits", "labels"))
        classes = calib.shape[1]
        full = ordercal.Auto().fit(calib, labels, verbose=False).predict_log_proba(test, dtype=np.float64)
        for k in args.k:
            if k >= classes:
                continue
            top, new = (ordercal.TopScores.of_dense(x, k) for x in (calib, test))
            results = [new, collapsed(full, new.ids)]
            for method in (ordercal.TopK(classes=classes), ordercal.TopK()):
                results.append(method.fit(top, labels, verbose=False).apply(new))
            found = [one.evaluate(test_labels, metrics=["nll", "ece"]) for one in results]
            cells = [f"{one['nll']:.4f}, {one['ece']:.4f}" for one in found]
            outside = (new.places(test_labels) == k).mean()
            change = found[2]["nll"] / found[1]["nll"] - 1.0
            print(f"| {path.stem} | {k} | {outside:.1%} | {' | '.join(cells)} | {change:+.2%} |", flush=True)


if __name__ == "__main__":
    main()
