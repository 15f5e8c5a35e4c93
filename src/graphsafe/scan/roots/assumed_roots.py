"""Functions whose name, class or parameters suggest that they run in a step, although no known step calls them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from graphsafe.scan.domain.record import LOOP, PASSING_HOOK
from graphsafe.scan.domain.values import Instance, RuntimeObject, Value, as_tensor, options
from graphsafe.scan.execution.frame import Engine
from graphsafe.scan.hazards.graph_syntax import LOOPS, MEASURES, Function, own
from graphsafe.scan.interpreter.calls import training_closures
from graphsafe.scan.interpreter.calls.decorators import makes_function
from graphsafe.scan.interpreter.calls.handed_to_loops import loopers_in
from graphsafe.scan.interpreter.calls.hooks import forward_hook_reason, hooks_in
from graphsafe.scan.roots.hot_roots import COLD_NAMES, MEASURING, METRIC, HotnessRules, is_beside_modules
from graphsafe.scan.roots.own_callers import calls_in_loop, own_callers, runs_before_loops
from graphsafe.scan.roots.public_functions import is_public, works_on_tensors
from graphsafe.scan.roots.registered_functions import entries_of, may_register, operators_of
from graphsafe.scan.roots.step_calls import strength_of
from graphsafe.scan.roots.tensor_arguments import takes_tensors
from graphsafe.scan.sources.node_memo import inside
from graphsafe.scan.symbols.blocks import attribute_of, parameters
from graphsafe.scan.symbols.index import FileIndex, FunctionFacts, dotted, is_kernel
from graphsafe.scan.symbols.project import PLAIN_BASES, ref_of

AUTOGRAD = "of a torch.autograd.Function"
STEP = "step of an optimizer, scheduler or sampler"
HOST_STEP = "step of a class that derives from a class of another library"
"""The reason that is given when the root is the step of an environment or simulation. Such a step runs on the host,
around a model."""
CALLABLE = "a callable that takes tensors"
WAY = "a forward of a plain class that takes tensors"
PARTS_CALLER = "a method that calls parts of a module without a forward"
OPERATOR = "the implementation of a custom operator"
ENTRY = "entered in a table or registry"
FACTORY = "made by a public function"
PUBLIC = "a public function that works on tensors"
LAUNCHES = "launches a kernel"
UNCALLED = "a public function of an application, which no known step calls"
"""The reason that is given when the root is a public function that may run only once. If only such functions reach some
code, the findings in this code are only `possible`."""
DOUBTFUL = (UNCALLED, PASSING_HOOK)
"Reasons that make findings only `possible`."
RESULTS = "a function that computes numbers from tensors"
PERHAPS = "a public function that computes with its arguments"
"The reason that is given for a public function that is a root only if it returns tensors."

RUNS_ONCE = (PUBLIC, PERHAPS, CALLABLE, WAY, PARTS_CALLER, STEP, HOST_STEP)
"Reasons that are ignored for a function that generates a sequence. Such a function runs once, with a model in a loop."
BY_FORM = (STEP, HOST_STEP, CALLABLE, WAY, PARTS_CALLER, METRIC, ENTRY, FACTORY, LAUNCHES, PUBLIC, RESULTS, UNCALLED)
"Reasons that depend only on the form of a function."

_WORDS = (
    b"def step(",
    b"_step(self",
    b"def sample(",
    b"def __call__(",
    b"def forward",
    b"def update(",
    b"def compute(",
    b"nn.Module)",
    b"autograd.",
    b"custom_op",
    b"triton_op",
    b".impl(",
    b"op_func",
)
"""Every file with an assumed root contains one of these byte strings, unless the root is a hook, a registered function
or a public function."""
_LAUNCH = re.compile(rb"(?<![\w.\])])(\w+)\[[^\[\]=:]+\]\(")
"Matches a launch of a kernel on a grid: `add_kernel[(n,)](x, y)`."
_FOR_WEIGHTS = re.compile(r"init|setup|alloc|weight|pack|load|convert|calib|bench|test|tune|warm", re.I)
"""Matches words in names of modules and functions whose kernels run outside steps, or only once, for example to convert
the weights."""
_PREPARES_DATA = re.compile(
    r"(Dataset|DataLoader|DataModule|Collat(or|e)|Demo|Checkpoint(er|Manager|Saver)|Export(er)?|Writer|Visualizer|Evaluator|Calibrator"
    r"|(Test|Val|Eval)\w*Meter)\w*\."
)
"Matches classes that make a step's inputs, or that save, show or evaluate its results."
_TRANSFORMS = re.compile(r"(Transforms?|Augment(ation|or)?s?|Compose|Normali[sz]e|Crop|Flip|Resize|ToTensor)$")
"Matches names of callables that prepare samples in a data set."
_MASK_INDICES = frozenset(("q_idx", "kv_idx"))
"""Parameters of a function that `flex_attention` maps over the indices of a mask. At run time, such parameters are not
tensors."""
_AUTOGRAD_BASES = ("autograd.Function", "autograd.function.Function", "autograd.function.InplaceFunction")
_RATE_BASES = ("LRScheduler", "_LRScheduler")
_OPTIMIZER_BASES = ("Optimizer", *_RATE_BASES)
_SEARCHES = frozenset(("optuna", "hyperopt", "skopt", "nevergrad", "ConfigSpace"))
"""Libraries that search hyperparameters. In a module that uses one of them, functions run once per trial, around all
steps."""
_OTHER_LIBRARY = re.compile(
    r"(?!(torch|abc|typing|typing_extensions|builtins|enum|collections|dataclasses)\.)"
    r"(?!.*(Optimi[sz]er|Scheduler|Sampler|Solver|Step|Module|Model|Mixin|Metric|Protocol)\w*$)\w+\."
)
"""Matches a class of another library, whose `step` may be unrelated to the device: `gym.Env`,
`ase.optimize.optimize.Dynamics`."""
_ENVIRONMENT = re.compile(r"(\b|_)envs?\.step\(")
_SIZES = frozenset("size shape sample_shape batch_size n num num_samples rng generator seed".split())
"Parameters of a `sample` that only draws new numbers."
_MODULES = frozenset(("torch.nn.Module", "torch.nn.modules.Module", "torch.nn.modules.module.Module"))
_STEPS = re.compile(r"step|sample|(sampl(e|ing)|denois(e|ing)|diffusion|solver|env|sim(ulation)?|rollout)_step")


def may_be_assumed(data: bytes) -> bool:
    """Return whether a file may contain an assumed root, not counting public functions."""
    return (
        any(word in data for word in _WORDS)
        or any(hooks_in(data))
        or may_register(data)
        or _may_launch(data)
        or bool(loopers_in(data))
        or training_closures.may_be_defined(data)
    )


def _may_launch(data: bytes) -> bool:
    return b"triton" in data and _LAUNCH.search(data) is not None


def assumed_roots_of(
    engine: Engine, file: FileIndex, paths: HotnessRules, with_public: bool, applied: bool = False
) -> Iterator[tuple[str, Value | None, str]]:
    """Yield the function, the receiver and the reason of each assumed root of a file.

    `with_public` also allows public functions. With `applied`, the project is an application, whose scripts call the
    code of its steps.
    """
    forms = _Forms(engine, file, paths.relative(file.path), with_public, applied)
    for facts in file.functions.values():
        why = forms.why(facts)
        if why is not None and not paths.is_cold(file.path, file.module, facts):
            # The method may be called on an instance of a subclass.
            receiver = Instance(f"{file.path}::{facts.owner}", declared=True) if facts.owner is not None else None
            yield f"{file.path}::{facts.name}", receiver, why


class _Forms:
    """Decides whether a function is a root, and for which reason. It reads the function's name, class, parameters and
    calls."""

    def __init__(self, engine: Engine, file: FileIndex, place: str, with_public: bool, applied: bool) -> None:
        """`place` is the file's path in the project."""
        self._engine = engine
        self._file = file
        searches = not _SEARCHES.isdisjoint(target.partition(".")[0] for target in file.imports.values())
        self._with_public = with_public and not searches
        self._applied = applied
        data = engine.project.files.data(file.path) or b""
        self._operators = frozenset(operators_of(file, data))
        self._entries = frozenset(entries_of(engine.project, file))
        self._hooks = {*hooks_in(data)}
        self._is_beside = is_beside_modules(place)
        self._evaluates = self._is_beside and not is_beside_modules(place, replays=True)
        self._measures = MEASURING.search(file.module) is not None
        self._imports_torch = file.imports_torch
        self._trains = training_closures.may_be_defined(data)
        self._launching = {*self._launchers(data)} if _may_launch(data) else set()

    def why(self, facts: FunctionFacts) -> str | None:
        if is_kernel(facts.decorators) or _PREPARES_DATA.search(facts.name):
            return None
        name = facts.name.rpartition(".")[2]
        if facts.name in self._operators:
            return OPERATOR
        if self._is_beside and not (self._evaluates and self._has_base(facts)):
            return None
        if name in self._hooks:
            return forward_hook_reason(self._engine.project.files, f"{self._file.path}::{facts.name}")
        found = self._of_class(name, facts, f"{self._file.path}::{facts.owner}") if facts.owner is not None else None
        if found is not None:
            return found
        if facts.name in self._entries and self._takes_tensors(facts):
            return METRIC if any(map(MEASURING.search, self._file.module.split("."))) else ENTRY
        if facts.name in self._launching:
            return LAUNCHES
        node = self._node(facts)
        if self._trains and node is not None and any(training_closures.defined_in(node)):
            return FACTORY
        if self._with_public and is_public(facts):
            if self._makes_step(facts):
                return FACTORY
            if runs_before_loops(self._engine, self._file, facts):
                return None
            works = works_on_tensors(self._engine, self._file, facts)
            if works and self._measures:
                return METRIC
            return PUBLIC if works else PERHAPS if works is None else None
        return None

    def _has_base(self, facts: FunctionFacts) -> bool:
        """Return whether a function is a method of a class with a base. Code of the base's file or library may call the
        method in steps, wherever the class is."""
        return facts.owner is not None and len(self._engine.project.mro(f"{self._file.path}::{facts.owner}")) > 1

    def _launchers(self, data: bytes) -> Iterator[str]:
        """Yield the functions of the file that launch a kernel of the project."""
        project = self._engine.project
        if _FOR_WEIGHTS.search(self._file.module.rpartition(".")[2]):
            return
        for name in {match[1].decode() for match in _LAUNCH.finditer(data)}:
            binding = project.resolve(self._file, name)
            kernel = project.function_facts(binding.ref) if binding is not None and binding.kind == "function" else None
            if kernel is None or not is_kernel(kernel.decorators):
                continue
            text = project.files.source(self._file.path).text
            # The search is seven times as fast because the pattern begins with fixed characters, with the lookbehind
            # after them.
            launch = re.compile(rf"{name}(?<![\w.]{name})\[[^\[\]=:\n]+\]\(")
            lines = [text.count("\n", 0, match.start()) + 1 for match in launch.finditer(text)]
            for facts in self._file.functions.values():
                launches = any(facts.holds(line) for line in lines)
                if launches and not _FOR_WEIGHTS.search(facts.name):
                    yield facts.name

    def _node(self, facts: FunctionFacts) -> Function | None:
        return self._engine.project.function_node(f"{self._file.path}::{facts.name}")

    def _makes_step(self, facts: FunctionFacts) -> bool:
        """Return whether a function defines and returns a function that takes tensors."""
        node = self._node(facts)
        if node is None or facts.owner is not None or not makes_function(node):
            return False
        return any(
            isinstance(inner, ast.FunctionDef)
            and takes_tensors(inner, self._engine.ops, False, self._imports_torch)
            and not {argument.arg for argument in inner.args.args} >= _MASK_INDICES
            for inner in node.body
        )

    def _of_class(self, name: str, facts: FunctionFacts, cls: str) -> str | None:
        project = self._engine.project
        if name in ("forward", "backward") and project.derives(cls, _AUTOGRAD_BASES):
            return AUTOGRAD
        if name in ("update", "compute"):
            is_metric = all(project.find_method(cls, each) is not None for each in ("update", "compute"))
            return METRIC if is_metric else None
        is_module = self._engine.attributes.is_module(cls)
        # A model's `sample` makes a complete result, so it is not a step.
        if _STEPS.fullmatch(name) and not (name == "sample" and is_module) and self._is_step(name, facts, cls):
            on_host = (
                self._is_of_other_library(cls) or self._turns_environment(facts, cls) or self._sets_rates(facts, cls)
            )
            return LOOP if self._trains_model(facts) else HOST_STEP if on_host else STEP
        if is_module and self._calls_parts(facts, cls):
            return PARTS_CALLER
        # Engines choose among the entry points of a backend: `forward`, `forward_decode`, `forward_sparse`.
        is_called = name == "__call__" or name.startswith("forward")
        prepares = name == "__call__" and _TRANSFORMS.search(facts.owner or "") is not None
        if is_called and not is_module and not prepares and self._takes_tensors(facts):
            return WAY if name != "__call__" else METRIC if self._measures else CALLABLE
        return None

    def _is_step(self, name: str, facts: FunctionFacts, cls: str) -> bool:
        """Return whether a method is a root, judging by the bases and fields of its class, or by the method's
        parameters and calls.

        In a file whose public functions may be roots, the method's name is enough, because not every step has tensors
        as parameters: some take a model, or tensors in a dict. In an application, the loops show which methods are
        steps. So the name is not enough if another method calls this one as a part of its work. It is not enough
        either for a `sample` that takes only a size: such a method may make data on the host.
        """
        is_part = self._applied and self._is_part(facts)
        node = self._node(facts)
        takes_sizes = node is not None and {one.arg for one in parameters(node)[1:]} <= _SIZES
        if self._with_public and not is_part and not (name == "sample" and takes_sizes):
            return True
        if name == "step" and (
            self._engine.project.derives(cls, _OPTIMIZER_BASES) or self._works_on_parameter_groups(cls)
        ):
            return True
        if self._takes_tensors(facts) or self._takes_request(facts):
            return True
        # An engine takes steps until its requests are finished: `while not self.is_finished(): self.step()`
        if name == "step" and calls_in_loop(
            own_callers(self._engine, self._file, facts).values(), "step", (ast.While,)
        ):
            return True
        return any(map(self._takes_tensors, self._passed_on(facts, cls)))

    def _calls_parts(self, facts: FunctionFacts, cls: str) -> bool:
        """Return whether a public method of a module without a `forward` calls other modules that the module holds, as
        `initial_inference` does."""
        project = self._engine.project
        outside = {base for base in project.mro(cls) if "::" not in base} - PLAIN_BASES - _MODULES
        has_forward = bool(outside) or project.find_method(cls, "forward") is not None
        node = project.function_node(f"{self._file.path}::{facts.name}")
        if has_forward or node is None or not is_public(facts) or MEASURES.search(facts.name):
            return False
        called = [call.func for call in inside(node, ast.Call) if call.args]
        own = [one.attr for one in called if isinstance(one, ast.Attribute) and dotted(one.value) == "self"]
        held = [self._engine.attributes.of_instance(Instance(cls), name) for name in own]
        return any(self._is_module(option) for value in held if value is not None for option in options(value))

    def _is_module(self, value: Value) -> bool:
        if type(value) is Instance:
            return self._engine.attributes.is_module(value.ref)
        return type(value) is RuntimeObject and value.kind == "module"

    def _is_part(self, facts: FunctionFacts) -> bool:
        """Return whether a method without parameters is a part of another method: other methods of its object call it,
        but only outside loops."""
        node = self._node(facts)
        if node is None or len(inside(node.args, ast.arg)) > 1:
            return False
        calling = [*own_callers(self._engine, self._file, facts).values()]
        in_loop = calls_in_loop(calling, node.name, LOOPS)
        return bool(calling) and not in_loop and all(one.name not in COLD_NAMES for one in calling)

    def _is_of_other_library(self, cls: str) -> bool:
        bases = [base for base in self._engine.project.mro(cls) if "::" not in base and "." in base]
        is_optimizer = self._engine.project.derives(cls, _OPTIMIZER_BASES) or self._works_on_parameter_groups(cls)
        return not is_optimizer and any(map(_OTHER_LIBRARY.match, bases))

    def _sets_rates(self, facts: FunctionFacts, cls: str) -> bool:
        """Return whether a class schedules the learning rate. Its `step` then computes with numbers on the host."""
        if self._engine.project.derives(cls, _RATE_BASES):
            return True
        takes = self._takes_tensors(facts) or self._takes_request(facts)
        return facts.name.endswith("Scheduler.step") and not takes

    def _turns_environment(self, facts: FunctionFacts, cls: str) -> bool:
        """Return whether a method is the step of an environment. Such a step takes actions, or calls the step of
        another environment: `self._env.step(action)`."""
        project = self._engine.project
        own = [base for base in project.mro(cls) if "::" in base]
        steps = [node for base in own if (node := project.function_node(f"{base}.step")) is not None]
        if any(argument.arg in ("action", "actions") for step in steps for argument in step.args.args):
            return not project.derives(cls, _OPTIMIZER_BASES)
        lines = project.files.source(self._file.path).lines_of(facts.line, facts.end_line)
        return any(_ENVIRONMENT.search(line) is not None for line in lines)

    def _trains_model(self, facts: FunctionFacts) -> bool:
        """Return whether a method runs a model and its backward pass, as the step of a trainer does. Users capture the
        model, not the whole method."""
        calls = own(node, ast.Call) if (node := self._node(facts)) is not None else []
        strengths = {strength_of(call) for call in calls}
        return strengths >= {"trains", "runs"}

    def _works_on_parameter_groups(self, cls: str) -> bool:
        found = self._engine.project.class_facts(cls)
        methods = found.methods.values() if found is not None else ()
        nodes = (self._engine.project.function_node(f"{self._file.path}::{method}") for method in methods)
        return any(
            inner.attr == "param_groups" for node in nodes if node is not None for inner in inside(node, ast.Attribute)
        )

    def _passed_on(self, facts: FunctionFacts, cls: str) -> Iterator[FunctionFacts]:
        """Yield the methods of the same object that a method calls with its own parameters."""
        project, node = self._engine.project, self._node(facts)
        if node is None or not node.args.args:
            return
        receiver, *parameters = (argument.arg for argument in node.args.args)
        for call in inside(node, ast.Call):
            name = attribute_of(call.func, receiver)
            if name is not None and any(isinstance(given, ast.Name) and given.id in parameters for given in call.args):
                method = project.find_method(cls, name)
                found = project.function_facts(method) if method is not None else None
                if found is not None and method == f"{self._file.path}::{found.name}":
                    yield found

    def _takes_tensors(self, facts: FunctionFacts) -> bool:
        """Return whether a function takes tensors. If its file does not import torch, its operands may also be
        numbers."""
        node = self._node(facts)
        return node is not None and takes_tensors(node, self._engine.ops, facts.is_method, self._imports_torch)

    def _takes_request(self, facts: FunctionFacts) -> bool:
        """Return whether a parameter is annotated with a class of the project that has fields declared as tensors."""
        project, attributes, node = self._engine.project, self._engine.attributes, self._node(facts)
        for argument in inside(node.args, ast.arg) if node is not None else ():
            named = dotted(argument.annotation) if argument.annotation is not None else None
            cls = ref_of(project.meaning(self._file, named), "class") if named is not None else None
            if cls is None or attributes.is_module(cls):
                continue
            found = project.class_facts(cls)
            fields = found.fields if found is not None else ()
            if any(as_tensor(attributes.of_class(cls, name))[0] is not None for name in fields):
                return True
        return False
