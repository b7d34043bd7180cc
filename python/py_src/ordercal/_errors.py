"""What the package raises; the words are the library's own."""

from __future__ import annotations


class OrdercalError(ValueError):
    """A value that cannot be used; the message names the row and column and what to do."""


class OrdercalTypeError(OrdercalError, TypeError):
    """A value of a type that cannot be used."""


class MissingFileError(OrdercalError, FileNotFoundError):
    """A file that is not there."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class NotFittedError(OrdercalError, AttributeError):
    """A calibrator that has not been fitted yet."""
