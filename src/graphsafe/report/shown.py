"""The report and the ledger that graphsafe's functions return. They can load a file and show themselves."""

from __future__ import annotations

import html
import os
from pathlib import Path
from typing import Any, TypeVar

from graphsafe.errors import RequestError
from graphsafe.report import model
from graphsafe.report.forms import render
from graphsafe.report.json_form import read_reports
from graphsafe.report.ledger import model as ledger_model
from graphsafe.report.reading import members

Shown = TypeVar("Shown", bound="_Shown")


class _Shown:
    """A report or a ledger that shows itself as text, and in a notebook as HTML under a cell."""

    __slots__ = ()

    @classmethod
    def of(cls: type[Shown], document: Any) -> Shown:
        """Return the same document with these methods."""
        return cls(**members(document))

    def __str__(self) -> str:
        """Return the document in the format of the terminal."""
        return self._form("terminal")

    def _repr_html_(self) -> str:
        """Return the HTML in a frame, so that its styles and the notebook's styles do not affect each other."""
        style = "width: 100%; height: 36em; border: 1px solid #8884"
        return f'<iframe srcdoc="{html.escape(self._form("html"))}" sandbox="" style="{style}"></iframe>'

    def json(self) -> str:
        """Return the document as JSON, as the commands write it."""
        return self._form("json")

    def _form(self, form: str) -> str:
        shown: Any = self
        return render(shown, form)


class Report(_Shown, model.Report):
    __slots__ = ()

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Report:
        """Read one report that `scan` or `capture` has written as JSON.

        Raises RequestError, with one line, if the file is no report of this version. A file of `capture --all` with
        several reports also raises it; use `load_all` for such a file.
        """
        found = Report.load_all(path)
        if len(found) != 1:
            raise RequestError(f"{path}: contains {len(found)} reports; Report.load_all reads them")
        return found[0]

    @staticmethod
    def load_all(path: str | os.PathLike[str]) -> tuple[Report, ...]:
        """Return the reports in a file, in order. Raises RequestError if the file cannot be read."""
        return tuple(map(Report.of, read_reports(Path(path))))


class Ledger(_Shown, ledger_model.Ledger):
    __slots__ = ()
