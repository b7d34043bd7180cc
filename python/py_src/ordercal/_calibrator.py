"""What every calibrator does; a method is a line in `methods.py`."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from . import _native
from ._errors import NotFittedError, OrdercalError
from ._inputs import read_labels, read_scores, read_weights

Self = TypeVar("Self", bound="Calibrator")

#: The calibrators by their keys.
REGISTRY: dict[str, type[Calibrator]] = {}


class FitReport(SimpleNamespace):
    """What a fit did: `iterations`, `evaluations`, `loss`, `nll_before`, `nll_after`, why it ended, `stop`, and `notes`."""

    def __init__(self, **values: Any) -> None:
        super().__init__(**{"notes": [], **values})


def _plain(value: Any) -> Any:
    """What JSON can hold."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{value!r} is not a number, a text or a list of such")


def _read_name(name: str) -> str:
    return name.rstrip("_")


class Calibrator:
    """A map from scores to calibrated probabilities, learned by `fit`.

    Keywords are the method's hyperparameters, with the library's defaults; a setting that is a group of
    settings (`optimizer`) is a dict, `None` being the method's own. `kind` says what scores are: "logits",
    "log-probs" or "probs".

    After a fit: `classes_`, `report_`, `order_preserving_` and `parameters_`.
    """

    _key: ClassVar[str] = ""
    _defaults: ClassVar[dict[str, Any]] = {}
    _free: ClassVar[bool] = False

    def __init_subclass__(cls, *, key: str = "", **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if not key:
            return
        cls._key = key
        cls._defaults = {
            name: value for name, value in json.loads(_native.defaults(key)).items() if name != "method"
        }
        cls._free = not _native.promises_order(key)
        cls.__init__ = _constructor(cls._defaults, cls._free)  # type: ignore[method-assign]
        REGISTRY[key] = cls

    # -- scikit-learn's manners ------------------------------------------------------------------------

    @classmethod
    def _names(cls) -> list[str]:
        parameters = list(inspect.signature(cls.__init__).parameters)
        return sorted(parameters[1:])

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The keywords and their values."""
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self: Self, **params: Any) -> Self:
        """Sets keywords."""
        known = self._names()
        for name, value in params.items():
            if name not in known:
                raise OrdercalError(
                    f"{type(self).__name__} has no keyword `{name}`; it has {', '.join(known)}"
                )
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        parameters = inspect.signature(type(self).__init__).parameters
        changed = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if not _same(value, parameters[name].default)
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    # -- the job ---------------------------------------------------------------------------------------

    def _method(self) -> str:
        """The method as the library reads it."""
        suffix = "+order" if self._free and getattr(self, "keep_order", False) else ""
        table: dict[str, Any] = {"method": self._key + suffix}
        for name, default in self._defaults.items():
            value = getattr(self, name + "_" if name == "lambda" else name)
            table[name] = default if value is None else value
        try:
            return json.dumps(table, default=_plain)
        except TypeError as error:
            raise OrdercalError(f"{type(self).__name__}: {error}") from None

    def fit(
        self: Self,
        scores: Any,
        labels: Any,
        sample_weight: Any = None,
        *,
        classes: Any = None,
        progress: Callable[[int, int, float], object] | None = None,
    ) -> Self:
        """Learns from held-out scores and labels.

        Labels are column numbers, or names: of `classes` if given, of a data frame's columns, or else in sorted
        order. `progress(iteration, of, loss)` is called now and then; what it raises ends the fit, and so
        does Ctrl-C.
        """
        array, columns = read_scores(scores)
        indices, names = read_labels(labels, array.shape[1], columns, classes)
        named = classes is not None or names.dtype.kind not in "iu"
        model = _native.fit(
            self._method(),
            array,
            self.kind,
            indices,
            read_weights(sample_weight),
            [str(name) for name in names] if named else None,
            progress,
        )
        self._take(model, names)
        return self

    # What `__init__` stores beside the method's own settings.
    kind: str

    def _take(self, model: _native.Model, classes: NDArray[Any] | None = None) -> None:
        self.model_ = model
        if classes is None:
            names = model.class_names
            classes = np.arange(model.classes) if names is None else np.asarray(names)
        self.classes_ = classes
        self.n_features_in_ = model.classes
        self.report_ = FitReport(**json.loads(model.report))
        self.order_preserving_ = model.order_preserving

    def _fitted(self) -> _native.Model:
        model: _native.Model | None = getattr(self, "model_", None)
        if model is None:
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet: call `fit` first")
        return model

    @property
    def parameters_(self) -> dict[str, Any]:
        """What was learned: numbers and arrays by name."""
        model = self._fitted()
        return {**json.loads(model.settings), **model.tensors()}

    def _apply(self, scores: Any, to: str, dtype: Any) -> NDArray[Any]:
        model = self._fitted()
        array, _ = read_scores(scores)
        if dtype is None:
            wide = array.dtype == np.float64
        else:
            wanted = np.dtype(dtype)
            if wanted not in (np.float32, np.float64):
                raise OrdercalError(f"results are float32 or float64, not {wanted}")
            wide = wanted == np.float64
        result: NDArray[Any] = model.apply(array, self.kind, to, wide)
        return result

    def predict_proba(self, scores: Any, *, dtype: Any = None) -> NDArray[Any]:
        """Calibrated probabilities, float64 for float64 scores and else float32 unless `dtype` says."""
        return self._apply(scores, "probs", dtype)

    def predict_log_proba(self, scores: Any, *, dtype: Any = None) -> NDArray[Any]:
        """Logarithms of the calibrated probabilities."""
        return self._apply(scores, "log-probs", dtype)

    def predict_logits(self, scores: Any, *, dtype: Any = None) -> NDArray[Any]:
        """Calibrated logits: their softmax is `predict_proba`."""
        return self._apply(scores, "logits", dtype)

    def predict(self, scores: Any) -> NDArray[Any]:
        """The class of each row with the largest calibrated probability."""
        logits = self._apply(scores, "logits", np.float64)
        found: NDArray[Any] = self.classes_[logits.argmax(axis=1)]
        return found

    # -- files -----------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a model file, which the command line and `ordercal.load` read."""
        self._fitted().save(os.fspath(path))

    @classmethod
    def load(cls: type[Self], path: str | os.PathLike[str], *, kind: str = "logits") -> Self:
        """Reads a model file of this method; `ordercal.load` reads one of any."""
        found = load(path, kind=kind)
        if not isinstance(found, cls):
            raise OrdercalError(f"{os.fspath(path)}: the model is a {type(found).__name__}, not a {cls.__name__}")
        return found

    def to_onnx(self, path: str | os.PathLike[str] | None = None) -> bytes:
        """The model as ONNX: `scores` of this `kind` in, `probabilities` and `logits` out.

        It was run on sample rows and compared with the model before this returns. With a path, the bytes are
        written there too.
        """
        model = self._fitted()
        if path is not None:
            model.export_onnx(os.fspath(path), self.kind)
            with open(path, "rb") as file:
                return file.read()
        return model.onnx(self.kind)


def _same(a: Any, b: Any) -> bool:
    try:
        return bool(a == b)
    except ValueError:
        return False


def _constructor(defaults: dict[str, Any], free: bool) -> Callable[..., None]:
    """An `__init__` that stores its keywords: the method's settings with the library's defaults."""
    shown: dict[str, Any] = {}
    for name, value in defaults.items():
        if isinstance(value, dict):
            value = None
        elif isinstance(value, list):
            value = tuple(value)
        shown[name + "_" if name == "lambda" else name] = value
    if free:
        shown["keep_order"] = False
    shown["kind"] = "logits"
    itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    keywords = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=value) for name, value in shown.items()
    ]
    signature = inspect.Signature([itself, *keywords])

    def __init__(self: Calibrator, **params: Any) -> None:
        for name in params:
            if name not in shown:
                raise TypeError(f"{type(self).__name__} has no keyword `{name}`; it has {', '.join(shown)}")
        for name, value in {**shown, **params}.items():
            setattr(self, name, value)

    __init__.__signature__ = signature  # type: ignore[attr-defined]
    return __init__


def calibrator(method: str, **params: Any) -> Calibrator:
    """The calibrator with a key of the command line: "ts", "oi", "sms+order", …"""
    key, _, order = method.partition("+")
    if order and (order != "order" or key not in REGISTRY or not REGISTRY[key]._free):
        _native.defaults(method)  # says what is wrong
    if key not in REGISTRY:
        _native.defaults(key)
        raise OrdercalError(f"the method `{key}` has no class here")
    if order:
        params["keep_order"] = True
    return REGISTRY[key](**params)


def load(path: str | os.PathLike[str], *, kind: str = "logits") -> Calibrator:
    """Reads a model file, from here or from the command line, of any method."""
    return _from_model(_native.Model.load(os.fspath(path)), kind)


def _from_model(model: _native.Model, kind: str) -> Calibrator:
    table = json.loads(model.method)
    found = calibrator(table.pop("method"), kind=kind)
    for name, value in table.items():
        default = found._defaults.get(name)
        if isinstance(value, dict) and value == default:
            value = None
        elif isinstance(value, list):
            value = tuple(value)
        setattr(found, name + "_" if name == "lambda" else name, value)
    found._take(model)
    return found
