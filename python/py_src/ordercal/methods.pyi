"""The keywords of every method, made by `tools/make_stubs.py`; stubtest holds them to what the library says."""

from collections.abc import Sequence
from typing import Any

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

class Uncalibrated(Calibrator):
    def __init__(
        self,
        /,
        *,
        kind: Kind = "logits",
    ) -> None: ...

class TemperatureScaling(Calibrator):
    @property
    def temperature_(self) -> float: ...
    def __init__(
        self,
        /,
        *,
        kind: Kind = "logits",
    ) -> None: ...

class EnsembleTemperatureScaling(Calibrator):
    def __init__(
        self,
        /,
        *,
        kind: Kind = "logits",
    ) -> None: ...

class VectorScaling(Calibrator):
    input: str
    optimizer: dict[str, Any] | None
    keep_order: bool
    def __init__(
        self,
        /,
        *,
        input: str = "raw",
        optimizer: dict[str, Any] | None = None,
        keep_order: bool = False,
        kind: Kind = "logits",
    ) -> None: ...

class MatrixScaling(Calibrator):
    input: str
    lambda_: float
    mu: float
    optimizer: dict[str, Any] | None
    keep_order: bool
    def __init__(
        self,
        /,
        *,
        input: str = "raw",
        lambda_: float = 10000.0,
        mu: float = 0.1,
        optimizer: dict[str, Any] | None = None,
        keep_order: bool = False,
        kind: Kind = "logits",
    ) -> None: ...

class Dirichlet(Calibrator):
    lambda_: float
    mu: float
    optimizer: dict[str, Any] | None
    keep_order: bool
    def __init__(
        self,
        /,
        *,
        lambda_: float = 10000.0,
        mu: float = 0.1,
        optimizer: dict[str, Any] | None = None,
        keep_order: bool = False,
        kind: Kind = "logits",
    ) -> None: ...

class StructuredVectorScaling(Calibrator):
    lambda_: float
    optimizer: dict[str, Any] | None
    keep_order: bool
    def __init__(
        self,
        /,
        *,
        lambda_: float = 1.0,
        optimizer: dict[str, Any] | None = None,
        keep_order: bool = False,
        kind: Kind = "logits",
    ) -> None: ...

class StructuredMatrixScaling(Calibrator):
    lambda_: float
    optimizer: dict[str, Any] | None
    keep_order: bool
    def __init__(
        self,
        /,
        *,
        lambda_: float = 1.0,
        optimizer: dict[str, Any] | None = None,
        keep_order: bool = False,
        kind: Kind = "logits",
    ) -> None: ...

class Platt(Calibrator):
    smoothing: float
    targets: str
    keep_order: bool
    def __init__(
        self,
        /,
        *,
        smoothing: float = 1.0,
        targets: str = "platt",
        keep_order: bool = False,
        kind: Kind = "logits",
    ) -> None: ...

class Beta(Calibrator):
    smoothing: float
    targets: str
    keep_order: bool
    def __init__(
        self,
        /,
        *,
        smoothing: float = 1.0,
        targets: str = "labels",
        keep_order: bool = False,
        kind: Kind = "logits",
    ) -> None: ...

class Isotonic(Calibrator):
    lines: str
    smoothing: float
    keep_order: bool
    def __init__(
        self,
        /,
        *,
        lines: str = "ends",
        smoothing: float = 1.0,
        keep_order: bool = False,
        kind: Kind = "logits",
    ) -> None: ...

class Histogram(Calibrator):
    bins: int
    layout: str
    smoothing: float
    keep_order: bool
    def __init__(
        self,
        /,
        *,
        bins: int = 15,
        layout: str = "equal-mass",
        smoothing: float = 1.0,
        keep_order: bool = False,
        kind: Kind = "logits",
    ) -> None: ...

class BBQ(Calibrator):
    prior: float
    smoothing: float
    keep_order: bool
    def __init__(
        self,
        /,
        *,
        prior: float = 2.0,
        smoothing: float = 1.0,
        keep_order: bool = False,
        kind: Kind = "logits",
    ) -> None: ...

class Diagonal(Calibrator):
    hidden: Sequence[int]
    input: str
    intervals: int
    lambda_: float
    optimizer: dict[str, Any] | None
    seed: int
    smoothness: float
    def __init__(
        self,
        /,
        *,
        hidden: Sequence[int] = (10, 10),
        input: str = "log-softmax",
        intervals: int = 4096,
        lambda_: float = 0.0,
        optimizer: dict[str, Any] | None = None,
        seed: int = 1357,
        smoothness: float = 1.0,
        kind: Kind = "logits",
    ) -> None: ...

class OrderInvariant(Calibrator):
    early_stopping: dict[str, Any] | None
    hidden: Sequence[int]
    input: str
    lambda_: float
    optimizer: dict[str, Any] | None
    seed: int
    top: int | None
    def __init__(
        self,
        /,
        *,
        early_stopping: dict[str, Any] | None = None,
        hidden: Sequence[int] = (100,),
        input: str = "centred",
        lambda_: float = 0.001,
        optimizer: dict[str, Any] | None = None,
        seed: int = 1357,
        top: int | None = 16,
        kind: Kind = "logits",
    ) -> None: ...

class OrderPreserving(Calibrator):
    early_stopping: dict[str, Any] | None
    hidden: Sequence[int]
    input: str
    lambda_: float
    optimizer: dict[str, Any] | None
    seed: int
    top: int | None
    def __init__(
        self,
        /,
        *,
        early_stopping: dict[str, Any] | None = None,
        hidden: Sequence[int] = (100,),
        input: str = "log-softmax",
        lambda_: float = 0.001,
        optimizer: dict[str, Any] | None = None,
        seed: int = 1357,
        top: int | None = 64,
        kind: Kind = "logits",
    ) -> None: ...

class Unconstrained(Calibrator):
    early_stopping: dict[str, Any] | None
    hidden: Sequence[int]
    input: str
    lambda_: float
    optimizer: dict[str, Any] | None
    seed: int
    top: int | None
    keep_order: bool
    def __init__(
        self,
        /,
        *,
        early_stopping: dict[str, Any] | None = None,
        hidden: Sequence[int] = (100,),
        input: str = "centred",
        lambda_: float = 0.005,
        optimizer: dict[str, Any] | None = None,
        seed: int = 1357,
        top: int | None = None,
        keep_order: bool = False,
        kind: Kind = "logits",
    ) -> None: ...

class Auto(Calibrator):
    chains: bool
    effort: str
    folds: int | None
    polish: bool
    seed: int
    def __init__(
        self,
        /,
        *,
        chains: bool = True,
        effort: str = "standard",
        folds: int | None = None,
        polish: bool = True,
        seed: int = 1357,
        kind: Kind = "logits",
    ) -> None: ...

class AutoFree(Calibrator):
    chains: bool
    effort: str
    folds: int | None
    polish: bool
    seed: int
    keep_order: bool
    def __init__(
        self,
        /,
        *,
        chains: bool = True,
        effort: str = "standard",
        folds: int | None = None,
        polish: bool = True,
        seed: int = 1357,
        keep_order: bool = False,
        kind: Kind = "logits",
    ) -> None: ...
