"""Starts the watch in a Python process when it imports torch.

Python imports this module at its start, because `graphsafe run` puts this folder first on PYTHONPATH. The rest of
graphsafe is imported only after torch. If this module hides another `sitecustomize`, that module is also run.
"""

from __future__ import annotations

import importlib.machinery
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any  # not imported at run time: the import would take longer than the rest of this file

_FOLDER = os.path.dirname(os.path.abspath(__file__))


class _Watched:
    """Loads torch with torch's own loader, then starts the watch."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: Any) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        try:
            from graphsafe.run.child.watch import begin
        except ImportError as error:
            # The Python of another environment has no graphsafe. The program then runs unwatched, and the ledger says
            # so.
            if error.name != "graphsafe":
                sys.stderr.write(f"graphsafe: this process is not watched: {error}\n")
            return
        begin()


class _Finder:
    """Finds torch through the other finders, and replaces its loader by `_Watched`."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        found = (finder.find_spec(name, path, target) for finder in list(sys.meta_path))
        spec = next((one for one in found if one is not None), None)
        if spec is None:
            sys.meta_path.insert(0, self)
        elif spec.loader is not None:
            spec.loader = _Watched(spec.loader)  # type: ignore[assignment]
        return spec


def _note_start() -> None:
    """Record in the ledger that this process has started, and pass its name to the processes that it starts."""
    folder = os.environ["GRAPHSAFE_RUN"]
    token = f"{os.getpid()}-{os.urandom(4).hex()}"
    parent, os.environ["GRAPHSAFE_RUN_PARENT"] = os.environ.get("GRAPHSAFE_RUN_PARENT", ""), token
    try:
        with open(os.path.join(folder, f"{token}.start"), "w", encoding="utf-8") as file:
            file.write(parent)
    except OSError:  # the run has ended, or its disk is full: the program must go on
        return
    sys.meta_path.insert(0, _Finder())


def _run_hidden() -> None:
    """Import the next `sitecustomize` on the path, if there is one."""
    others = [path for path in sys.path if os.path.abspath(path or ".") != _FOLDER]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        from importlib.util import module_from_spec

        hidden = module_from_spec(spec)
        sys.modules["sitecustomize"] = hidden
        spec.loader.exec_module(hidden)


if os.environ.get("GRAPHSAFE_RUN"):
    _note_start()
_run_hidden()
