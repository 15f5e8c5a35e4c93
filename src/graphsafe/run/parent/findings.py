"""Turns the facts that the processes of a run have recorded into findings, in the words of the rulebook."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from graphsafe.report.model import CONFIDENCES, Finding, Limit, grouped
from graphsafe.rulebook.book import Rulebook
from graphsafe.run.parent.between_replays import growing_tensors, races, refills, repeated_waits
from graphsafe.run.parent.failed_captures import failed_captures
from graphsafe.run.parent.held_results import kept_results, overwritten_results
from graphsafe.run.parent.lost_memory import lost_memory
from graphsafe.run.parent.old_values import (
    dropped_gradients,
    exchanged_buffers,
    old_arguments,
    outdated_tensors,
    state_made_in_captures,
)
from graphsafe.run.parent.random_numbers import generators, host_draws
from graphsafe.run.parent.ranks import parted_ranks, partings
from graphsafe.run.parent.replay_counts import eager_steps, steps_after_the_graph, useless_graphs
from graphsafe.run.parent.seen import SeenProcess
from graphsafe.run.parent.writer import Writer

_KINDS = (
    failed_captures,
    lost_memory,
    old_arguments,
    generators,
    host_draws,
    exchanged_buffers,
    dropped_gradients,
    state_made_in_captures,
    outdated_tensors,
    races,
    growing_tensors,
    refills,
    kept_results,
    overwritten_results,
    useless_graphs,
    eager_steps,
    steps_after_the_graph,
    repeated_waits,
)
"Functions that add the findings of one kind about one process, in the order of the findings."


def findings_of(seen: Sequence[SeenProcess], book: Rulebook) -> tuple[list[Finding], list[Limit]]:
    """Return one finding for each line, cause and process. A fact whose line is unknown becomes a limit."""
    writers = [Writer(process, book) for process in seen]
    for writer in writers:
        for add in _KINDS:
            add(writer)
    parted, unknown = partings(seen)
    for parting in parted:
        writers.append(Writer(parting.processes[1], book))
        parted_ranks(writers[-1], parting)
    limits = [limit for writer in writers for limit in writer.limits]
    found = [finding for writer in writers for finding in writer.found]
    return [_joined(same) for same in grouped(found, _cause).values()], [*limits, *unknown]


def _cause(finding: Finding) -> tuple[Any, ...]:
    told = (finding.message, finding.why, finding.fix)
    process = finding.data.get("process")
    return (process, finding.device, finding.code, finding.level, finding.region, finding.location, *told)


def _joined(same: Sequence[Finding]) -> Finding:
    """Return one finding for a line at which a loop captures, fails or loses memory many times. Its count is the sum of
    the counts, and its data name all graphs."""
    surest = max((one.confidence for one in same), key=CONFIDENCES.index)
    graphs = list(dict.fromkeys(one.data["graph"] for one in same if "graph" in one.data))
    data = {"graphs": graphs, **same[0].data} if len(graphs) > 1 else same[0].data
    return replace(same[0], count=sum(one.count for one in same), confidence=surest, data=data)
