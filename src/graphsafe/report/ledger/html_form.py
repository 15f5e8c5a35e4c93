"""The ledger in HTML: the page of its findings, with its processes added."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from graphsafe.report.html.words import escaped_text, table
from graphsafe.report.ledger import traffic
from graphsafe.report.ledger.model import Graph, Ledger, Process
from graphsafe.report.ledger.terminal import place_text, used
from graphsafe.report.model import Finding
from graphsafe.report.text import bytes_text, count, listed

_HEAD = ("graph", "captured", "device", "nodes", "pool", "replays", "uses outside its pool")


def with_processes(page: str, ledger: Ledger) -> str:
    """Insert the processes of a ledger before the environment in the page of its findings."""
    parts = "".join(_process(one, traffic.silent(ledger, one), ledger.is_whole(one)) for one in ledger.processes)
    before, mark, after = page.partition("<h2>Environment</h2>")
    return f"{before}{parts}{mark}{after}"


def _process(process: Process, silent: Iterable[Finding], is_whole: bool) -> str:
    rank = "" if process.rank is None else f", rank {process.rank}"
    title = f"<h2>{escaped_text(f'Process {process.name}{rank}')}</h2>"
    rows = [_HEAD, *(_graph(graph, process) for graph in process.graphs)]
    none = "No graph." if is_whole else "No graph was reported before the watch was cut off."
    found = table([[escaped_text(cell) for cell in row] for row in rows]) if process.graphs else f"<p>{none}</p>"
    facts = "".join(f"<p>{escaped_text(text)}</p>" for text in _facts(process))
    return title + found + facts + "".join(map(_sizes, silent))


def _sizes(finding: Finding) -> str:
    """Return the sizes of a step that ran without a graph, as bars beside the captured sizes."""
    data = finding.data
    head = f"{place_text(finding.location)} ran {count(data['steps'], 'step')} without a graph; by size:"
    bars = table([[str(size), escaped_text(bar), escaped_text(text)] for size, bar, text in traffic.rows(data)])
    more = traffic.left_out(data)
    rest = [f"And {count(more, 'more size')}."] if more else []
    rest.append(traffic.advice(data.get("cover"), data.get("waste")))
    return f"<p>{escaped_text(head)}</p>{bars}" + "".join(f"<p>{escaped_text(text)}</p>" for text in rest if text)


def _graph(graph: Graph, process: Process) -> tuple[str, ...]:
    lost = [f"{use.what}: {use.status}, {count(use.replays_since, 'replay')} since" for use in graph.outside]
    lost = [text for text, use in zip(lost, graph.outside, strict=True) if use.replays_since]
    return (
        graph.name,
        f"{place_text(graph.captured.location)}, {graph.captured.stream}, {graph.captured.seconds:.2g} s",
        graph.device,
        "not read" if graph.nodes is None else listed(count(number, kind) for kind, number in graph.nodes.items()),
        "" if graph.pool_bytes is None else bytes_text(graph.pool_bytes),
        "; ".join([str(graph.replays), *used([graph], process)]),
        f"{count(len(graph.outside), 'tensor')}{'; ' if lost else ''}{listed(lost)}",
    )


def _facts(process: Process) -> Iterator[str]:
    if process.idle is not None:
        yield f"{process.idle.text[0].upper()}{process.idle.text[1:]}."
    for line in process.memory.by_line or ():
        yield f"{place_text(line.location)} holds {bytes_text(line.bytes)} in graphs"
    for failed, times in Counter(process.failed).items():
        by = f", swallowed by {place_text(failed.swallowed_by)}" if failed.swallowed_by else ""
        again = f" {count(times, 'time')}" if times > 1 else ""
        yield f"A capture at {place_text(failed.location)} failed{again}{by}: {failed.error}"
    eager = process.eager
    if eager is not None and eager.steps:
        sizes, captured = listed(map(str, eager.sizes)), listed(map(str, eager.captured_sizes))
        yield f"{count(eager.steps, 'step')} ran without a graph: sizes {sizes}; captured are {captured}"
    for wait in process.waits or ():
        took = "" if wait.ms is None else f", {wait.ms:.3g} ms"
        yield f"{place_text(wait.location)} waits {count(wait.count, 'time')}{took}"
