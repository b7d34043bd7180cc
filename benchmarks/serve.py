"""What peers.py and calls.py share: how they are asked, and the data.

A request is a line of JSON on standard input, {"work": NAME, "data": FOLDER}; the answer is a line on standard
output, {"seconds": …, "result": …}. FOLDER holds logits.npy (float32, N×K) and labels.npy, and where a fit is
judged on held-out rows also a folder held_out with the same. `result` is the NLL that a fit reached, or the value of
a metric: it shows that both sides solved the same problem.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import numpy as np

#: What is timed, and what is asked of its result afterwards.
Work = tuple[Callable[[], object], Callable[[object], float]]


@cache
def arrays(folder: str) -> tuple[np.ndarray, np.ndarray]:
    """The logits and labels of a folder."""
    labels = np.load(Path(folder) / "labels.npy")
    return np.load(Path(folder) / "logits.npy"), labels.astype(np.int64)


def mean_nll(probs: object, labels: np.ndarray) -> float:
    """The NLL of predicted probabilities."""
    picked = np.asarray(probs)[np.arange(len(labels)), labels]
    return float(-np.log(picked.astype(np.float64)).mean())


def serve(works: Mapping[str, Callable[[str], Work]]) -> None:
    """Answers requests until there are no more."""
    warnings.filterwarnings("ignore")

    @cache
    def prepared(work: str, folder: str) -> Work:
        return works[work](folder)

    # What a library prints must not end up between the answers.
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        request = json.loads(line)
        run, result_of = prepared(request["work"], request["data"])
        start = time.perf_counter()
        found = run()
        seconds = time.perf_counter() - start
        result = result_of(found) if request.get("result") else None
        if result != result:  # JSON has no NaN.
            result = None
        print(json.dumps({"seconds": seconds, "result": result}), file=answers, flush=True)
