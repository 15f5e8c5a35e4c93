"""Which lines of the user's are running."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from graphsafe.capture.shared.frames import frames_under, is_user_file, message_of, user_frames


def test_what_runs_on_another_thread_stands_under_the_frames_of_the_one_that_waits() -> None:
    """As on a GPU, where autograd's own threads run backward."""
    found = []

    def backward(step: int) -> None:
        found.append(frames_under(step))

    def step() -> None:
        thread = threading.Thread(target=backward, args=(threading.get_ident(),))
        thread.start()
        thread.join()

    step()
    functions = [(frame.function or "").rpartition(".")[2] for frame in found[0]]
    assert functions.index("step") < functions.index("backward")


def test_code_that_inductor_wrote_is_nobody_s_line() -> None:
    assert not is_user_file("/tmp/torchinductor_someone/kx/ckxprhivw.py")
    assert is_user_file("/tmp/someone/kx/ckxprhivw.py")


class Asked:
    """A value that notes the text of the expression that its asker runs."""

    def __init__(self, answer: bool, seen: list[str]) -> None:
        self.answer, self.seen = answer, seen

    def __bool__(self) -> bool:
        caller = sys._getframe(1)
        _, span = user_frames(caller)
        assert span is not None and span[0] == span[2]
        line = Path(__file__).read_text(encoding="utf-8").splitlines()[span[0] - 1]
        self.seen.append(line[span[1] : span[3]])
        return self.answer


@pytest.mark.skipif(sys.version_info < (3, 11), reason="columns are known from Python 3.11 on")
def test_what_a_branch_asks_is_the_operand_and_not_the_statement() -> None:
    seen: list[str] = []

    def yes() -> Asked:
        return Asked(True, seen)

    def no() -> Asked:
        return Asked(False, seen)

    if yes() and not no():
        assert yes(), "said"
    while no():
        pass
    chosen = 1 if no() or yes() else 2
    kept = [value for value in (1, 2) if no()] or (yes() and 3)
    if found := yes():
        assert found is not None
    assert (chosen, kept) == (1, 3)
    assert seen == ["yes()", "no()", "yes()", "no()", "no()", "yes()", "no()", "no()", "yes()", "yes()"]


def test_messages_of_errors_are_the_same_in_each_run() -> None:
    error = ValueError(f"no {object()} in process pid {os.getpid()}, see {tempfile.gettempdir()}/tmpab12_x9z/log")
    found = message_of(error)
    assert "<object object at 0x...>" in found and "pid ...," in found and "/tmp.../log" in found
    closed = "Connection closed by peer [{}]:{}. Row x[3]:4"
    assert message_of(RuntimeError(closed.format("127.0.0.1", 56202))) == closed.format("127.0.0.1", "...")
    assert message_of(RuntimeError(closed.format("::1", 36272))) == closed.format("::1", "...")
    assert message_of(ValueError("mask 0xff of 4 rows in tmp_buffer")) == "mask 0xff of 4 rows in tmp_buffer"
