"""What the package raises; the words are the library's own."""

from __future__ import annotations

import sys


class OrdercalError(ValueError):
    """A value that cannot be used; the message names the row and column and what to do."""


class OrdercalTypeError(OrdercalError, TypeError):
    """A value of a type that cannot be used."""


class MissingFileError(OrdercalError, FileNotFoundError):
    """A file that is not there."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class NotFittedError(OrdercalError, AttributeError):
    """A calibrator that has not been fitted yet; scikit-learn's error of this name too, where it is in use."""


def not_fitted(message: str) -> NotFittedError:
    """The error to raise: one that `except sklearn.exceptions.NotFittedError` catches if scikit-learn is loaded."""
    if "sklearn" not in sys.modules:
        return NotFittedError(message)
    from sklearn.exceptions import NotFittedError as Theirs

    both = type("NotFittedError", (NotFittedError, Theirs), {"__reduce__": lambda self: (not_fitted, self.args)})
    found: NotFittedError = both(message)
    return found
