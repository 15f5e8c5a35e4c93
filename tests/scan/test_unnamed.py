"""Code of an application that nothing names: its findings are only possible."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path

import pytest

from graphsafe.config import Config
from graphsafe.scan.api import scan_paths

LOSS = """
import torch
from torch import nn

class Loss(nn.Module):
    def forward(self, x):
        return x[x > 0].sum()
"""
TRAIN = "import torch\n\nif __name__ == '__main__':\n    print('trains')\n"
README = "# A project\n"


def confidences(folder: Path, files: Mapping[str, str]) -> dict[str, str]:
    """Return the confidence of each finding in models/loss.py of a project with these files, by function."""
    for name, text in {"models/loss.py": LOSS, "train.py": TRAIN, "README.md": README, **files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
    report = scan_paths([folder], Config(root=folder), confidence="possible")
    found = [one for one in report.findings if one.location.path.endswith("loss.py") and one.code == "GS202"]
    return {one.location.function or "": one.confidence for one in found}


NOTHING: dict[str, dict[str, str]] = {
    "nothing": {},
    "an import": {"models/__init__.py": "", "train.py": f"from models.loss import Loss\n{TRAIN}"},
    "a test": {"tests/test_loss.py": "from models.loss import Loss\ndef test_loss():\n    Loss()\n"},
    "a report of graphsafe": {"old.json": '{"schema": "graphsafe/report/1", "findings": ["Loss.forward"]}'},
    "a comment": {"train.py": f"# Loss() is slower\n{TRAIN}"},
    "a longer name": {"README.md": "FocalLoss and Loss-free balancing\n"},
    "code that is itself unnamed": {"models/more.py": "from .loss import Loss\ndef made():\n    return Loss()\n"},
    "a circle": {
        "models/loss.py": LOSS + "\ndef made():\n    return Loss()\n",
        "models/more.py": "from .loss import made\nclass Loss:\n    def build(self):\n        return made()\n",
    },
    "another class of that name": {
        "models/more.py": "class Loss:\n    pass\n",
        "train.py": "from models.more import Loss\n\nif __name__ == '__main__':\n    Loss()\n",
    },
    "another class of that name, under a third name": {
        "models/more.py": "class Loss:\n    pass\n",
        "train.py": "from models.more import Loss as Other\n\nif __name__ == '__main__':\n    Other()\n",
    },
    "another class of that name in the same file": {"train.py": f"{TRAIN}\nclass Loss:\n    pass\n\nLoss()\n"},
    "an import in a function, which hides the class": {
        "models/loss.py": LOSS + "\ndef made():\n    from .more import Loss\n\n    return Loss()\n",
        "models/more.py": "class Loss:\n    pass\n",
        "train.py": "from models.loss import made\n\nif __name__ == '__main__':\n    made()\n",
    },
    "a class that another one replaces": {
        "models/more.py": "import models.loss as module\nclass Fast:\n    pass\n\nmodule.Loss = Fast\n",
        "train.py": "from models import more\nfrom models.loss import Loss\n\nif __name__ == '__main__':\n    Loss()\n",
    },
    "a class of torch": {
        "train.py": "import torch\nfrom models import loss\n\nif __name__ == '__main__':\n    torch.nn.modules.Loss()\n"
    },
    "code of the same name, but nothing names the module": {
        "train.py": "from losses import Loss\n\nif __name__ == '__main__':\n    Loss()\n"
    },
    "a function that tests it": {"models/loss.py": LOSS + "\ndef _test_loss():\n    Loss()\n\n_test_loss()\n"},
    "a document about another class of that name, which code imports": {
        "models/more.py": "class Loss:\n    pass\n",
        "train.py": "from models.more import Loss\n\nif __name__ == '__main__':\n    Loss()\n",
        "README.md": "Use `Loss` for hard examples.\n",
    },
}
NAMED: dict[str, dict[str, str]] = {
    "a call of one of two classes": {
        "models/more.py": "class Loss:\n    pass\n",
        "train.py": "from models.loss import Loss\n\nif __name__ == '__main__':\n    Loss()\n",
    },
    "a call beside a function that hides the class": {
        "models/loss.py": LOSS + "\ndef made():\n    from .more import Loss\n\n    return Loss()\n\nmade(), Loss()\n",
        "models/more.py": "class Loss:\n    pass\n",
    },
    "a class of a package, which may be this one": {
        "models/__init__.py": "from .loss import *\nfrom .more import *\n",
        "models/more.py": "class Loss:\n    pass\n",
        "train.py": "from models import Loss\n\nif __name__ == '__main__':\n    Loss()\n",
    },
    "a plugin, which is imported by name": {
        "train.py": "from importlib import import_module\n\nmade = import_module('models.' + name)\n"
        "if __name__ == '__main__':\n    run(made)\n"
    },
    "a plugin, which a package finds by listing its files": {
        "models/__init__.py": "import glob\n__all__ = [one for one in glob.glob('*.py')]\n",
        "train.py": "from models import *\n\nif __name__ == '__main__':\n    run()\n",
    },
    "a plugin in one of several folders": {
        "train.py": "import importlib\n\nfor one in ['models', 'layers']:\n    importlib.import_module(one + name)\n"
        "if __name__ == '__main__':\n    run()\n"
    },
    "a class that replaces another one of that name": {
        "train.py": "import engine\nfrom models.loss import Loss\n\nengine.loss.Loss = Loss\n"
        "if __name__ == '__main__':\n    run()\n"
    },
    "an entry of a configuration with its name": {
        "train.py": "from models.loss import Loss\n\ncfg.Loss = Node()\nif __name__ == '__main__':\n    Loss()\n"
    },
    "a call in a script": {"train.py": "from models.loss import Loss\n\nif __name__ == '__main__':\n    Loss()\n"},
    "another name for it": {
        "train.py": "from models.loss import Loss as Criterion\n\nif __name__ == '__main__':\n    Criterion()\n"
    },
    "code that is named": {
        "models/more.py": "from .loss import Loss\ndef made():\n    return Loss()\n",
        "train.py": "from models.more import made\n\nif __name__ == '__main__':\n    made()\n",
    },
    "an export": {"models/__init__.py": "from .loss import Loss\n"},
    "a list of exports": {"models/loss.py": LOSS + "\n__all__ = ['Loss']\n"},
    "a table": {"models/loss.py": LOSS + "\nLOSSES = {'hard': Loss}\n"},
    "a configuration": {"configs/base.yaml": "loss:\n  _target_: models.loss.Loss\n"},
    "a script of the shell": {"run.sh": "python train.py --loss Loss\n"},
    "a document": {"README.md": "Use `Loss` for hard examples.\n"},
    "a document that names the file of one of two classes": {
        "models/more.py": "class Loss:\n    pass\n",
        "train.py": "from models.more import Loss\n\nif __name__ == '__main__':\n    Loss()\n",
        "configs/base.yaml": "loss:\n  _target_: models.loss.Loss\n",
    },
    "the name in a registry": {
        "models/loss.py": LOSS.replace("class Loss", "@LOSSES.register('hard-loss')\nclass Loss"),
        "configs/base.json": '{"loss": "hard-loss"}\n',
    },
    "a document that is too large to be searched": {"README.md": README * 100_000},
    "a project without scripts": {"train.py": "print('trains')\n"},
}


@pytest.mark.parametrize("case", NOTHING)
def test_code_that_nothing_names_has_only_possible_findings(tmp_path: Path, case: str) -> None:
    found = confidences(tmp_path, NOTHING[case])
    assert found["Loss.forward"] == "possible"


EXPORTED = {
    "models/parts/kinds/loss.py": LOSS,
    "models/parts/kinds/__init__.py": "from .loss import Loss\n",
    "models/loss.py": "",
}


@pytest.mark.parametrize(
    ("importing", "confidence"),
    [
        ("", "possible"),
        ("from models.parts.kinds import Other", "possible"),
        ("from models.parts.kinds import *", "likely"),
        ("from models.parts import kinds", "likely"),
        ("import models.parts.kinds as losses", "likely"),
    ],
)
def test_an_export_deep_in_a_project_counts_if_code_imports_the_package_as_a_whole(
    tmp_path: Path, importing: str, confidence: str
) -> None:
    found = confidences(tmp_path, {**EXPORTED, "train.py": f"{importing}\n{TRAIN}"})
    assert found["Loss.forward"] == confidence


def test_the_reason_is_said(tmp_path: Path) -> None:
    confidences(tmp_path, {})
    findings = scan_paths([tmp_path], Config(root=tmp_path), confidence="possible").findings
    assert {one.data["root"] for one in findings} == {"forward of a torch module, which nothing in the project names"}


@pytest.mark.parametrize("case", NAMED)
def test_named_code_keeps_its_findings(tmp_path: Path, case: str) -> None:
    assert confidences(tmp_path, NAMED[case])["Loss.forward"] == "likely"


def test_a_base_is_used_through_its_subclasses(tmp_path: Path) -> None:
    files = {
        "models/more.py": "from .loss import Loss\nclass Hard(Loss):\n    pass\n",
        "train.py": "from models.more import Hard\n\nif __name__ == '__main__':\n    Hard()\n",
    }
    assert confidences(tmp_path, files)["Loss.forward"] == "likely"


def test_a_mark_names_code(tmp_path: Path) -> None:
    files = {"models/loss.py": LOSS.replace("forward(self, x):", "forward(self, x):  # graphsafe: hot")}
    assert confidences(tmp_path, files)["Loss.forward"] == "likely"


def test_a_changed_document_is_noticed_by_the_cache(tmp_path: Path) -> None:
    project = tmp_path / "project"
    confidences(project, {})
    readme = project / "README.md"

    def hidden() -> int:
        report = scan_paths([project], Config(root=project), cache=tmp_path / "cache")
        assert report.reach is not None
        return report.reach.hidden

    before = hidden()
    assert before and hidden() == before
    readme.write_text("Use `Loss`.\n", encoding="utf-8")
    assert hidden() < before


def test_many_names_on_one_line_end(tmp_path: Path) -> None:
    """Each search takes time that grows with the file, not with its square."""
    hostile = "from a import (\n" * 20_000 + "x = '" + "Loss " * 100_000 + "'\n"
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "more.py").write_text(f"def made():\n    {hostile}", encoding="utf-8")
    assert confidences(tmp_path, {"models/loss.py": LOSS + "\n@registry(" + "'x', " * 50_000 + ")\ndef f(): ...\n"})


TABLES = """
import torch

def kept_entries(table: torch.Tensor):
    return table[table != 0].sum()

def _made(table: torch.Tensor):
    return kept_entries(table)

class Coupling(torch.nn.Module):
    def __init__(self, table: torch.Tensor):
        super().__init__()
        self.kept = _made(table)

    def load(self, table: torch.Tensor):
        self.kept = kept_entries(table)

    def forward(self, x):
        return x * self.kept
"""


@pytest.mark.parametrize(
    ("more", "confidence"),
    [
        ("", "possible"),
        ("from lib.loss import kept_entries\n\n# kept_entries(table) is slow\n", "possible"),
        ("from lib.loss import kept_entries\n\ndef evaluate_tables(x):\n    return kept_entries(x)\n", "possible"),
        ("from lib.loss import kept_entries\n\ndef score(x):\n    return kept_entries(x)\n", "likely"),
        ("from lib.loss import kept_entries\n\ndef crop(epoch):\n    return kept_entries(made(epoch))\n", "possible"),
        ("from lib.loss import kept_entries\n\ndef crop(x, epoch):\n    return kept_entries(x)\n", "likely"),
        ("from lib.loss import kept_entries\n\ndef train_it(epoch):\n    return kept_entries(made(epoch))\n", "likely"),
        (
            "import torch\nfrom lib.loss import kept_entries\n\nclass Net(torch.nn.Module):\n"
            "    def forward(self, x):\n        return kept_entries(x)\n\n"
            "def evaluate(net, x):\n    return net.forward(x)\n",
            "likely",
        ),
        ("from lib.loss import kept_entries\n\nTABLE = {'kept': kept_entries}\n", "likely"),
        (
            "from lib.loss import kept_entries\n\nclass Filter:\n"
            "    def __init__(self):\n        self.process = kept_entries\n",
            "likely",
        ),
    ],
)
def test_a_function_that_is_called_only_outside_steps_has_only_possible_findings(
    tmp_path: Path, more: str, confidence: str
) -> None:
    files = {"lib/__init__.py": "", "lib/loss.py": TABLES, "lib/more.py": more, "train.py": "", "models/loss.py": ""}
    assert confidences(tmp_path, files)["kept_entries"] == confidence


METRIC = """
import torch

class Kept:
    def update(self, scores: torch.Tensor):
        self.kept = scores[scores > 0]

    def compute(self):
        return self.kept.sum()

def made():
    return Kept()
"""


@pytest.mark.parametrize(("user", "confidence"), [("evaluate", "possible"), ("fit", "likely")])
def test_a_metric_that_only_evaluations_make_has_only_possible_findings(
    tmp_path: Path, user: str, confidence: str
) -> None:
    more = f"from lib.loss import made\n\ndef {user}(batches):\n    kept = made()\n"
    files = {"lib/__init__.py": "", "lib/loss.py": METRIC, "lib/more.py": more, "train.py": "", "models/loss.py": ""}
    assert confidences(tmp_path, files)["Kept.update"] == confidence


def test_a_library_names_its_code_for_its_users(tmp_path: Path) -> None:
    unused = TABLES.replace("kept_entries(table)\n", "table\n")
    files = {"lib/__init__.py": "", "lib/loss.py": unused, "train.py": "", "models/loss.py": ""}
    assert confidences(tmp_path, files)["kept_entries"] == "likely"
