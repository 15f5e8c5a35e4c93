"""After an edit that changes what functions do to others: the scan before is gone through again, in its order.

A reading that asks what it asked, and is told what it was told, does what it did: it is not made again, what it did is
done. Others are made, or made from there on where they are told something else: those of edited functions, those that
ask for the first time, and those whose turn comes at another time. So all that depends on the order of reading is as in
a scan of today's files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from graphsafe.config import Config
from graphsafe.scan.domain.arguments import Call
from graphsafe.scan.domain.state_log import Use
from graphsafe.scan.domain.values import UNKNOWN, Value
from graphsafe.scan.incremental.deeds import Deeds
from graphsafe.scan.incremental.footprint import Edit
from graphsafe.scan.incremental.journal import (
    WAY,
    EffectKind,
    Held,
    Journal,
    MarkKind,
    QueryKind,
    Question,
    Way,
    call_of,
    outermost,
    parts_of,
    question_of,
)
from graphsafe.scan.incremental.moves import Move
from graphsafe.scan.incremental.oracle import TACT, Unanswered
from graphsafe.scan.incremental.passage import READING, rows
from graphsafe.scan.incremental.passing import Passing
from graphsafe.scan.incremental.reading import Item, Reading
from graphsafe.scan.incremental.trace import Trace
from graphsafe.scan.incremental.value_table import SEALED, Unwritable
from graphsafe.scan.interpreter.driver import Step, take
from graphsafe.scan.interpreter.engine import Engine
from graphsafe.scan.interpreter.memo import MISSING, Missing

NEW = -1
"In place of the serial of a reading that the scan before did not make, or not now."


class Restart(Exception):
    """These functions have to be read from the start: others hold on to what they define inside."""

    def __init__(self, refs: Iterable[str]) -> None:
        super().__init__(*refs)
        self.refs = frozenset(refs)


class _Frame:
    """A reading that is going on, made again or not."""

    __slots__ = ("has_left", "items", "last", "limit", "position", "serial", "uses")

    def __init__(self, serial: int, items: Sequence[Item] = ()) -> None:
        self.serial = serial
        self.items = items
        self.last = 0
        "The serial of the last reading within it that came in its turn."
        self.position = 0
        self.limit = 0
        "Items before this one have been done; a reading that is made again comes to them first."
        self.has_left = False
        "Whether it has come further."
        self.uses: list[tuple[int, int]] = []
        "From which item on there were how many uses of state."


class Retrace(Journal):
    """A journal for the engine that goes through the scan before again; `record` and its state are the engine's."""

    def __init__(
        self, engine: Engine, trace: Trace, moves: Mapping[str, Move], edit: Edit, live: Iterable[str]
    ) -> None:
        """`moves`: from the lines of then to today's. `live`: functions whose readings are all to be made again."""
        self.live = set(live)
        self._engine = engine
        self._project = engine.project
        self._state = engine.state
        self._state.tact = TACT
        self._table = trace.table
        self._table.seals = lambda ref: outermost(self._project, ref) not in self.live
        self._trace = trace
        self._closed = trace.closed
        self._frames = [_Frame(0)]
        self._questions: dict[int, tuple[str, Question]] = {}
        self._live_numbers = set(map(trace.table.name, self.live))
        self._followed: set[int] = set()
        "Serials of the readings that were not made again; those of passages that were done at once aside."
        self._seen: set[int] = set()
        "The same of those whose turn has come."
        reads = trace.record.state.reads
        self._deeds = Deeds(engine, trace.table, self._read, self._value, reads, moves, edit)
        self._passing = Passing(engine, trace, self._deeds, edit)
        engine.journal = self

    def finish(self) -> None:
        """What functions do is told of all their readings that are left, where some are no longer made."""
        for passage in self._passing.left():
            for serial, _, _, ref, *_ in rows(passage.readings, READING):
                if serial not in self._seen:
                    self._read_live(self._table.text(ref))

    def take(self, step: Step, config: Config) -> None:
        """Raises whatever its code cannot be followed for."""
        with self._passing.step(step):
            take(self._engine, step, config)

    # readings

    def _question(self, number: int) -> tuple[str, Question]:
        found = self._questions.get(number)
        if found is None:
            parts = parts_of(number, self._table)
            found = self._questions[number] = self._table.text(parts.ref), parts
        return found

    def _read(self, number: int, item: Item | None = None, call: Call | None = None) -> int:
        """The answer to a call, as engine.read gives it. `item` is what it was before, where it was."""
        if item is not None and item[WAY] == "unread":
            answer: int = item[2]
            return answer
        ref, question = self._question(number)
        given, hot, guarded = question.given, bool(question.hot), bool(question.guarded)
        memo = self._engine.memo
        known = memo.result(given, hot, guarded)
        if known is not MISSING:
            return known if type(known) is int else self._declared(number, item, "declared", ref, call)
        if not memo.admits(ref, hot, guarded, question.depth):
            return self._declared(number, item, "refused", ref, call)
        if len(self._frames) > 1:
            return self._read_inner(number, ref, question, call)
        passage = self._passing.turn(number)
        if passage is not None and self._passing.is_as_it_was(passage, self._live_numbers):
            self._frames[-1].last = passage.serial
            self._passing.do(passage)
            return passage.result
        if passage is not None:
            self._trace.load(passage.functions)
        self._passing.begin()
        result = self._read_inner(number, ref, question, call)
        self._passing.settle(passage)
        return result

    def _read_inner(self, number: int, ref: str, question: Question, call: Call | None) -> int:
        """The answer to a call that is read now."""
        given, hot, guarded = question.given, bool(question.hot), bool(question.guarded)
        memo, outer = self._engine.memo, self._frames[-1]
        reading = self._trace.reading(number)
        if reading is not None and (reading.parent != outer.serial or reading.serial <= outer.last):
            # It comes in another order than then, and its clock would be wrong.
            reading = None
        if reading is not None:
            outer.last = reading.serial
            self._seen.add(reading.serial)
        if reading is not None and ref not in self.live:
            memo.begin(ref, hot, guarded, given)
            result = self._follow(reading, ref)
        else:
            call = call or self._call(number)
            if self._project.function_node(ref) is None:
                return self._table.any_number(self._engine.after_unknown(call.arguments))
            memo.begin(ref, hot, guarded, given)
            frame, clock = (_Frame(NEW), 0.0) if reading is None else (_Frame(reading.serial), reading.clock)
            result = self._make(call, frame, clock)
        memo.end(hot, guarded, given, result)
        self._passing.made[number] = result
        return result

    def _declared(self, number: int, item: Item | None, way: Way, ref: str, call: Call | None) -> int:
        if item is not None and item[WAY] == way:
            answer: int = item[2]
            return answer
        arguments = (call or self._call(number)).arguments if way == "refused" else None
        return self._table.any_number(self._engine.declared(ref, arguments))

    def _call(self, number: int) -> Call:
        reading = self._trace.reading(number)
        given = self._table.parts(self._question(number)[1].given)
        keywords = [name for name, _ in given[3]]
        if reading is None and len(keywords) > 1:
            raise Unanswered
        try:
            return call_of(number, keywords if reading is None else reading.order, self._table)
        except Unwritable as error:
            raise self._restart(error) from error

    def _make(self, call: Call, frame: _Frame, clock: float = 0) -> int:
        """Make a reading; what of it has been done already is not done again."""
        self._read_live(call.ref)
        node = self._project.function_node(call.ref)
        if node is None:
            raise Unanswered
        self._state.clock = max(self._state.clock, clock)
        self._frames.append(frame)
        result = self._engine.read_anew(call, node)
        if frame.position < frame.limit:
            raise Unanswered
        self._frames.pop()
        return self._table.any_number(result)

    def _follow(self, reading: Reading, ref: str) -> int:
        """Do what a reading did, as long as it is told what it was told; from there on, make it."""
        state = self._state
        active = self._engine.memo.active
        frame = _Frame(reading.serial, reading.items)
        self._frames.append(frame)
        state.clock = max(state.clock, reading.clock)
        is_outermost = ref not in active
        active.add(ref)
        frame.limit = self._deeds.repeat(frame.items, frame.uses)
        frame.position, frame.has_left = 0, False
        self._frames.pop()
        if is_outermost:
            active.discard(ref)
        if frame.limit < len(frame.items):
            return self._make(self._call(reading.question), frame, reading.clock)
        state.clock = max(state.clock, reading.until)
        if ref in self.live:
            self._tell(reading)
        else:
            self._followed.add(reading.serial)
        return reading.result

    def _read_live(self, ref: str) -> None:
        """From now on all readings of a function are made; what it did in those before is told."""
        if ref not in self.live:
            if ref in self._closed:
                raise Restart([ref])
            self.live.add(ref)
            self._live_numbers.add(self._table.name(ref))
            for reading in self._trace.readings(ref):
                if reading.serial in self._followed or self._passing.has_passed(reading.serial):
                    self._tell(reading)

    def _tell(self, reading: Reading) -> None:
        """What the lines of a reading do: all else of it has been done."""
        clock, frame = self._state.clock, _Frame(reading.serial, reading.items)
        frame.limit = len(frame.items)
        self._state.clock = reading.clock
        self._make(self._call(reading.question), frame)
        self._state.clock = clock

    # the engine's journal, where readings are made

    def call(self, call: Call, uses: int) -> Value:
        item = self._done("call")
        if item is not None:
            self._state.clock = max(self._state.clock, item[3])
            return self._deeds.some(item[2])
        try:
            question = question_of(call, self._table)
        except Unwritable as error:
            raise Unanswered from error
        if question not in self._trace.questions and self._project.function_facts(call.ref) is None:
            return UNKNOWN
        return self._deeds.some(self._read(question, None, call))

    def ask(self, kind: QueryKind, owner: str, name: str) -> Value | Missing | None:
        item = self._done(kind)
        if item is not None:
            return self._value(item[3])
        answer = self._deeds.answer(kind, owner, name)
        return MISSING if answer is None else self._value(answer)

    def tell(self, kind: QueryKind, owner: str, name: str, value: Value | None, held: Held) -> None:
        self._deeds.note(kind, owner, name, value)

    def parameters(self, ref: str) -> Sequence[str] | None:
        return self._trace.parameters.get(ref)

    def mark(self, kind: MarkKind, key: str, first: bool) -> None:
        item = self._done(kind)
        if item is not None and kind == "seen" and item[2]:
            # What the reading writes from here on, it writes after it has read this.
            self._state.clock = max(self._state.clock, self._state.reads[key])

    def effect(self, kind: EffectKind, owner: str, name: str, value: Value | None) -> bool:
        return self._done(kind) is not None

    def use(self, use: Use, is_new: bool) -> bool:
        item = self._done("use")
        if item is None:
            return False
        *_, order, _ = item
        self._state.clock = max(self._state.clock, order)
        return True

    def count(self, uses: int) -> int:
        frame = self._frames[-1]
        if frame.has_left or not frame.uses:
            return uses
        return next(count for i, count in reversed(frame.uses) if i <= frame.position)

    def grown(self, uses: Sequence[Use]) -> bool:
        if self._frames[-1].position < self._frames[-1].limit:
            return self._is_next("grown") and self._done("grown") is not None
        return bool(uses)

    def forget(self, uses: int) -> bool:
        return self._is_next("forget") and self._done("forget") is not None

    def nested(self, ref: str, closure: int) -> None:
        if closure <= SEALED:
            raise self._restart(Unwritable([ref]))

    def _is_next(self, kind: str) -> bool:
        frame = self._frames[-1]
        return frame.position < frame.limit and frame.items[frame.position][0] == kind

    def _done(self, kind: str) -> Item | None:
        """The item, if the reading comes to what has been done already."""
        frame = self._frames[-1]
        if frame.position == frame.limit:
            frame.has_left = True
            return None
        item = frame.items[frame.position]
        if item[0] != kind:
            raise Unanswered
        frame.position += 1
        return item

    def _value(self, number: int) -> Value | None:
        try:
            return self._table.value(number)
        except Unwritable as error:
            raise self._restart(error) from error

    def _restart(self, error: Unwritable) -> Exception:
        refs = [outermost(self._project, ref) for ref in error.refs]
        return Restart(refs) if refs and not self.live.issuperset(refs) else Unanswered()
