"""Runs a step and proves that it can be captured and replayed. A call of the package runs `graphsafe.api.capture`."""

from graphsafe.callable_package import make_callable

make_callable(__name__)
