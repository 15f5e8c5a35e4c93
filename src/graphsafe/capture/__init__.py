"""Runs a step and proves that it can be captured and replayed. The package can be called: that is graphsafe.api's
`capture`."""

from graphsafe.callable_package import make_callable

make_callable(__name__)
