"""Reads source and predicts. Called, it is graphsafe.api's `scan`."""

from graphsafe.callable_package import make_callable

make_callable(__name__)
