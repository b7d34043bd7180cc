"""The keywords of every method; `tests/test_package.py` compares them with the library's.

The classes that are marked as of type checkers only say what several methods have; they do not exist.
"""

from collections.abc import Sequence
from typing import Any, type_check_only

from typing_extensions import dataclass_transform

from ._calibrator import Calibrator
from ._types import Kind

__all__ = [
    "Auto",
    "AutoFree",
    "BBQ",
    "Beta",
    "Diagonal",
    "Dirichlet",
    "EnsembleTemperatureScaling",
    "Histogram",
    "Isotonic",
    "MatrixScaling",
    "OrderInvariant",
    "OrderPreserving",
    "Platt",
    "StructuredMatrixScaling",
    "StructuredVectorScaling",
    "TemperatureScaling",
    "Uncalibrated",
    "Unconstrained",
    "VectorScaling",
]

@type_check_only
@dataclass_transform(kw_only_default=True)
class _Keywords(Calibrator): ...

@type_check_only
class _Method(_Keywords):
    kind: Kind = "logits"

@type_check_only
class _Free(_Method):
    keep_order: bool = False

class Uncalibrated(_Method): ...

class TemperatureScaling(_Method):
    @property
    def temperature_(self) -> float: ...

class EnsembleTemperatureScaling(_Method): ...

class VectorScaling(_Free):
    input: str = "raw"
    optimizer: dict[str, Any] | None = None

class MatrixScaling(_Free):
    input: str = "raw"
    lambda_: float = 10000.0
    mu: float = 0.1
    optimizer: dict[str, Any] | None = None

class Dirichlet(_Free):
    lambda_: float = 10000.0
    mu: float = 0.1
    optimizer: dict[str, Any] | None = None

class StructuredVectorScaling(_Free):
    lambda_: float = 1.0
    optimizer: dict[str, Any] | None = None

class StructuredMatrixScaling(_Free):
    lambda_: float = 1.0
    optimizer: dict[str, Any] | None = None

class Platt(_Free):
    smoothing: float = 1.0
    targets: str = "platt"

class Beta(_Free):
    smoothing: float = 1.0
    targets: str = "labels"

class Isotonic(_Free):
    lines: str = "ends"
    smoothing: float = 1.0

class Histogram(_Free):
    bins: int = 15
    layout: str = "equal-mass"
    smoothing: float = 1.0

class BBQ(_Free):
    prior: float = 2.0
    smoothing: float = 1.0

class Diagonal(_Method):
    hidden: Sequence[int] = (10, 10)
    input: str = "log-softmax"
    intervals: int = 4096
    lambda_: float = 0.0
    optimizer: dict[str, Any] | None = None
    seed: int = 1357
    smoothness: float = 1.0

class OrderInvariant(_Method):
    early_stopping: dict[str, Any] | None = None
    hidden: Sequence[int] = (100,)
    input: str = "centred"
    lambda_: float = 0.001
    optimizer: dict[str, Any] | None = None
    seed: int = 1357
    top: int | None = 16

class OrderPreserving(_Method):
    early_stopping: dict[str, Any] | None = None
    hidden: Sequence[int] = (100,)
    input: str = "log-softmax"
    lambda_: float = 0.001
    optimizer: dict[str, Any] | None = None
    seed: int = 1357
    top: int | None = 64

class Unconstrained(_Free):
    early_stopping: dict[str, Any] | None = None
    hidden: Sequence[int] = (100,)
    input: str = "centred"
    lambda_: float = 0.005
    optimizer: dict[str, Any] | None = None
    seed: int = 1357
    top: int | None = None

class Auto(_Method):
    chains: bool = True
    effort: str = "standard"
    folds: int | None = None
    polish: bool = True
    seed: int = 1357

class AutoFree(_Free):
    chains: bool = True
    effort: str = "standard"
    folds: int | None = None
    polish: bool = True
    seed: int = 1357
