"""Reads source and predicts. The package can be called: that is graphsafe.api's `scan`."""

from graphsafe.callable_package import make_callable

make_callable(__name__)
