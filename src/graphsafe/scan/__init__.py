"""Reads source and predicts. A call of the package runs `graphsafe.api.scan`."""

from graphsafe.callable_package import make_callable

make_callable(__name__)
