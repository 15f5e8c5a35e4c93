"""`graphsafe capture` as a function: a request in, a report out."""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path

from graphsafe.capture.answers.build import Devices
from graphsafe.capture.parent.join import Predictions
from graphsafe.capture.parent.proof import Proof
from graphsafe.capture.parent.supervision.device_use import DeviceUse, at_a_time
from graphsafe.capture.parent.supervision.servers import Server, SharedServers
from graphsafe.capture.parent.supervision.supervisor import Supervisor
from graphsafe.capture.request import BAD_REQUEST, CaptureRequest
from graphsafe.capture.shared.job import Job
from graphsafe.errors import RequestError
from graphsafe.report.model import Limit, Report
from graphsafe.rulebook.book import load_rulebook, rulebook_of

Progress = Callable[[str], None]
"A function that is called with one short line at each change of phase."


class CaptureFault(Exception):
    """A failure of graphsafe's own code. `reports` holds one report per target. The reports of targets that failed are
    inconclusive."""

    def __init__(self, reports: list[Report]) -> None:
        super().__init__("graphsafe failed")
        self.reports = reports


def capture_target(request: CaptureRequest) -> Report:
    """Prove one target over its devices and buckets.

    Every failure of the target is reported, not raised: a wrong request gives a report with a `BAD_REQUEST` limit, and
    a child in which graphsafe itself failed gives a report with an `INTERNAL` limit. Raises RequestError if torch is
    missing or no temporary folder can be made. Raises CaptureFault if graphsafe failed outside of its children.
    """
    return capture_all([request])[0]


def capture_all(
    requests: Sequence[CaptureRequest],
    progress: Progress | None = None,
    breaks_off: Callable[[], AbstractContextManager[None]] = nullcontext,
    kept: Server | None = None,
) -> list[Report]:
    """Return one report for each request, in order. Raises the same errors as `capture_target`.

    After Ctrl-C the reports of unfinished targets have an `INTERRUPTED` limit. A caller that handles signals itself
    passes `breaks_off`, a function that returns a context manager in which these signals raise KeyboardInterrupt.
    `kept` is a server from `kept_server`, for a caller that makes several captures in a row.
    """
    if importlib.util.find_spec("torch") is None:
        raise RequestError('capture needs PyTorch: pip install "graphsafe[capture]"')
    proofs = [Proof(request, rulebook_of(request.config)) for request in requests]
    waiting = [proof for proof in proofs if not proof.is_impossible()]
    if waiting:
        _prove(waiting, progress, breaks_off, kept)
    predictions = Predictions()
    reports = [proof.report(predictions) for proof in proofs]
    fault = next((proof.fault for proof in proofs if proof.fault is not None), None)
    if fault is not None:
        raise CaptureFault(reports) from fault
    return reports


def refused(request: CaptureRequest, why: str) -> Report:
    """Return the report of a wrong request. Nothing runs; `why` is the reason in the report's `BAD_REQUEST` limit."""
    proof = Proof(request, load_rulebook(()))
    proof.limits.append(Limit(BAD_REQUEST, request.target, why))
    return proof.report(Predictions())


@contextmanager
def kept_server() -> Iterator[Server | None]:
    """Yield a process that has imported torch, from which `capture_all` can fork any number of children. Yields None on
    systems that cannot fork. Raises RequestError if no temporary folder can be made."""
    with _temporary_folder() as folder:
        server = Server.start(folder, with_torch=True) if sys.platform == "linux" else None
        try:
            yield server
        finally:
            if server is not None:
                server.close()


def _prove(
    proofs: Sequence[Proof],
    progress: Progress | None,
    breaks_off: Callable[[], AbstractContextManager[None]],
    kept: Server | None,
) -> None:
    """Prove the targets concurrently, in threads that only wait for children. The calling thread receives Ctrl-C."""
    interrupted = threading.Event()
    left = deque(enumerate(proofs))
    # We do not wait with `Thread.join`: in Python 3.11 a `join` that a signal interrupts marks a running thread as
    # ended.
    working: list[threading.Event] = []
    imported = threading.Event()
    threading.Thread(target=_import_scan, args=(imported,), daemon=True).start()
    try:
        with _temporary_folder() as folder, breaks_off(), SharedServers(folder, kept) as servers:
            devices = DeviceUse()

            def supervisor(show: Progress | None) -> Supervisor:
                return Supervisor(servers, show, devices, interrupted)

            def work(ended: threading.Event) -> None:
                try:
                    while left and not interrupted.is_set():
                        with contextlib.suppress(IndexError):
                            number, proof = left.popleft()
                            show = _named_progress(proof, progress) if len(proofs) > 1 else progress
                            proof.run(partial(supervisor, show), present, Path(folder, str(number)))
                finally:
                    ended.set()

            try:
                present: Sequence[str] = ()
                if any(proof.wants_gpu for proof in proofs):
                    with supervisor(progress) as children:
                        present = _gpus(children, folder)
                # Two targets with ranks must not use the same devices at the same time, because they would wait for
                # each other forever.
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
    finally:
        # Wait for the import: an interpreter that exits while a thread imports a native module may crash.
        imported.wait()


def _import_scan(imported: threading.Event) -> None:
    """Import `graphsafe.scan.api`, which the reports need at the end, while other processes import torch."""
    try:
        with contextlib.suppress(ImportError):
            importlib.import_module("graphsafe.scan.api")
    finally:
        imported.set()


def _named_progress(proof: Proof, progress: Progress | None) -> Progress | None:
    return None if progress is None else lambda line: progress(f"{proof.target}, {line}")


def present_gpus() -> Sequence[str]:
    """Return the GPUs of this machine, as `cuda:0` and so on. A child process asks the driver, so this process does not
    initialise CUDA."""
    with (
        _temporary_folder() as folder,
        SharedServers(folder, None) as servers,
        Supervisor(servers, None, DeviceUse(), threading.Event()) as children,
    ):
        return _gpus(children, folder)


def _gpus(supervisor: Supervisor, folder: str) -> Sequence[str]:
    return supervisor.run(Job("devices", folder, "", "")).answers[Devices].names


@contextmanager
def _temporary_folder() -> Iterator[str]:
    """Yield a temporary folder and remove it at the end, except for files that cannot be removed. Raises
    RequestError."""
    try:
        folder = tempfile.mkdtemp(prefix="graphsafe-")
    except OSError as error:
        raise RequestError(f"no temporary folder can be made: {error.strerror or error}") from None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
