from collections.abc import Callable
from typing import Any, final

from numpy import float64, int64, uint32
from numpy.typing import NDArray

__all__ = [
    "ArrowBatch",
    "ArrowStream",
    "GroupTree",
    "Groups",
    "Model",
    "Sets",
    "State",
    "__version__",
    "answer",
    "apply_arrow",
    "brief",
    "compare",
    "comparison_defaults",
    "decompose",
    "defaults",
    "describe_metric",
    "estimate",
    "evaluate",
    "fit",
    "fit_divided",
    "fit_group",
    "fit_groups",
    "keep_order",
    "keys",
    "match_class_names",
    "metrics",
    "promises_order",
    "python_class",
    "reliability",
    "threshold",
    "top_label_metrics",
    "update_arrow",
]

__version__: str

def keys() -> list[str]: ...
def match_class_names(columns: list[str], known: list[str]) -> list[int] | None: ...
def defaults(key: str) -> str: ...
def estimate(method: str, rows: int, classes: int) -> tuple[float, float] | None: ...
def promises_order(key: str) -> bool: ...
def brief(key: str) -> str: ...
def python_class(key: str) -> str: ...
def keep_order(
    scores: NDArray[Any],
    kind_name: str,
    probs: NDArray[float64],
    beta: float,
    wide: bool,
) -> NDArray[Any]: ...
def fit(
    method: str,
    scores: NDArray[Any],
    kind_name: str,
    labels: NDArray[int64] | NDArray[float64],
    weights: NDArray[float64] | None = None,
    class_names: list[str] | None = None,
    class_type: str | None = None,
    groups: NDArray[uint32] | None = None,
    progress: Callable[[int, int, float], object] | None = None,
) -> Model: ...
def apply_arrow(
    model: Model | Groups,
    table: Any,
    columns: list[str],
    source: str,
    target: str,
    wide: bool | None = None,
    classes: list[str] | None = None,
    known: list[str] | None = None,
    name: str | None = None,
    skip: bool = False,
    lazy: bool = False,
) -> ArrowBatch | ArrowStream: ...
def update_arrow(
    state: State,
    table: Any,
    columns: list[str],
    source: str,
    label: str,
    weight: str | None = None,
    classes: list[str] | None = None,
    by: list[str] = ...,
) -> list[tuple[list[Any], State]]: ...
def fit_groups(
    method: str,
    group_method: str,
    scores: NDArray[Any],
    kind_name: str,
    labels: NDArray[int64],
    weights: NDArray[float64] | None,
    by: list[str],
    keys: list[list[str]],
    min_rows: int,
    folds: int,
    seed: int,
    class_names: list[str] | None = None,
    class_type: str | None = None,
    fold_of: NDArray[uint32] | None = None,
) -> Groups: ...
def fit_group(
    roots: list[Model],
    above: list[list[tuple[float, Model] | None]],
    group_method: str,
    scores: NDArray[Any],
    kind_name: str,
    labels: NDArray[int64],
    weights: NDArray[float64] | None,
    folds: NDArray[uint32],
    min_rows: int,
) -> tuple[tuple[int, float], tuple[float, float], list[float], list[int], list[bytes | None]]: ...
def fit_divided(
    method: str,
    ask: Callable[[str], list[tuple[int, bytes]]],
    kind_name: str,
    class_names: list[str] | None = None,
    class_type: str | None = None,
) -> Model: ...
def answer(
    question: str,
    part: int,
    table: Any,
    count: int,
    columns: list[str],
    source: str,
    label: str,
    weight: str | None = None,
    classes: list[str] | None = None,
) -> bytes: ...
def metrics() -> list[tuple[str, bool]]: ...
def top_label_metrics() -> list[str]: ...
def evaluate(
    scores: NDArray[Any],
    kind_name: str,
    labels: NDArray[int64] | NDArray[float64],
    weights: NDArray[float64] | None,
    keys: list[str] | None,
    bins: int,
    resamples: int | None,
    seed: int,
    progress: Callable[[int, int, float], object] | None = None,
) -> list[tuple[str, float, tuple[float, float] | None]]: ...
def reliability(
    scores: NDArray[Any],
    kind_name: str,
    labels: NDArray[int64],
    weights: NDArray[float64] | None,
    bins: int,
    binning: str,
    place: int | None,
) -> str: ...
def describe_metric(key: str) -> list[str]: ...
def threshold(
    scores: NDArray[Any],
    kind_name: str,
    labels: NDArray[int64],
    max_error: float,
    confidence: float,
) -> str: ...
def decompose(
    method: str,
    scores: NDArray[Any],
    kind_name: str,
    labels: NDArray[int64],
    weights: NDArray[float64] | None,
    folds: int,
    seed: int,
    progress: Callable[[int, int, float], object] | None = None,
) -> str: ...
def comparison_defaults() -> tuple[list[str], list[str], int]: ...
def compare(
    datasets: list[tuple[str, NDArray[Any], NDArray[int64], NDArray[Any], NDArray[int64]]],
    kind_name: str,
    methods: list[str],
    external: list[tuple[str, bool, list[tuple[NDArray[float64], float]]]],
    metrics: list[str],
    bins: int,
    effort: str,
    folds: int | None,
    resamples: int,
    seed: int,
    progress: Callable[[int, int, float], object] | None = None,
) -> tuple[str, str]: ...
@final
class ArrowBatch:
    def __arrow_c_schema__(self) -> Any: ...
    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]: ...
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...

@final
class ArrowStream:
    def __arrow_c_schema__(self) -> Any: ...
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...

@final
class GroupTree:
    def __new__(cls, roots: list[Model], group_method: str, by: list[str], min_rows: int) -> GroupTree: ...
    def add_level(
        self,
        parts: list[
            tuple[
                list[str],
                tuple[tuple[int, float], tuple[float, float], list[float], list[int], list[bytes | None]],
            ]
        ],
    ) -> list[tuple[list[str], list[tuple[float, Model] | None]]]: ...
    def finish(self) -> Groups: ...
@final
class Groups:
    @property
    def by(self) -> list[str]: ...
    @property
    def classes(self) -> int: ...
    @property
    def order_preserving(self) -> bool: ...
    @property
    def report(self) -> str: ...
    def apply(
        self, scores: NDArray[Any], source: str, target: str, keys: list[list[str]], wide: bool
    ) -> NDArray[Any]: ...
    def save(self, path: str) -> None: ...
    @staticmethod
    def load(path: str) -> Groups: ...
    def to_bytes(self) -> bytes: ...
    @staticmethod
    def from_bytes(bytes: bytes) -> Groups: ...
    def __reduce__(self) -> tuple[Any, tuple[bytes]]: ...
    def model(self, key: list[str]) -> Model: ...

@final
class Model:
    @property
    def fit_seconds(self) -> float | None: ...
    @property
    def classes(self) -> int: ...
    @property
    def order_preserving(self) -> bool: ...
    @property
    def class_names(self) -> list[str] | None: ...
    @property
    def class_type(self) -> str: ...
    @property
    def kind(self) -> str | None: ...
    @property
    def method(self) -> str: ...
    @property
    def report(self) -> str: ...
    @property
    def settings(self) -> str: ...
    def apply(self, scores: NDArray[Any], source: str, target: str, wide: bool) -> NDArray[Any]: ...
    def save(self, path: str) -> None: ...
    @staticmethod
    def load(path: str) -> Model: ...
    def to_bytes(self) -> bytes: ...
    @staticmethod
    def from_bytes(bytes: bytes) -> Model: ...
    def __reduce__(self) -> tuple[Any, tuple[bytes]]: ...
    def onnx(self, kind_name: str, input_type: str) -> bytes: ...
    def export_onnx(self, path: str, kind_name: str, input_type: str) -> None: ...
    def tensors(self) -> dict[str, NDArray[Any]]: ...
    def function(self, points: NDArray[float64]) -> NDArray[float64]: ...

@final
class Sets:
    def __new__(
        cls,
        scores: NDArray[Any],
        kind_name: str,
        labels: NDArray[int64],
        coverage: float,
        method: str,
        allow_empty: bool,
        seed: int,
    ) -> Sets: ...
    @property
    def quantile(self) -> float: ...
    def sets(self, scores: NDArray[Any], kind_name: str, seed: int) -> NDArray[Any]: ...
    def evaluate(self, scores: NDArray[Any], kind_name: str, labels: NDArray[int64], seed: int) -> str: ...

@final
class State:
    def __new__(cls, classes: int, bins: int, marginal: bool) -> State: ...
    @property
    def classes(self) -> int: ...
    @property
    def bins(self) -> int: ...
    @property
    def marginal(self) -> bool: ...
    @property
    def rows(self) -> int: ...
    def update(
        self,
        scores: NDArray[Any],
        kind_name: str,
        labels: NDArray[int64],
        weights: NDArray[float64] | None = None,
    ) -> None: ...
    def merge(self, other: State) -> None: ...
    def equals(self, other: State) -> bool: ...
    def intervals(self, resamples: int, seed: int) -> dict[str, tuple[float, float]]: ...
    def reliability(self, place: int | None) -> str: ...
    def finalize(self) -> dict[str, tuple[float, float]]: ...
    def to_bytes(self) -> bytes: ...
    @staticmethod
    def from_bytes(bytes: bytes) -> State: ...
