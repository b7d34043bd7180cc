"""The methods, one class each, made from the library's table of methods: a new line there is a new class here."""

from __future__ import annotations

import types
from typing import Any

from . import _native
from ._calibrator import Calibrator


def _temperature(self: Calibrator) -> float:
    """What logits are divided by: 1 / beta. Where the data had zeros, the logits are those behind their floor."""
    return 1.0 / float(self.parameters_.get("then", self.parameters_)["beta"])


#: What the class of a method has beyond the others.
_EXTRAS: dict[str, dict[str, Any]] = {"ts": {"temperature_": property(_temperature)}}


def _doc(key: str) -> str:
    brief = _native.brief(key)
    promise = "Keeps" if _native.promises_order(key) else "May change predictions, unless `keep_order`, which keeps"
    return f"{brief[0].upper()}{brief[1:]}.\n\n    {promise} every prediction."


def _class(key: str) -> type[Calibrator]:
    content = {"__doc__": _doc(key), "__module__": __name__, **_EXTRAS.get(key, {})}
    name = _native.python_class(key)
    return types.new_class(name, (Calibrator,), {"key": key}, lambda namespace: namespace.update(content))


__all__ = sorted(_native.python_class(key) for key in _native.keys())
globals().update({_native.python_class(key): _class(key) for key in _native.keys()})
