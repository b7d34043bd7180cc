"""The methods, one class each. A class is its key and a sentence: keywords and defaults come from the library."""

from __future__ import annotations

from ._calibrator import Calibrator


class Uncalibrated(Calibrator, key="uncalibrated"):
    """The scores as they are: the line to compare with."""


class TemperatureScaling(Calibrator, key="ts"):
    """One temperature. Keeps every prediction."""

    @property
    def temperature_(self) -> float:
        """What logits are divided by: 1 / beta."""
        return 1.0 / float(self.parameters_["beta"])


class EnsembleTemperatureScaling(Calibrator, key="ets"):
    """A mixture of the tempered, the original and the uniform distribution. Keeps every prediction."""


class Diagonal(Calibrator, key="diag"):
    """One increasing function for all classes. Keeps every prediction."""


class OrderInvariant(Calibrator, key="oi"):
    """Multipliers of the gaps between sorted scores, the same for all classes. Keeps every prediction."""


class OrderPreserving(Calibrator, key="op"):
    """Multipliers of the gaps that may depend on which class stands where. Keeps every prediction."""


class VectorScaling(Calibrator, key="vs"):
    """A weight and a bias per class. May change predictions, unless `keep_order`."""


class MatrixScaling(Calibrator, key="ms-odir"):
    """A matrix and biases on logits, with ODIR penalties. May change predictions, unless `keep_order`."""


class Dirichlet(Calibrator, key="dir-odir"):
    """A matrix and biases on log-probabilities, with ODIR penalties. May change predictions, unless `keep_order`."""


class StructuredVectorScaling(Calibrator, key="svs"):
    """Vector scaling that shrinks to temperature scaling. May change predictions, unless `keep_order`."""


class StructuredMatrixScaling(Calibrator, key="sms"):
    """Matrix scaling that shrinks to temperature scaling. May change predictions, unless `keep_order`."""


class Platt(Calibrator, key="platt"):
    """A logistic curve per class, one against the rest. May change predictions, unless `keep_order`."""


class Beta(Calibrator, key="beta"):
    """A beta curve per class, one against the rest. May change predictions, unless `keep_order`."""


class Isotonic(Calibrator, key="isotonic"):
    """An increasing curve per class. May change predictions, unless `keep_order`."""


class Histogram(Calibrator, key="histogram"):
    """Bins per class. May change predictions, unless `keep_order`."""


class BBQ(Calibrator, key="bbq"):
    """An average of binnings per class. May change predictions, unless `keep_order`."""


class Unconstrained(Calibrator, key="unconstrained"):
    """A plain network, for comparison. May change predictions, unless `keep_order`."""


class Auto(Calibrator, key="auto"):
    """A mixture of order-preserving maps learned on held-out rows, or less where that is enough. Keeps every prediction."""


class AutoFree(Calibrator, key="auto-free"):
    """`Auto` without the projection onto the order. May change predictions, unless `keep_order`."""
