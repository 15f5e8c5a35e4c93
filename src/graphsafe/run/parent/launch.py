"""Runs the program unchanged, with graphsafe loaded into its processes."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from graphsafe.capture.request import parse_device
from graphsafe.errors import RequestError
from graphsafe.run import part
from graphsafe.run.parent.idle import Readings, sampling
from graphsafe.run.parent.signals import passing_on
from graphsafe.run.part import Options, Part, read_parts

_ENTRY = Path(__file__).parents[1] / "entry"


@dataclass(frozen=True, slots=True)
class Ran:
    exit_code: int
    "The exit code as a shell reports it. If a signal ended the program, it is 128 plus the number of the signal."
    parts: tuple[Part, ...]
    readings: Readings


def parsed_devices(texts: Sequence[str]) -> tuple[str, ...]:
    """Check the values of `--device` and return the devices. Without values, return `("cuda",)`, which means all GPUs.

    Raises RequestError.
    """
    devices = tuple(dict.fromkeys(map(parse_device, texts))) or ("cuda",)
    if len({device.startswith("sim") for device in devices}) > 1:
        named = " ".join(f"--device {device}" for device in devices)
        raise RequestError(f"{named}: a program runs on GPUs or on simulated devices; name one kind")
    return devices


def check_present(devices: Sequence[str]) -> None:
    """Raise RequestError if a named GPU does not exist.

    If a GPU is named, this imports torch, which takes seconds.
    """
    named = sorted((one for one in devices if not one.startswith("sim")), key=lambda one: ":" not in one)
    if not named:
        return
    from graphsafe.capture.api import present_gpus

    present = present_gpus()
    for device in (one for one in named if one not in present and (":" in one or not present)):
        raise RequestError(f"--device {device}: this machine has {', '.join(present) or 'no CUDA device'}")


def run_program(program: Sequence[str], options: Options) -> Ran:
    """Run the program until it ends, and return what was recorded. Raises RequestError if it cannot be started."""
    folder = Path(tempfile.mkdtemp(prefix="graphsafe-run-"))
    try:
        watching = nullcontext(Readings()) if options.is_simulated else sampling()
        with passing_on() as begin:
            process = _start(program, folder, options)
            begin(process)
            with watching as readings:
                code = process.wait()
        parts = [replace(one, outlives=_is_running(one)) for one in read_parts(folder)]
        return Ran(code if code >= 0 else 128 - code, tuple(parts), readings)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _is_running(one: Part) -> bool:
    try:
        os.kill(int(one.token.partition("-")[0]), 0)
    except (OSError, ValueError):
        return False
    return True


def _start(program: Sequence[str], folder: Path, options: Options) -> subprocess.Popen[bytes]:
    path = os.pathsep.join(filter(None, (str(_ENTRY), os.environ.get("PYTHONPATH"))))
    own = {"PYTHONPATH": path, part.FOLDER: str(folder), part.PARENT: "", part.OPTIONS: options.text()}
    try:
        return subprocess.Popen(list(program), env={**os.environ, **own})
    except FileNotFoundError:
        raise RequestError(f"run: no such program: {program[0]}") from None
    except OSError as error:
        raise RequestError(f"run: {program[0]}: {error.strerror}") from None
