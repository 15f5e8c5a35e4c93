"""The shards of `capture --all --shard K/N`, when their reports are joined."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from graphsafe.errors import RequestError
from graphsafe.report.model import Report

_SHARD = re.compile("([1-9][0-9]{0,8})/([1-9][0-9]{0,8})")
_MOST = 3


def missing_shards(saved: Sequence[tuple[str, Sequence[Report]]]) -> str:
    """Return in words which shards are missing in these files, or "" if all are there.

    A shard without targets has a file without reports, so each such file counts as one of the missing shards. Raises
    RequestError if two files have reports of the same shard.
    """
    files: dict[tuple[int, int], str] = {}
    for file, reports in saved:
        shards = {(int(match[1]), int(match[2])) for one in reports if (match := _SHARD.fullmatch(one.shard or ""))}
        twice = next((shard for shard in sorted(shards) if shard in files), None)
        if twice is not None:
            raise RequestError(f"report merge: {files[twice]} and {file} are both of shard {twice[0]}/{twice[1]}")
        files |= dict.fromkeys(shards, file)
    empty = sum(not reports for _, reports in saved)
    for of in sorted({of for _, of in files}):
        absent = of - sum(each == of for _, each in files)
        if absent > empty:
            names = (f"{number}/{of}" for number in range(1, of + 1) if (number, of) not in files)
            more = f" and {absent - _MOST} more" if absent > _MOST else ""
            return f"missing: {', '.join(islice(names, _MOST))}{more}"
    return ""
