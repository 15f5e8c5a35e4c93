"""Which lines of the user's are running."""

from __future__ import annotations

import threading

from graphsafe.capture.shared.frames import frames_under, is_user_file


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
