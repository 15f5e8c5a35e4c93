"""The part of a ledger that a terminal shows above the findings: each process, its graphs, and the use of the
graphs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from graphsafe.report.ledger import traffic
from graphsafe.report.ledger.model import Graph, Ledger, Process
from graphsafe.report.model import Finding, Location, grouped
from graphsafe.report.text import Sheet, bytes_text, count, listed, printable

_MOST_LINES = 20
_BY = ("thread", "stream")


def processes_text(ledger: Ledger, *, colour: bool, width: int) -> str:
    """Return a block for each process that has something to report, and a line that counts the others."""
    sheet = Sheet.of(colour, width)
    told = [process for process in ledger.processes if process.graphs or process.failed or process.waits]
    lines = [line for one in told for line in _process(one, traffic.silent(ledger, one), sheet)]
    silent = [process for process in ledger.processes if process not in told]
    for is_whole, says in ((True, "captured no graph"), (False, "reported no graph before the watch was cut off")):
        number = sum(ledger.is_whole(process) is is_whole for process in silent)
        if number:
            lines.append(f"{count(number, 'process').replace('processs', 'processes')} {says}")
    return "".join(f"{line}\n" for line in lines)


def _process(process: Process, silent: Sequence[Finding], sheet: Sheet) -> Iterator[str]:
    rank = "" if process.rank is None else f", rank {process.rank}"
    replays = sum(graph.replays for graph in process.graphs)
    held = process.memory.graphs_bytes
    memory = f", {bytes_text(held)} of memory" if held else ""
    facts = f"{count(len(process.graphs), 'graph')}, {count(replays, 'replay')}{memory}"
    yield sheet.paint("bold", printable(f"Process {process.name}{rank}: {facts}"))
    if process.idle is not None:
        yield from sheet.wrapped(process.idle.text, "  ", "      ")
    rows = list(grouped(process.graphs, lambda graph: _place(graph.captured.location)).items())
    for place, graphs in rows[:_MOST_LINES]:
        yield from sheet.wrapped(_line_text(graphs, process), f"  {place} ", "      ")
        for text in _lost(graphs):
            yield from sheet.wrapped(text, "      ", "        ")
    if len(rows) > _MOST_LINES:
        yield f"  and {count(len(rows) - _MOST_LINES, 'more line')}"
    if process.order:
        turns = [f"{turn.graph} ({turn.replays})" for turn in process.order]
        yield from sheet.wrapped(f"graphs in the order of their replays: {listed(turns, most=12)}", "  ", "      ")
    lines = process.memory.by_line or ()
    for line in lines[:_MOST_LINES]:
        yield f"  {_place(line.location)} holds {bytes_text(line.bytes)} in graphs"
    if len(lines) > _MOST_LINES:
        yield f"  and {count(len(lines) - _MOST_LINES, 'more line')} that hold memory"
    for failed, times in Counter(process.failed).items():
        by = f"; swallowed by {_place(failed.swallowed_by)}" if failed.swallowed_by else ""
        again = f" {count(times, 'time')}" if times > 1 else ""
        yield from sheet.wrapped(f"failed{again}: {failed.error}{by}", f"  {_place(failed.location)} ", "      ")
    for finding in silent:
        yield from _sizes(finding, sheet)
    for wait in sorted(process.waits or (), key=lambda one: -(one.ms or 0))[:_MOST_LINES]:
        took = "" if wait.ms is None else f", {wait.ms:.3g} ms"
        yield from sheet.wrapped(f"waits {count(wait.count, 'time')}{took}", f"  {_place(wait.location)} ", "      ")


def _line_text(graphs: Sequence[Graph], process: Process) -> str:
    """Describe the graphs of one line: `3 graphs on sim:0 in 0.4 s: 12 kernels and 1 memcpy at most; replayed 8, 0 and
    3 times`."""
    devices = listed(dict.fromkeys(graph.device for graph in graphs))
    seconds = sum(graph.captured.seconds for graph in graphs)
    read = [graph.nodes for graph in graphs if graph.nodes is not None]
    largest = max(read, key=lambda nodes: sum(nodes.values()), default=None)
    nodes = listed(count(number, kind) for kind, number in (largest or {}).items()) or "no node"
    nodes = "nodes not read" if largest is None else nodes
    most = " at most" if len(graphs) > 1 else ""
    replays = listed((str(graph.replays) for graph in graphs), most=8)
    names = f"graph {graphs[0].name}" if len(graphs) == 1 else count(len(graphs), "graph")
    times = "time" if len(graphs) == 1 and graphs[0].replays == 1 else "times"
    more = "".join(f"; {text}" for text in used(graphs, process))
    return f"{names} on {devices}, captured in {seconds:.2g} s: {nodes}{most}; replayed {replays} {times}{more}"


def used(graphs: Sequence[Graph], process: Process) -> Iterator[str]:
    """Yield unusual facts about graphs: late captures, several threads or streams, repeated instantiations,
    generators."""
    late = sum(map(process.is_late, graphs))
    if late:
        yield (f"{late} of them " if len(graphs) > 1 else "") + "captured after the first replay"
    threads, streams = (dict.fromkeys(getattr(by, what) for one in graphs for by in one.replayed_by) for what in _BY)
    if len(threads) > 1:
        yield f"by the threads {listed(threads, most=4)}"
    if len(streams) > 1:
        yield f"on {listed(streams, most=4)}"
    again = sum(one.instantiations - 1 for one in graphs)
    if again:
        yield f"instantiated again {count(again, 'time')}"
    generators = dict.fromkeys(name for one in graphs for name in one.generators or ())
    if generators:
        yield f"random numbers from {listed(generators, most=4)}"


def _lost(graphs: Sequence[Graph]) -> list[str]:
    found: dict[str, int] = {}
    for use in (use for graph in graphs for use in graph.outside if use.replays_since):
        text = f"`{use.what}` was {use.status}" + (f" at {_place(use.where)}" if use.where else "")
        found[text] = max(found.get(text, 0), use.replays_since)
    return [f"{text}, {count(since, 'replay')} since" for text, since in found.items()]


def _sizes(finding: Finding, sheet: Sheet) -> Iterator[str]:
    """Yield the sizes of a step that ran without a graph, as bars beside the captured sizes."""
    data = finding.data
    yield f"  {_place(finding.location)} ran {count(data['steps'], 'step')} without a graph; by size:"
    for size, bar, text in traffic.rows(data):
        yield f"    {size:>8} {bar:<{traffic.LONGEST}} {text}"
    more = traffic.left_out(data)
    if more:
        yield f"    and {count(more, 'more size')}"
    advice = traffic.advice(data.get("cover"), data.get("waste"))
    yield from sheet.wrapped(advice, "      ", "      ") if advice else ()


def place_text(location: Location | None) -> str:
    return f"{location.path}:{location.line}" if location else "a line that is not known"


def _place(location: Location | None) -> str:
    return printable(place_text(location))
