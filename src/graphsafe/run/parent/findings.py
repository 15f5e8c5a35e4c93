"""Turns the facts that the processes of a run have recorded into findings, in the words of the rulebook."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from graphsafe.capture.answers.events import StepEvent
from graphsafe.capture.shared.classify import code_of, value_read
from graphsafe.capture.shared.places import site, text_at
from graphsafe.report.ledger.traffic import advice
from graphsafe.report.model import Finding, Limit
from graphsafe.report.reading import read
from graphsafe.report.text import count, listed
from graphsafe.rulebook.book import Rulebook
from graphsafe.run.parent.covering import cover
from graphsafe.run.parent.failed_captures import failed_captures
from graphsafe.run.parent.lost_memory import lost_memory
from graphsafe.run.parent.ranks import Parting, order_of, partings
from graphsafe.run.parent.recaptures import Recapture, recaptures
from graphsafe.run.parent.repeats import once_each
from graphsafe.run.parent.seen import Facts, SeenGraph, SeenProcess, grouped, last, line_key
from graphsafe.run.parent.writer import Writer, all_named, at, named
from graphsafe.run.part import POOL

_CHANCE = 100
"A graph without replays counts as useless after its step has run this many times per graph of its line."
_SEEDS = ("reseeded", "between", "inside")
"The places at which a seed is set: a known line before each replay, an unknown line, or captured code."
_SELDOM = 0.1
"If at most this share of a step's runs had no graph, these runs count as intended exceptions."


def findings_of(seen: Sequence[SeenProcess], book: Rulebook) -> tuple[list[Finding], list[Limit]]:
    """Return one finding for each line, cause and process. A fact whose line is unknown becomes a limit."""
    writers = [_Findings(process, book) for process in seen]
    for writer in writers:
        failed_captures(writer)
        lost_memory(writer)
        writer.keys()
        writer.generators()
        writer.drawn()
        writer.rotated()
        writer.gradients()
        writer.outdated()
        writer.growing()
        writer.refills()
        writer.outputs()
        writer.overwritten()
        writer.replays()
        writer.eager()
        writer.turned_off()
        writer.waits()
    parted, unknown = partings(seen)
    for parting in parted:
        writers.append(_Findings(parting.processes[1], book))
        writers[-1].parted(parting)
    limits = [limit for writer in writers for limit in writer.limits]
    return once_each([finding for writer in writers for finding in writer.found]), [*limits, *unknown]


class _Findings(Writer):
    def keys(self) -> None:
        """Add findings for replays at which the program has another value than the one that the graph froze."""
        stale_graphs = [one for one in self.process.graphs if one.facts["stale"] is not None and one.facts["frames"]]
        for graph, *_ in grouped(stale_graphs, lambda one: (line_key(one.facts["frames"]), one.facts["stale"]["name"])):
            stale = graph.facts["stale"]
            replay = f"the replay at {at(stale['frames'][-1])}" if stale["frames"] else "a replay"
            value = f"{stale['captured']} at capture and {stale['now']} at {replay}"
            data = {"argument": stale["name"], "captured": stale["captured"], "now": stale["now"]}
            words = {"expr": f"`{stale['name']}`", "value": value}
            self.about(graph, "GS713", stale["at"] or graph.facts["frames"][-1], words, data)

    def generators(self) -> None:
        """Add findings for generators that were replaced after the capture, or registered while another device was
        current, and for seeds that are set before each replay."""
        told = [(one, one.facts["generators"]) for one in self.process.graphs]
        misplaced = [(graph, one["misplaced"]) for graph, one in told if one["misplaced"]]
        for (graph, frames), *_ in grouped(misplaced, lambda pair: line_key(pair[1])):
            text = {
                "message": f"a generator is registered with {named(graph)} while another device is current",
                "why": "PyTorch makes the seed's memory on the current device. A replay on the generator's own device "
                "reads it there and ends with an illegal memory access (torch 2.11).",
                "fix": "register it in `with torch.cuda.device(generator.device):`",
            }
            self.about(graph, "GS502", frames[-1], {}, text=text)
        replaced = [(graph, one["replaced"]) for graph, one in told if one["replaced"] and one["replaced"]["frames"]]
        for (graph, one), *_ in grouped(replaced, lambda pair: line_key(pair[1]["frames"])):
            text = {
                "message": f"replays of {named(graph)} draw from the generator that `{one['name']}` no longer holds",
                "why": "A graph draws from the generators that were registered before its capture. Replays use neither "
                "a generator that replaces one of them nor its seed.",
                "fix": "keep the generator and set its seed or state (manual_seed, set_state), or register the "
                "new one with a new graph and capture again",
            }
            if not one["is_line_known"]:
                text["why"] += " The line that replaced it is not known. This is the first replay after that."
            self.about(graph, "GS502", one["frames"][-1], {}, {"generator": one["name"]}, text=text)
        seeded = [(how, one[how], graph) for graph, one in told for how in _SEEDS if one[how]]
        for (how, frames, graph), *_ in grouped(seeded, lambda one: (one[0], line_key(one[1]))):
            expr = text_at(site(frames[-1]), None)
            text = {
                "message": f"`{expr}` sets the same seed before each replay of {named(graph)}",
                "why": "A replay draws from the generator's seed and offset, so every replay draws the same numbers.",
                "fix": "set the seed once, before the first replay, or set another seed before each replay",
            }
            if how == "between":
                text["message"] = f"the same seed is set before each replay of {named(graph)}"
            elif how == "inside":
                text = {
                    "message": f"`{expr}` is captured code, which replays of {named(graph)} do not run",
                    "why": "A capture records no seed. Replays advance the generator, so each draws other numbers.",
                    "fix": "draw the numbers once, before the capture, or seed before each replay",
                }
            self.about(graph, "GS503", frames[-1], {}, level="warning", text=text)

    def drawn(self) -> None:
        """Add findings at captured lines that draw random numbers on the host."""
        told = [one for one in self.process.graphs if one.facts["drawn"] and one.count.replays > 1]
        for graph, *_ in grouped(told, lambda one: line_key([one.facts["drawn"]])):
            frame = graph.facts["drawn"]
            self.about(graph, "GS504", frame, {"expr": text_at(site(frame), None)}, region="captured")

    def rotated(self) -> None:
        """Add findings for buffers whose names the program exchanges, if a replay then used them in the old order."""
        for graph in self.process.graphs:
            told = graph.facts["rotated"]
            if told is None:
                continue
            names = listed(f"`{one}`" for one in told["names"])
            text = {
                "message": f"{names} are swapped while {named(graph)} is captured, but not when it is replayed",
                "why": "Each replay reads and writes the addresses of the capture. The second of two replays in "
                "a row reads the values that the first one began with, so the step makes no progress.",
                "fix": "copy the result into the buffer that the step reads, or capture one graph for each order of "
                "the buffers and replay them in turn",
            }
            if told["when"] == "replayed":
                text["message"] = f"{names} are swapped between replays of {named(graph)}, which uses the old order"
                text["why"] = (
                    "Each replay reads and writes the addresses of the capture, whatever the names refer to now."
                )
            frame = told["at"] or last(graph.facts["frames"])
            self.about(graph, "GS703", frame, {}, {"names": told["names"]}, text=text)

    def gradients(self) -> None:
        """Add findings at lines that drop gradients which a graph writes, if the optimizer then made a step without
        them."""
        told = [(one, one.facts["gradients"]) for one in self.process.graphs if one.facts["gradients"]["skipped"]]
        for (graph, one), *_ in grouped(told, lambda pair: line_key(pair[1]["let_go"])):
            weights = count(one["skipped"], "weight")
            text = {
                "message": f"the gradients that {named(graph)} writes are dropped, so the optimizer skips {weights}",
                "why": "Replays write the gradients of the capture. Each weight's `grad` is None since this line, so "
                "the optimizer's step finds nothing to do.",
                "fix": "zero_grad(set_to_none=False), or let zero_grad() be part of the captured step",
            }
            self.about(graph, "GS703", one["let_go"][-1], {}, {"weights": one["skipped"]}, text=text)

    def outdated(self) -> None:
        """Add findings at writes after which a graph still reads tensors that were computed from the old values."""
        for same in grouped(self.process.facts.get("outdated", ()), lambda one: line_key(one["frames"])):
            source, what = same[0]["source"], listed(dict.fromkeys(f"`{one['what']}`" for one in same), most=3)
            replays = max(one["replays"] for one in same)
            value = f"{count(replays, 'replay')} read {what}, computed from the old values and not again"
            data = {"what": [one["what"] for one in same], "source": source, "replays_since": replays}
            words = {"expr": f"a write to `{source}`", "value": value}
            frame = last(same[0]["frames"])
            self.add("GS712", frame, words, data, certain=False, number=len(same))

    def growing(self) -> None:
        """Add findings at lines that make a tensor longer after each replay.

        Graphs do not read this tensor, so the growth only costs time.
        """
        for one in self.process.facts.get("growing", ()):
            frame = last(one["frames"])
            span = one["span"]
            expr = text_at(site(one["frames"][-1]), span)
            text = {
                "message": f"`{expr}` makes a tensor longer after each replay, {one['times']} times",
                "why": f"Each time, the whole tensor is allocated and copied: {one['copied']:,} bytes in all.",
                "fix": "write into one buffer of full length, or collect clones in a list and join them once",
            }
            self.add(
                "GS402", frame, {}, {"bytes": one["copied"]}, level="note", number=one["times"], span=span, text=text
            )

    def refills(self) -> None:
        """Add findings at writes to memory that a replay, or a copy from pinned memory, reads without an order between
        the two."""
        refills = self.process.facts.get("refills", ())
        told = [refill["write"][-1] for refill in refills if refill["what"] is not None]
        for refill in (one for one in refills if one["what"] is not None or one["write"][-1] not in told):
            replay, is_copy = last(refill["replay"]), refill["what"] is None
            reads = "asynchronous copy" if is_copy else "replay"
            reader = f"{'an' if is_copy else 'a'} {reads}" if replay is None else f"the {reads} at {at(replay)}"
            what = refill["what"] or ("pinned memory" if refill["is_pinned"] else "device memory")
            words = {"expr": what if refill["what"] in (None, POOL) else f"`{what}`", "value": reader}
            data = {"what": what, "replay": None if replay is None else at(replay)}
            text = {}
            if refill["by_host"]:
                fix = f"have the host wait for an event recorded after that {reads.split()[-1]} before it writes"
                text["fix"] = f"{fix} again, or fill two buffers in turn"
            elif refill["what"] == POOL:
                text["fix"] = "replay both on one stream, make the streams wait, or give each graph a pool of its own"
            self.add("GS714", refill["write"][-1], words, data, certain=False, text=text)

    def outputs(self) -> None:
        """Add findings for results that the program keeps although every replay overwrites them."""
        ways = {"collected": "keeps results of earlier replays", "compared": "compares a result with itself"}
        for how, does in ways.items():
            told = [(one.facts["held_outputs"][how], one) for one in self.process.graphs]
            for same in grouped((one for one in told if one[0]), lambda one: line_key(one[0])):
                frame, graphs = same[0][0][-1], [graph for _, graph in same]
                because = f"Here the program {does}: each replay of {all_named(graphs)} overwrites the previous one."
                data = {"graphs": [one.name for one in graphs], "how": how}
                words = {"expr": text_at(site(frame), None), "value": "earlier results are held"}
                text = {}
                if how == "collected" and not graphs[0].facts["held_outputs"]["is_keeper_known"]:
                    text["message"] = f"this replay overwrites earlier results of {all_named(graphs)}, which are kept"
                    because = "Their number grew from replay to replay. The line that keeps them is not known."
                self.about(graphs[0], "GS706", frame, words, data, because=because, certain=True, text=text)

    def overwritten(self) -> None:
        """Add findings at reads of a result that another replay has overwritten.

        It was a replay of the same graph or of another graph of the same pool.
        """
        graphs = {graph.facts["number"]: graph for graph in self.process.graphs}
        for graph in self.process.graphs:
            held = graph.facts["held_outputs"]
            found = held["overwritten"]
            other = None if found is None else graphs.get(found["by"])
            if other is None or held["compared"][-1:] == [found["read"]]:
                continue
            replay = last(found["replay"])
            again = "a replay" if replay is None else f"a replay at {at(replay)}"
            own = f"Before this, {again} has overwritten it."
            pooled = f"Before this, {again} of {named(other)} has overwritten it: both use the same memory of one pool."
            because = f"Here the program reads a result of {named(graph)}. {own if other is graph else pooled}"
            frame = found["read"]
            expr = text_at(site(frame), None)
            if found["later"]:
                expr = found["kept"]
                because = (
                    f"Here a replay of {named(other)} overwrites a result of {named(graph)}, which "
                    f"{at(found['later'])} reads: both write the same buffer."
                )
            data = {"graphs": list(dict.fromkeys((graph.name, other.name))), "how": "overwritten"}
            words = {"expr": expr, "value": "an earlier result is read"}
            self.about(graph, "GS706", frame, words, data, because=because)

    def replays(self) -> None:
        """Add findings for graphs that contain no work, are never replayed, or are captured again and again."""
        graphs = [graph for graph in self.process.graphs if not graph.facts["keeps_pool"]]
        for graph in graphs:
            frame = last(graph.facts["frames"])
            if graph.facts["nodes"] == {} and graph.count.replays:
                self.add("GS602", frame, {"expr": "it has no nodes"}, {"graph": graph.name})
        again = recaptures(graphs)
        for recapture in again:
            self._recapture(recapture)
        counted = {graph.name for recapture in again for graph in recapture.graphs}
        served = any(graph.count.replays for graph in graphs)
        if served or self.process.facts.get("ended"):
            self._never_replayed([one for one in graphs if one.name not in counted])

    def _recapture(self, recapture: Recapture) -> None:
        graphs = recapture.graphs
        frame = last(graphs[0].facts["frames"])
        replays = recapture.replays
        value = f"{count(len(graphs), 'capture')} for {count(replays, 'replay')}, {recapture.seconds:.2g} s in all"
        value += ", each for another tensor of the same size" if recapture.for_inputs else ""
        value += f", with {recapture.varied}" if recapture.varied else ""
        data = {"graphs": [graph.name for graph in graphs], "captures": len(graphs), "replays": replays}
        words = {"expr": "this step", "value": value}
        self.add("GS617", frame, words, data, device=graphs[0].facts["device"], number=len(graphs))

    def _never_replayed(self, graphs: Iterable[SeenGraph]) -> None:
        """Add one finding for each line whose graphs were never replayed."""
        working = (one for one in graphs if one.facts["nodes"])
        for siblings in grouped(working, lambda one: line_key(one.facts["frames"])):
            idle = [graph for graph in siblings if not graph.count.replays]
            same = [graph for graph in idle if not self._awaits_its_turn(graph, siblings)]
            if not same:
                continue
            frame = last(same[0].facts["frames"])
            names = [graph.name for graph in same]
            words = {"expr": f"graph {names[0]}" if len(names) == 1 else f"each of the graphs {listed(names)}"}
            self.about(same[0], "GS618", frame, words, {"graphs": names}, certain=True, number=len(names))

    def _awaits_its_turn(self, graph: SeenGraph, siblings: Iterable[SeenGraph]) -> bool:
        """Return whether a graph without replays may still be needed.

        This is so if other graphs do the same work (they have the same calls or the same nodes) and were replayed, but
        the work has run rarely so far. In addition, at most one input of this graph's size may have been given to
        another graph.
        """
        calls, nodes = graph.facts["frames"], graph.facts["nodes"]
        like = [one for one in siblings if one.facts["frames"] == calls or one.facts["nodes"] == nodes]
        numbers, replays = {one.facts["number"] for one in like}, sum(one.count.replays for one in like)
        eager = [0]
        for step in self.process.facts.get("steps") or ():
            if any(not numbers.isdisjoint(graphs) for graphs in step["captured"].values()):
                eager.append(sum(step["sizes"].values()) + sum(step["off"].values()))
        return graph.facts["passed_over"] <= 1 and replays > 0 and replays + max(eager) < _CHANCE * len(like)

    def turned_off(self) -> None:
        """Add findings for steps that ran without a graph although the same loop replayed a graph of their size
        before."""
        for step in self.process.facts.get("steps") or ():
            off: Mapping[str, int] = step["off"]
            steps, captured, replays = sum(off.values()), step["captured"], self._replays_by_size(step)
            if steps <= _SELDOM * (sum(replays[size] for size in off) + steps):
                continue
            data = {"steps": steps, "sizes": dict(off), "captured_sizes": list(map(int, captured)), "replays": replays}
            before = count(sum(replays[size] for size in off), "replay")
            words = {
                "expr": f"{count(steps, 'step')} of size {listed(off, most=6)}",
                "value": f"the same loop made {before} of that size until the graph was turned off",
            }
            frame = last(step["off_at"])
            text = {"fix": "turn the graph on again, or log that steps run eagerly from then on"}
            self.add("GS616", frame, words, data, certain=False, number=steps, text=text)

    def eager(self) -> None:
        """Add findings for steps that ran without a graph at sizes that no graph covers."""
        told = set()
        for step in self.process.facts.get("steps") or ():
            sizes: Mapping[str, int] = step["sizes"]
            steps, replays = sum(sizes.values()), self._replays_by_size(step)
            if steps <= _SELDOM * (sum(replays.values()) + steps):
                continue
            frame = last(step["place"])
            same = (*(frame or {}).values(), *sizes.items(), *replays)
            if same in told:  # the step consists of several parts, each with its own graphs
                continue
            told.add(same)
            captured = list(map(int, step["captured"]))
            covered = cover({int(size): times for size, times in sizes.items()}, captured)
            data = {
                "steps": steps,
                "sizes": dict(sizes),
                "captured_sizes": captured,
                "replays": replays,
                "cover": list(covered.sizes),
                "waste": covered.waste,
            }
            expr = f"{count(steps, 'step')} of size {listed(sizes, most=6)}"
            words = {"expr": expr, "value": f"captured are {listed(step['captured'], most=12)}"}
            self.add("GS616", frame, words, data, because=advice(covered.sizes, covered.waste), number=steps)

    def _replays_by_size(self, step: Facts) -> dict[str, int]:
        return {size: sum(self.replays_of.get(one, 0) for one in same) for size, same in step["captured"].items()}

    def parted(self, parting: Parting) -> None:
        """Add a finding for two ranks that replay different graphs, if one of the graphs contains a collective.

        A rank then waits forever for another rank, or receives the values of another collective. Without a collective,
        or with groups of only some ranks, the difference may be intended, so it becomes a limit.
        """
        graph = parting.graphs[1]
        frame = last(graph.facts["frames"])
        if not parting.collective or any(one.facts["subgroups"] for one in parting.graphs):
            why = f"at replay {parting.replay} {parting.text}"
            self.limits.append(Limit("ranks", order_of(*parting.processes), why))
            return
        ranks = {str(process.rank): named(one) for process, one in zip(parting.processes, parting.graphs, strict=True)}
        data = {"replay": parting.replay, "ranks": ranks}
        counted = f"At replay {parting.replay} of graphs with collectives {parting.text}."
        orders = f"replay graphs with collectives in different orders, first at replay {parting.replay}"
        text = {
            "message": f"{listed(f'rank {rank}' for rank in ranks)} {orders}",
            "fix": "replay them in the same order in every rank",
        }
        self.about(graph, "GS614", frame, {}, data, because=counted, text=text)

    def waits(self) -> None:
        """Add findings at lines that wait repeatedly between replays. A warm-up or a final synchronisation does not
        count."""
        for wait in self.process.facts.get("waits") or ():
            code = code_of(read(StepEvent, wait), self.book.ops)
            if code is None or wait["turns"] < 2:
                continue
            frame = wait["frames"][-1]
            took = "" if wait["ms"] is None else f" {wait['ms']:.3g} ms in all."
            if wait["op"] == "torch.cuda.synchronize":
                code = "GS610"
            span = wait["span"]
            words = {"expr": text_at(site(frame), span), "value": value_read(code)}
            data = {"op": wait["op"], "ms": wait["ms"]}
            self.add(code, frame, words, data, because=took, level="warning", number=wait["count"], span=span)
