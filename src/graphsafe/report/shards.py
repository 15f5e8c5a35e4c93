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

    A shard without targets has a file without reports. So each file without reports is taken for one of the missing
    shards. Raises RequestError if two files have reports of the same shard.
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


def in_order_of_targets(saved: Sequence[Sequence[Report]]) -> list[Report]:
    """Return the reports of several files in the order in which `capture --all` without shards would write them.

    A shard K/N has every N-th target. Reports without a shard come first, in the order of the files.
    """
    places = []
    for reports in saved:
        for at, report in enumerate(reports):
            match = _SHARD.fullmatch(report.shard or "")
            place = (int(match[2]), at * int(match[2]) + int(match[1])) if match else (0, 0)
            places.append((place, report))
    return [report for _, report in sorted(places, key=lambda each: each[0])]
