"""docs/case-studies/: each reproduction has the verdict and finding of its row, and each repair is ready and right."""

from __future__ import annotations

import re
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("cloudpickle")

import torch

from graphsafe.cli import main

ROOT = Path(__file__).parents[1]
PAGES = [page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs" / "case-studies").glob("*.md"))]
STUDIES = ROOT / "examples" / "case_studies"
ROW = re.compile(r"^\| `(\w+)\.py:(\w+)` \| (GS\d+) at `([\w/.]+:\d+)` \| ([\w-]+) \| ([\w-]+) \|$", re.M)
ROWS = [row for page in PAGES for row in ROW.findall(page)]
VERSIONS = dict(one for page in PAGES for one in re.findall(r"^# (\w+) ([\d.]+)$", page, re.M))
DISTRIBUTIONS = {"whisper": "openai-whisper"}  # if its name differs from the module's
ALL = pytest.mark.parametrize(("file", "name", "code", "place", "before", "after"), ROWS, ids=[row[1] for row in ROWS])


def need(place: str) -> None:
    """Skip the test if the library of a place is not installed in the page's version, to which the line numbers
    belong."""
    library = place.split("/")[0]
    try:
        installed = version(DISTRIBUTIONS.get(library, library))
    except PackageNotFoundError:
        pytest.skip(f"needs {library}")
    if installed != VERSIONS[library]:
        pytest.skip(f"the page is about {library} {VERSIONS[library]}, and {installed} is installed")


@cache
def module(file: str) -> Any:
    spec = spec_from_file_location(f"case_studies_{file}", STUDIES / f"{file}.py")
    assert spec and spec.loader
    loaded = sys.modules[spec.name] = module_from_spec(spec)  # torch_geometric looks its classes' modules up there
    spec.loader.exec_module(loaded)
    return loaded


def first_step(file: str, name: str) -> Any:
    torch.manual_seed(0)
    target = getattr(module(file), name)(torch.device("cpu"))
    fn, args = target if isinstance(target, tuple) else (target.fn, target.args)
    torch.manual_seed(1)
    return fn(*args)


def test_every_reproduction_has_a_row_and_a_repair() -> None:
    names = {(p.stem, n) for p in STUDIES.glob("*.py") for n in re.findall(r"^def ([a-z]\w*)\(", p.read_text(), re.M)}
    rows = {(file, name) for file, name, *_ in ROWS}
    assert names == rows | {(file, f"{name}_repaired") for file, name in rows}


@pytest.mark.child
@ALL
def test_the_verdicts_of_a_row(
    file: str,
    name: str,
    code: str,
    place: str,
    before: str,
    after: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    need(place)
    target = f"{STUDIES / file}.py:{name}"
    rest = ["--device", "sim", "--format", "concise", "-o", str(tmp_path / "report.txt")]
    assert main(["capture", target, *rest]) == 1
    said = capsys.readouterr().out
    assert said.rstrip().endswith(f": {before}")
    assert re.search(rf"{re.escape(place)}:\d+: {code} `", said), said  # an error: a note has the word behind its code
    main(["capture", f"{target}_repaired", *rest])
    assert capsys.readouterr().out.rstrip().endswith(f": {after}")


@ALL
def test_a_repair_computes_the_same(file: str, name: str, code: str, place: str, before: str, after: str) -> None:
    need(place)
    torch.testing.assert_close(first_step(file, f"{name}_repaired"), first_step(file, name), rtol=1e-4, atol=1e-5)
