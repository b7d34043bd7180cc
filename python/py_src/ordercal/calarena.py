"""Every method as CalArena, the benchmark of calibrators, calls it; and its files, as `ordercal.compare` reads them.

In CalArena's `custom_calibrators.py`:

    from ordercal.calarena import CALIBRATORS as CUSTOM_CALIBRATORS
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from ._calibrator import Calibrator, calibrator
from ._errors import OrdercalError
from ._inputs import as_array
from ._types import MethodKey

#: The arrays of an experiment, in the order of `ordercal.compare`.
ARRAYS = ("probas_cal", "labels_cal", "probas_test", "labels_test")


class ArenaCalibrator:
    """A method with the manners of CalArena: probabilities in, probabilities out.

    Parameters
    ----------
    method : str
        The key of the method.
    **params
        The keywords of its class.

    Examples
    --------
    >>> import numpy as np
    >>> from ordercal.calarena import ArenaCalibrator
    >>> p = np.linspace(0.02, 0.98, 200, dtype=np.float32)
    >>> y = (np.arange(200) % 2).astype(int)
    >>> ArenaCalibrator("ts").fit(p, y).predict_proba(p).shape
    (200, 2)
    """

    def __init__(self, method: MethodKey, **params: Any) -> None:
        self.calibrator: Calibrator = calibrator(method, kind="probs", **params)

    def fit(self, p: Any, y: Any) -> ArenaCalibrator:
        """Learns from probabilities, N x K or those of the positive class of two, and the numbers of the classes."""
        self.calibrator.fit(_probabilities(p), y, verbose=False)
        return self

    def predict_proba(self, p: Any) -> NDArray[Any]:
        """Calibrated probabilities, always a column per class."""
        return self.calibrator.predict_proba(_probabilities(p))


def _probabilities(p: Any) -> NDArray[Any]:
    """Rows that sum to 1: sums of float32 over many classes are a little off, which the library would not forgive."""
    array = as_array(p)
    if array.ndim == 1 or array.shape[1] == 1:
        return array
    normalised: NDArray[Any] = array / array.sum(axis=1, keepdims=True, dtype=np.float64)
    return normalised


#: A factory for every method, by its key with "ordercal-" before it, so that it is not taken for CalArena's own.
CALIBRATORS: dict[str, Callable[[], ArenaCalibrator]] = {
    f"ordercal-{key}": partial(ArenaCalibrator, key) for key in get_args(MethodKey)
}


def read(path: str | os.PathLike[str]) -> dict[str, tuple[Any, Any, Any, Any]]:
    """The experiments of a benchmark file, `{dataset}/{model}/{probas,labels}_{cal,test}`, for `ordercal.compare`.

    `compare(read(path), kind="probs").leaderboard("brier")` is CalArena's table. Needs the package `h5py`.

    Parameters
    ----------
    path : str or path
        The HDF5 file.

    Returns
    -------
    dict
        By `dataset/model`: probabilities and labels to fit, probabilities and labels to test.
    """
    import h5py

    found = {}
    with h5py.File(os.fspath(path), "r") as file:
        for dataset, models in file.items():
            for model, arrays in models.items():
                missing = [name for name in ARRAYS if name not in arrays]
                if missing:
                    raise OrdercalError(f"{os.fspath(path)}: {dataset}/{model} has no {', '.join(missing)}")
                p_cal, y_cal, p_test, y_test = (arrays[name][...] for name in ARRAYS)
                parts = (_probabilities(p_cal), y_cal.astype(np.int64), _probabilities(p_test), y_test.astype(np.int64))
                found[f"{dataset}/{model}"] = parts
    return found
