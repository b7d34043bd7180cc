"""A figure that a notebook shows once."""

from __future__ import annotations

import io

from matplotlib import pyplot
from matplotlib.figure import Figure


class NotebookFigure(Figure):
    """Shown at the end of the cell that drew it, as all of pyplot's; and later wherever it is the value of a cell.

    Without this, a figure that is the value of the cell that drew it would be shown twice.
    """

    def _ipython_display_(self) -> None:
        if self in map(pyplot.figure, pyplot.get_fignums()):
            return
        from IPython.display import Image, display  # type: ignore[import-not-found,unused-ignore]

        target = io.BytesIO()
        self.savefig(target, format="png")
        display(Image(target.getvalue()))
