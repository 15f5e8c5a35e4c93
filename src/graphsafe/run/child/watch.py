"""The watch of one process, which collects its facts and writes its part of the ledger.

It begins when torch has been imported, and ends with the process.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import secrets
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_parameter_registration_hook,
)
from torch.optim.optimizer import register_optimizer_step_pre_hook

from graphsafe.failure import in_one_line
from graphsafe.run import part
from graphsafe.run.child.book import Book
from graphsafe.run.child.hooks import hooked
from graphsafe.run.child.process_groups import rank
from graphsafe.run.child.sight import Sight
from graphsafe.run.counters import Counters, counts_in
from graphsafe.run.facts import ProcessFacts
from graphsafe.run.part import Options, Part, graphs_of

_PAUSE = 1.0
"The shortest time in seconds between two writes of a process's part."


current: Watch | None = None


def begin() -> None:
    """Watch this process as the environment variables say.

    It is called when torch has been imported, before the program uses torch. Further calls do nothing.
    """
    global current
    folder, token = os.environ.get(part.FOLDER), os.environ.get(part.PARENT)
    if current is not None or not folder or not token or not Path(folder).is_dir():
        return
    if token.partition("-")[0] != str(os.getpid()):  # graphsafe was not loaded by `entry/sitecustomize.py`
        token = _new_token(token, Path(folder))
    options = Options.parse(os.environ.get(part.OPTIONS, "{}"))
    try:
        watch = current = Watch(options, Path(folder), token)
    except Exception as error:  # an error of graphsafe must not stop the program
        part.write_part(Path(folder), token, ProcessFacts(fault=in_one_line(error)))
        return
    watch.write()
    atexit.register(watch.end)
    watch.end_with_multiprocessing()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=watch.end_with_multiprocessing, after_in_child=watch.fork)


def _new_token(parent: str, folder: Path) -> str:
    """Return a name for this process, which `parent` started, and record its start."""
    token = f"{os.getpid()}-{secrets.token_hex(4)}"
    os.environ[part.PARENT] = token
    part.note_start(folder, token, parent)
    return token


class Watch:
    """The watch of one process.

    `folder` and `token` say where its part of a run's ledger is written. Without `folder`, nothing is written.
    """

    def __init__(self, options: Options, folder: Path | None = None, token: str = "") -> None:
        self._folder = folder
        self._token = token
        self._begun = time.time_ns()
        self._entered = ExitStack()
        sight = _sight(options, self._entered)
        self._entered.callback(sight.end)
        counters = Counters(None if folder is None else part.counters_file(folder, token))
        self.book: Book = Book(sight, counters, self._tell, options)
        sight.watch_steps(self.book.steps)
        sight.watch_moves(self.book.memories.leaving, self.book.memories.losing)
        registering = partial(self.book.safely, self.book.registering)
        for hooked_in in (
            register_module_parameter_registration_hook(registering),
            register_module_buffer_registration_hook(registering),
            register_optimizer_step_pre_hook(lambda one, *_: self.book.safely(self.book.stepping, one)),
        ):
            self._entered.callback(hooked_in.remove)
        if self.book.waits is not None:
            sight.watch_waits(self.book.waits)
        self._entered.callback(self.book.end)
        self._entered.enter_context(hooked(self.book))
        self._writer: threading.Thread | None = None
        self._changed = threading.Event()
        self._writing = threading.RLock()
        "A lock for writing a part. It is reentrant, because a signal handler may write during a write."
        self._ended = False
        self._rank: int | None = None
        self._is_finalized = False

    def remove(self) -> None:
        self._entered.close()

    def _tell(self, at_once: bool) -> None:
        """Record that unwritten facts exist.

        A thread writes them soon. With `at_once`, they are written before this method returns, because the process may
        end.
        """
        if self._folder is None:
            return
        if at_once:
            self.write()
            return
        self._changed.set()
        if self._writer is None or not self._writer.is_alive():
            self._writer = threading.Thread(target=self._keep_writing, name="graphsafe", daemon=True)
            with contextlib.suppress(RuntimeError):  # the interpreter is ending
                self._writer.start()

    def write(self) -> None:
        """Write the current state.

        After the end nothing is written, because a slow thread could overwrite the final state.
        """
        if self._folder is None:
            return
        with self._writing:
            self._changed.clear()
            facts = self._facts(ended=False)
            if not self._ended:
                part.write_part(self._folder, self._token, facts)

    def part(self) -> Part:
        """Return the current state as a part of a ledger."""
        self.book.look_at_all()
        facts = self._facts(ended=False)
        return Part(self._token, "", self._begun, facts, *counts_in(self.book.counters.cells, graphs_of(facts)))

    def _facts(self, ended: bool, is_whole: bool = False) -> ProcessFacts:
        """Return the facts. `ended` says whether the program ended without an error, and `is_whole` whether these are
        the last facts."""
        known = rank()
        # The rank is read early, because the program may leave its process group later.
        self._rank = self._rank if known is None else known
        return replace(self.book.facts(), rank=self._rank, ended=ended, is_whole=is_whole)

    def end(self) -> None:
        """Write the final state at the end of the process, after an unhandled exception too."""
        self._ended = True
        gc.collect()  # otherwise lost memory would be reported for graphs to which only garbage refers
        self.book.look_at_all()
        # In a process of `multiprocessing`, the exception that ends the process is still being handled here.
        raised = sys.exc_info()[1] or getattr(sys, "last_value", None)
        if self._folder is not None:
            with self._writing:
                ended = raised is None or isinstance(raised, SystemExit)
                part.write_part(self._folder, self._token, self._facts(ended, is_whole=True))

    def end_with_multiprocessing(self) -> None:
        """Let the watch end with this process, if `multiprocessing` started it. Do the same for each process that
        `multiprocessing` forks from this one.

        Such processes do not run `atexit` functions, so their watch is ended by a `Finalize` object.
        """
        util = sys.modules.get("multiprocessing.util")
        if util is None or self._is_finalized:
            return
        self._is_finalized = True

        def finalize(watch: Watch) -> None:
            util.Finalize(None, watch.end, exitpriority=-100)

        # `multiprocessing` calls `finalize` in each process that it forks. In a process that a fork server started, it
        # does so only if torch was imported before, for example with the main module.
        util.register_after_fork(self, finalize)
        if sys.modules["multiprocessing.process"].parent_process() is not None:
            finalize(self)

    def fork(self) -> None:
        """Begin a new part in a forked process."""
        if self._folder is None:
            return
        self._token = _new_token(self._token, self._folder)
        self._writer, self._changed, self._writing = None, threading.Event(), threading.RLock()
        self.book.forget(Counters(part.counters_file(self._folder, self._token)))
        self.write()

    def _keep_writing(self) -> None:
        while not self._ended:
            self._changed.wait()
            self.write()
            threading.Event().wait(_PAUSE)


def _sight(options: Options, stack: ExitStack) -> Sight:
    """Return the `Sight` of the device. A simulated device stays active until `stack` is closed."""
    worlds = sys.modules.get("graphsafe.capture.device.sim.world")
    world = None if worlds is None else worlds.active()
    if options.is_simulated and world is None:  # a test may already have activated the simulated device
        from graphsafe.run.child.played import played

        current, *others = options.indices or (0,)
        devices = max([int(os.environ.get("LOCAL_WORLD_SIZE", "1")), *(other + 1 for other in others)])
        world = stack.enter_context(played(current, devices))
    if world is not None:
        from graphsafe.run.child.sim.sight import SimSight

        return SimSight(world, options.stacks)
    from graphsafe.run.child.cuda.sight import CudaSight

    return CudaSight(options.stacks, options.only)
