"""Where a value is and what it may be, when only a class, another module or a caller says so."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from .conftest import Scan


def test_a_field_that_starts_as_none_may_be_filled(scan: Scan) -> None:
    source = """\
        from dataclasses import dataclass
        from engine import Chunks

        @dataclass
        class Metadata:
            lengths: torch.Tensor
            chunks: Chunks | None = None

        class Layer(nn.Module):
            def forward(self, x: torch.Tensor, metadata: Metadata):
                if metadata.chunks is not None:
                    x = x[: metadata.lengths.max().item()]
                return x
        """
    assert scan(source) == [("GS101", "x = x[: metadata.lengths.max().item()]")]


def test_a_copy_from_the_host_into_a_tensor_that_may_be_on_the_device(scan: Scan) -> None:
    source = """\
        from dataclasses import dataclass

        @dataclass
        class State:
            table: torch.Tensor
            table_cpu: torch.Tensor

        class Layer(nn.Module):
            def forward(self, x: torch.Tensor, state: State, sizes: list[int]):
                fresh = torch.tensor(sizes) * 2
                state.table.copy_(fresh)
                state.table_cpu.copy_(fresh)
                return x
        """
    assert scan(source) == [("GS304", "state.table.copy_(fresh)")]


def test_a_flag_that_a_module_sets_in_many_places_is_not_known(scan: Scan) -> None:
    source = """\
        from importlib.util import find_spec

        FAST = find_spec("fast") is not None
        if FAST and find_spec("a"):
            FAST = False
        if FAST and find_spec("b"):
            FAST = False
        if FAST and find_spec("c"):
            FAST = False
        if FAST and find_spec("d"):
            FAST = False

        class Layer(nn.Module):
            def forward(self, x: torch.Tensor):
                return x[: x.max().item()] if FAST else x
        """
    assert scan(source) == [("GS101", "return x[: x.max().item()] if FAST else x")]


def test_a_library_function_hands_on_the_tensor_or_the_number_it_is_given(scan: Scan) -> None:
    source = """\
        import triton

        class Layer(nn.Module):
            def forward(self, x: torch.Tensor, lengths: torch.Tensor):
                if triton.cdiv(0, 16):
                    x = x + 1
                counts = triton.cdiv(lengths, 16).tolist()
                return [x[:n] for n in counts], x[: triton.cdiv(x.shape[0], 2)]
        """
    assert scan(source) == [("GS101", "counts = triton.cdiv(lengths, 16).tolist()")]


def test_what_a_ready_flag_or_a_cached_property_keeps_to_the_first_step(scan: Scan) -> None:
    source = """\
        from functools import cached_property

        class Layer(nn.Module):
            def __init__(self):
                super().__init__()
                self.is_ready = False
                self.limit = None
                self.register_buffer("initialized", torch.zeros(1, dtype=torch.bool))

            def forward(self, x: torch.Tensor):
                self.prepare(x)
                self.fill_buffer()
                self.trim(x)
                return x + self.table + self.steps

            @cached_property
            def steps(self):
                return torch.arange(64).to("cuda")

            def prepare(self, x):
                if self.is_ready:
                    return
                self.fill(x)

            def fill(self, x):
                self.table = torch.arange(64).to("cuda")
                self.is_ready = True

            def fill_buffer(self):
                if self.initialized:
                    return
                self.other = torch.arange(64).to("cuda")
                self.initialized.data.fill_(True)

            def trim(self, x):
                if self.limit is None:
                    self.limit = x.max().item()

            def forget(self):
                self.limit = None
        """
    assert [code for code, line in scan(source) if "arange" in line] == []
    assert ("GS101", "self.limit = x.max().item()") in scan(source)


def test_a_name_says_where_a_tensor_is_of_which_nothing_else_does(scan: Scan) -> None:
    source = """\
        from dataclasses import dataclass

        @dataclass
        class Batch:
            lengths: torch.Tensor
            grids: torch.Tensor

        def longest(lengths_cpu):
            return lengths_cpu.max().item()

        def patches(grid_thw):
            return [int(t * h * w) for t, h, w in grid_thw]

        class Layer(nn.Module):
            def forward(self, x: torch.Tensor, batch: Batch):
                rows = patches(batch.grids)
                return x[: longest(batch.lengths)], rows, batch.lengths.tolist()
        """
    assert scan(source) == [("GS101", "return x[: longest(batch.lengths)], rows, batch.lengths.tolist()")]


FOR_SOME_DEVICE = """\
    class Attention(nn.Module):
        def forward(self, x: torch.Tensor, lengths: torch.Tensor):
            return x[: lengths.max().item()]
    """


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("attention.py", 1),
        ("cpu_attention.py", 0),
        ("xpu.py", 0),
        ("gaudi/attention.py", 0),
        ("intel_amx_backend.py", 0),
        ("cpu_gpu_copies.py", 1),
        ("image_processing_x.py", 0),
    ],
)
def test_a_module_named_for_another_device_has_nothing_to_capture(scan: Scan, name: str, count: int) -> None:
    assert len(scan(FOR_SOME_DEVICE, name)) == count


def test_a_branch_that_fills_what_is_missing_runs_in_the_first_step_alone(scan: Scan) -> None:
    source = """\
        class Layer(nn.Module):
            def __init__(self):
                super().__init__()
                self.table = None
                self.limit = None

            def forward(self, x: torch.Tensor, lengths: torch.Tensor):
                if self.table is None:
                    self.table = torch.arange(64).to(x.device)
                if self.limit is None:
                    x = x[: lengths.max().item()]
                return x + self.table
        """
    assert scan(source) == [("GS101", "x = x[: lengths.max().item()]")]


def test_a_class_of_plain_fields_holds_what_its_factory_and_its_calls_put_there(scan: Scan) -> None:
    source = """\
        from dataclasses import dataclass

        @dataclass
        class Request:
            slots: torch.Tensor

            @staticmethod
            def of(blocks: list[int]) -> "Request":
                return Request(slots=torch.tensor(blocks) * 16)

        @dataclass
        class Lengths:
            given: torch.Tensor
            counted: torch.Tensor

        class Metadata:
            pass

        class RequestMetadata(Metadata):
            def __init__(self, requests: list[Request]):
                self.requests = requests

        class Layer(nn.Module):
            def forward(self, x: torch.Tensor, metadata: Metadata):
                assert isinstance(metadata, RequestMetadata)
                for request in metadata.requests:
                    x = x + request.slots.to(x.device, non_blocking=True)
                lengths = Lengths(given=torch.zeros(4), counted=x.sum(1))
                lengths.given.tolist()
                lengths.counted.tolist()
                return x
        """
    assert scan(source) == [
        ("GS304", "x = x + request.slots.to(x.device, non_blocking=True)"),
        ("GS101", "lengths.counted.tolist()"),
    ]


def test_a_class_inside_a_function_is_read_and_not_one_inside_a_test(scan: Scan) -> None:
    source = """\
        def wrapped(limit):
            class Wrapped(nn.Module):
                def forward(self, x: torch.Tensor):
                    return x[: min(limit, x.max().item())]
            return Wrapped()

        def test_wrapped():
            class Plain(nn.Module):
                def forward(self, x: torch.Tensor):
                    return x.min().item()
            assert Plain()
        """
    assert scan(source) == [("GS101", "return x[: min(limit, x.max().item())]")]


def test_a_tensor_made_like_another_one_is_where_its_device_argument_says(scan: Scan) -> None:
    source = """\
        class Buffer:
            def __init__(self, size: int, device: torch.device):
                self.cpu = torch.zeros(size, pin_memory=True)
                self.gpu = torch.zeros_like(self.cpu, device=device)

        class Layer(nn.Module):
            def __init__(self, device: torch.device):
                super().__init__()
                self.ids = Buffer(64, device)

            def forward(self, rows: torch.Tensor):
                return self.ids.gpu[rows], self.ids.gpu.tolist()
        """
    assert scan(source) == [("GS101", "return self.ids.gpu[rows], self.ids.gpu.tolist()")]


def test_a_field_declared_to_stay_on_the_host_is_there_under_every_name_it_is_given(scan: Scan) -> None:
    source = """\
        from engine import field

        class Sizes:
            count: torch.Tensor
            offset: torch.Tensor

            def __init__(self, **fields):
                self.__dict__.update(fields)

        def fields():
            return dict(image_count=field("image", keep_on_cpu=True), image_offset=field("image"))

        class Model(nn.Module):
            def forward(self, **kwargs: object):
                sizes = self.parsed(**kwargs)
                sizes.count.tolist()
                return sizes.offset.tolist()

            def parsed(self, **kwargs: object) -> Sizes:
                count = kwargs.pop("image_count", None)
                return Sizes(count=count, offset=kwargs.pop("image_offset"))
        """
    assert scan(source) == [("GS101", "return sizes.offset.tolist()")]


def test_a_field_declared_to_stay_on_the_host_is_there_wherever_its_file_names_it(scan: Scan) -> None:
    source = """\
        class Sizes(dict):
            lengths: torch.Tensor
            offsets: torch.Tensor
            counts: torch.Tensor | list[torch.Tensor] | None

        class Embeds(dict):
            embeds: torch.Tensor

        def fields():
            host = dict(lengths=field("audio", keep_on_cpu=True), counts=field("audio", keep_on_cpu=True))
            return {**host, "offsets": field("audio")}

        class Resampler(nn.Module):
            def forward(self, x: torch.Tensor, lengths: torch.Tensor):
                return x[: lengths.max().item()]

        class Model(nn.Module):
            def forward(self, x: torch.Tensor, sizes: Sizes | Embeds):
                counts = sizes.get("counts")
                if isinstance(counts, torch.Tensor):
                    counts = counts.tolist()
                elif counts is not None:
                    counts = [count.item() for count in counts]
                most = sizes["lengths"].max().item()
                return x, counts, most, sizes.get("offsets").tolist()
        """
    assert scan(source) == [("GS101", 'return x, counts, most, sizes.get("offsets").tolist()')]
    assert [code for code, _ in scan(source.replace("keep_on_cpu=True", "keep=True"))] == ["GS101"] * 5


def test_a_field_is_not_on_the_host_for_a_file_that_declares_it_otherwise(scan: Scan, tmp_path: Path) -> None:
    (tmp_path / "schema.py").write_text(
        "import torch\n\n"
        "class Sizes(dict):\n    count: torch.Tensor\n\n"
        'FIELDS = dict(count=Config.batched("image", keep_on_cpu=True))\n',
        encoding="utf-8",
    )
    source = """\
        from schema import Sizes

        FIELDS = dict(count=Config.batched("image"), kind=Config.shared("image", keep_on_cpu=True))

        class Model(nn.Module):
            def forward(self, x: torch.Tensor, sizes: Sizes):
                return x, sizes["count"].tolist()
        """
    assert scan(source) == [("GS101", 'return x, sizes["count"].tolist()')]
    assert scan(source.replace("FIELDS = dict(count=Config.batched", "FIELDS = dict(length=Config.batched")) == []


@pytest.mark.parametrize(
    ("line", "codes"),
    [
        ("self.table.view(4, -1)[rows].to(x.device)", []),
        ("self.table.view(4, -1)[rows].to(torch.bfloat16)", ["GS302"]),
        ("self.table.view(4, -1)[rows]", ["GS302"]),
        ("x[rows].to(x.device)", ["GS302"]),
    ],
)
def test_a_part_that_is_moved_to_the_device_was_not_there(scan: Scan, line: str, codes: list[str]) -> None:
    source = f"""\
        from texts import tokens

        class Prompts(nn.Module):
            def __init__(self, names):
                super().__init__()
                self.table = torch.cat([tokens(name) for name in names])

            def forward(self, x: torch.Tensor, names: list[str]):
                rows = [len(name) for name in names]
                return x + {line}
        """
    assert [code for code, _ in scan(source)] == codes


@pytest.mark.parametrize(
    ("name", "codes"),
    [("noise_list", ["GS103"]), ("list_of_noise", ["GS103"]), ("cpu_noise_list", []), ("noise_list_cpu", [])],
)
def test_a_name_for_a_list_does_not_place_its_elements(scan: Scan, name: str, codes: list[str]) -> None:
    source = f"""\
        class Layer(nn.Module):
            def forward(self, x: torch.Tensor, {name}: list[torch.Tensor]):
                return x + {name}[0].cpu().sum()
        """
    assert [code for code, _ in scan(source)] == codes


@pytest.mark.parametrize(
    ("name", "annotation", "codes"),
    [("box_list", "", []), ("cpu_boxes", "", ["GS504"]), ("box_list", ": torch.Tensor", ["GS504"])],
)
def test_a_list_of_tensors_without_an_annotation(scan: Scan, name: str, annotation: str, codes: list[str]) -> None:
    """`torch.cat` takes a list, so the name of the list does not say that the tensors are on the host."""
    source = f"""\
        class Noise(nn.Module):
            def forward(self, {name}{annotation}):
                boxes = torch.cat({name})
                return boxes + torch.rand_like(boxes)
        """
    assert [code for code, _ in scan(source)] == codes


@pytest.mark.parametrize(("declared", "count"), [("bool", 0), ("torch.Tensor", 1), ("bool | torch.Tensor", 1)])
def test_a_parameter_that_is_declared_as_a_flag_is_no_tensor(scan: Scan, declared: str, count: int) -> None:
    source = f"""\
        def limited(x: torch.Tensor, *, constant: {declared}) -> torch.Tensor:
            return x - x.mean() if constant else x

        class Layer(nn.Module):
            def forward(self, x: torch.Tensor):
                return self.step(x, self.settings.now)

            def step(self, x: torch.Tensor, state: dict[str, torch.Tensor]):
                return limited(x, constant=state["constant"]), limited(x, constant=False)
        """
    assert len(scan(source)) == count
    read = scan(source.replace('state["constant"]', "(x > 0).any()"))
    assert len(read) == 1, "this tensor is on the device whatever the annotation says"


def test_a_call_hands_on_no_instance_of_a_class_that_the_parameter_cannot_be(scan: Scan) -> None:
    source = """\
        from dataclasses import dataclass

        @dataclass
        class Plain:
            limit: float = 0.0

        @dataclass
        class Scaled:
            limit: torch.Tensor

        def run(x, info: Plain):
            return x if info.limit > 0 else -x

        def scaled(x, info: Scaled):
            return x if info.limit > 0 else -x

        class Layer(nn.Module):
            def forward(self, x: torch.Tensor):
                info = Scaled(x.sum())
                return run(x, info) + scaled(x, info)
        """
    assert scan(source) == [("GS102", "return x if info.limit > 0 else -x")]


def test_a_method_borrowed_from_another_class_takes_its_receiver_first(scan: Scan) -> None:
    source = """\
        class Lengths:
            def longest(self, lengths, count: int):
                return lengths[:count].max().item()

        class Layer(nn.Module):
            most = Lengths.longest

            def forward(self, x: torch.Tensor, lengths: torch.Tensor):
                return x[: self.most(lengths, 2)] + x[: Lengths.longest(self, lengths, 3)]
        """
    assert scan(source) == [("GS101", "return lengths[:count].max().item()")]


def test_what_may_be_a_list_or_a_tensor_is_a_tensor_where_a_tensor_indexes_it(scan: Scan) -> None:
    source = """\
        class Layer(nn.Module):
            def forward(self, x: torch.Tensor, rows: torch.Tensor, layers: list[torch.Tensor], last: bool):
                states = x if last else [layer for layer in layers]
                return states[rows], layers[rows[0]]
        """
    assert scan(source) == [("GS101", "return states[rows], layers[rows[0]]")]


def test_no_tensor_holds_text(scan: Scan) -> None:
    source = """\
        class Layer(nn.Module):
            def forward(self, x: torch.Tensor, extra: torch.Tensor):
                return x if "bias" in extra else x + 1 in extra
        """
    assert scan(source) == [("GS102", 'return x if "bias" in extra else x + 1 in extra')]


def test_torch_makes_host_tensors_of_numbers_alone(scan: Scan) -> None:
    source = """\
        class Layer(nn.Module):
            def forward(self, x: torch.Tensor, window: int):
                chunks = torch.div(x.shape[1], window, rounding_mode="trunc")
                return x.view(-1, chunks, window)
        """
    assert scan(source) == []


def test_the_larger_of_a_number_and_a_tensor_may_be_the_number(scan: Scan) -> None:
    source = """\
        class Layer(nn.Module):
            def forward(self, x: torch.Tensor, length: torch.Tensor):
                start = max(0, x.shape[1] - length)
                return x[:, start:]
        """
    assert scan(source) == [("GS102", "start = max(0, x.shape[1] - length)")]


@pytest.mark.parametrize(
    ("test", "count"),
    [
        ("lengths.is_cuda", 1),
        ("not lengths.is_cuda", 0),
        ("lengths.is_cpu", 0),
        ('lengths.device.type == "cuda"', 1),
        ('lengths.device.type == "cpu"', 0),
        ('lengths.device.type not in ("cuda", "xpu")', 0),
    ],
)
def test_tensors_of_a_step_are_where_graphs_are(scan: Scan, test: str, count: int) -> None:
    source = f"""\
        class Layer(nn.Module):
            def forward(self, x: torch.Tensor, batch):
                return longest(x, batch.lengths)

        def longest(x: torch.Tensor, lengths: torch.Tensor):
            if {test}:
                return lengths.max().item()
            return x.shape[1]
        """
    assert len(scan(source)) == count


def test_what_surrounds_a_capture_runs_before_the_first_replay(scan: Scan) -> None:
    source = """\
        class Runner:
            def record(self, x):
                torch.cuda.synchronize()
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, stream=self.stream):
                    x.sum().item()
                return graph

        class Layer(nn.Module):
            def __init__(self):
                super().__init__()
                self.runner = Runner()

            def forward(self, x: torch.Tensor):
                self.runner.record(x)
                return x
        """
    assert ("GS105", "torch.cuda.synchronize()") not in scan(source)
    assert ("GS101", "x.sum().item()") in scan(source)


def test_a_buffer_made_like_an_input_keeps_nothing_of_it(scan: Scan) -> None:
    source = """\
        class Layer(nn.Module):
            def __init__(self):
                super().__init__()
                self.workspace = None
                self.first = None
                self.x = nn.Buffer(torch.zeros(4))

            def forward(self):
                self.x.add_(1)
                if self.workspace is None:
                    self.workspace = torch.empty(self.x.shape[0], device=self.x.device)
                if self.first is None:
                    self.first = torch.relu(self.x)
                return self.workspace + self.first
        """
    assert scan(source) == [("GS701", "self.first = torch.relu(self.x)")]


def test_a_plan_made_of_what_the_host_holds_waits_for_nothing(scan: Scan) -> None:
    source = """\
        from flashinfer import BatchDecodeWithPagedKVCacheWrapper

        class Layer(nn.Module):
            def __init__(self):
                super().__init__()
                self.wrapper = BatchDecodeWithPagedKVCacheWrapper()

            def forward(self, x: torch.Tensor, indptr: torch.Tensor, more):
                self.wrapper.plan(more["indptr_cpu"], x)
                self.wrapper.plan(indptr, x)
                return self.wrapper.run(x), more.lengths_cpu[0].item()
        """
    assert scan(source) == [("GS106", "self.wrapper.plan(indptr, x)")]


def test_the_logarithm_of_a_tensor_is_one(scan: Scan) -> None:
    source = """\
        class Layer(nn.Module):
            def forward(self, x: torch.Tensor, rows: torch.Tensor):
                return torch.cat([torch.log(x)[:1], x])[rows], torch.log(x).tolist()
        """
    assert scan(source) == [("GS101", "return torch.cat([torch.log(x)[:1], x])[rows], torch.log(x).tolist()")]


@pytest.mark.parametrize(
    "name",
    [
        "capture",
        "_capture_graph",
        "capture_model",
        "teardown_pool",
        "try_recover",
        "after_rank_fault",
        "_scale_up",
        "set_dummy_state",
    ],
)
def test_what_makes_graphs_or_ends_the_process_is_no_step(scan: Scan, name: str) -> None:
    source = f"""\
        class Layer(nn.Module):
            def forward(self, x: torch.Tensor):
                self.{name}(x)
                return self.captured(x)

            def {name}(self, x):
                x.sum().item()

            def captured(self, x):
                return x.max().item()
        """
    assert scan(source) == [("GS101", "return x.max().item()")]


def test_a_table_moved_to_where_the_inputs_are_is_moved_once(scan: Scan) -> None:
    source = """\
        class Layer(nn.Module):
            def __init__(self):
                super().__init__()
                self.table = None
                self.sized = None

            def forward(self, x: torch.Tensor):
                if self.table is None or self.table.device != x.device:
                    self.table = torch.arange(64).to(x.device)
                if self.sized is None or self.sized.shape[0] < x.shape[0]:
                    self.sized = torch.arange(x.shape[0]).to(x.device)
                return x + self.table + self.sized
        """
    assert scan(source) == [("GS304", "self.sized = torch.arange(x.shape[0]).to(x.device)")]


def test_what_is_empty_before_a_step_is_not_carried_into_the_next(scan: Scan) -> None:
    source = """\
        class Layer(nn.Module):
            def __init__(self):
                super().__init__()
                self.handed: torch.Tensor | None = None
                self.last = torch.zeros(1)

            def forward(self, x: torch.Tensor):
                y = x + self.last
                self.handed = torch.relu(x)
                self.last = torch.relu(y)
                return self.handed
        """
    assert scan(source) == [("GS703", "self.last = torch.relu(y)")]


def test_an_engine_says_where_the_arguments_are_that_it_calls_models_with(scan: Scan) -> None:
    source = """\
        class Runner:
            def __init__(self, model):
                self.model = model

            def execute_model(self, ids: torch.Tensor, count: int):
                mask = torch.zeros(count, dtype=torch.bool, pin_memory=True)
                return self.model.embed_input_ids(ids, is_image=mask, scale=ids.sum())

        class Model(nn.Module):
            def embed_input_ids(self, ids: torch.Tensor, is_image: torch.Tensor, scale: torch.Tensor):
                if is_image.any():
                    ids = ids + is_image.to(ids.device, non_blocking=True)
                return ids * scale.item()
        """
    assert scan(source) == [("GS101", "return ids * scale.item()")]


def test_an_attribute_that_is_none_at_first_is_what_its_annotation_says(scan: Scan) -> None:
    source = """\
        class Reader:
            def __init__(self):
                self.event = torch.cuda.Event()

            def wait(self):
                self.event.synchronize()

        class Layer(nn.Module):
            def __init__(self):
                super().__init__()
                self.reader: Reader | None = None

            def forward(self, x: torch.Tensor):
                if self.reader is not None:
                    self.reader.wait()
                return x
        """
    assert scan(source) == [("GS105", "self.event.synchronize()")]


def test_numpy_says_that_a_tensor_is_on_the_host_and_cpu_that_it_is_not(scan: Scan) -> None:
    source = """\
        from dataclasses import dataclass

        @dataclass
        class Batch:
            rows: torch.Tensor
            lengths: torch.Tensor

        class Layer(nn.Module):
            def forward(self, x: torch.Tensor, batch: Batch):
                return batch.rows.numpy(), batch.lengths.cpu().numpy()
        """
    assert scan(source) == [("GS103", "return batch.rows.numpy(), batch.lengths.cpu().numpy()")]


def test_a_cache_by_the_identity_of_a_weight_holds_what_belongs_to_it(scan: Scan) -> None:
    source = """\
        class Layer(nn.Module):
            def __init__(self):
                super().__init__()
                self.flat = {}

            def forward(self, x: torch.Tensor, weight: torch.Tensor):
                key = (id(weight), weight.dtype)
                if key not in self.flat:
                    self.flat[key] = weight.reshape(-1)
                return x + self.flat[key]
        """
    assert scan(source) == []


@pytest.mark.parametrize(
    "guard",
    [
        "capturing = is_capturing()\n                if not capturing:",
        "capturing = x.is_cuda and is_capturing()\n                if not x.is_cuda or not capturing:",
        "quick = FAST and not is_capturing()\n                if quick:",
        "buffers = self.buffers if is_capturing() else None\n                if buffers is None:",
    ],
)
def test_a_local_holds_what_a_capture_answers(scan: Scan, guard: str) -> None:
    source = f"""\
        from engine import FAST, is_capturing

        class Layer(nn.Module):
            def forward(self, x: torch.Tensor):
                {guard}
                    x.max().item()
                return x
        """
    assert scan(source) == []


def test_a_test_for_cuda_alone_keeps_no_capture_out(scan: Scan) -> None:
    source = """\
        from engine import FAST, is_capturing

        class Layer(nn.Module):
            def forward(self, x: torch.Tensor):
                capturing = x.is_cuda and is_capturing()
                if x.is_cuda or not capturing:
                    x.max().item()
                return x
        """
    assert [code for code, _ in scan(source)] == ["GS101"]


@pytest.mark.parametrize(
    ("made", "codes"),
    [
        ("torch.Tensor([0], device=x.device)", []),
        ('torch.Tensor([0], device="cpu")', ["GS304"]),
        ("torch.Tensor([0])", ["GS304"]),
    ],
)
def test_a_constructor_that_only_makes_host_tensors_raises_for_a_device(
    scan: Scan, made: str, codes: list[str]
) -> None:
    source = f"""\
        class Layer(nn.Module):
            def forward(self, x: torch.Tensor):
                return torch.where(x > 0, x, {made}.to(x))
        """
    assert [code for code, _ in scan(source)] == codes


def test_what_is_made_where_a_doubtful_tensor_is_is_doubtful(scan: Scan) -> None:
    source = """\
        class Tower(nn.Module):
            def forward(self, x: torch.Tensor, grid_thw: torch.Tensor):
                index = torch.arange(64, device=grid_thw.device)
                ends = torch.tensor([0, 64], device=grid_thw.device)
                rows = torch.arange(64, device=x.device)
                return index[index != 3], ends, rows[rows != 3]
        """
    assert [code for code, _ in scan(source)] == ["GS202"]


def test_a_module_chooses_its_function_for_the_platform_that_has_graphs(scan: Scan) -> None:
    source = """\
        from engine import is_cpu

        _is_cpu = is_cpu()

        def shortest_there(x, lengths: torch.Tensor):
            return x[: lengths.min().item()]

        def shortest(x, lengths: torch.Tensor):
            return x

        chosen = shortest_there if _is_cpu else shortest

        class Layer(nn.Module):
            def forward(self, x: torch.Tensor, lengths: torch.Tensor):
                return chosen(x, lengths)
        """
    assert scan(source) == []


def test_an_entry_point_may_be_known_by_a_parameter(scan: Scan) -> None:
    source = """\
        class StepMetadataBuilder:
            def build(self, common_attn_metadata):
                return common_attn_metadata.seq_lens.cpu()

        class RequestMetadataBuilder:
            def build(self, layout: torch.Tensor):
                return layout.cpu()
        """
    assert scan(source) == [("GS103", "return common_attn_metadata.seq_lens.cpu()")]


def test_python_runs_no_kernel(scan: Scan) -> None:
    source = """\
        import tilelang
        import tilelang.language as T

        @tilelang.jit
        def compiled(lengths: torch.Tensor):
            return lengths.max().item()

        def made(rows):
            @T.prim_func
            def kernel(lengths: torch.Tensor):
                if lengths[rows] > 0:
                    T.copy(lengths[: lengths[rows]], lengths)

            return kernel

        @torch.jit.script
        def scripted(lengths: torch.Tensor):
            return lengths.max().item()

        class Layer(nn.Module):
            def forward(self, lengths: torch.Tensor):
                compiled(lengths)
                made(3)(lengths)
                return scripted(lengths)
        """
    assert scan(source) == [("GS101", "return lengths.max().item()")]


def test_a_name_says_that_the_host_keeps_a_value_whatever_else_is_known(scan: Scan) -> None:
    source = """\
        def report(totals_host, host_data):
            return totals_host.sum().item(), host_data["sum"].float().sum().item()

        class Layer(nn.Module):
            def forward(self, x: torch.Tensor, staged):
                return report(x * 2, staged.fetch(x))
        """
    assert scan(source) == []
    assert [code for code, _ in scan(source.replace("_host", "").replace("host_", ""))] == ["GS101"]


def test_torch_mixes_no_devices(scan: Scan) -> None:
    source = """\
        from dataclasses import dataclass

        @dataclass
        class Batch:
            lengths: torch.Tensor

        class Layer(nn.Module):
            def forward(self, x: torch.Tensor, batch: Batch):
                rows = torch.repeat_interleave(torch.arange(4), batch.lengths)
                longest = (torch.ones(4) * batch.lengths).max()
                scaled = torch.tensor(0.5) * batch.lengths
                return x, rows, longest.item(), scaled.max().item()
        """
    assert scan(source) == [("GS101", "return x, rows, longest.item(), scaled.max().item()")]
    assert scan(source.replace("scaled.max().item()", "scaled")) == []


def test_an_attribute_that_is_none_at_first_is_where_it_is_made(scan: Scan) -> None:
    source = """\
        class Planner:
            def __init__(self):
                self.history: torch.Tensor | None = None
                self.given: torch.Tensor | None = None

            def ensure(self):
                self.history = torch.zeros(8, 4)

        class Layer(nn.Module):
            def __init__(self):
                super().__init__()
                self.planner = Planner()

            def forward(self, x: torch.Tensor):
                return x, self.planner.history.max().item(), self.planner.given
        """
    assert scan(source) == []
    assert [code for code, _ in scan(source.replace("self.planner.given", "self.planner.given.tolist()"))] == ["GS101"]


@pytest.mark.parametrize("sizes", ["tgt_sizes", "canvas_size", "original_sizes"])
def test_where_the_sizes_are_that_a_root_is_given_only_its_caller_knows(scan: Scan, sizes: str) -> None:
    source = f"""\
        class Resampler(nn.Module):
            def forward(self, x: torch.Tensor, {sizes}: torch.Tensor, lengths: torch.Tensor):
                return x[: {sizes}.max().item()], lengths.max().item()
        """
    assert [code for code, _ in scan(source)] == ["GS101"]
    assert scan(source.replace("lengths.max().item()", "lengths")) == []


def test_the_bias_of_a_recurrent_layer_is_a_flag(scan: Scan) -> None:
    source = """\
        def step(x, cell: nn.GRU):
            return x + 1 if cell.bias else x

        class Layer(nn.Module):
            def __init__(self):
                super().__init__()
                self.cell = nn.GRU(4, 4)

            def forward(self, x: torch.Tensor):
                return step(x, self.cell)
        """
    assert scan(source) == []


@pytest.mark.parametrize(("default", "count"), [("0.0", 0), ("0.5", 1)])
def test_a_configuration_holds_what_the_environment_says(scan: Scan, default: str, count: int) -> None:
    source = f"""\
        import os
        from dataclasses import dataclass

        class EnvFloat:
            def __init__(self, name, default):
                self.name, self.default = name, default

            def get(self):
                return float(os.environ.get(self.name, self.default))

        SHARE = EnvFloat("SHARE", {default})

        @dataclass
        class Perturbation:
            share: float

            @classmethod
            def from_env(cls):
                return cls(share=SHARE.get())

        class Layer(nn.Module):
            def __init__(self):
                super().__init__()
                self.perturbation = Perturbation.from_env()

            def forward(self, x: torch.Tensor):
                if self.perturbation.share <= 0.0:
                    return x
                return x.sum().item()
        """
    assert len(scan(source)) == count


def test_a_test_knows_the_device_that_it_captures_on(scan: Scan) -> None:
    source = """\
        def {name}:
            x = torch.zeros(4, device={device})
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                y = x + 1
            return y
        """
    handed = scan(source.format(name="captured(device: torch.device)", device="device"))
    assert [code for code, _ in handed] == ["GS601", "GS618"]
    assert [code for code, _ in scan(source.format(name="test_captured(device)", device="device"))] == ["GS618"]


def test_code_for_the_current_device_alone_captures_on_its_stream(scan: Scan) -> None:
    source = """\
        def captured({parameter}):
            x = torch.zeros(4, device={device})
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                y = x + 1
            return y
        """
    for device in ("device", "torch.device(device)", 'torch.device("cuda", torch.cuda.current_device())'):
        assert [code for code, _ in scan(source.format(parameter='device="cuda"', device=device))] == ["GS618"]
    for device in ('"cuda:1"', 'torch.device("cuda", index)'):
        found = scan(source.format(parameter='index, kind="cuda"', device=device))
        assert [code for code, _ in found] == ["GS601", "GS618"]


def test_a_field_of_a_subclass_is_on_the_host_if_its_name_says_so(scan: Scan) -> None:
    source = """\
        from dataclasses import dataclass

        @dataclass
        class Batch:
            ranks: torch.Tensor

        @dataclass
        class NativeBatch(Batch):
            ranks_cpu: torch.Tensor | None = None

        def scaled(x, weights: torch.Tensor, ranks: torch.Tensor):
            for index, rank in enumerate(ranks):
                if rank > 0:
                    x = x + weights[rank, :4]
            return x

        class Layer(nn.Module):
            def forward(self, x: torch.Tensor, weights: torch.Tensor, batch: Batch):
                return scaled(x, weights, batch.ranks_cpu)
        """
    assert scan(source) == []
    assert [code for code, _ in scan(source.replace("batch.ranks_cpu", "batch.ranks"))][:1] == ["GS102"]


@pytest.mark.parametrize(
    ("key", "codes"), [("(x.shape[0], x.device)", ["GS701"]), ("(x.data_ptr(), x.device)", ["GS201"])]
)
def test_what_fills_a_missing_entry_of_a_table_runs_once_a_key(scan: Scan, key: str, codes: list[str]) -> None:
    source = f"""\
        class Context:
            def __init__(self):
                self.plans = {{}}

        def plan_of(context: Context, x):
            key = {key}
            cached = context.plans.get(key)
            if cached is not None:
                return cached
            plan = make(x)
            context.plans[key] = plan
            return plan

        def make(x):
            return torch.nonzero(x)

        class Layer(nn.Module):
            def forward(self, x: torch.Tensor, context: Context):
                return x + plan_of(context, x)
        """
    assert [code for code, _ in scan(source)] == codes


@pytest.mark.parametrize(
    "asked",
    [
        "kept = self.tables.get(device)\n                if kept is not None:",
        "if (kept := self.tables.get(device)) is not None:",
        "if kept := self.tables.get(device):",
    ],
)
def test_an_entry_that_is_missing_is_copied_to_the_device_once(scan: Scan, asked: str) -> None:
    source = f"""\
        class Layer(nn.Module):
            def __init__(self):
                super().__init__()
                self.tables = {{}}

            def forward(self, x: torch.Tensor):
                return x + self.table(x.device)

            def table(self, device):
                {asked}
                    return kept
                made = torch.tensor([1.0, 2.0], device=device)
                self.tables[device] = made
                return made
        """
    # The truth of a tensor that is kept already is read from the device.
    assert [code for code, _ in scan(source)] == (["GS102"] if asked.startswith("if kept :=") else [])
    assert [code for code, _ in scan(source.replace("self.tables[device] = made", "pass"))] == ["GS301"]


@pytest.mark.parametrize(
    ("asked", "codes"),
    [
        ("if layer.scale is None:", []),
        ("if getattr(layer, 'scale', None) is None:", []),
        ("if layer.scale is None or layer.scale < 0:", ["GS101"]),
    ],
)
def test_what_a_module_is_given_once_is_worked_out_in_the_first_step(scan: Scan, asked: str, codes: list[str]) -> None:
    source = f"""\
        class Kernel:
            def apply(self, layer: nn.Module, x: torch.Tensor, scale: torch.Tensor):
                {asked}
                    layer.scale = scale.item()
                return x * layer.scale

        class Layer(nn.Module):
            def __init__(self, kernel: Kernel):
                super().__init__()
                self.kernel = kernel

            def forward(self, x: torch.Tensor, scale: torch.Tensor):
                return self.kernel.apply(self, x, scale)
        """
    assert [code for code, _ in scan(source)] == codes
    reset = "\nclass Loader:\n    def load(self, layer):\n        layer.scale = None\n"
    assert [code for code, _ in scan(textwrap.dedent(source) + reset)] == ["GS101"]


def test_a_flag_that_is_turned_off_marks_the_first_step(scan: Scan) -> None:
    source = """\
        class Layer(nn.Module):
            def __init__(self):
                super().__init__()
                self.update = True

            def forward(self, x: torch.Tensor):
                if self.update:
                    x = x * x.sum().item()
                    self.update = False
                return x
        """
    assert scan(source) == []
    reset = "\n    def reset(self):\n        self.update = True\n"
    assert [code for code, _ in scan(textwrap.dedent(source) + reset)] == ["GS101", "GS702"]


def test_what_is_for_the_cards_of_another_maker_is_a_note(scan: Scan) -> None:
    source = """\
        from engine import is_rocm

        class Layer(nn.Module):
            def forward(self, x: torch.Tensor):
                if is_rocm() and x.sum() > 0:
                    x = x * x.max().item()
                return x
        """
    assert scan(source) == []
    assert [code for code, _ in scan(source.replace("is_rocm", "is_new"))] == ["GS102", "GS101"]


def test_a_cache_around_a_method_keeps_what_it_does_to_the_first_call(scan: Scan) -> None:
    source = """\
        import functools

        class Layer(nn.Module):
            def forward(self, x: torch.Tensor, shape: tuple[int, ...]):
                return x + self.offsets(shape, x.device)

            @functools.lru_cache(maxsize=16)
            def offsets(self, shape, device):
                return torch.tensor(shape, device=device)
        """
    assert [code for code, _ in scan(source)] == ["GS705"]
    assert [code for code, _ in scan(source.replace("@functools.lru_cache(maxsize=16)", ""))] == ["GS301"]


def test_a_copy_of_image_sizes_to_the_host_may_be_none(scan: Scan) -> None:
    source = """\
        class Encoder(nn.Module):
            def forward(self, x: torch.Tensor, grid_thw: torch.Tensor):
                return x, grid_thw.cpu()
        """
    assert scan(source) == []
    assert [code for code, _ in scan(source.replace("grid_thw", "lengths"))] == ["GS103"]


def test_what_runs_where_there_is_no_cuda_is_quiet(scan: Scan) -> None:
    source = """\
        from engine import is_cuda, is_hip

        class Layer(nn.Module):
            def __init__(self):
                super().__init__()
                has_kernel = is_cuda() or is_hip()
                self.fast = has_kernel

            def forward(self, x: torch.Tensor, lengths: torch.Tensor):
                if self.fast:
                    return x
                return x[: lengths.max().item()]
        """
    assert scan(source) == []
    assert [code for code, _ in scan(source.replace("is_cuda", "is_fast").replace("is_hip", "is_new"))] == ["GS101"]


def test_a_generator_that_is_an_option_is_mostly_none(scan: Scan) -> None:
    source = """\
        class Layer(nn.Module):
            def forward(self, x: torch.Tensor, generator: torch.Generator | None = None):
                return x + torch.randn(4, device=x.device, generator=generator)
        """
    assert scan(source) == []
    assert [code for code, _ in scan(source.replace(" | None = None", ""))] == ["GS502"]


def test_a_parameter_declared_to_be_a_list_of_numbers_holds_the_numbers(scan: Scan) -> None:
    source = """\
        def padded(x, lengths: list[int] | torch.Tensor):
            return x if all(int(length) > 4 for length in lengths) else None

        class Layer(nn.Module):
            def forward(self, x: torch.Tensor, given: torch.Tensor | None = None):
                lengths = []
                for row in range(4):
                    if given is None:
                        lengths.append(x.shape[row])
                    else:
                        lengths.append(given[row])
                return padded(x, lengths)
        """
    assert scan(source) == []
    assert [code for code, _ in scan(source.replace("list[int] | torch.Tensor", "list"))] == ["GS101"]


@pytest.mark.parametrize(("key", "count"), [("str | None", 0), ("int", 1)])
def test_a_tensor_holds_no_text(scan: Scan, key: str, count: int) -> None:
    """`params` is taken for a dict of tensors; what a text is looked for in is no tensor, though."""
    source = f"""\
        class Layer(nn.Module):
            def __init__(self, key: {key}):
                super().__init__()
                self.key = key

            def forward(self, x: torch.Tensor, params: dict[str, torch.Tensor]):
                return x * 2 if self.key in params["replaced"] else x
        """
    assert len(scan(source)) == count


def test_a_field_may_be_declared_to_stay_on_the_host_by_an_entry_of_a_table(scan: Scan) -> None:
    source = """\
        ROWS = {"audio": "audio_rows", "video": "video_rows"}

        def fields(inputs):
            declared = {}
            declared["lengths"] = field("audio", keep_on_cpu=True)
            for key in ("counts", "kinds"):
                declared[key] = field("video", keep_on_cpu=True)
            for modality in inputs:
                declared[ROWS[modality]] = field(modality, keep_on_cpu=True)
            declared["sizes"] = field("video")
            return declared

        class Encoder(nn.Module):
            def forward(self, x: torch.Tensor, **kwargs):
                lengths = kwargs["lengths"]
                counts = kwargs["counts"]
                return lengths.item(), counts.item(), kwargs["sizes"].item()
        """
    assert [code for code, _ in scan(source)] == ["GS101"]
    assert scan(source.replace('kwargs["sizes"]', 'kwargs["kinds"]')) == []
    assert scan(source.replace('kwargs["sizes"]', 'kwargs["video_rows"]')) == []


def test_an_assertion_that_cannot_hold_ends_its_way(scan: Scan) -> None:
    source = """\
        def fields():
            return dict(lengths=field("audio", keep_on_cpu=True))

        class Encoder(nn.Module):
            def forward(self, x: torch.Tensor, **kwargs):
                lengths = kwargs.get("lengths")
                if isinstance(lengths, torch.Tensor):
                    lengths = lengths.flatten()
                else:
                    assert isinstance(lengths, (list, tuple))
                    lengths = torch.cat([part.flatten() for part in lengths])
                return x[: lengths.max().item()]
        """
    assert scan(source) == []
    assert [code for code, _ in scan(source.replace("keep_on_cpu=True", "keep=True"))] == ["GS101"]


def test_an_assertion_says_where_a_tensor_is(scan: Scan) -> None:
    source = """\
        class Builder:
            def build(self, common_attn_metadata, x: torch.Tensor):
                flags = common_attn_metadata.flags
                device = flags.device
                assert flags.device.type == "cpu"
                order = torch.arange(flags.shape[0], device=device)
                return x[: flags.sum().item()] if (order > 2).all().item() else x
        """
    hot = source.replace("class Builder:", "class Builder(nn.Module):").replace("build(", "forward(")
    assert scan(hot) == []
    assert [code for code, _ in scan(hot.replace('"cpu"', '"cuda"'))] == ["GS101"]


def test_a_local_beside_a_tensor_of_the_host_is_there_too(scan: Scan) -> None:
    source = """\
        class Step(nn.Module):
            def forward(self, x: torch.Tensor, metadata):
                flags = metadata.flags
                seen = flags & (metadata.lengths_cpu > 4)
                flags = flags.clone()
                flags[seen] = False
                return x
        """
    assert scan(source) == []


@pytest.mark.parametrize("asked", ["current.is_cpu()", "current.is_xpu()"])
def test_a_local_or_an_argument_may_hold_what_the_platform_answers(scan: Scan, asked: str) -> None:
    source = f"""\
        from engine import current

        def filtered(x, k: torch.Tensor, allow_wait: bool = False):
            return x.topk(k.max(), dim=1) if allow_wait else x

        class Sampler(nn.Module):
            def forward(self, x: torch.Tensor, k: torch.Tensor):
                waits = {asked}
                return filtered(x, k, allow_wait=waits)
        """
    assert scan(source) == []
    assert [code for code, _ in scan(source.replace(asked, "current.is_small()"))] == ["GS203"]


def test_host_memory_can_be_pinned_where_there_are_graphs(scan: Scan) -> None:
    source = """\
        from engine import is_pin_memory_available

        PIN = is_pin_memory_available()

        class Step(nn.Module):
            def forward(self, x: torch.Tensor, lens_cpu: torch.Tensor, small: bool):
                if PIN:
                    lens_cpu = lens_cpu.pin_memory()
                return x + lens_cpu.to(x.device, non_blocking=True)
        """
    assert scan(source) == []
    assert [code for code, _ in scan(source.replace("if PIN:", "if small:"))] == ["GS304"]


def test_of_several_receivers_a_call_means_those_that_take_its_keywords(scan: Scan) -> None:
    source = """\
        class Wrapper:
            def plan(self, *, limits, table):
                return table

        class Planner:
            def plan(self, *, bounds: torch.Tensor, table: torch.Tensor):
                return table[: int(bounds.max())]

        class Layer(nn.Module):
            def forward(self, x: torch.Tensor, bounds: torch.Tensor, planner: Wrapper | Planner):
                return planner.plan(limits=bounds, table=x)
        """
    assert scan(source) == []
    assert [code for code, _ in scan(source.replace("limits=bounds", "bounds=bounds"))] == ["GS101"]


@pytest.mark.parametrize(("name", "count"), [("run_graphs.py", 1), ("test_graphs.py", 0), ("bench_graphs.py", 0)])
def test_what_tests_or_measures_graphs_may_wait_between_them(scan: Scan, name: str, count: int) -> None:
    source = """\
        def run(graphs: list[torch.cuda.CUDAGraph]):
            for graph in graphs:
                graph.replay()
                torch.cuda.synchronize()
        """
    assert [code for code, _ in scan(source, name)] == ["GS610"] * count


def test_what_may_be_a_tensor_or_a_list_holds_numbers_where_it_is_declared_a_list_of_them(scan: Scan) -> None:
    source = """\
        def padded(x, lengths: list[int] | torch.Tensor):
            if not torch.is_tensor(lengths):
                return x if all(int(length) > 4 for length in lengths) else None
            return x[lengths]

        class Layer(nn.Module):
            def forward(self, x: torch.Tensor, given: torch.Tensor, rows: list[torch.Tensor] | None = None):
                lengths = given
                if rows is not None:
                    lengths = []
                    for i, row in enumerate(rows):
                        lengths.append(row.shape[0] if i else given[i])
                return padded(x, lengths)
        """
    assert scan(source) == []
    assert [code for code, _ in scan(source.replace("list[int] | torch.Tensor", "list"))] == ["GS101"]


def test_what_is_not_pinned_is_staged(scan: Scan) -> None:
    source = """\
        from engine import is_pin_memory_available

        PIN = is_pin_memory_available()

        def moved(t: torch.Tensor, device):
            if PIN and not t.is_pinned():
                t = torch.empty(t.shape, dtype=t.dtype, device="cpu", pin_memory=True).copy_(t)
            return t.to(device, non_blocking=True)

        class Step(nn.Module):
            def forward(self, x: torch.Tensor, small: bool):
                return x + moved(torch.arange(4), x.device)
        """
    assert scan(source) == []
    assert [code for code, _ in scan(source.replace("if PIN and", "if device and"))] == ["GS304"]


def test_what_a_file_holds_is_loaded_to_the_host_unless_a_device_is_given(scan: Scan) -> None:
    source = """\
        import safetensors.torch

        class Connector(nn.Module):
            def forward(self, x: torch.Tensor, name: str, device: str):
                return safetensors.torch.load_file(name)
        """
    assert scan(source) == []
    assert [code for code, _ in scan(source.replace("(name)", "(name, device=device)"))] == ["GS106"]


def test_what_is_written_to_a_pinned_tensor_is_pinned(scan: Scan) -> None:
    source = """\
        class Step(nn.Module):
            def forward(self, x: torch.Tensor):
                parts = [torch.arange(4), torch.arange(3)]
                staged = torch.cat(parts, out=torch.empty(7, dtype=torch.int64, pin_memory=True))
                return x + staged.to(x.device, non_blocking=True)
        """
    assert scan(source) == []
    assert [code for code, _ in scan(source.replace("pin_memory=True", "device='cpu'"))] == ["GS304"]


def test_what_follows_the_import_of_a_package_for_other_cards_is_a_note(scan: Scan) -> None:
    source = """\
        class Layer(nn.Module):
            def forward(self, x: torch.Tensor):
                from aiter import attention

                return x * x.max().item()
        """
    assert scan(source) == []
    assert [code for code, _ in scan(source.replace("aiter", "flash"))] == ["GS101"]
    asked = """\
        class Layer(nn.Module):
            def forward(self, x: torch.Tensor):
                try:
                    from aiter import attention
                except ImportError:
                    attention = None
                return x * x.max().item()
        """
    assert [code for code, _ in scan(asked)] == ["GS101"]


@pytest.mark.parametrize(
    ("around", "codes"),
    [
        ("import torch_npu.contrib", []),
        ("try:\n    import torch_npu\nexcept ImportError:\n    pass", ["GS101"]),
        ("import torch_npus", ["GS101"]),
    ],
)
def test_a_module_that_begins_with_such_an_import_is_for_other_cards(scan: Scan, around: str, codes: list[str]) -> None:
    layer = """
class Layer(nn.Module):
    def forward(self, x: torch.Tensor):
        return x * x.max().item()
"""
    assert [code for code, _ in scan(around + "\n" + layer)] == codes


@pytest.mark.parametrize(
    ("cls", "name", "codes"),
    [
        ("Kernel", "step.py", ["GS101"]),
        ("ROCmKernel", "step.py", []),
        ("AiterKernel", "step.py", []),
        ("Rocmino", "step.py", ["GS101"]),
        ("Kernel", "paged_aiter.py", []),
        ("Kernel", "aiter.py", ["GS101"]),
        ("Kernel", "rocm_step.py", []),
        ("Kernel", "procm.py", ["GS101"]),
        ("Kernel", "moe_hip_step.py", []),
        ("Kernel", "fp8_hip.py", []),
        ("Kernel", "hip_attention.py", ["GS101"]),
        ("Kernel", "big_ship.py", ["GS101"]),
        ("Kernel_hip_angle", "step.py", ["GS101"]),
    ],
)
def test_what_is_named_for_the_cards_of_another_maker_is_a_note(
    scan: Scan, cls: str, name: str, codes: list[str]
) -> None:
    source = f"""\
        def longest(lengths):
            return lengths.max().item()

        class {cls}(nn.Module):
            def forward(self, x: torch.Tensor, lengths: torch.Tensor):
                return x[: longest(lengths)]
        """
    assert [code for code, _ in scan(source, name)] == codes  # type: ignore[call-arg]


def test_a_parameter_that_tells_of_a_capture_to_come_is_off_in_a_step(scan: Scan) -> None:
    source = """\
        class Layer(nn.Module):
            def forward(self, x: torch.Tensor, lengths: torch.Tensor, in_capture: bool = False):
                if in_capture:
                    return x[: lengths.max().item()]
                return x
        """
    assert scan(source) == []
    assert [code for code, _ in scan(source.replace("in_capture", "in_order"))] == ["GS101"]
    assert [code for code, _ in scan(source.replace("if in_capture", "if not in_capture"))] == ["GS101"]


def test_a_name_that_holds_a_test_of_a_type_tells_as_much_as_the_test(scan: Scan) -> None:
    source = """\
        class Layer(nn.Module):
            def forward(self, x: torch.Tensor, scale: torch.Tensor | float):
                is_tensor = isinstance(scale, torch.Tensor)
                x = x + 1
                if is_tensor:
                    return x * scale
                return x * float(scale)
        """
    assert scan(source) == []
    assert [code for code, _ in scan(source.replace("x = x + 1", "scale = x.max()"))] == ["GS101"]


def test_a_call_that_leaves_a_parameter_none_ends_where_that_is_asserted(scan: Scan) -> None:
    source = """\
        def routed(table, x, tokens):
            assert tokens is not None
            return table[torch.where(x > 0, 0, 1 if tokens is None else 2)].max().item()

        class Layer(nn.Module):
            def forward(self, x: torch.Tensor):
                return x * routed(x, x, {tokens})
        """
    assert scan(source.format(tokens="None")) == []
    assert [code for code, _ in scan(source.format(tokens="x"))] == ["GS101"]


def test_a_number_that_copy_takes_is_a_tensor_of_the_host(scan: Scan) -> None:
    source = """\
        class Layer(nn.Module):
            def forward(self, x: torch.Tensor, window: int):
                limit = torch.zeros((), device=x.device)
                limit.copy_(window * 2)
                limit.fill_(window * 2)
                torch.zeros(()).copy_(3)
                return x + limit
        """
    assert scan(source) == [("GS304", "limit.copy_(window * 2)")]


def test_a_size_made_of_a_tensor_is_read_on_the_host(scan: Scan) -> None:
    source = """\
        class Layer(nn.Module):
            def forward(self, x: torch.Tensor):
                form = torch.tensor(x.shape, device="cpu")
                there = torch.zeros(3, dtype=torch.long, device=x.device)
                return x.new_zeros(torch.Size(form)), x.new_zeros(torch.Size(there)), x.new_zeros(torch.Size([1, 2]))
        """
    assert [code for code, _ in scan(source)] == ["GS101"]


@pytest.mark.parametrize(
    ("read", "codes"),
    [
        ("y = np.abs(x.numpy())", []),
        ("y = np.abs(x[0].reshape(-1))", []),
        ("y = np.abs(x.numpy(force=True))", ["GS101", "GS103"]),
        ("y = np.abs(x.detach().cpu())", ["GS101", "GS103"]),
        ("y = np.abs(x) if isinstance(x, np.ndarray) else x", ["GS101"]),
        ("x = x + 1\n        y = np.abs(x)", ["GS101"]),
        ("y = np.abs(x) if self.training else x", ["GS101"]),
    ],
)
def test_numpy_reads_tensors_of_the_host_only(scan: Scan, read: str, codes: list[str]) -> None:
    source = f"""\
import numpy as np

class Layer(nn.Module):
    def forward(self, x: torch.Tensor):
        longest = x.max().item()
        {read}
        return y * longest
"""
    assert [code for code, _ in scan(source)] == codes


def test_an_array_by_its_annotation_is_on_the_host(scan: Scan) -> None:
    source = """\
        import numpy as np

        class Layer(nn.Module):
            def forward(self, x: torch.Tensor, f: np.array = None):
                return x * float(f.reshape(-1).max())
        """
    assert scan(source) == []


def test_what_numpy_has_read_is_on_the_host_afterwards(scan: Scan) -> None:
    source = """\
        import numpy as np

        class Layer(nn.Module):
            def forward(self, x: torch.Tensor):
                y = x * 2
                print(np.abs(y))
                return x * y.max().item()
        """
    assert scan(source) == []


@pytest.mark.parametrize(("kept", "codes"), [("self.scale.cpu()", []), ("fn(self.scale)", ["GS101"])])
def test_a_buffer_that_a_module_keeps_on_the_host(scan: Scan, kept: str, codes: list[str]) -> None:
    source = f"""\
        class Scaled(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("scale", torch.tensor(2.0))

            def _apply(self, fn):
                super()._apply(fn)
                self.scale = {kept}
                return self

            def forward(self, x: torch.Tensor):
                return x * self.scale.item()
        """
    assert [code for code, _ in scan(source)] == codes


@pytest.mark.parametrize(
    ("comment", "codes"),
    [("CPU tensor", []), ("stays on the host", []), ("", ["GS102"]), ("on the GPU, copied from the CPU", ["GS102"])],
)
def test_a_comment_says_that_a_field_is_on_the_host(scan: Scan, comment: str, codes: list[str]) -> None:
    source = f"""\
        from dataclasses import dataclass

        @dataclass
        class Batch:
            lengths: torch.Tensor  # {comment}

        class Layer(nn.Module):
            def forward(self, x: torch.Tensor, batch: Batch):
                return x if batch.lengths[0] == 3 else x + 1
        """
    assert [code for code, _ in scan(source)] == codes


@pytest.mark.parametrize(("read", "codes"), [("", []), ("rows = host.numpy()", [])])
def test_memory_that_numpy_reads_may_be_pinned(scan: Scan, read: str, codes: list[str]) -> None:
    source = f"""\
        class Layer(nn.Module):
            def __init__(self, pool):
                super().__init__()
                self.pool = pool

            def forward(self, x: torch.Tensor):
                host = self.pool.pop()[:4]
                {read or "pass"}
                return x + host.to(x.device, non_blocking=True)
        """
    assert [code for code, _ in scan(source)] == codes


def test_numpy_of_a_tensor_that_a_constructor_puts_on_the_device_is_found(scan: Scan) -> None:
    source = """\
        import numpy as np

        class Layer(nn.Module):
            def __init__(self):
                super().__init__()
                self.table = torch.zeros(8, device="cuda")

            def forward(self, x: torch.Tensor):
                return x * np.asarray(self.table)[0]
        """
    assert [code for code, _ in scan(source)] == ["GS103"]


def test_a_dataclass_keeps_its_tensors_where_all_its_makers_put_them(scan: Scan) -> None:
    """`replace` fills a field from the old object, which says nothing of the device."""
    source = """\
        from dataclasses import dataclass, replace

        @dataclass(frozen=True)
        class Agreed:
            counts: torch.Tensor
            eager: bool

        def agree(size, rank):
            counts = torch.zeros(size, dtype=torch.int32, device="cpu")
            return Agreed(counts=counts, eager=size > 3)

        def padded(agreed: Agreed, tokens):
            if agreed.counts[0] == tokens:
                return agreed
            return replace(agreed, counts=torch.full_like(agreed.counts, tokens))

        class Runner:
            def execute_model(self, tokens: int, agreed: Agreed | None):
                return padded(agreed or agree(4, 0), tokens)
        """
    assert scan(source) == []
    assert [code for code, _ in scan(source.replace('"cpu"', "torch.cuda.current_device()"))] == ["GS102"]


def test_what_numpy_reads_at_the_end_of_a_line_is_on_the_host_at_its_beginning(scan: Scan) -> None:
    source = """\
        import numpy as np

        class Layer(nn.Module):
            def forward(self, x: torch.Tensor, missing):
                found = np.argwhere(missing)
                y = x.cuda() * 2
                return y[found].numpy()
        """
    assert scan(source) == []
    assert [code for code, _ in scan(source.replace(".numpy()", ".sum()"))] == ["GS302"]


def test_a_vector_of_the_host_and_a_tensor_of_the_device_cannot_meet(scan: Scan) -> None:
    """Torch refuses that, so one of them is elsewhere."""
    source = """\
        class Layer(nn.Module):
            def forward(self, x: torch.Tensor):
                y = x.cuda() * torch.tensor([1.0, 2.0])
                return y.sum().item()
        """
    assert scan(source) == []
    assert [code for code, _ in scan(source.replace("[1.0, 2.0]", "1.0"))] == ["GS101"]


def test_a_table_that_a_constructor_moves_to_its_default_device_may_stay_on_the_host(scan: Scan) -> None:
    source = """\
        class Schedule:
            def __init__(self, steps, device="cpu"):
                self.sigmas = torch.linspace(0, 1, steps).to(device)

            def step(self, x: torch.Tensor, i):
                return x * self.sigmas[i].item()
        """
    assert scan(source) == []
    assert [code for code, _ in scan(source.replace('"cpu"', '"cuda"'))] == ["GS101"]


def test_a_host_tensor_that_only_its_name_tells_of_may_be_pinned(scan: Scan) -> None:
    """`non_blocking=True` says that the author thought of pinned memory; a tensor that is made here shows its own."""
    source = """\
        class Layer(nn.Module):
            def forward(self, x, rows_cpu: torch.Tensor):
                return x + rows_cpu.to(x.device, non_blocking=True)
        """
    assert scan(source) == []
    assert [code for code, _ in scan(source.replace(", non_blocking=True", ""))] == ["GS304"]
    assert [code for code, _ in scan(source.replace("rows_cpu.to", "torch.ones(4).to"))] == ["GS304"]


@pytest.mark.parametrize(("mover", "expected"), [("to", []), ("moved", [("GS302", "return x[rows.index]")])])
def test_fields_of_a_batch_that_moves_to_the_device(scan: Scan, mover: str, expected: list[tuple[str, str]]) -> None:
    """Fields that are filled on the host are on the device after `rows.to(device)`."""
    source = f"""\
        from dataclasses import dataclass
        import moving

        @dataclass
        class Rows:
            index: torch.Tensor

            def {mover}(self, device):
                return moving.all_fields(self, device)

        class Pick(nn.Module):
            def forward(self, x: torch.Tensor, rows: Rows):
                return x[rows.index]

        def serve(model, x, requests, device):
            for numbers in requests:
                rows = Rows(index=torch.tensor(numbers))
                model(x, rows.{mover}(device))
        """
    assert scan(source) == expected


def test_an_entry_of_unknown_kind_that_is_added_to(scan: Scan) -> None:
    """`+=` adds in place if the entry is a tensor, as the other branch shows."""
    source = """\
        class Sum(torch.optim.Optimizer):
            def step(self, closure=None):
                for group in self.param_groups:
                    for p in group["params"]:
                        state = self.state[p]
                        if group["first"]:
                            state["sum"] = torch.zeros_like(p)
                        else:
                            state["sum"] += p.grad
                        p.sub_(state["sum"])
        """
    assert scan(source) == []


@pytest.mark.parametrize(
    ("rank", "device", "expected"),
    [
        ("local_rank", 'f"cuda:{local_rank}"', []),
        ("which", '"cuda:1"', [("GS601", "with torch.cuda.graph(self.graph):")]),
    ],
)
def test_a_process_that_takes_the_device_of_its_rank(
    scan: Scan, rank: str, device: str, expected: list[tuple[str, str]]
) -> None:
    source = f"""\
        def begin(settings, {rank}: int):
            device = {device}
            torch.cuda.set_device(device)

        class Graphed:
            def __init__(self, model, x):
                self.x = x
                model(x)
                self.graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(self.graph):
                    self.y = model(self.x)
        """
    assert scan(source) == expected


@pytest.mark.parametrize("made", ["torch.promote_types(x.dtype, torch.float32)", "torch.result_type(x, 1.0)"])
def test_a_dtype_that_a_function_of_torch_returns(scan: Scan, made: str) -> None:
    """`to` with a dtype copies nothing between host and device."""
    source = f"""\
        class Mean(nn.Module):
            def __init__(self):
                super().__init__()
                self.table = torch.ones(4)

            def forward(self, x: torch.Tensor):
                dtype = {made}
                return self.table.to(dtype).sum()
        """
    assert scan(source) == []


def test_keywords_that_are_bound_to_a_function_of_a_library(scan: Scan) -> None:
    source = """\
        from functools import partial

        class Denoiser(nn.Module):
            def __init__(self, device="cuda"):
                super().__init__()
                to_torch = partial(torch.tensor, dtype=torch.float32, device=device)
                self.sigmas = to_torch([1.0] * 4)

            def forward(self, sigma: torch.Tensor):
                return sigma - self.sigmas.to(sigma.device)
        """
    assert scan(source) == []
    assert [code for code, _ in scan(source.replace(", device=device", ""))] == ["GS301"]


def test_map_over_known_items_keeps_the_device_of_each(scan: Scan) -> None:
    source = """\
        class Layer(nn.Module):
            def __init__(self):
                super().__init__()
                self.sigmas = torch.linspace(1.0, 0.0, 100)

            def forward(self, x: torch.Tensor, at: torch.Tensor):
                x, sigmas = map(lambda one: one.to(at.device), [x, self.sigmas])
                low, high = map(torch.max, (torch.zeros(4), x))
                if low > 0:
                    x = x + 1
                if high > 0:
                    x = x + 2
                return x * sigmas[at]
        """
    assert scan(source) == [
        ("GS304", "x, sigmas = map(lambda one: one.to(at.device), [x, self.sigmas])"),
        ("GS102", "if high > 0:"),
    ]


@pytest.mark.parametrize(
    ("made", "codes"),
    [
        ("torch.zeros(0)", []),
        ("torch.zeros(2)", ["GS304"]),
        ("torch.zeros(())", ["GS304"]),
        ("torch.randint(0, 9, (2,))", ["GS304", "GS504"]),
        ("torch.tensor(0)", ["GS301"]),
    ],
)
def test_a_tensor_without_elements_is_moved_without_a_copy(scan: Scan, made: str, codes: list[str]) -> None:
    source = f"""\
        class Layer(nn.Module):
            def forward(self, x: torch.Tensor):
                return torch.cat([x, {made}.to(x.device)])
        """
    assert [code for code, _ in scan(source)] == codes


LOADED = """\
class Layer:
    def __init__(self, width):
        self.weight = torch.empty(width, width)

    def {method}(self, given):
        for name, value in vars(self).items():
            if isinstance(value, torch.Tensor):
                setattr({owner}, name, {value})

class Runner:
    def __init__(self, layer: Layer, device):
        self.layer = layer
        self.logits = torch.zeros(8, 8, device=device)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.logits[:4] = self.layer.weight
"""


@pytest.mark.parametrize(
    ("method", "owner", "value", "found"),
    [
        ("load_state_dict", "self", "given[name]", False),
        ("to", "self", "value.to(given)", False),
        ("report", "given", "value", True),
    ],
)
def test_a_tensor_that_a_method_replaces_by_name(scan: Scan, method: str, owner: str, value: str, found: bool) -> None:
    """`setattr(self, name, tensor)` may put a tensor of the device into every attribute."""
    text = LOADED.format(method=method, owner=owner, value=value)
    store = ("GS303", "self.logits[:4] = self.layer.weight")
    assert [one for one in scan(text) if one[0] == "GS303"] == [store] * found


SUMMED = """\
class Loss(nn.Module):
    def forward(self, x, rows=None):
        first = rows[0, 1:3].tolist()
        return x.sum() * first[0]

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.loss = Loss()

    def forward(self, x: torch.Tensor, more: torch.Tensor):
        return self.loss(x, {first}) + self.loss(x, {second})
"""


@pytest.mark.parametrize(
    ("first", "second", "found"),
    [
        ("torch.tensor([[1, 2]])", "rows=torch.ones(2, 2)", False),
        ("rows=torch.ones(2, 2)", "more", True),
        ("rows=torch.ones(2, 2)", "rows=made(x)", True),
        ("rows=torch.ones(2, 2)", "None", False),
        ("*[torch.ones(2, 2)]", "*[more]", True),
    ],
)
def test_a_module_that_all_steps_call_with_a_host_tensor(scan: Scan, first: str, second: str, found: bool) -> None:
    read = ("GS101", "first = rows[0, 1:3].tolist()")
    assert (read in scan(SUMMED.format(first=first, second=second))) is found


MULTIPLIER = """\
class Multiplier({bases}):
    def __init__(self, start: float, device):
        super().__init__()
        self.weight = nn.Parameter({made}){end}

class Policy(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.multiplier = Multiplier(1.0, device)

    def forward(self, x: torch.Tensor):
        return x * {read}.item()
"""


@pytest.mark.parametrize(
    ("bases", "made", "end", "read", "found"),
    [
        ("object", "torch.as_tensor(max(start, 0.0))", "", "self.multiplier.weight", False),
        ("object", "torch.as_tensor(max(start, 0.0))", "", "(self.multiplier.weight * x).sum()", True),
        ("object", "torch.zeros(1, device=device)", "", "self.multiplier.weight", True),
        ("object", "torch.zeros(1)", ".to(device)", "self.multiplier.weight", True),
        (
            "object",
            "torch.zeros(1)",
            "\n        self.weight.data = self.weight.to(device)",
            "self.multiplier.weight",
            True,
        ),
        ("nn.Module", "torch.zeros(1)", "", "self.multiplier.weight", True),
    ],
)
def test_a_parameter_of_an_object_that_is_no_module_stays_where_it_is_made(
    scan: Scan, bases: str, made: str, end: str, read: str, found: bool
) -> None:
    codes = [code for code, _ in scan(MULTIPLIER.format(bases=bases, made=made, end=end, read=read))]
    assert codes == ["GS101"] * found


OF_A_LAYER = """\
class Method:
    def weight(self):
        return nn.Parameter(torch.zeros(8))

class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = Method().weight()

    def forward(self, x: torch.Tensor):
        return x * self.weight.sum().item()
"""


def test_a_parameter_that_a_plain_object_makes_for_a_module_moves_with_it(scan: Scan) -> None:
    assert scan(OF_A_LAYER) == [("GS101", "return x * self.weight.sum().item()")]


def test_a_variable_is_its_tensor(scan: Scan) -> None:
    source = """
        from torch.autograd import Variable


        class Net(nn.Module):
            def forward(self, x: torch.Tensor):
                h = Variable(torch.zeros(4, 8)).to(x.device)
                return x + Variable(x, requires_grad=True) + h
        """
    assert scan(source) == [("GS304", "h = Variable(torch.zeros(4, 8)).to(x.device)")]


def test_a_copy_of_a_dict_with_another_entry_may_have_any_entries(scan: Scan) -> None:
    source = """
        class Optimizer:
            def __init__(self, groups, rate):
                self.groups = [dict(group, params=list(group["params"])) for group in groups]
                self.rate = torch.tensor(rate, device="cuda")

            @torch.no_grad()
            def step(self):
                for group in self.groups:
                    for p in group["params"]:
                        p.mul_(1 - self.rate * group["decay"])
        """
    assert scan(source) == []


@pytest.mark.parametrize(
    ("first", "found"),
    [
        ('if "mps" in str(self.device):\n                    return x.cpu()', []),
        ('if "privateuseone" in str(x.device):\n                    return x.cpu()', []),
        ('if "cuda" in str(self.device):\n                    return x.cpu()', ["return x.cpu()"]),
        ('assert False, "call the other method"\n                return x.cpu()', []),
        ("assert x is not None\n                return x.cpu()", ["return x.cpu()"]),
    ],
)
def test_lines_that_no_cuda_machine_reaches(scan: Scan, first: str, found: list[str]) -> None:
    source = """
        class Net(nn.Module):
            def __init__(self, device):
                super().__init__()
                self.device = device

            def forward(self, x: torch.Tensor):
                FIRST
                return x
        """
    assert [line for _, line in scan(source.replace("FIRST", first))] == found
