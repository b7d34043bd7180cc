"""What every calibrator does; a method is a line in `methods.py`."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from . import _arrow, _native
from ._errors import OrdercalError, not_fitted
from ._inputs import align, class_names, class_type, read_rows, read_scores
from ._parameters import HasParameters, description
from ._progress import shown
from ._types import Kind, MethodKey

Self = TypeVar("Self", bound="Calibrator")

#: The calibrators by their keys.
REGISTRY: dict[str, type[Calibrator]] = {}


class Estimate(NamedTuple):
    """What a fit is going to take on idle cores."""

    seconds: float
    #: Memory beyond the data.
    bytes: float


class FitReport(SimpleNamespace):
    """What a fit did: `iterations`, `evaluations`, `loss`, `nll_before`, `nll_after`, why it ended, `stop`, and `notes`.

    `price_of_order` is what keeping every prediction costs in NLL on held-out rows; only `Auto` measures it.
    """

    def __init__(self, **values: Any) -> None:
        super().__init__(**{"notes": [], "price_of_order": None, **values})


class Affine(NamedTuple):
    """A calibrator as one affine map: softmax(weight · x + bias), for engines that take no more.

    Attributes
    ----------
    weight : array of shape (k,) or (k, k)
        One factor per class, or a matrix: rows of scores are multiplied by it from the right.
    bias : array of shape (k,)
        What is added.
    input : str
        What x is: "logits", the scores as they are, or "log-probs", after a log-softmax.
    """

    weight: NDArray[np.float64]
    bias: NDArray[np.float64]
    input: str


def _plain(value: Any) -> Any:
    """What JSON can hold."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{value!r} is not a number, a text or a list of such")


def _keyword(name: str) -> str:
    """The keyword of a setting, which Python may reserve."""
    return "lambda_" if name == "lambda" else name


def _shown(value: Any, default: Any) -> Any:
    """The value of a keyword: `None` for a group of settings as the method has it, and tuples for lists."""
    if isinstance(value, dict) and value == default:
        return None
    return tuple(value) if isinstance(value, list) else value


class Calibrator(HasParameters):
    """A map from scores to calibrated probabilities, learned by `fit`.

    Keywords are the method's hyperparameters, with the library's defaults; a setting that is a group of
    settings (`optimizer`) is a dict, `None` being the method's own.

    Attributes
    ----------
    classes_ : array of shape (k,)
        The class of each column.
    n_features_in_ : int
        The number of columns.
    report_ : FitReport
        What the fit did.
    order_preserving_ : bool
        Whether the ranking of every row is kept.
    parameters_ : dict
        What was learned: numbers and arrays by name.
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
        cls.__doc__ = f"{cls.__doc__}\n\n{_documentation(key, cls)}"
        REGISTRY[key] = cls

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    # -- the job ---------------------------------------------------------------------------------------

    def _method(self) -> str:
        """The method as the library reads it."""
        suffix = "+order" if self._free and getattr(self, "keep_order", False) else ""
        table: dict[str, Any] = {"method": self._key + suffix}
        for name, default in self._defaults.items():
            value = getattr(self, _keyword(name))
            # `None` stands for the default, but `top=None` says that all scores are read.
            table[name] = default if value is None and name != "top" else value
        try:
            return json.dumps(table, default=_plain)
        except TypeError as error:
            raise OrdercalError(f"{type(self).__name__}: {error}") from None

    def estimate(self, rows: int, classes: int) -> Estimate | None:
        """What a fit to so many rows and classes is going to take, to a factor of two.

        Only `Auto` and `AutoFree` say; other methods take seconds at most for ordinary data, and return None.
        """
        found = _native.estimate(self._method(), rows, classes)
        return None if found is None else Estimate(*found)

    def fit(
        self: Self,
        scores: Any,
        labels: Any,
        sample_weight: Any = None,
        *,
        classes: Any = None,
        groups: Any = None,
        progress: Callable[[int, int, float], object] | None = None,
        verbose: bool | None = None,
    ) -> Self:
        """Learns from scores and labels that the classifier was not trained on.

        Parameters
        ----------
        scores : array of shape (n, k), or (n,) for two classes
            What the classifier says of each row, in the form that `kind` names. One dimension or one column is the
            positive class of two: its log-odds, probability or log-probability.
        labels : array of shape (n,) or (n, k)
            The true classes: column numbers, or names. Names are those of `classes` if given, of the columns of a
            data frame, or of the categories of categorical labels; otherwise they stand in sorted order. Or soft labels:
            floats, in each row a distribution over the classes, whose expected loss is minimised.
        sample_weight : array of shape (n,), optional
            How much each row counts; a weight of 2 is a row that is there twice.
        classes : array of shape (k,), optional
            The class of each column.
        groups : array of shape (n,), optional
            Rows with the same value stay together in the folds of `Auto` and `AutoFree`.
        progress : callable, optional
            Called now and then as `progress(iteration, of, loss)`. What it raises ends the fit; so does Ctrl-C.
        verbose : bool, optional
            Whether to draw a bar once the fit has taken two seconds. None: in a terminal and in a notebook.

        Returns
        -------
        self
        """
        rows, names, columns = read_rows(scores, labels, self.kind, sample_weight, classes, groups=groups, soft=True)
        with shown(type(self).__name__, verbose, progress) as report:
            model = _native.fit(self._method(), rows, class_names(names), report)
        self._take(model, names)
        self._columns = columns
        return self

    # What `__init__` stores beside the method's own settings.
    kind: Kind
    # The names of the columns of the data frame that it was fitted to.
    _columns: list[Any] | None = None

    def _take(self, model: _native.Model, classes: NDArray[Any] | None = None) -> None:
        self.model_ = model
        if classes is None:
            classes = _class_names(model)
        self.classes_ = classes
        self.n_features_in_ = model.classes
        self.report_ = FitReport(**json.loads(model.report))
        self.order_preserving_ = model.order_preserving

    def _fitted(self) -> _native.Model:
        model: _native.Model | None = getattr(self, "model_", None)
        if model is None:
            raise not_fitted(f"this {type(self).__name__} is not fitted yet: call `fit` first")
        return model

    @property
    def parameters_(self) -> dict[str, Any]:
        """What was learned: numbers and arrays by name."""
        model = self._fitted()
        return {**json.loads(model.settings), **model.tensors()}

    def _known_columns(self) -> list[Any] | None:
        """What columns of a data frame have to be called: as in the fit, or else as the classes."""
        if self._columns is not None:
            return self._columns
        return None if self._fitted().class_names is None else list(self.classes_.tolist())

    def _apply(self, scores: Any, to: str, dtype: Any) -> NDArray[Any]:
        model = self._fitted()
        array, columns = read_scores(scores, self.kind)
        if columns is not None:
            array = align(array, columns, self._known_columns())
        wide = array.itemsize == 8 if dtype is None else _arrow.is_wide(dtype)
        if len(array) == 0 and array.shape[1] == model.classes:
            return np.empty(array.shape, dtype=np.float64 if wide else np.float32)
        result: NDArray[Any] = model.apply(array, self.kind, to, wide)
        return result

    def predict_proba(self, scores: Any, *, dtype: Any = None) -> NDArray[Any]:
        """Calibrated probabilities, a column per class.

        Parameters
        ----------
        scores : array of shape (n, k), or (n,) for two classes
            As in `fit`. The columns of a data frame may stand in another order: they are found by their names.
        dtype : {float32, float64}, optional
            The type of the result; None: float64 for float64 scores, and float32 for all others.

        Returns
        -------
        array of shape (n, k)
        """
        return self._apply(scores, "probs", dtype)

    def predict_log_proba(self, scores: Any, *, dtype: Any = None) -> NDArray[Any]:
        """Logarithms of the calibrated probabilities; parameters as in `predict_proba`."""
        return self._apply(scores, "log-probs", dtype)

    def predict_logits(self, scores: Any, *, dtype: Any = None) -> NDArray[Any]:
        """Calibrated logits: their softmax is `predict_proba`. Parameters as there."""
        return self._apply(scores, "logits", dtype)

    def predict(self, scores: Any) -> NDArray[Any]:
        """The class of each row with the largest calibrated probability."""
        logits = self._apply(scores, "logits", np.float64)
        found: NDArray[Any] = self.classes_[logits.argmax(axis=1)]
        return found

    def apply_arrow(
        self,
        table: Any,
        scores: str | Iterable[str] | None = None,
        *,
        output: Kind = "probs",
        name: str | None = None,
        classes: Any = None,
        dtype: Any = None,
        errors: str = "raise",
    ) -> Any:
        """Calibrates a record batch or a table, without copying 32-bit scores on their way in.

        Parameters
        ----------
        table : record batch, table, data frame or stream
            Of pyarrow, polars, duckdb, nanoarrow or any other library with Arrow's C data interface. A stream is
            calibrated while the result is read.
        scores : str or list of str, optional
            The column of lists (of fixed size or not, or a fixed-shape tensor) or the columns, one per class, that
            hold the scores; `"logit_*"` is all that begin so. None: found by the usual names, `logits` or `logit_0`,
            `logit_1` and so on.
        output : {"probs", "logits", "log-probs"}
            What is written.
        name : str, optional
            The name of the column of results, or what begins the name of each class's; None: as the kind, `probs`
            or `prob_`. A column of that name is replaced; all others are carried through.
        classes : list, optional
            The classes of the scores in their order, if columns do not tell. Results are in the order of `classes_`.
        dtype : {float32, float64}, optional
            The type of the results; None: float64 for float64 scores, and float32 for all others.
        errors : {"raise", "null"}
            What to do about rows that cannot be calibrated (null, NaN, of another length): an error that names row
            and column, or null results.

        Returns
        -------
        What `table` is, for pyarrow, polars and nanoarrow; otherwise an object that any such library reads
        """
        model = self._fitted()
        known = self._known_columns()
        return _arrow.apply(model, table, scores, self.kind, output, dtype, classes, known, name, errors)

    # -- files -----------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a model file, which the command line and `ordercal.load` read.

        It holds the kind of scores, the names of the classes with their type (text, whole numbers, floats or
        booleans), and a checksum.

        Parameters
        ----------
        path : str or path
            Where to; a file that is there is replaced, and never left half-written.
        """
        model = self._fitted()
        if model.class_names is not None and class_type(self.classes_) is None:
            raise OrdercalError(
                "classes that are neither text, whole numbers, floats nor booleans, or not all of one type, "
                "cannot be saved: name them with texts in fit(…, classes=[…])"
            )
        model.save(os.fspath(path))

    @classmethod
    def load(cls: type[Self], path: str | os.PathLike[str], *, kind: Kind | None = None) -> Self:
        """Reads a model file of this method; `ordercal.load` reads one of any, and has the same parameters."""
        found = load(path, kind=kind)
        if not isinstance(found, cls):
            raise OrdercalError(f"{os.fspath(path)}: the model is a {type(found).__name__}, not a {cls.__name__}")
        return found

    def to_onnx(
        self, path: str | os.PathLike[str] | None = None, *, input_type: Literal["f32", "f16"] = "f32"
    ) -> bytes:
        """The model as ONNX: `scores` of this `kind` in, `probabilities` and `logits` out.

        Parameters
        ----------
        path : str or path, optional
            Where the bytes are written to, too.
        input_type : {"f32", "f16"}
            The type of `scores`: 32-bit floats, or half precision for networks that compute in it.

        Returns
        -------
        bytes
        """
        return self._fitted().onnx(None if path is None else os.fspath(path), self.kind, input_type)

    def to_affine(self) -> Affine:
        """The scale and the bias of methods that are an affine map of the scores: `ts`, `vs`, `ms-odir`, `dir-odir`.

        Scores far outside the range of those of the fit are clamped by the calibrator, and not by the map.

        Returns
        -------
        Affine
        """
        model = self._fitted()
        settings, arrays = json.loads(model.settings), model.tensors()
        classes = model.classes
        form = settings["form"]
        if form in ("uncalibrated", "ts"):
            scale = float(settings.get("beta", 1.0))
            return Affine(np.full(classes, scale), np.zeros(classes), "logits")
        features = settings.get("features", {})
        if form != "linear" or features["kind"] != "tempered" or features["input"] == "centred":
            raise OrdercalError(
                f"this {type(self).__name__} is not an affine map of the scores: use to_onnx or to_torch, or fit "
                "TemperatureScaling, VectorScaling, MatrixScaling or Dirichlet"
            )
        deviation = np.asarray(arrays["deviation"], dtype=np.float64)
        if len(deviation) == classes:
            weight = 1.0 + deviation
        else:
            weight = np.eye(classes) + deviation.reshape(classes, classes)
        source = "logits" if features["input"] == "raw" else "log-probs"
        return Affine(float(features["beta"]) * weight, np.asarray(arrays["bias"], dtype=np.float64), source)

    def to_torch(self, *, output: Kind = "probs") -> Any:
        """The model as a PyTorch module: scores of this `kind` in, a tensor of the same shape out.

        The module computes in 64 bits, or in what `module.to(torch.float32)` says, for devices that have no more.
        Gradients pass through to the scores; `torch.export` takes it.

        Parameters
        ----------
        output : {"probs", "logits", "log-probs"}
            What comes out.

        Returns
        -------
        torch.nn.Module
        """
        if output not in ("probs", "logits", "log-probs"):
            raise OrdercalError(f"there is no output `{output}`; it is `probs`, `logits` or `log-probs`")
        model = self._fitted()
        try:
            from ._torch import TorchCalibrator
        except ImportError as error:
            raise ImportError("to_torch needs PyTorch: pip install torch") from error
        settings = json.loads(model.settings)
        return TorchCalibrator(settings, model.tensors(), self.kind, output, model.order_preserving)


def _documentation(key: str, cls: type[Calibrator]) -> str:
    """The keywords of a class, explained."""
    lines = ["    Parameters", "    ----------"]
    for name, parameter in list(inspect.signature(cls.__init__).parameters.items())[1:]:
        lines += [f"    {name} : default {parameter.default!r}", f"        {description(key, name)}"]
    return "\n".join(lines) + "\n    "


def _constructor(defaults: dict[str, Any], free: bool) -> Callable[..., None]:
    """An `__init__` that stores its keywords: the method's settings with the library's defaults."""
    shown = {_keyword(name): _shown(value, value) for name, value in defaults.items()}
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


def _class_names(model: _native.Model) -> NDArray[Any]:
    """The names of the classes with the type they had."""
    names = model.class_names
    if names is None:
        return np.arange(model.classes)
    if model.class_type == "boolean":
        return np.asarray([name == "True" for name in names])
    types = {"text": np.str_, "integer": np.int64, "float": np.float64}
    return np.asarray(names).astype(types[model.class_type])


def calibrator(method: MethodKey, **params: Any) -> Calibrator:
    """The calibrator with a key of the command line.

    Parameters
    ----------
    method : str
        "ts", "oi", "auto", …; with "+order" after the key of a free method, it keeps predictions.
    **params
        The keywords of its class.

    Returns
    -------
    Calibrator
    """
    key, _, order = method.partition("+")
    if order and (order != "order" or key not in REGISTRY or not REGISTRY[key]._free):
        _native.defaults(method)  # says what is wrong
    if key not in REGISTRY:
        _native.defaults(key)
        raise OrdercalError(f"the method `{key}` has no class here")
    if order:
        params["keep_order"] = True
    return REGISTRY[key](**params)


def load(path: str | os.PathLike[str], *, kind: Kind | None = None) -> Calibrator:
    """Reads a model file, from here or from the command line, of any method.

    Parameters
    ----------
    path : str or path
        The file.
    kind : {"logits", "log-probs", "probs"}, optional
        What the scores are that it will get. The file knows what it was fitted to, and anything else is refused;
        files that are older than this knowledge are taken to be of logits if nothing is said.

    Returns
    -------
    Calibrator
        One of the method's class, fitted.
    """
    model = _native.Model.load(os.fspath(path))
    if kind is not None and model.kind is not None and kind != model.kind:
        raise OrdercalError(
            f"{os.fspath(path)}: the model was fitted to {model.kind}, not to {kind}: leave `kind` out, and give it "
            f"{model.kind}"
        )
    return _from_model(model, kind or model.kind or "logits")


def _from_model(model: _native.Model, kind: str) -> Calibrator:
    table = json.loads(model.method)
    found = calibrator(table.pop("method"), kind=kind)
    for name, value in table.items():
        setattr(found, _keyword(name), _shown(value, found._defaults.get(name)))
    found._take(model)
    return found
