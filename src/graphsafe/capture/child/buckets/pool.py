"""Captures all buckets of a target in one pool, the largest first, and replays them in mixed order, as engines do.

Each bucket is also replayed right after its capture, before the next bucket is captured. A later replay must equal
either that replay, or eager steps that run in the order of the replays. By design, buckets may share state such as a
cache. Capturing the buckets in one pool must not change their results.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from graphsafe.capture.answers.events import CaptureFailure
from graphsafe.capture.answers.pool import CapturedBuckets, Capturing, FailedBucket, Mixed, Padding, Together
from graphsafe.capture.child.buckets.members import Member, SavedBindings, put_back_all
from graphsafe.capture.child.buckets.padding import padded_replays
from graphsafe.capture.child.memory_use import pool_memory_held
from graphsafe.capture.child.session import CAPTURE_SEED, REPLAYS, Session, opened
from graphsafe.capture.child.targets import TargetError
from graphsafe.capture.shared.job import Channel, Job
from graphsafe.report.pool import Different, Overwritten, PoolBucket

_MOST_MIXED = 48


def run(job: Job, channel: Channel) -> None:
    """Capture and replay `job.buckets` in their order. `job.axes` are the axes of the first bucket."""
    with opened(job, channel) as first:
        members = _built(first, job)
        with first.device.capture_stream():
            if not _captured(members, channel):
                return
        peak = first.device.memory().peak
        held = [SavedBindings(member.session, member.built) for member in members]
        channel.send(Together(peak, _shared(held)))
        channel.phase("replays in mixed order")
        mixed = _mixed(members, held)
        channel.send(replace(mixed, different=(*_unlike_fresh(members), *mixed.different)))
        channel.send(Padding())
        for found in padded_replays(members, held):
            channel.send(Padding(found))


def _built(first: Session, job: Job) -> list[Member]:
    folder = Path(job.buckets[0].folder)
    first.load_sets(folder)
    members = [Member.of(first, job.buckets[0].axes, folder)]
    for bucket in job.buckets[1:]:
        first.channel.send(Capturing(bucket.axes))
        folder = Path(bucket.folder)
        members.append(Member.of(first.of_bucket(bucket.axes, folder), bucket.axes, folder, members))
    for member in members:
        member.session.capture_path = True
    return members


def _captured(members: Sequence[Member], channel: Channel) -> bool:
    """Capture all buckets. Return False if one capture failed; this process cannot capture again after that."""
    device = members[0].session.device
    pool, total = device.shared_pool(), 0
    captured: tuple[PoolBucket, ...] = ()
    for member in members:
        session = member.session
        channel.phase(f"warm up {member.name}")
        channel.send(Capturing(member.axes))
        member.warm_up()
        channel.phase(f"capture {member.name}")
        session.seed(CAPTURE_SEED)
        gc.collect()
        with device.watch_memory() as taken:
            answer = session.record(pool=pool)
        failed = session.ranks.any(isinstance(answer, CaptureFailure))
        if isinstance(answer, CaptureFailure):
            channel.send(FailedBucket(member.axes, answer))
            return False
        if failed:
            return False
        member.recording = answer
        holds = answer.pool_bytes()
        if holds is not None:
            member.pool_bytes, total = holds - total, holds
        held = None if device.evidence == "predicted" else pool_memory_held(taken)
        captured += (PoolBucket(member.axes, member.pool_bytes, held, alone_bytes=None),)
        channel.send(CapturedBuckets(captured, holds))
        state = SavedBindings(session, member.built)
        for k in range(1, REPLAYS + 1):
            state.put_back()
            member.alone[k] = member.replay(k)
        state.put_back()
    channel.send(Capturing())
    return True


def _unlike_fresh(members: Sequence[Member]) -> list[Different]:
    """Return the buckets whose first replay differs from that of a fresh process.

    Such a bucket used something from another bucket: a plan or table that the other bucket left in a module's variable
    or in a function's cache, or a number that the other bucket changed. Steps may share state on the device by design.
    So a bucket is checked only if its state after construction differs from that in the fresh process, or if it found
    state that no step changes (`Member.warm_up`).

    If even the first bucket's state after construction differs from its reference, some parameters do not depend on the
    seed, and nothing is reported.
    """
    first = members[0]
    if not first.built_alike:
        return []
    found = []
    for at, member in enumerate(members):
        if member.fresh is not None and (member.inherits or not member.built_alike) and 1 in member.alone:
            outputs = member.differing_outputs(member.alone[1], member.fresh)
            if outputs:
                other = first if at else members[-1]
                found.append(Different(member.axes, other.axes, tuple(outputs[:4])))
    return found


def _mixed(members: Sequence[Member], held: Sequence[SavedBindings]) -> Mixed:
    order = _order(len(members))
    refused = None
    eager: list[Any] = []
    try:
        for number in range(2):
            put_back_all(held)
            runs = [members[at].step(k) for at, k in order]
            for (at, _), before, now in zip(order, eager, runs, strict=False) if number else ():
                for name, value in now.items():
                    members[at].noise.add(name, before.get(name), value)
            eager = eager or runs
    except TargetError as error:
        refused = error.line
    put_back_all(held)
    different: list[Different] = []
    overwritten: dict[tuple[str, str], Overwritten] = {}
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
                overwritten.setdefault(pair, Overwritten(members[other].axes, member.axes, tuple(lost[:4]), static))
        lost_by = {name for name, _ in overwritten}
        earlier = {other: digests for other, digests in earlier.items() if members[other].name not in lost_by}
        earlier[at] = _digests(member)
        as_alone = member.differing_outputs(found, member.alone[k])
        as_eager = as_alone if refused is not None else member.differing_outputs(found, eager[number])
        if as_alone and not as_eager:
            changing.add(member.name)
        if as_alone and as_eager:
            # The last step before the first replay was the capture of the last bucket.
            ran = [len(members) - 1, *(other for other, _ in order[:number])]
            after = next((other for other in reversed(ran) if other != at), at)
            found_here = Different(member.axes, members[after].axes, tuple(as_eager[:4]))
            different += [found_here] if found_here not in different else []
    return Mixed(len(order), tuple(different[:8]), tuple(overwritten.values())[:8], tuple(sorted(changing)), refused)


def _order(count: int) -> list[tuple[int, int]]:
    """Return the order of replays, as pairs of a bucket and the index of its inputs. Each bucket is replayed after
    larger buckets and after smaller ones."""
    numbers = [*range(count), *reversed(range(count)), *range(0, count, 2), *range(1, count, 2)]
    return [(number, at % REPLAYS + 1) for at, number in enumerate(numbers[:_MOST_MIXED])]


def _digests(member: Member) -> dict[str, str]:
    return member.session.device.digests(member.outputs().tensors)


def _shared(held: Sequence[SavedBindings]) -> tuple[str, ...]:
    """Return the tensors whose memory several buckets change."""
    owners: dict[int, set[int]] = {}
    names: dict[int, str] = {}
    for number, one in enumerate(held):
        for path, tensor in one.tensors.items():
            place = tensor.untyped_storage().data_ptr()
            owners.setdefault(place, set()).add(number)
            names.setdefault(place, path)
    return tuple(sorted(names[place] for place, of in owners.items() if len(of) > 1))
