"""What a first step makes and keeps: later steps find it there, and a graph that is captured then holds none of it."""

from __future__ import annotations

import textwrap

import pytest

from .conftest import Scan

GLOBAL = """\
    _plan = None
    _failed = False

    def plan_of(width: int):
        global _plan, _failed
        if _plan is not None or _failed:
            return _plan
        torch.cuda.synchronize()
        _plan = object()
        _failed = _plan is None
        return _plan

    class Layer(nn.Module):
        def forward(self, x: torch.Tensor):
            plan_of(x.shape[1])
            return x
    """


def test_a_global_that_is_none_at_first_is_filled_by_the_first_step(scan: Scan) -> None:
    assert scan(GLOBAL) == []
    dropped = "\ndef destroy():\n    global _plan\n    _plan = None\n"
    assert scan(textwrap.dedent(GLOBAL) + dropped) == []


@pytest.mark.parametrize("line", ["        _plan = object()\n", "        global _plan, _failed\n"])
def test_a_global_that_nothing_fills_is_missing_in_every_step(scan: Scan, line: str) -> None:
    assert [code for code, _ in scan(GLOBAL.replace(line, ""))] == ["GS105"]


def test_a_global_that_something_else_fills_may_hold_what_is_not_wanted(scan: Scan) -> None:
    elsewhere = "\ndef prepare(plan):\n    global _plan\n    _plan = plan\n"
    assert [code for code, _ in scan(textwrap.dedent(GLOBAL) + elsewhere)] == ["GS105"]


SEEN = """\
    from engine import current_group

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.seen = set()

        def forward(self, x: torch.Tensor):
            group = current_group()
            key = (id(group.ranks), 0)
            if key in self.seen:
                return x
            torch.cuda.synchronize()
            self.seen.add(key)
            return x
    """


def test_a_set_of_what_was_seen_is_filled_by_the_first_step(scan: Scan) -> None:
    assert scan(SEEN) == []
    assert [code for code, _ in scan(SEEN.replace("self.seen.add(key)", "pass"))] == ["GS105"]


@pytest.mark.parametrize("key", ["id(x)", "x.data_ptr()"])
def test_a_set_of_what_each_step_makes_anew_is_not(scan: Scan, key: str) -> None:
    assert [code for code, _ in scan(SEEN.replace("id(group.ranks)", key))] == ["GS105"]


POSITION = """\
    class Scheduler:
        def __init__(self, timesteps: torch.Tensor):
            self.timesteps = timesteps
            self._turn = None

        @property
        def turn(self):
            return self._turn

        def restart(self):
            self._turn = None

        def _begin(self, timestep: torch.Tensor):
            self._turn = int(timestep.item())

        def step(self, sample: torch.Tensor, timestep: torch.Tensor):
            if self.turn is None:
                self._begin(timestep)
            sample = sample * self.timesteps[self._turn]
            self._turn += 1
            return sample
    """


def test_a_position_that_steps_advance_is_worked_out_by_the_first_one(scan: Scan) -> None:
    assert [code for code, _ in scan(POSITION) if code == "GS101"] == []
    each = POSITION.replace("self._turn += 1", "self._turn = None")
    assert [code for code, _ in scan(each) if code == "GS101"] == ["GS101"]


CACHED = """\
    import functools

    @functools.lru_cache(maxsize=4)
    def window(device, length=400):
        return torch.hann_window(length).to(device)

    class Layer(nn.Module):
        def forward(self, x: torch.Tensor):
            return x * window(x.device)
    """


def test_a_cache_that_is_asked_for_a_device_alone_keeps_its_one_entry(scan: Scan) -> None:
    assert scan(CACHED) == []
    assert [code for code, _ in scan(CACHED.replace("window(x.device)", "window(x.device, x.shape[1])"))] == ["GS705"]


POSITIONS = """\
    class Rows:
        def __init__(self):
            self.known = {}

        def __call__(self, size, device):
            if size not in self.known:
                self.known[size] = torch.arange(size, device=device)
            return self.known[size]

    class Columns:
        def __init__(self):
            self.known = {}

        def other(self):
            pass

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.rows = Rows()

        def forward(self, x: torch.Tensor):
            return x + self.rows(x.shape[1], x.device)
    """


def test_tables_of_two_classes_with_one_name_are_not_one_table_that_is_replaced(scan: Scan) -> None:
    assert scan(POSITIONS) == []
    elsewhere = POSITIONS.replace(
        "def other(self):\n            pass", "def other(self):\n            self.known.clear()"
    )
    assert scan(elsewhere) == []
    for subclass in ("class Columns(Rows)", "class Columns(Unknown, Rows)"):
        assert [code for code, _ in scan(elsewhere.replace("class Columns", subclass))] == ["GS705"]
    assert [code for code, _ in scan(elsewhere.replace("self.known.clear()", "self.rows.known.clear()"))] == ["GS705"]
    emptied = POSITIONS.replace(
        "return self.known[size]",
        "return self.known[size]\n\n        def reset(self):\n            self.known.clear()",
    )
    assert [code for code, _ in scan(emptied)] == ["GS705"]
    replaced = POSITIONS.replace(
        "return self.known[size]", "return self.known[size]\n\n        def reset(self):\n            self.known = {}"
    )
    assert [code for code, _ in scan(replaced)] == ["GS705"]


BUFFERS = """\
    _BUFFERS: dict[int, torch.Tensor] = {}

    class Mask(nn.Module):
        def forward(self, x: torch.Tensor):
            buffer = _BUFFERS.get(x.shape[1])
            if buffer is None or buffer.shape[0] < x.shape[0]:
                buffer = x.new_empty((x.shape[0], x.shape[1]))
                _BUFFERS[x.shape[1]] = buffer
            return x * buffer[: x.shape[0]]

    def reset():
        _BUFFERS.clear()
    """


def test_a_buffer_under_a_local_name_is_kept_in_a_table_that_other_code_empties(scan: Scan) -> None:
    assert scan(BUFFERS) == [("GS705", "_BUFFERS[x.shape[1]] = buffer")]


LARGEST = """\
    class Positions(nn.Module):
        def __init__(self):
            super().__init__()
            self.largest = 64

        def forward(self, x: torch.Tensor):
            if x.shape[1] > self.largest:
                self.largest = max(x.shape[1], self.largest)
            return x * self.largest
    """


def test_a_number_that_only_a_larger_input_raises_seldom_changes(scan: Scan) -> None:
    assert scan(LARGEST) == []
    assert [code for code, _ in scan(LARGEST.replace("max(x.shape[1], self.largest)", "self.largest + 1"))] == ["GS702"]


VIEW = """\
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.buffer = torch.zeros(32, device="cuda:0")
            self.view = None

        def forward(self, x: torch.Tensor):
            count = x.shape[0]
            self.buffer[:count].copy_(x)
            if self.view is None or self.view.shape[0] != count:
                self.view = self.buffer[:count]
            return self.view * 2
    """


def test_a_view_of_a_buffer_that_each_step_fills_shows_what_is_in_it(scan: Scan) -> None:
    assert scan(VIEW) == []
    assert [code for code, _ in scan(VIEW.replace("= self.buffer[:count]", "= self.buffer[:count] * 2"))] == ["GS701"]


SHARED = """\
    _ROOM = None

    def fitting(room, n, device):
        if {test}:
            return torch.empty(n, device=device)
        return room

    class Layer(nn.Module):
        def forward(self, x: torch.Tensor):
            global _ROOM
            _ROOM = fitting(_ROOM, x.shape[0], x.device)
            _ROOM.copy_(x[:, 0])
            return _ROOM * 2
    """


def test_a_global_that_a_helper_replaces_for_another_size(scan: Scan) -> None:
    replaced = SHARED.format(test="room is None or room.shape[0] != n")
    assert scan(replaced) == [("GS703", "_ROOM = fitting(_ROOM, x.shape[0], x.device)")]


def test_a_global_that_a_helper_only_fills(scan: Scan) -> None:
    assert "GS703" not in [code for code, _ in scan(SHARED.format(test="room is None"))]


TABLE = """\
    class Rotary(nn.Module):
        def __init__(self, length: int):
            super().__init__()
            self.length = length
            {begin}

        def fill(self, length: int, device):
            self.length = length
            self.table = torch.arange(length).to(device)

        def forward(self, x: torch.Tensor):
            if x.shape[1] > self.length:
                self.fill(x.shape[1], x.device)
            return x * self.table[: x.shape[1]]
    """


@pytest.mark.parametrize(("begin", "copies"), [("self.fill(length, None)", False), ("self.table = None", True)])
def test_a_table_that_its_constructor_has_filled_seldom_grows(scan: Scan, begin: str, copies: bool) -> None:
    codes = [code for code, _ in scan(TABLE.format(begin=begin))]
    assert ("GS304" in codes) is copies


@pytest.mark.parametrize(
    ("test", "codes"),
    [
        ("self.mode == 'debug'", []),
        ("self.mode == 'train'", ["GS101"]),
        ("self.mode == 'test'", []),
        ("self.mode == 'dev' or self.mode == 'test'", []),
        ("self.config['split'] in ('dev', 'test')", []),
        ("self.split in ('train', 'test')", ["GS101"]),
        ("self.mode == 'test' or self.mode == 'train'", ["GS101"]),
        ("self.mode != 'test'", ["GS101"]),
        ("self.kind == 'test'", ["GS101"]),
        ("not torch.is_tensor(t)", []),
        ("not isinstance(t, torch.Tensor)", []),
        ("torch.is_tensor(t)", ["GS101"]),
        ("self.step % self.options['log_every'] == 0 or self.step == self.steps - 1", []),
        ("self.step % self.options['layers'] == 0 or self.step == self.steps - 1", ["GS101"]),
        ("self.step % self.options['log_every'] == 0 or self.begins", ["GS101"]),
        ("self.step % self.config.update_ratio == 0", []),
        ("self.step % self.config.accumulation_steps == 0", ["GS101"]),
        ("self.scale > self.config.update_ratio", ["GS101"]),
        ("divides(self.options['log_every'], self.step)", ["GS101"]),
        ("divides(self.step, self.options['log_every'])", []),
    ],
)
def test_a_branch_for_debugging_or_for_numbers(scan: Scan, test: str, codes: list[str]) -> None:
    source = f"""\
    class Net(nn.Module):
        def forward(self, x: torch.Tensor, t: torch.Tensor | float):
            if {test}:
                x = x * x.max().item()
            return x
    """
    assert [code for code, _ in scan(source)] == codes


@pytest.mark.parametrize(
    ("line", "codes"),
    [
        ("warnings.warn(f'lost {lost}')", ["GS102"]),
        ("logger.warning('lost %s', lost.item())", ["GS102"]),
        ("print(f'lost {lost}')", ["GS102", "GS104"]),
        ("print(f'[WARNING] lost {lost}')", ["GS102"]),
    ],
)
def test_the_text_of_a_warning_in_a_branch_is_like_that_of_an_error(scan: Scan, line: str, codes: list[str]) -> None:
    source = f"""\
        import logging, warnings
        logger = logging.getLogger(__name__)

        class Net(nn.Module):
            def forward(self, x: torch.Tensor):
                lost = x.isnan().sum()
                if lost > 0:
                    {line}
                return x
        """
    assert sorted(code for code, _ in scan(source)) == codes
    in_each_step = source.replace("if lost > 0:", "with torch.no_grad():")
    assert not {"GS101", "GS104"}.isdisjoint(code for code, _ in scan(in_each_step))


@pytest.mark.parametrize(("flag", "lines"), [("self.ready", 1), ("self.wanted", 2)])
def test_a_method_that_sets_a_buffer_as_its_flag_runs_in_the_first_step(scan: Scan, flag: str, lines: int) -> None:
    source = f"""\
        class Codebook(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("ready", torch.zeros(1))
                self.register_buffer("wanted", torch.zeros(1))
                self.register_buffer("codes", torch.zeros(8))

            def begin(self, x):
                self.codes.data.copy_(torch.bincount(x.argmax(-1), minlength=8))
                self.ready.data.fill_(True)

            def forward(self, x: torch.Tensor):
                if not {flag}:
                    self.begin(x)
                return x * self.codes
        """
    assert len(scan(source)) == lines


def test_an_entry_that_the_same_method_fills_is_what_it_puts_there(scan: Scan) -> None:
    """A table of windows on the host, as vision models keep one for each size of an image."""
    source = """\
        class Windows(nn.Module):
            def __init__(self):
                super().__init__()
                self.known = {}

            def of(self, size):
                if size in self.known:
                    return self.known[size]
                index = torch.arange(size)
                self.known[size] = index
                return index

            def forward(self, x: torch.Tensor, sizes: list[int]):
                index = torch.cat([self.of(size) for size in sizes])
                return x * len(index.cpu().numpy())
        """
    assert not {"GS103", "GS102"} & {code for code, _ in scan(source)}


WORKSPACE = """\
    _SPACES = {{}}
    _SPACE = None

    def space(n: int, device):
        {body}

    class Add(nn.Module):
        def forward(self, x: torch.Tensor):
            return torch.add(x, 1, out=space(x.shape[0], x.device)[: x.shape[0]])
    """
OF_A_TABLE = """\
held = _SPACES.get(device)
{test}
    held = torch.empty(n, device=device)
    _SPACES[device] = held
return held"""
OF_THE_FILE = """\
global _SPACE
if _SPACE is not None and {fits}:
    return _SPACE
_SPACE = torch.empty(n, device=device)
return _SPACE"""


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (OF_A_TABLE.format(test="if held is None or held.numel() < n:"), "_SPACES[device] = held"),
        (OF_A_TABLE.format(test="if held is None or held.size(0) < n:"), "_SPACES[device] = held"),
        (OF_A_TABLE.format(test="if held is None:").replace("device]", "n, device]"), None),
        (OF_THE_FILE.format(fits="_SPACE.numel() >= n"), "_SPACE = torch.empty(n, device=device)"),
        (OF_THE_FILE.format(fits="_SPACE.device == device"), None),
    ],
)
def test_a_workspace_that_is_made_anew_for_more_rows(scan: Scan, body: str, line: str | None) -> None:
    found = scan(WORKSPACE.format(body=textwrap.indent(body, " " * 8).strip()))
    assert [one for code, one in found if code == "GS705"] == ([] if line is None else [line])


def test_a_table_that_the_constructor_makes_for_a_maximum_is_seldom_too_small(scan: Scan) -> None:
    source = """\
        class Positions(nn.Module):
            def __init__(self, max_len=5000):
                super().__init__()
                self.pe = None
                self.extend(torch.zeros(1, max_len))

            def extend(self, x: torch.Tensor):
                if self.pe is not None and self.pe.size(1) >= x.size(1):
                    return
                self.pe = torch.arange(x.size(1), device=x.device)[None].float()

            def forward(self, x: torch.Tensor):
                self.extend(x)
                return x + self.pe[:, : x.size(1)]
        """
    assert scan(source) == []
    assert [code for code, _ in scan(source.replace("self.extend(torch.zeros(1, max_len))", "pass"))] == ["GS705"]


RESET = """\
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.pointers_ready = False

        def unload(self):
            self.pointers_ready = False

        def _build(self):
            self.pointers_ready = True
            self.pointers = torch.tensor([w.data_ptr() for w in self.parameters()], device="cuda")

        def forward(self, x: torch.Tensor):
            if not self.pointers_ready:
                self._build()
            return x
    """


def test_what_only_unloading_drops_is_filled_by_the_first_step(scan: Scan) -> None:
    assert scan(RESET) == []
    assert [code for code, _ in scan(RESET.replace("unload", "next_request"))] == ["GS301", "GS604"]


SETTING = """\
    class Padding(nn.Module):
        def __init__(self, amount):
            super().__init__()
            self.amount = amount

        def forward(self, x: torch.Tensor):
            if isinstance(self.amount, (float, str)):
                self.amount = torch.tensor([float(self.amount)] * x.dim()).to(x)
            return x * self.amount
    """


def test_the_first_step_turns_a_setting_into_what_it_stands_for(scan: Scan) -> None:
    assert scan(SETTING) == []
    assert "GS301" in [code for code, _ in scan(SETTING.replace("(float, str)", "list"))]


@pytest.mark.parametrize(
    ("test", "lines"),
    [
        ("not (refresh or any(v is None for v in [self._packed, self._first]))", ["if (x > 0).all():"]),
        ("not any(v is None for v in (self._packed, self._first))", []),
        ("not (refresh or any(v is None for v in [x.other]))", ["if (x > 0).all():", "self._packed = x * 2"]),
        ("not (refresh or any(v for v in [self._packed]))", ["if (x > 0).all():", "self._packed = x * 2"]),
    ],
)
def test_a_cache_that_asks_for_any_missing_value(scan: Scan, test: str, lines: list[str]) -> None:
    """With `refresh`, other lines may run in a later step too."""
    source = f"""\
    class Cloud(nn.Module):
        def __init__(self):
            super().__init__()
            self._packed = self._first = None

        def pack(self, x, refresh=False):
            if {test}:
                return
            if (x > 0).all():
                x = x + 1
            self._packed = x * 2

        def forward(self, x: torch.Tensor, refresh: bool):
            y = self._packed
            self.pack(x, refresh)
            return y
    """
    assert [line for code, line in scan(source) if code in ("GS102", "GS703")] == lines


FLAG = """\
    class Net(nn.Module):
        def __init__(self, config):
            super().__init__()
            self.simple = {value}

        def forward(self, x: torch.Tensor):
            if {test}:
                return x.cpu()
            elif x.shape[0] > 1:
                return x.max().item()
            return x
    """


@pytest.mark.parametrize(
    ("value", "test", "more", "codes"),
    [
        ("True", "self.simple", "", ["GS103"]),
        ("False", "self.simple", "", ["GS101"]),
        ("True", "not self.simple", "", ["GS101"]),
        ("config.simple", "self.simple", "", ["GS103", "GS101"]),
        ("True", "self.simple", "def slow(net):\n    net.simple = False", ["GS103", "GS101"]),
        ("True", "self.simple", "def same(net):\n    return net.simple == 3", ["GS103"]),
        ("True", "self.simple", "def slow(net):\n    setattr(net, 'simple', False)", ["GS103", "GS101"]),
        ("True", "self.simple", "class Other:\n    simple: bool = False", ["GS103", "GS101"]),
        ("True", "self.simple", "class Other:\n    def f(self, x):\n        self.simple |= x", ["GS103", "GS101"]),
    ],
)
def test_a_branch_that_needs_another_value_than_the_constructor_gives(
    scan: Scan, value: str, test: str, more: str, codes: list[str]
) -> None:
    source = FLAG.format(value=value, test=test) + "\n" + textwrap.indent(more, " " * 4) + "\n"
    assert [code for code, _ in scan(source)] == codes


REPORTED = """\
    class Guard(nn.Module):
        def __init__(self):
            super().__init__()
            self.shown = False

        def forward(self, x: torch.Tensor):
            if {first}:
                return x
            bad = torch.isnan(x)
            if bad.any():
                print(x.cpu())
                self.shown = {last}
            return x

        def again(self):
            {again}
    """


@pytest.mark.parametrize(
    ("first", "last", "again", "copies"),
    [
        ("self.shown", "True", "pass", False),
        ("x.shape[0] == 0 or self.shown", "True", "pass", False),
        ("x.shape[0] == 0 and self.shown", "True", "pass", True),
        ("x.shape[0] == 0", "True", "pass", True),
        ("self.shown", "False", "pass", True),
        ("self.shown", "True", "self.shown = False", True),
    ],
)
def test_a_branch_that_keeps_later_steps_away(scan: Scan, first: str, last: str, again: str, copies: bool) -> None:
    found = scan(REPORTED.format(first=first, last=last, again=again))
    assert ("GS102", "if bad.any():") in found
    assert (("GS103", "print(x.cpu())") in found) is copies
