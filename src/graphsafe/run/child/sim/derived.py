"""Finds tensors (such as a merged weight) that were computed before a capture and are outdated: replays still use them
although their source tensors were written later.

The simulated device reports each eager operation. A tensor counts if a graph only reads it, if it was computed only
from other attributes of its object (its sources), and if the graph uses no source. A copy is meant to keep old values,
and so is a tensor that is updated in place. A tensor that the program computes again at any time after the capture is
left out: the program chooses when to refresh it.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch

from graphsafe.capture.device.sim.tags import Tag, tag_of, tag_of_storage, tags_of
from graphsafe.capture.shared.frames import user_frames
from graphsafe.report.ledger.model import Access
from graphsafe.report.model import CallSite
from graphsafe.run.child.names import Name
from graphsafe.run.part import Facts, sites

_COPIES = frozenset({"aten::copy_", "aten::clone", "aten::_to_copy"})
_MOST = 16
"The largest number of source tensors that are followed."


@dataclass(eq=False, slots=True)
class Outdated:
    """A tensor that a graph reads and that was computed from other tensors, its sources."""

    storage: int
    text: str
    sources: Mapping[int, str]
    "The ids of the sources' tags -> the sources' names."
    again: bool = False
    "Whether the program has written the tensor after the capture."
    written: str = ""
    "The name of the source that was written."
    frames: tuple[CallSite, ...] = ()
    "The calls that wrote the source."
    replays: int = 0
    "Number of replays since the write."

    def facts(self) -> Facts:
        return {"what": self.text, "source": self.written, "frames": sites(self.frames), "replays": self.replays}


class Derived:
    def __init__(self) -> None:
        self._sources: weakref.WeakKeyDictionary[Tag, frozenset[weakref.ref[Tag]]] = weakref.WeakKeyDictionary()
        self._watched: weakref.WeakKeyDictionary[Tag, list[Outdated]] = weakref.WeakKeyDictionary()
        self._all: list[Outdated] = []

    def ran(
        self, op: str, inputs: Sequence[torch.Tensor], written: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]
    ) -> None:
        """Note an operation that ran eagerly."""
        read, wrote = set(tags_of(inputs)), set(tags_of(written))
        for tag in wrote if self._all else ():
            self._wrote(tag)
        is_updated = bool(wrote) and op.endswith("_") and op not in _COPIES
        has_no_values = op.endswith("_like") or op.startswith("aten::new_")
        read_from = () if is_updated or has_no_values else read - wrote
        sources = self._origins(read_from, copied=op in _COPIES) - set(map(weakref.ref, wrote))
        for tag in wrote | (set(tags_of(outputs)) - read):
            self._sources.pop(tag, None)
            if sources:
                self._sources[tag] = sources

    def _origins(self, tags: Iterable[Tag], *, copied: bool) -> frozenset[weakref.ref[Tag]]:
        found: set[weakref.ref[Tag]] = set()
        for tag in tags:
            known = self._sources.get(tag)
            found.update(known if known is not None else () if copied else (weakref.ref(tag),))
        return frozenset(found if len(found) <= _MOST else ())

    def _wrote(self, tag: Tag) -> None:
        for one in self._watched.get(tag, ()):
            source = one.sources.get(id(tag))
            if source is None:
                one.again = True
            elif not one.frames:
                one.frames, one.written = user_frames()[0], source

    def captured(
        self, reads: Sequence[torch.UntypedStorage], used: Iterable[int], names: Mapping[int, Sequence[Name]]
    ) -> None:
        """Watch the tensors that a graph reads and that were computed from others.

        `used` holds every storage that the graph uses.
        """
        tags = {storage: tag for storage in reads if (tag := tag_of_storage(storage)) is not None}
        if not any(self._sources.get(tag) for tag in tags.values()):
            return
        by_tag: dict[Tag, tuple[int, Sequence[Name]]] = {}
        for number, known in names.items():
            tensor = known[0].tensor() if known else None
            tag = None if tensor is None else tag_of(tensor)
            if tag is not None:
                by_tag[tag] = number, known
        using = set(used)
        for storage, tag in tags.items():
            sources = self._sources.get(tag, frozenset())
            others = [one for source in sources if (one := source()) is not None]
            number, own = by_tag.get(tag, (0, ()))
            beside = [(one, *by_tag.get(one, (0, ()))) for one in others]
            texts = {
                id(one): text for one, other, known in beside if other not in using and (text := _beside(known, own))
            }
            if others and len(texts) == len(sources):
                found = Outdated(int(storage._cdata), own[0].text, texts)
                self._all.append(found)
                for one in (tag, *others):
                    self._watched.setdefault(one, []).append(found)

    def replayed(self, uses: Mapping[int, Access]) -> None:
        for one in self._all:
            if one.frames and not one.again and uses.get(one.storage) == "read":
                one.replays += 1

    def found(self) -> list[Outdated]:
        return [one for one in self._all if one.replays and not one.again]


def _beside(names: Sequence[Name], others: Sequence[Name]) -> str | None:
    """Return the name under which a tensor is an attribute of the same object as one of `others`, or None."""
    places = {place for one in others if (place := _place(one)) is not None}
    return next((one.text for one in names if _place(one) in places), None)


def _place(name: Name) -> tuple[object, ...] | None:
    """Return the object that holds a tensor as its attribute."""
    if name.root is None or not name.way or name.way[-1][0] not in ("attribute", "parameter"):
        return None
    return id(name.root()), *name.way[:-1]
