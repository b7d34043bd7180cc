"""Calibrate the probabilities of any multi-class classifier without changing its predictions.

>>> import numpy as np, ordercal
>>> logits = np.array([[4.0, 1.0], [0.5, 3.0], [2.0, 1.0], [3.0, 0.0]])
>>> calibrator = ordercal.TemperatureScaling().fit(logits, [0, 1, 1, 0])
>>> bool(np.all(calibrator.predict(logits) == logits.argmax(axis=1)))
True

Calibrators are named after what they learn; `ordercal.calibrator("oi")` finds one by its key on the command line.
`ordercal.sklearn` has a transformer and a classifier for scikit-learn, `ordercal.plot` figures, `ordercal.onnx`
joins a calibrator to a network's own file.
"""

from __future__ import annotations

from ._native import __version__
from ._calibrator import Calibrator, Estimate, FitReport, calibrator, load
from ._compare import Comparison, compare
from ._decide import (
    Decomposition,
    PredictionSets,
    SetReport,
    Threshold,
    decompose,
    prediction_sets,
    threshold,
)
from ._errors import MissingFileError, NotFittedError, OrdercalError, OrdercalTypeError
from ._keep_order import KeepOrder
from ._metrics import (
    Evaluation,
    MetricDescription,
    MetricState,
    Reliability,
    describe_metric,
    evaluate,
    reliability,
)
from . import methods
from .methods import *

__all__ = [
    "Calibrator",
    "Comparison",
    "Decomposition",
    "Evaluation",
    "Estimate",
    "FitReport",
    "KeepOrder",
    "MetricDescription",
    "MetricState",
    "MissingFileError",
    "NotFittedError",
    "OrdercalError",
    "OrdercalTypeError",
    "PredictionSets",
    "Reliability",
    "SetReport",
    "Threshold",
    "__version__",
    "calibrator",
    "compare",
    "decompose",
    "describe_metric",
    "evaluate",
    "load",
    "prediction_sets",
    "reliability",
    "threshold",
]
__all__ += methods.__all__
