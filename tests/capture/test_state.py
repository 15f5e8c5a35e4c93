"""What a step can reach is found whatever its objects say of themselves, and can be put back."""

from __future__ import annotations

import concurrent.futures
import enum
import functools
import itertools
import queue
import random
from array import array
from collections import OrderedDict, UserDict, deque
from dataclasses import dataclass
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
numpy = pytest.importorskip("numpy")

from graphsafe.capture.child.state import (  # noqa: E402
    MISSING,
    Snapshot,
    StateError,
    inputs_of,
    put_back_host,
    reachable_state,
    results_in,
    walk,
)
from graphsafe.capture.child.targets import Subject  # noqa: E402
from graphsafe.capture.device.bits import tensor_bytes  # noqa: E402

COUNTER = 0
GROUP: dict[str, Any] = {"step": 1}


def counts() -> None:
    global COUNTER
    COUNTER += 1
    GROUP["step"] += 1


class Mode(enum.Enum):
    PREFILL = 1
    DECODE = 2


class Slotted:
    __slots__ = ("__private", "step", "unset")

    def __init__(self) -> None:
        self.step = 3
        self.__private = 4


class Hostile:
    """Whatever is asked of it raises, or is a lie."""

    def __init__(self) -> None:
        self.step = 5

    def refuse(self, *_: object) -> Any:
        raise RuntimeError("nothing may ask this")

    __repr__ = __str__ = __len__ = __iter__ = __eq__ = __hash__ = __bool__ = __getattr__ = __getitem__ = refuse  # type: ignore[assignment]
    __class__ = looked_at = property(refuse)  # type: ignore[assignment]


class HostileDict(dict[str, Any]):
    __iter__ = __len__ = keys = values = items = clear = update = __setitem__ = Hostile.refuse  # type: ignore[assignment]


class HostileText(str):
    __repr__ = __str__ = __len__ = Hostile.refuse  # type: ignore[assignment]


class HostileNumber(int):
    __repr__ = __str__ = __int__ = __index__ = Hostile.refuse  # type: ignore[assignment]


class Holder:
    LIMIT = 7

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


@dataclass
class Batch:
    ids: Any
    mask: Any


class Memory:
    """A device whose tensors are where they are."""

    def digests(self, tensors: Any) -> dict[str, str]:
        return {path: str(tensor.detach().tolist()) for path, tensor in tensors.items()}

    def to_host(self, tensor: Any) -> Any:
        return tensor.detach().clone()

    def store(self, tensor: Any, values: Any) -> None:
        tensor.detach().copy_(values)


def snapshot_of(value: Any) -> Snapshot:
    return Snapshot(Memory(), Subject(lambda: value, (value,), {}))  # type: ignore[arg-type]


# Each host value has a path, a place, and can be put back alone.


PLACES: dict[str, tuple[Any, str, Any]] = {
    "attribute": (Holder(step=1), "x.step", 1),
    "dict entry": (Holder(group={"step": 1}), "x.group['step']", 1),
    "dict of an odd key": (Holder(group={(1, "a"): 2.5}), "x.group[(1, 'a')]", 2.5),
    "list slot": (Holder(steps=[4, 5]), "x.steps[1]", 5),
    "deque slot": (Holder(steps=deque([4, 5])), "x.steps[1]", 5),
    "tuple slot": (Holder(state=(4, (5, 6))), "x.state[1][0]", 5),
    "named by a class": (Holder(), "x.LIMIT", 7),
    "slot": (Slotted(), "x.step", 3),
    "private slot": (Slotted(), "x._Slotted__private", 4),
    "module's attribute": (torch.nn.Linear(1, 1), "x.in_features", 1),
    "namespace": (SimpleNamespace(step=1), "x.step", 1),
    "entry of a dict's subclass": (Holder(group=HostileDict(step=1)), "x.group['step']", 1),
    "member of an enumeration": (Holder(mode=Mode.DECODE), "x.mode", Mode.DECODE),
    "dtype": (Holder(dtype=torch.float32), "x.dtype", torch.float32),
}


@pytest.mark.parametrize("name", PLACES)
def test_a_host_value_can_be_put_back_alone(name: str) -> None:
    value, path, kept = PLACES[name]
    reach = walk({"x": value})
    before = reach.hosts[path]
    assert reach.values[path] is kept or reach.values[path] == kept
    put_back_host(reach, path, 11)
    changed = walk({"x": value})
    assert {key: text for key, text in changed.hosts.items() if reach.hosts[key] != text} == {path: "11"}
    put_back_host(reach, path, reach.values[path])
    assert walk({"x": value}).hosts == reach.hosts and before != "11"


def test_variables_of_a_module_and_of_closures_have_a_place() -> None:
    step = 1

    def closure() -> int:
        return step

    reach = walk({"f": counts, "g": closure})
    assert reach.hosts["f.COUNTER"] == str(COUNTER)
    counts()
    assert walk({"f": counts}).hosts["f.COUNTER"] == str(COUNTER) != reach.hosts["f.COUNTER"]
    for path in ("f.COUNTER", "f.GROUP['step']"):
        put_back_host(reach, path, reach.values[path])
    put_back_host(reach, "g.step", 5)
    again = walk({"f": counts, "g": closure})
    assert again.hosts == {**reach.hosts, "g.step": "5"} and closure() == 5


def test_what_a_method_closes_over_is_state() -> None:
    drift, ones, settings = torch.zeros(2), torch.ones(2), SimpleNamespace(rate=0.1)

    class Tracked(torch.nn.Module):
        def forward(self, x: torch.Tensor, scale: torch.Tensor = ones) -> torch.Tensor:
            drift.lerp_(x, settings.rate)
            return x * scale

    found = walk({"step": Tracked()})
    assert {path.rpartition(".")[2] for path in found.tensors} >= {"drift", "scale"}
    assert any(path.endswith("settings.rate") for path in found.hosts)


def test_the_attributes_of_a_wrapped_object_are_read_from_the_object() -> None:
    module = torch.nn.Linear(2, 2)
    module.front, module.back = front, back = torch.zeros(2), torch.ones(2)
    step = torch.no_grad()(module)  # its own `__dict__` has a copy of the module's
    step.calls = 0  # type: ignore[attr-defined]
    module.front, module.back = back, front
    reach = walk({"": step})
    assert reach.places()["front"] == back.untyped_storage().data_ptr()
    assert {"weight", "bias"} < reach.tensors.keys() and reach.hosts["calls"] == "0"
    assert walk({"": torch.inference_mode()(step)}).places()["front"] == back.untyped_storage().data_ptr()

    @functools.wraps(counts)
    def counted() -> None:
        counts()

    counts.cache = counted.cache = torch.zeros(2)  # type: ignore[attr-defined]
    assert "cache" in walk({"": counted}).tensors
    del counts.cache  # type: ignore[attr-defined]
    counted.__wrapped__ = counted
    assert "cache" in walk({"": counted}).tensors


def test_two_elements_of_a_tuple() -> None:
    holder = Holder(state=(1, 2))
    reach = walk({"x": holder})
    put_back_host(reach, "x.state[0]", 8)
    put_back_host(reach, "x.state[1]", 9)
    assert holder.__dict__["state"] == (8, 9)


def test_what_was_not_there_is_taken_out() -> None:
    holder, group = Holder(step=1), {"plan": 2}
    reach = walk({"x": holder, "g": group})
    put_back_host(reach, "x.step", MISSING)
    put_back_host(reach, "g['plan']", MISSING)
    assert holder.__dict__ == {} and group == {}


def test_a_place_that_refuses_is_told() -> None:
    reach = walk({"x": [1, 2]})
    with pytest.raises(StateError, match="taken out"):
        put_back_host(reach, "x[0]", MISSING)


# Positions and generators.


def test_a_counter_goes_back() -> None:
    holder = Holder(ids=itertools.count(3), names=iter(["a", "b", "c"]), rows=itertools.cycle([1, 2]))
    reach = walk({"x": holder})
    assert reach.hosts["x.ids"] == "count(3)" and reach.opaque == ["x.rows"]
    kept = snapshot_of(holder)
    next(holder.__dict__["ids"]), next(holder.__dict__["names"])
    after = walk({"x": holder}).hosts
    assert after["x.ids"] == "count(4)" and after["x.names"] != reach.hosts["x.names"]
    kept.put_back()
    assert walk({"x": holder}).hosts == reach.hosts
    assert next(holder.__dict__["ids"]) == 3 and next(holder.__dict__["names"]) == "a"
    kept.put_back()
    assert next(holder.__dict__["ids"]) == 3


def test_generators_of_the_host_are_seeded_and_put_back() -> None:
    found = {
        "python": random.Random(1),
        "new": numpy.random.default_rng(1),
        "old": numpy.random.RandomState(1),
        "system": random.SystemRandom(),
    }
    reach = walk({"x": found, "t": torch.Generator()})
    assert set(reach.host_generators) == {f"x[{name!r}]" for name in found} and set(reach.generators) == {"t"}

    def draw() -> tuple[float, ...]:
        old: Any = found["old"]
        return found["python"].random(), float(found["new"].random()), float(old.random_sample())

    reach.seed(5)
    first = draw()
    kept = snapshot_of(found)
    second = draw()
    assert first != second
    kept.put_back()
    assert draw() == second
    reach.seed(5)
    assert draw() == first


# Objects that break who looks at them.


def test_nothing_is_asked_of_an_object() -> None:
    value = Hostile()
    reach = walk({"x": value, "more": [Hostile(), HostileDict(a=1)]})
    assert reach.hosts["x.step"] == "5" and reach.hosts["more[0].step"] == "5" and reach.lengths["more[1]"] == 1
    kept = snapshot_of([value, HostileDict(a=1)])
    value.__dict__["step"] = 6
    kept.put_back()
    assert value.__dict__["step"] == 5


def test_numbers_and_texts_that_cannot_be_written() -> None:
    huge = 10**5_000
    values = {"huge": huge, "surrogate": "\ud800", "text": HostileText("a"), "number": HostileNumber(3), "\udcff": 1}
    first = walk({"x": {**values, float("nan"): 1, float("nan"): 2}})
    assert first.hosts["x['text']"] == "'a'" and first.hosts["x['number']"] == "3"
    assert first.hosts["x[nan]"] == "1" and first.hosts["x[#6]"] == "2"
    assert walk({"x": {**values, "huge": huge + 1}}).hosts["x['huge']"] != first.hosts["x['huge']"]
    for path, text in first.hosts.items():
        assert path.encode() and text.encode()


def test_a_surrogate_in_a_long_text() -> None:
    assert walk({"x": "\ud800" * 100}).hosts != walk({"x": "\ud801" * 100}).hosts


def test_what_contains_itself_ends() -> None:
    nest: list[Any] = [torch.ones(2)]
    nest.append(nest)
    holder = Holder(nest=nest)
    holder.__dict__["me"] = holder
    table: dict[str, Any] = {"x": torch.ones(3)}
    table["table"] = table
    subject = Subject(lambda: None, (nest, holder), {"table": table})
    assert list(inputs_of(subject)) == ["args[0][0]", "kwargs['table']['x']"]
    assert set(inputs_of(subject)) <= set(reachable_state(subject).tensors)


@pytest.mark.child
def test_more_objects_than_can_be_looked_at() -> None:
    reach = walk({"x": [[] for _ in range(250_000)]})
    assert reach.unreadable == {"objects further away": "the step reaches more than 50000 objects"}
    assert len(reach.lengths) == 50_000


def test_a_long_list_of_numbers_is_one_value() -> None:
    numbers = list(range(100_000))
    first = walk({"x": numbers, "d": dict(enumerate(numbers))})
    assert set(first.hosts) == {"x", "d"}
    numbers[50_000] = -1
    assert walk({"x": numbers}).hosts["x"] != first.hosts["x"]


# Inputs, and what state is.


def test_inputs_lie_in_lists_dicts_and_dataclasses() -> None:
    made = [torch.ones(1) for _ in range(5)]
    subject = Subject(
        lambda: None,
        (Batch(made[0], None), [(made[1],)], torch.nn.Parameter(made[2])),
        {"data": UserDict(x=made[3]), "cache": Holder(key=made[4])},
    )
    assert list(inputs_of(subject)) == ["args[0].ids", "args[1][0][0]", "kwargs['data'].data['x']"]
    assert set(inputs_of(subject)) < set(reachable_state(subject).tensors)


def test_everything_that_holds_is_put_back() -> None:
    cached = functools.lru_cache(lambda n: n)
    cached(1)
    holder = Holder(
        ordered=OrderedDict(a=1, b=2), numbers=[1], seen={1, 2}, window=deque([1], maxlen=2), raw=bytearray(b"ab"),
        ints=array("i", [1, 2]), lengths=numpy.arange(3), plan=None, cache=cached,
    )  # fmt: skip
    slotted = Slotted()
    before = walk({"x": holder, "s": slotted})
    kept = snapshot_of([holder, slotted])
    held = holder.__dict__
    held["ordered"].pop("a")
    held["numbers"].append(2)
    held["seen"].add(3)
    held["window"].extend([2, 3])
    held["raw"][0] = 0
    held["ints"].append(3)
    held["lengths"] += 1
    held["plan"] = 4
    held["born"] = 5
    slotted.step = 6
    slotted.unset = 7
    cached(2)
    assert walk({"x": holder, "s": slotted}).hosts != before.hosts
    kept.put_back()
    after = walk({"x": holder, "s": slotted})
    assert after.hosts == before.hosts and after.lengths == before.lengths and list(held["ordered"]) == ["a", "b"]
    assert "x.lengths" in before.hosts and held["lengths"].tolist() == [0, 1, 2]
    assert cached.cache_info().currsize == 0


# Objects that are not of the user's classes.


def test_elements_of_a_set_keep_the_order_of_what_they_held_first() -> None:
    slow, fast = Holder(rate=0.1, seen=0), Holder(rate=0.9, seen=0)
    group = {slow, fast}
    assert walk({"x": group}).hosts["x[#0].rate"] == "0.1"
    slow.__dict__.update(rate=2.0, seen=7)
    reach = walk({"x": group})
    assert (reach.hosts["x[#0].rate"], reach.hosts["x[#1].rate"]) == ("2.0", "0.9")


def test_elements_of_a_set_that_hold_it_and_each_other() -> None:
    group: set[Any] = set()
    group |= {Holder(number=number, group=group, name="x") for number in range(300)}
    hosts = walk({"x": group}).hosts
    assert sorted(int(text) for path, text in hosts.items() if path.endswith(".number")) == list(range(300))


def test_keys_of_a_dict_hold_state() -> None:
    meter, shared = Holder(mean=torch.ones(2)), torch.ones(1)
    reach = walk({"x": {meter: 1, Mode.DECODE: 2, (1, 2): 3, int: 4, shared: 5}, "y": shared})
    assert set(reach.tensors) == {"x.keys()[0].mean", "y"}


def test_a_set_names_only_what_has_no_other_name() -> None:
    weight = torch.ones(2)
    reach = walk({"group": frozenset({weight, Holder(far=torch.ones(3))}), "x": Holder(y=Holder(z=weight))})
    assert set(reach.tensors) == {"group[#0].far", "x.y.z"}


def test_views_of_dicts_show_the_dict() -> None:
    held = {"a": torch.ones(2)}
    for view in (held.values(), held.items(), OrderedDict(held).values(), MappingProxyType(held)):
        assert set(walk({"x": view}).tensors) == {"x['a']"}
    assert not walk({"x": Holder.__dict__}).hosts


def test_hooks_of_a_tensor_hold_state() -> None:
    weight, seen = torch.nn.Parameter(torch.ones(2)), torch.ones(3)
    weight.register_hook(Holder(norm=torch.ones(1)))  # type: ignore[no-untyped-call]
    weight.register_post_accumulate_grad_hook(lambda _: seen.zero_())
    assert set(walk({"x": weight}).tensors) == {
        "x", "x._backward_hooks[0].norm", "x._post_accumulate_grad_hooks[0].seen",
    }  # fmt: skip


def test_distributions_are_followed_and_put_back() -> None:
    prior = torch.distributions.Independent(torch.distributions.Normal(torch.zeros(2), 1.0), 1)  # type: ignore[no-untyped-call]
    kept = snapshot_of(prior)
    loc = prior.base_dist.loc
    assert {"loc", "scale"} == {path.rpartition(".")[2] for path in kept.tensors}
    loc.fill_(5.0)
    prior.base_dist.loc = torch.ones(2)
    kept.put_back()
    assert prior.base_dist.loc is loc and not loc.any()


def test_a_queue_has_a_size_if_it_holds_tensors() -> None:
    handed: queue.SimpleQueue[Any] = queue.SimpleQueue()
    handed.put("text")
    assert walk({"x": handed}).queues == {}
    handed.put(torch.ones(1))
    assert walk({"x": handed}).queues == {"x": 2}


@pytest.mark.parametrize(
    "result",
    [
        iter([torch.ones(1)]),
        map(abs, [torch.ones(1)]),
        (part for part in (torch.ones(1),)),
        {torch.ones(1), torch.zeros(1)},
        concurrent.futures.Future(),
        torch.futures.Future(),  # type: ignore[no-untyped-call]
        ValueError(torch.ones(1)),
    ],
    ids=lambda result: type(result).__name__,
)
def test_results_that_cannot_be_read_are_told(result: Any) -> None:
    assert set(results_in((1, result)).unreadable) == {"output[1]"}


@pytest.mark.parametrize("result", [iter([1]), range(3), {1, "a"}, torch.nn.Linear(1, 1), open, ValueError("text")])
def test_results_without_a_tensor_are_not_missed(result: Any) -> None:
    assert not results_in((1, result)).unreadable


def test_results_in_objects_of_libraries_are_followed() -> None:
    seen = concurrent.futures.thread._WorkItem(None, None, (torch.ones(1),), {})  # type: ignore[attr-defined]
    assert set(results_in(seen).tensors) == {"output.args[0]"}
    assert set(results_in({torch.ones(1), torch.zeros(2)}).tensors) == {"output[#0]", "output[#1]"}


# Tensors of every kind.


class Quantised(torch.Tensor):
    """A wrapper of two tensors, as quantisation libraries have it."""

    @staticmethod
    def __new__(cls, data: Any, scale: Any) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, data.shape, dtype=torch.float32)  # type: ignore[attr-defined]

    def __init__(self, data: Any, scale: Any) -> None:
        self.data8, self.scale = data, scale

    def __tensor_flatten__(self) -> Any:
        return ["data8", "scale"], None

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return cls(args[0].data8, args[0].scale) if func is torch.ops.aten.detach.default else NotImplemented


class Silent(Quantised):
    __tensor_flatten__ = None  # type: ignore[assignment]


class Named(torch.Tensor):
    """Adds nothing but a name."""


@pytest.mark.child
def test_a_wrapping_tensor_is_compared_by_what_it_wraps() -> None:
    weight = Quantised(torch.ones(2, dtype=torch.int8), torch.ones(()))
    subject = Subject(lambda: None, (weight, Silent(torch.ones(1), torch.ones(1))), {"p": torch.nn.Parameter(weight)})
    reach = reachable_state(subject)
    assert {path for path in reach.tensors if path.startswith("args")} == {"args[0].data8", "args[0].scale"}
    assert list(reach.unreadable) == ["args[1]"] and "Silent" in reach.unreadable["args[1]"]
    assert list(inputs_of(subject)) == ["args[0].data8", "args[0].scale"]


def test_a_subclass_without_operations_of_its_own_is_a_plain_tensor() -> None:
    named = torch.ones(3).as_subclass(Named)
    [(path, plain)] = walk({"x": named}).tensors.items()
    assert path == "x" and type(plain) is torch.Tensor and plain.data_ptr() == named.data_ptr()


EXOTIC = {
    "coo": (lambda: torch.eye(3).to_sparse(), {"x._indices()", "x._values()"}),
    "csr": (lambda: torch.eye(3).to_sparse_csr(), {"x.crow_indices()", "x.col_indices()", "x.values()"}),
    "csc": (lambda: torch.eye(3).to_sparse_csc(), {"x.ccol_indices()", "x.row_indices()", "x.values()"}),
    "strided nested": (lambda: torch.nested.nested_tensor([torch.ones(1, 2), torch.ones(2, 2)]),
                       {"x.values()", "x._nested_tensor_size()"}),
    "jagged nested": (lambda: torch.nested.nested_tensor([torch.ones(1, 2), torch.ones(2, 2)], layout=torch.jagged),
                      {"x._values", "x._offsets", "x._min_seqlen_tensor", "x._max_seqlen_tensor"}),
    "quantised": (lambda: torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.qint8), {"x"}),
    "bits": (lambda: torch.ones(4, dtype=torch.uint8).view(torch.bits8), {"x"}),
    "smaller than a byte": (lambda: torch.zeros(4, dtype=torch.uint8).view(torch.uint4), {"x"}),
    "float8": (lambda: torch.ones(4).to(torch.float8_e4m3fn), {"x"}),
    "complex32": (lambda: torch.ones(4, dtype=torch.complex32), {"x"}),
    "uint64": (lambda: torch.ones(4, dtype=torch.uint64), {"x"}),
    "nothing in it": (lambda: torch.ones(0, 3), {"x"}),
    "0-d": (lambda: torch.ones(()), {"x"}),
    "expanded": (lambda: torch.ones(3, 1).expand(3, 4), {"x"}),
    "overlapping windows": (lambda: torch.ones(6).unfold(0, 3, 1), {"x"}),
    "with gaps": (lambda: torch.ones(6, 6)[::2, 1:5:2], {"x"}),
    "of a larger storage": (lambda: torch.ones(100)[40:44], {"x"}),
    "a lazy module's": (torch.nn.parameter.UninitializedParameter, {"x"}),
}  # fmt: skip


@pytest.mark.child
@pytest.mark.parametrize("name", EXOTIC)
@pytest.mark.filterwarnings("ignore")
def test_a_tensor_of_any_kind_can_be_read_and_put_back(name: str) -> None:
    make, paths = EXOTIC[name]
    value = make()
    reach = walk({"x": value})
    assert set(reach.tensors) == paths and reach.unreadable == {}
    for tensor in reach.tensors.values():
        kept = tensor.detach().clone()
        tensor.detach().copy_(kept)
        assert tensor_bytes(tensor.contiguous()) == tensor_bytes(kept.contiguous())


def test_what_is_written_through_the_path_is_in_the_tensor() -> None:
    expanded, windows = torch.ones(3, 1).expand(3, 4), torch.arange(6).unfold(0, 3, 1)
    reach = walk({"e": expanded, "w": windows})
    reach.tensors["e"].copy_(torch.full(reach.tensors["e"].shape, 2.0))
    reach.tensors["w"].copy_(torch.arange(6) * 2)
    assert expanded.eq(2).all() and windows[0].tolist() == [0, 2, 4] and windows[3].tolist() == [6, 8, 10]


def test_a_meta_tensor_has_nothing_to_compare() -> None:
    assert walk({"x": torch.ones(2, device="meta")}).hosts == {"x": "meta torch.float32 [2]"}


class Scripted(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(2, 2)
        self.register_buffer("total", torch.zeros(2))
        self.steps: int = 0
        self.seen: list[int] = [0]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.steps += 1
        self.seen.append(1)
        return self.inner(x) + self.total


@pytest.mark.filterwarnings("ignore")
def test_modules_of_torchscript() -> None:
    x = torch.ones(2)
    scripted = torch.jit.script(Scripted())
    traced = torch.jit.trace(torch.nn.Sequential(torch.nn.Linear(2, 2)), x)
    subject = Subject(lambda: None, (scripted, traced), {})
    reach = reachable_state(subject)
    assert set(reach.tensors) == {
        "args[0].total", "args[0].inner.weight", "args[0].inner.bias", "args[1].0.weight", "args[1].0.bias",
    }  # fmt: skip
    kept = Snapshot(Memory(), subject)  # type: ignore[arg-type]
    scripted(x)
    assert (
        reachable_state(subject).hosts["args[0].steps"] == "1" and reachable_state(subject).lengths["args[0].seen"] == 2
    )
    kept.put_back()
    assert scripted.steps == 0 and scripted.seen == [0]
    put_back_host(reach, "args[0].steps", 4)
    assert scripted.steps == 4


def test_read_only_memory_is_left_alone_but_what_it_shows_is_put_back() -> None:
    table = numpy.zeros(4)
    shown, fixed = numpy.broadcast_to(table, (2, 4)), numpy.frombuffer(b"1234", dtype=numpy.uint8)
    kept = snapshot_of([shown, fixed])
    table[1] = 5
    kept.put_back()
    assert table.tolist() == [0, 0, 0, 0] and kept.bindings.refused == set()


def test_what_cannot_be_put_back_is_told_and_the_rest_is_put_back() -> None:
    ends, after = iter([1, 2]), [3]
    kept = snapshot_of([ends, after])
    assert list(ends) == [1, 2]
    after.append(4)
    kept.put_back()
    assert after == [3] and kept.bindings.refused == {"a list_iterator cannot be restored: ValueError"}
    assert not kept.bindings.keeps_results


def test_weights_that_change_are_put_back() -> None:
    module = torch.nn.Linear(2, 2)
    kept = snapshot_of(module)
    before = module.weight.clone()
    module.weight.data.zero_()
    module.extra = torch.ones(1)
    kept.put_back()
    assert module.weight.equal(before) and not hasattr(module, "extra")


def test_gradients_are_put_back_or_taken_away() -> None:
    module = torch.nn.Linear(2, 2)
    module.bias.grad = before = torch.ones(2)
    kept = snapshot_of(module)
    module.bias.grad = None
    module(torch.ones(1, 2)).sum().backward()
    kept.put_back()
    assert module.weight.grad is None
    assert module.bias.grad is before
