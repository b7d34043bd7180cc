"""Data that the tests share."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[2]


class Split(NamedTuple):
    """Scores and labels."""

    scores: NDArray[np.float32]
    labels: NDArray[np.int64]


def overconfident(rows: int, classes: int, seed: int) -> Split:
    """Logits that are three times too sure of themselves."""
    rng = np.random.default_rng(seed)
    honest = rng.normal(size=(rows, classes)) * 1.5
    chances = np.exp(honest - honest.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    labels = (chances.cumsum(axis=1) > rng.random((rows, 1))).argmax(axis=1)
    return Split((honest * 3.0).astype(np.float32), labels.astype(np.int64))


@pytest.fixture(scope="session")
def calib() -> Split:
    """Rows to fit."""
    return overconfident(800, 5, 1)


@pytest.fixture(scope="session")
def test() -> Split:
    """Rows to measure."""
    return overconfident(600, 5, 2)


@pytest.fixture(scope="session")
def letters() -> dict[str, NDArray[np.generic]]:
    """Held-out logits of a real classifier of letters."""
    with np.load(ROOT / "crates/ordercal-cli/demo" / "letters.npz") as bundle:
        return {name: bundle[name] for name in bundle}
