"""Locks and baselines that somebody else has written: one line, or a file that reads; never a traceback."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from graphsafe import cli
from graphsafe.baseline.baseline_file import NAME as BASELINE
from graphsafe.baseline.baseline_file import read_baseline
from graphsafe.errors import RequestError
from graphsafe.lock import file

VALUES = [
    *("true", "-1", "9" * 30, "9" * 5000, "1e999", "nan", "-inf", "0.5", "''", "' '", "2027-01-01", "[]", "{}", "[[]]"),
    *(
        r'"\u001b[2J\u001b]0;x\u0007"',
        r'"a\n::error::x"',
        r'"\u202egpj"',
        r'"\u0000"',
        '"\\ud800"',
        '"x"',
        '"sim"',
        '"ready"',
    ),
    *("[" * 3000 + "]" * 3000, "{a = 1}", r'{"\u001b[2J" = 1}', '["ready"]', '"batch=²"', '"batch=%s"' % ("9" * 5000)),
]
LOCK = {
    "device": "'sim'",
    "bucket": "'batch=2'",
    "rank": "0",
    "verdict": "'ready'",
    "nodes": "{kernel = 3}",
    "waits": "0",
    "copies": "0",
    "coverage": "0.5",
    "pool_bytes": "512",
    "speedup": "{median = 2.0, low = 1.5, high = 3}",
    "replay_ms": "{median = 0.5, low = 0.4, high = 1}",
    "torch": "'2.13.0'",
}
ENTRY = {"path": "'step.py'", "function": "'f'", "code": "'GS101'", "text": "'x.item()'", "count": "2", "owner": "'me'"}


def drawn(entry: dict[str, str], head: str, times: int) -> list[str]:
    """Return texts of a file: an entry of which a few values, the heading or a key are replaced."""
    draw = random.Random(29)
    texts = []
    for _ in range(times):
        changed = {
            **entry,
            **{draw.choice([*entry, *entry, "other"]): draw.choice(VALUES) for _ in range(draw.randint(0, 2))},
        }
        lines = [f"{key} = {value}" for key, value in changed.items() if draw.random() > 0.03]
        heads = [*[head] * 20, r'[[target."\u001b[2J"]]', "[target]", "[[target]]", "[finding]"]
        texts.append("\n".join([f"version = {draw.choice(['1'] * 200 + VALUES)}", draw.choice(heads), *lines, ""]))
    return texts


def is_one_line(said: str) -> bool:
    return said.count("\n") == 1 and said.endswith("\n") and said[:-1].isprintable()


@pytest.mark.child
def test_a_drawn_lock_is_read_or_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    read = refused = 0
    for text in [
        "version = 1\n[[target.step]]\n" + "\n".join(f"{k} = {v}" for k, v in LOCK.items()),
        *drawn(LOCK, "[[target.step]]", 300),
    ]:
        try:
            lock = file.parsed(text, "graphsafe.lock")
        except RequestError as error:
            refused += 1
            monkeypatch.setattr(cli.commands, "main", raising(error))
            assert cli.main([]) == 2
            assert is_one_line(capsys.readouterr().err), text[:300]
        else:
            read += 1
            assert file.parsed(file.text_of(lock), "graphsafe.lock") == lock
    assert read > 10 and refused > 100


def raising(error: Exception) -> Any:
    def main(**_: object) -> int:
        raise error

    return main


def test_a_drawn_baseline_is_read_or_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    main, read, refused = cli.commands.main, 0, 0
    path = tmp_path / BASELINE
    for text in drawn(ENTRY, "[[finding]]", 300):
        path.write_text(text, encoding="utf-8")
        try:
            read_baseline(path)
        except RequestError as error:
            refused += 1
            monkeypatch.setattr(cli.commands, "main", raising(error))
            assert cli.main([]) == 2
            assert is_one_line(capsys.readouterr().err), text[:300]
        else:
            read += 1
    assert read > 10 and refused > 100
    monkeypatch.setattr(cli.commands, "main", main)
    monkeypatch.chdir(tmp_path)
    path.write_text(r"version = 1" + "\n" + r'"\u001b[2J" = 1', encoding="utf-8")
    assert cli.main(["scan", "."]) == 2
    assert is_one_line(capsys.readouterr().err)
