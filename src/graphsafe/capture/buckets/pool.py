"""All buckets of a target captured in one pool, as engines do: the largest first, replayed in mixed order.

A replay has to give what the same bucket gives when no other has been captured after it, or what eager steps give in
the same order: buckets may share state by design, a cache for instance, but graphs must not make of it something else.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphsafe.capture.buckets.members import Held, Member
from graphsafe.capture.buckets.padding import padded_replays
from graphsafe.capture.device.protocol import CaptureFailure
from graphsafe.capture.memory_use import pool_memory_held
from graphsafe.capture.session import CAPTURE_SEED, REPLAYS, opened
from graphsafe.capture.targets import TargetError

if TYPE_CHECKING:
    from graphsafe.capture.job import Channel, Job
    from graphsafe.capture.session import Session

_MOST_MIXED = 48
"Replays in mixed order."


def run(job: Job, channel: Channel) -> None:
    """`job.buckets` in the order in which they are captured; `job.axes` are those of the first."""
    with opened(job, channel) as first:
        members = _built(first, job)
        with first.device.capture_stream():
            if not _captured(members, channel):
                return
        channel.tell(peak_bytes=first.device.memory().peak)
        held = [Held(member.session, member.built) for member in members]
        channel.tell(shared=_shared(held))
        channel.phase("replays in mixed order")
        channel.tell(**_mixed(members, held))
        channel.tell(padding_began=True)
        for found in padded_replays(members, held):
            channel.tell(padding=found)


def _built(first: Session, job: Job) -> list[Member]:
    folders = [Path(bucket["folder"]) for bucket in job.buckets]
    channel = first.channel
    first.load_sets(folders[0])
    members = [Member.of(first, job.buckets[0]["axes"], folders[0])]
    for bucket, folder in zip(job.buckets[1:], folders[1:], strict=True):
        channel.tell(capturing=bucket["axes"])
        session = first.of_bucket(bucket["axes"], folder)
        members.append(Member.of(session, bucket["axes"], folder))
    for member in members:
        member.session.capture_path = True
    return members


def _captured(members: Sequence[Member], channel: Channel) -> bool:
    """Whether all were; after a capture that failed, this process can make no other."""
    device = members[0].session.device
    pool, total = device.shared_pool(), 0
    reported: list[dict[str, Any]] = []
    for member in members:
        session = member.session
        channel.phase(f"warm up {member.name}")
        channel.tell(capturing=dict(member.axes))
        session.warm_up()
        channel.phase(f"capture {member.name}")
        session.seed(CAPTURE_SEED)
        gc.collect()
        with device.watch_memory() as taken:
            answer = device.record(session.subject, pool=pool)
        failed = session.ranks.any(isinstance(answer, CaptureFailure))
        if isinstance(answer, CaptureFailure):
            channel.tell(failed={"axes": dict(member.axes), "first_error": asdict(answer)})
            return False
        if failed:
            return False
        member.recording = answer
        holds = answer.pool_bytes()
        if holds is not None:
            member.pool_bytes, total = holds - total, holds
        held = None if device.evidence == "predicted" else pool_memory_held(taken)
        reported.append({"axes": dict(member.axes), "pool_bytes": member.pool_bytes, "held": held})
        channel.tell(captured=reported, pool_bytes=holds)
        state = Held(session, member.built)
        for k in range(1, REPLAYS + 1):
            state.put_back()
            member.alone[k] = member.replay(k)
        state.put_back()
    channel.tell(capturing=None)
    return True


def _mixed(members: Sequence[Member], held: Sequence[Held]) -> dict[str, Any]:
    order = _order(len(members))
    refused = None
    eager: list[Any] = []
    try:
        for number in range(2):
            _put_back(held)
            runs = [members[at].step(k) for at, k in order]
            for (at, _), before, now in zip(order, eager, runs, strict=False) if number else ():
                for name, value in now.items():
                    members[at].noise.add(name, before.get(name), value)
            eager = eager or runs
    except TargetError as error:
        refused = error.line
    _put_back(held)
    different: list[dict[str, Any]] = []
    overwritten: dict[tuple[str, str], dict[str, Any]] = {}
    earlier: dict[int, dict[str, str]] = {}
    changing: set[str] = set()
    for number, (at, k) in enumerate(order):
        member = members[at]
        found = member.replay(k)
        for other, digests in earlier.items():
            lost = [name for name, digest in _digests(members[other]).items() if digest != digests.get(name)]
            if other != at and lost:
                pair = (members[other].name, member.name)
                static = bool(members[other].static_outputs() & set(lost))
                reported = {"axes": dict(members[other].axes), "by": dict(member.axes), "outputs": lost[:4]}
                overwritten.setdefault(pair, {**reported, "static": static})
        earlier = {
            other: digests for other, digests in earlier.items() if members[other].name not in _first(overwritten)
        }
        earlier[at] = _digests(member)
        as_alone = member.apart(found, member.alone[k])
        as_eager = as_alone if refused is not None else member.apart(found, eager[number])
        if as_alone and not as_eager:
            changing.add(member.name)
        if as_alone and as_eager:
            # Before any replay it was the capture of the last bucket that ran.
            ran = [len(members) - 1, *(other for other, _ in order[:number])]
            after = next((other for other in reversed(ran) if other != at), at)
            reported = {"axes": dict(member.axes), "after": dict(members[after].axes), "outputs": as_eager[:4]}
            different += [reported] if reported not in different else []
    return {
        "replays": len(order),
        "different": different[:8],
        "overwritten": list(overwritten.values())[:8],
        "depends_on_order": sorted(changing),
        "refused": refused,
    }


def _order(count: int) -> list[tuple[int, int]]:
    """Which bucket, on which inputs: each comes after larger ones and smaller ones."""
    numbers = [*range(count), *reversed(range(count)), *range(0, count, 2), *range(1, count, 2)]
    return [(number, at % REPLAYS + 1) for at, number in enumerate(numbers[:_MOST_MIXED])]


def _first(pairs: Any) -> set[str]:
    return {one for one, _ in pairs}


def _digests(member: Member) -> dict[str, str]:
    return member.session.device.digests(member.outputs())


def _put_back(held: Sequence[Held]) -> None:
    for one in held:
        one.put_back()


def _shared(held: Sequence[Held]) -> list[str]:
    """Tensors that several buckets change: the same memory behind them."""
    owners: dict[int, set[int]] = {}
    names: dict[int, str] = {}
    for number, one in enumerate(held):
        for path, tensor in one.tensors.items():
            place = tensor.untyped_storage().data_ptr()
            owners.setdefault(place, set()).add(number)
            names.setdefault(place, path)
    return sorted(names[place] for place, of in owners.items() if len(of) > 1)
