"""Where the tensors are that calls pass to methods of which only the name is known: engines call plug-ins like that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from graphsafe.scan.domain.arguments import Arguments
from graphsafe.scan.domain.joins import join
from graphsafe.scan.domain.values import Tensor, as_tensor


class Passed:
    def __init__(self) -> None:
        self._tensors: dict[str, dict[str, Tensor]] = {}
        "Method -> parameter -> tensor."

    def keep(self, name: str, tensor: Tensor) -> None:
        """A tensor that a call of a name passes; its own name is the parameter's."""
        passed = self._tensors.setdefault(name, {})
        keyword = tensor.name or ""
        known = join(passed.get(keyword, tensor), tensor)
        assert type(known) is Tensor
        passed[keyword] = known

    def on_host(self, ref: str) -> Mapping[str, Tensor]:
        """Parameter -> tensor, for those that the host keeps."""
        passed = self._tensors.get(ref.rpartition(".")[2].rpartition("::")[2])
        return {name: tensor for name, tensor in passed.items() if tensor.where == "host"} if passed else {}


def passed_by(arguments: Arguments) -> Iterator[Tensor]:
    """Of each keyword's tensor no more than where it is."""
    for keyword, value in arguments.keywords.items():
        tensor, certain = as_tensor(value)
        if tensor is not None and certain and tensor.where != "any":
            yield Tensor(tensor.where, tensor.dtype, pinned=tensor.pinned, step=True, name=keyword)
