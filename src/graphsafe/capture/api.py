"""`graphsafe capture` as a function: a request in, a report out."""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from graphsafe.capture.job import Job
from graphsafe.capture.processes.device_use import DeviceUse
from graphsafe.capture.processes.host_capacity import at_a_time
from graphsafe.capture.processes.shared_servers import SharedServers
from graphsafe.capture.processes.supervisor import Supervisor
from graphsafe.capture.proof import Proof
from graphsafe.capture.request import CaptureRequest
from graphsafe.errors import RequestError
from graphsafe.report.model import Report
from graphsafe.rulebook import load_rulebook

Progress = Callable[[str], None]


class CaptureFault(Exception):
    """graphsafe's own code failed. `reports` are those of all targets; the failed ones are inconclusive."""

    def __init__(self, reports: list[Report]) -> None:
        super().__init__("graphsafe failed")
        self.reports = reports


def capture_target(request: CaptureRequest, progress: Progress | None = None) -> Report:
    """Prove one target over its devices and buckets.

    Whatever the target does is an answer: a request that is wrong gives a report with a `BAD_REQUEST` limit, a child in
    which graphsafe failed one with an `INTERNAL` limit. Raises RequestError where there is no torch or no room for
    temporary files, and CaptureFault where graphsafe failed outside of its children.
    """
    return capture_all([request], progress)[0]


def capture_all(requests: Sequence[CaptureRequest], progress: Progress | None = None) -> list[Report]:
    """A report each, in order; after Ctrl-C those of targets that were not done have an `INTERRUPTED` limit. Raises as
    `capture_target` does."""
    if importlib.util.find_spec("torch") is None:
        raise RequestError('capture needs PyTorch: pip install "graphsafe[capture]"')
    proofs = [Proof(request, load_rulebook(request.config.rule_packs)) for request in requests]
    waiting = [proof for proof in proofs if not proof.is_impossible()]
    if waiting:
        _prove(waiting, progress)
    reports = [proof.report() for proof in proofs]
    fault = next((proof.fault for proof in proofs if proof.fault is not None), None)
    if fault is not None:
        raise CaptureFault(reports) from fault
    return reports


def _prove(proofs: Sequence[Proof], progress: Progress | None) -> None:
    """Side by side in threads, which do nothing but wait for children; Ctrl-C comes to this one."""
    interrupted = threading.Event()
    left = deque(enumerate(proofs))
    # Not the threads themselves: in Python 3.11 a `join` that a signal interrupts takes a running thread for ended.
    working: list[threading.Event] = []
    try:
        with _temporary_folder() as folder, SharedServers() as servers:
            devices = DeviceUse()

            def supervisor(show: Progress | None) -> Supervisor:
                return Supervisor(servers, show, devices, interrupted)

            def prove(number: int, proof: Proof) -> None:
                show = _named_progress(proof, progress) if len(proofs) > 1 else progress
                proof.run(lambda: supervisor(show), present, Path(folder, str(number)))

            def work(ended: threading.Event) -> None:
                try:
                    while left and not interrupted.is_set():
                        with contextlib.suppress(IndexError):
                            prove(*left.popleft())
                finally:
                    ended.set()

            try:
                present: Sequence[str] = ()
                if any(proof.wants_gpu for proof in proofs):
                    with supervisor(progress) as children:
                        present = _gpus(children, folder)
                # Ranks of two targets on the same devices would wait for each other.
                ranks = any(proof.has_ranks for proof in proofs)
                for _ in range(1 if ranks else min(len(proofs), at_a_time())):
                    ended = threading.Event()
                    threading.Thread(target=work, args=(ended,)).start()
                    working.append(ended)
                for ended in working:
                    while not ended.wait(0.1):
                        pass
            except BaseException:
                interrupted.set()
                for ended in working:
                    ended.wait()
                raise
    except KeyboardInterrupt:
        for _, proof in left:
            proof.interrupt()


def _named_progress(proof: Proof, progress: Progress | None) -> Progress | None:
    return None if progress is None else lambda line: progress(f"{proof.target}, {line}")


def _gpus(supervisor: Supervisor, folder: str) -> Sequence[str]:
    reported: Any = supervisor.run(Job("devices", folder, "", "")).result.get("devices")
    return reported or ()


@contextmanager
def _temporary_folder() -> Iterator[str]:
    """Raises RequestError where it cannot be made; what cannot be removed in the end is left."""
    try:
        folder = tempfile.mkdtemp(prefix="graphsafe-")
    except OSError as error:
        raise RequestError(f"no temporary folder can be made: {error.strerror or error}") from None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
