"""Runs a step and proves. Called, it is graphsafe.api's `capture`."""

from graphsafe.callable_package import make_callable

make_callable(__name__)
