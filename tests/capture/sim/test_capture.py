"""The rules of capture, as H200s under torch 2.11 have them."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable

import pytest
import torch
import torch.utils.checkpoint
from reading import digest

from graphsafe.capture.answers.events import CaptureFailure
from graphsafe.capture.device.sim import SimDevice
from graphsafe.report.probes.construct import Attempt

pytestmark = pytest.mark.filterwarnings("ignore:The CUDA Graph is empty")
NOT_PERMITTED = "CUDA error: operation not permitted when stream is capturing"
EARLIER = "CUDA error: operation failed due to a previous error during capture"
LEFT_CAPTURING = "Offset increment outside graph capture encountered unexpectedly."


def failing(sim: SimDevice, step: Callable[[], object]) -> CaptureFailure:
    result = sim.record(step)
    assert isinstance(result, CaptureFailure)
    return result


def told(sim: SimDevice) -> list[str]:
    """What the device cannot vouch for, each on a line of this file."""
    split = [text.rpartition(" at ") for text in sim.unknown_operations()]
    assert all(
        place.startswith("tests/capture/sim/") or __file__.endswith(place.split(":")[0]) for _, _, place in split
    )
    return [what for what, _, _ in split]


def test_a_graph_holds_addresses_and_numbers(sim: SimDevice) -> None:
    with sim.entered():
        x, total, factor = torch.ones(4, device="cuda:1"), torch.zeros(4, device="cuda:1"), [2.0]

        def step() -> torch.Tensor:
            total.add_(x)
            return x * factor[0]

        recording = sim.record(step)
        assert sim.to_host(total).tolist() == [0.0] * 4, "nothing is done while a capture runs"
        assert recording.nodes() == {"kernel": 2}
        factor[0] = 100.0
        sim.store(x, torch.full((4,), 5.0))
        recording.replay()
        recording.replay()
        assert sim.to_host(recording.outputs).tolist() == [10.0] * 4
        assert sim.to_host(total).tolist() == [10.0] * 4


def test_a_rebound_tensor_is_not_followed(sim: SimDevice) -> None:
    with sim.entered():
        parameter = torch.nn.Parameter(torch.ones(4, device="cuda:1"))
        recording = sim.record(lambda: parameter.detach() * 2)
        parameter.data = torch.full((4,), 7.0, device="cuda:1")
        recording.replay()
        assert sim.to_host(recording.outputs).tolist() == [2.0] * 4


def test_inference_tensors_are_replayed(sim: SimDevice) -> None:
    with sim.entered():
        x, total = torch.ones(4, device="cuda:1"), torch.zeros(4, device="cuda:1")

        @torch.inference_mode()
        def step() -> torch.Tensor:
            doubled = x * 2
            total.add_(doubled)
            return doubled.add_(1)

        recording = sim.record(step)
        sim.store(x, torch.full((4,), 5.0))
        recording.replay()
        assert sim.to_host(recording.outputs).tolist() == [11.0] * 4
        assert sim.to_host(total).tolist() == [10.0] * 4


def test_a_shape_changed_in_place_is_the_same_in_every_replay(sim: SimDevice) -> None:
    with sim.entered():
        x = torch.ones(4, 1, device="cuda:1")
        recording, later = (sim.record(lambda: (x * 2).unsqueeze_(0).sum(0)) for _ in range(2))
        sim.store(x, torch.full((4, 1), 5.0))
        recording.replay()
        recording.replay()
        assert sim.to_host(recording.outputs).tolist() == [[10.0]] * 4
        assert recording.differences(later) == ()


def test_pinned_memory_is_read_at_replay(sim: SimDevice) -> None:
    with sim.entered():
        pinned, buffer = torch.ones(4).pin_memory(), torch.zeros(4, device="cuda:1")
        recording = sim.record(lambda: buffer.copy_(pinned, non_blocking=True))
        pinned.fill_(3.0)
        recording.replay()
        assert sim.to_host(buffer).tolist() == [3.0] * 4
        assert recording.nodes() == {"memcpy": 1}


def test_a_kernel_is_given_the_value_of_a_pinned_number(sim: SimDevice) -> None:
    with sim.entered():
        pinned, x = torch.tensor(2.0).pin_memory(), torch.ones(4, device="cuda:1")
        recording = sim.record(lambda: x * pinned)
        pinned.fill_(3.0)
        recording.replay()
        assert sim.to_host(recording.outputs).tolist() == [2.0] * 4


def test_replays_draw_on_and_a_reseeded_replay_equals_eager(sim: SimDevice) -> None:
    with sim.entered():
        x = torch.ones(64, device="cuda:1")

        def step() -> torch.Tensor:
            return torch.nn.functional.dropout(x, 0.5) + torch.rand_like(x)

        sim.seed(7)
        recording = sim.record(step)
        assert sim.random_states()["sim:1"].offset == 0
        sim.seed(3)
        replays = []
        for _ in range(2):
            recording.replay()
            replays.append(digest(sim, recording.outputs))
        after = sim.random_states()["sim:1"]
        sim.seed(3)
        eager = [digest(sim, step()) for _ in range(2)]
        assert replays == eager and replays[0] != replays[1]
        assert sim.random_states()["sim:1"] == after


def test_reading_invalidates_the_capture(sim: SimDevice) -> None:
    with sim.entered():
        x = torch.ones(4, device="cuda:1")
        failure = failing(sim, lambda: x * x.sum().item())
        assert failure.chain == (NOT_PERMITTED, EARLIER)
        assert failure.frames[-1].function is not None and failure.event is not None
        assert failure.event.op == "aten::_local_scalar_dense" and failure.event.via == "torch.Tensor.item"
        assert sim.current_stream_name() == "sim:1, side stream"
        assert sim.draw("sim:1") == LEFT_CAPTURING and sim.draw("sim:0") is None
        with pytest.raises(RuntimeError, match="Offset increment outside graph capture"):
            torch.randn(1, device="cuda:1")
        torch.cuda.manual_seed(3)
        assert sim.draw("sim:1") == LEFT_CAPTURING
        sim.repair_generator("sim:1")
        torch.randn(1, device="cuda:1")


def test_a_swallowed_error_still_fails_the_capture(sim: SimDevice) -> None:
    with sim.entered():
        x = torch.ones(4, device="cuda:1")

        def step() -> torch.Tensor:
            try:
                return x * x.sum().item()
            except RuntimeError:
                return x

        failure = failing(sim, step)
        assert failure.message == EARLIER
        assert failure.event is not None and failure.event.span is not None
        diagnosis = sim.diagnose(step)
        assert diagnosis is not None and diagnosis.cause == "operation"


def test_pytorchs_own_check_leaves_the_generator_alone(sim: SimDevice) -> None:
    with sim.entered():
        x = torch.ones(4, device="cuda:1")
        failure = failing(sim, lambda: x + torch.tensor([1.0], device="cuda:1"))
        assert "Cannot copy between CPU and CUDA tensors during CUDA graph capture" in failure.message
        assert sim.draw("sim:1") is None


def test_a_successful_capture_heals_the_generator(sim: SimDevice) -> None:
    with sim.entered():
        x = torch.ones(4, device="cuda:1")
        failing(sim, lambda: x.sum().item())
        sim.record(lambda: x * 2)
        assert sim.draw("sim:1") is None


def test_a_constructor_that_swallows_its_failed_capture(sim: SimDevice) -> None:
    attempts: list[Attempt] = []

    def construct() -> None:
        weight = torch.ones(4, device="cuda:1")
        try:
            with torch.cuda.graph(torch.cuda.CUDAGraph()):
                weight.sum().item()
        except RuntimeError:
            pass

    with sim.entered(), sim.watch_captures(attempts.append):
        construct()
        assert sim.draw("sim:1") == LEFT_CAPTURING
    [attempt] = attempts
    assert attempt.device == "sim:1" and attempt.nodes is None
    assert attempt.first_error is not None and attempt.first_error.message == NOT_PERMITTED
    begun, failed = attempt.frames[-1], attempt.first_error.frames[-1]
    assert begun.function == failed.function and failed.line == begun.line + 1


def test_a_capture_left_open_is_reported(sim: SimDevice) -> None:
    attempts: list[Attempt] = []
    with sim.entered(), sim.watch_captures(attempts.append), torch.cuda.stream(torch.cuda.Stream(1)):
        torch.cuda.CUDAGraph().capture_begin()
    assert attempts[0].first_error is not None and "never ended" in attempts[0].first_error.message


@pytest.mark.parametrize(
    ("current", "stream", "earlier", "captured"),
    [
        (0, None, False, False),
        (1, None, False, True),
        (0, 1, False, True),
        (1, 0, False, False),
        (1, 1, False, True),
        (1, None, True, False),
    ],
)
def test_device_and_stream(sim: SimDevice, current: int, stream: int | None, earlier: bool, captured: bool) -> None:
    """`torch.cuda.graph` keeps one default stream a process; the first device to capture owns it."""
    with sim.entered(), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        a, o = torch.ones(4, device="cuda:1"), torch.zeros(4, device="cuda:1")
        torch.cuda.set_device(0)
        if earlier:
            b = torch.ones(4, device="cuda:0")
            with torch.cuda.graph(torch.cuda.CUDAGraph()):
                b * 2
        torch.cuda.set_device(current)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=None if stream is None else torch.cuda.Stream(stream)):
            o.copy_(a * 2)
        a.fill_(5)
        graph.replay()
        assert (sim.to_host(o)[0] == 10) == captured
        assert any("The CUDA Graph is empty" in str(warning.message) for warning in warned) != captured


def test_work_beside_the_capture_is_named(sim: SimDevice) -> None:
    with sim.entered():
        x, out = torch.ones(4, device="cuda:1"), torch.zeros(4, device="cuda:1")

        def step() -> torch.Tensor:
            with torch.cuda.stream(torch.cuda.default_stream(1)):
                out.copy_(x)
            return x * 2

        recording = sim.record(step)
        [escaped] = recording.escaped()
        assert escaped.op == "aten::copy_" and escaped.frames[-1].function is not None
        assert recording.nodes() == {"kernel": 1}
        diagnosis = sim.diagnose(step)
        assert diagnosis is not None and diagnosis.cause == "foreign-stream"


def test_side_streams_fork_and_join(sim: SimDevice) -> None:
    with sim.entered():
        x, side = torch.ones(4, device="cuda:1"), torch.cuda.Stream(1)

        def forked() -> torch.Tensor:
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                return x * 2

        def joined() -> torch.Tensor:
            y = forked()
            torch.cuda.current_stream().wait_stream(side)
            return y + 1

        recording = sim.record(joined)
        assert recording.nodes() == {"kernel": 2} and recording.escaped() == ()
        failure = failing(sim, forked)
        assert failure.message == "CUDA error: capturing stream has unjoined work"
        diagnosis = sim.diagnose(forked)
        assert diagnosis is not None and diagnosis.cause == "unjoined-stream" and diagnosis.event.op == "aten::mul"


@pytest.mark.parametrize(
    "wait",
    [
        lambda: torch.cuda.synchronize(),
        lambda: torch.cuda.current_stream().synchronize(),
        lambda: torch.cuda.current_stream().query(),
        lambda: torch.cuda.current_stream().record_event().synchronize(),
        lambda: torch.cuda.current_stream().record_event().query(),
    ],
)
def test_waiting_and_asking_are_refused(sim: SimDevice, wait: Callable[[], object]) -> None:
    with sim.entered():
        assert "CUDA error: operation not permitted" in failing(sim, wait).message
        assert sim.draw("sim:1") == LEFT_CAPTURING


def test_a_fresh_event_may_be_asked(sim: SimDevice) -> None:
    with sim.entered():
        x = torch.ones(4, device="cuda:1")
        assert not isinstance(sim.record(lambda: (torch.cuda.Event().query(), x * 2)), CaptureFailure)


def test_time_between_events_needs_both_recorded(sim: SimDevice) -> None:
    with sim.entered():
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        with pytest.raises(ValueError, match="Both events must be recorded"):
            first.elapsed_time(last)
        last.record()
        assert first.elapsed_time(last) == 0.0


def test_generators_in_a_capture(sim: SimDevice) -> None:
    with sim.entered():
        own = torch.Generator(device="cuda:1")
        failure = failing(sim, lambda: torch.randn(4, device="cuda:1", generator=own))
        assert failure.message == "Attempt to increase offset for a CUDA generator not in capture mode."
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(own)
        with torch.cuda.graph(graph, stream=torch.cuda.Stream(1)):
            drawn = torch.randn(4, device="cuda:1", generator=own)
        graph.replay()
        first = digest(sim, drawn)
        graph.replay()
        assert digest(sim, drawn) != first
        failure = failing(sim, lambda: torch.cuda.manual_seed(1234))
        assert "only if new seed is the same" in failure.message


@pytest.mark.child
def test_an_optimizer_that_is_not_capturable(sim: SimDevice) -> None:
    with sim.entered():
        parameter = torch.nn.Parameter(torch.ones(4, device="cuda:1"))
        optimizer = torch.optim.Adam([parameter])
        parameter.grad = torch.ones(4, device="cuda:1")
        optimizer.step()
        assert "capturable" in failing(sim, optimizer.step).message


def test_graphed_callables(sim: SimDevice) -> None:
    with sim.entered():
        model = torch.nn.Linear(8, 4).cuda()
        x = torch.randn(2, 8, device="cuda", requires_grad=True)
        expected = sim.to_host(model(x))
        graphed = torch.cuda.make_graphed_callables(model, (torch.zeros(2, 8, device="cuda", requires_grad=True),))
        out = graphed(x)
        assert torch.equal(sim.to_host(out), expected)
        out.sum().backward()
        assert x.grad is not None and x.grad.is_cuda


def test_a_users_error_is_handed_on(sim: SimDevice) -> None:
    def step() -> None:
        raise ValueError("the user's")

    with sim.entered():
        failure = failing(sim, step)
        assert (failure.type, failure.message, failure.event) == ("ValueError", "the user's", None)
        assert sim.draw("sim:1") is None


def test_what_the_table_does_not_know_is_unknown(sim: SimDevice) -> None:
    library = torch.library.Library("graphsafe_test", "DEF")
    library.define("opaque(Tensor x) -> Tensor")
    library.impl("opaque", lambda x: x + 1, "CPU")
    with sim.entered():
        x = torch.ones(4, device="cuda:1")
        assert torch.ops.graphsafe_test.opaque(x).is_cuda
        assert sim.unknown_operations() == (), "what it makes before the first step is what it makes on a GPU"
        sim.record(lambda: torch.ops.graphsafe_test.opaque(torch.ones(4)))
        assert sim.unknown_operations() == (), "on the host it is none of ours"
        sim.record(lambda: torch.ops.graphsafe_test.opaque(x))
        assert told(sim) == ["graphsafe_test::opaque"]


def test_a_product_of_an_uncoalesced_sparse_tensor_is_unknown(sim: SimDevice) -> None:
    with sim.entered():
        at, x = torch.tensor([[0, 1, 1], [2, 0, 0]], device="cuda:1"), torch.ones(3, 2, device="cuda:1")
        made = torch.sparse_coo_tensor(at, torch.ones(3, device="cuda:1"), (3, 3), check_invariants=False)
        whole = made.coalesce()
        sim.record(lambda: torch.sparse.mm(whole, x))
        assert told(sim) == []
        sim.record(lambda: torch.sparse.mm(made, x))
        assert told(sim) == ["aten::_sparse_addmm (it may coalesce its sparse tensor first, which waits)"]


@pytest.mark.filterwarnings("ignore")
def test_scripted_code_is_unknown_where_a_step_runs_it(sim: SimDevice) -> None:
    @torch.jit.script
    def shifted(x: torch.Tensor) -> torch.Tensor:
        return x + torch.ones(4, device=x.device)

    with sim.entered():
        x = torch.ones(4, device="cuda:1")
        module = torch.jit.script(torch.nn.Linear(4, 4)).to("cuda:1")
        traced = torch.jit.trace(torch.nn.Linear(4, 4).to("cuda:1"), x)
        assert shifted(x).is_cuda
        sim.record(lambda: x * 2)
        assert told(sim) == [], "no step runs it"
        sim.record(lambda: module(shifted(traced(x))))
        assert told(sim) == ["TorchScript forward", "TorchScript shifted"]


def test_asking_the_generator_in_a_capture(sim: SimDevice) -> None:
    """Measured: state and seed can be asked for, the offset cannot."""
    with sim.entered():
        x = torch.ones(4, device="cuda:1")

        def asks() -> torch.Tensor:
            first = torch.rand_like(x)
            torch.cuda.initial_seed()
            torch.cuda.set_rng_state(torch.cuda.get_rng_state())
            return first + torch.rand_like(x)

        sim.seed(4)
        recording = sim.record(asks)
        sim.seed(5)
        recording.replay()
        replayed = digest(sim, recording.outputs)
        sim.seed(5)
        assert digest(sim, asks()) == replayed
        failure = failing(sim, lambda: torch.cuda.default_generators[1].get_offset())
        assert failure.message.startswith("Cannot call CUDAGeneratorImpl::get_offset during CUDA graph capture")
        assert sim.draw("sim:1") is None


def test_tensors_of_other_shapes_are_unequal_without_a_wait(sim: SimDevice) -> None:
    with sim.entered():
        x = torch.ones(4, device="cuda:1")
        for step in (lambda: torch.equal(x, x[:2]) or x + 1, lambda: x.equal(x[:2]) or x + 1):
            assert sim.record(step).nodes() == {"kernel": 1}
        assert failing(sim, lambda: torch.equal(x, x.clone())).chain[0] == NOT_PERMITTED


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointed_activations_with_their_backward(reentrant: bool, sim: SimDevice) -> None:
    with sim.entered():
        sim.seed(0)
        module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(), torch.nn.Linear(4, 4)).to("cuda:1")
        x = torch.ones(4, device="cuda:1", requires_grad=True)

        def step() -> torch.Tensor:
            for parameter in module.parameters():
                parameter.grad = None
            torch.utils.checkpoint.checkpoint(module, x, use_reentrant=reentrant).sum().backward()
            gradient = module[0].weight.grad
            assert gradient is not None and gradient.is_cuda
            return gradient

        recording = sim.record(step)
        assert not isinstance(recording, CaptureFailure), recording
        sim.seed(9)
        recording.replay()
        replayed = digest(sim, recording.outputs)
        sim.seed(9)
        assert digest(sim, step()) == replayed


def test_compiled_code_is_a_limit(sim: SimDevice) -> None:
    with sim.entered():
        compiled = torch.compile(lambda x: x * 2, mode="reduce-overhead")
        assert compiled(torch.ones(2, device="cuda:1")).is_cuda
        assert list(sim.world.limits) == ["torch.compile runs uncompiled on the simulated device"]


def test_a_state_set_back_in_a_capture(sim: SimDevice) -> None:
    """Measured: the draws after it repeat the numbers before it, and a graph that comes back to where it began never
    looks at the generator again."""
    with sim.entered():

        def forked() -> torch.Tensor:
            with torch.random.fork_rng(devices=[1]):
                return torch.randn(4, device="cuda:1")

        sim.seed(5)
        fifth = digest(sim, torch.randn(4, device="cuda:1"))
        sim.seed(5)
        recording = sim.record(forked)
        assert not isinstance(recording, CaptureFailure)
        sim.seed(6)
        recording.replay()
        assert digest(sim, recording.outputs) == fifth
        assert sim.random_states()["sim:1"].offset == 0


def test_memory_handed_to_another_library_is_unknown(sim: SimDevice) -> None:
    """At construction already: the other library may write there at any time."""
    with sim.entered():
        x, y = torch.ones(4, device="cuda:1"), torch.ones(4, device="cuda:1")
        assert x.__cuda_array_interface__["shape"] == (4,)
        made = x * 2
        sim.record(lambda: y + 1)
        assert told(sim) == [], "no step has looked at that memory"
        sim.record(lambda: made + 1)
        assert told(sim) == ["torch.Tensor.__cuda_array_interface__"]


def test_a_graph_from_construction_that_holds_an_unknown_op(sim: SimDevice) -> None:
    with sim.entered():
        x, graph = torch.ones(4, device="cuda:1"), torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            torch.mode(x)
        assert told(sim) == []
        with sim.watch(lambda event: None):
            graph.replay()
        assert told(sim) == ["aten::mode (whether it waits depends on sizes or values)"]


def test_an_op_that_may_wait_is_unknown(sim: SimDevice) -> None:
    with sim.entered():
        x = torch.ones(4, device="cuda:1")
        torch.mode(x)
        assert sim.unknown_operations() == ()
        sim.record(lambda: torch.mode(x))
        assert told(sim) == ["aten::mode (whether it waits depends on sizes or values)"]


def test_a_thread_that_the_step_starts_is_unknown(sim: SimDevice) -> None:
    def step() -> None:
        thread = threading.Thread(target=lambda: None)
        thread.start()
        thread.join()

    with sim.entered():
        step()
        assert sim.unknown_operations() == ()
        sim.record(step)
        assert told(sim) == ["a thread that the step starts"]


def test_only_one_mask_of_the_device_is_a_masked_fill(sim: SimDevice) -> None:
    with sim.entered():
        x, both = torch.zeros(2, 4, device="cuda:1"), torch.tensor([True, True, False, False])
        here = both.to("cuda:1")

        def store(*index: object) -> Callable[[], None]:
            return lambda: x.__setitem__(index, 1.0)

        assert not isinstance(sim.record(store(slice(None), here)), CaptureFailure)
        assert "unless the CPU tensor is pinned" in failing(sim, store(slice(None), both)).message  # of the number
        assert failing(sim, store(here[:2], here)).message.startswith(NOT_PERMITTED)


def test_a_graph_is_not_replayed_in_a_capture(sim: SimDevice) -> None:
    with sim.entered():
        x = torch.ones(4, device="cuda:1")
        inner, outer = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(inner):
            x.add_(1)
        with pytest.raises(RuntimeError, match="Cannot prepare for replay"), torch.cuda.graph(outer):
            inner.replay()
