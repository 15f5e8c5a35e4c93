"""The language server, tested by a client that speaks the protocol on the server's stdin and stdout."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import graphsafe

pytestmark = pytest.mark.child

pytest.importorskip("pygls")

STEP = """\
import torch
from torch import nn


class Step(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.tensor(3.0, device=x.device)
"""


class Client:
    """An editor: opens files, types, and asks."""

    def __init__(self, folder: Path, encodings: list[str], takes_versions: bool = True) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "graphsafe", "lsp"],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.folder = folder
        self._number = 0
        self._came: queue.Queue[dict[str, Any]] = queue.Queue()
        self._kept: list[dict[str, Any]] = []
        threading.Thread(target=self._read, daemon=True).start()
        capabilities: dict[str, Any] = {"general": {"positionEncodings": encodings}}
        if takes_versions:
            capabilities["workspace"] = {"workspaceEdit": {"documentChanges": True}}
        self.answer = self.ask(
            "initialize", {"processId": None, "rootUri": folder.as_uri(), "capabilities": capabilities}
        )
        self.tell("initialized", {})

    def _read(self) -> None:
        out = self.process.stdout
        assert out is not None
        while header := out.readline():
            length = int(header.split(b":")[1])
            while out.readline().strip():
                pass
            self._came.put(json.loads(out.read(length)))

    def _send(self, message: dict[str, Any]) -> None:
        data = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(data), data))
        self.process.stdin.flush()

    def tell(self, method: str, params: Any) -> None:
        self._send({"method": method, "params": params})

    def ask(self, method: str, params: Any) -> Any:
        self._number += 1
        number = self._number
        self._send({"id": number, "method": method, "params": params})
        answer = self._wait(lambda message: message.get("id") == number and "method" not in message)
        assert "error" not in answer, answer
        return answer["result"]

    def _wait(self, wanted: Any) -> dict[str, Any]:
        for message in self._kept:
            if wanted(message):
                self._kept.remove(message)
                return message
        while True:
            message = self._came.get(timeout=90)
            if wanted(message):
                return message
            self._kept.append(message)

    def uri(self, name: str) -> str:
        return (self.folder / name).as_uri()

    def open(self, name: str, text: str) -> list[dict[str, Any]]:
        item = {"uri": self.uri(name), "languageId": "python", "version": 1, "text": text}
        self.tell("textDocument/didOpen", {"textDocument": item})
        return self.diagnostics(name, 1)

    def type(self, name: str, version: int, text: str) -> list[dict[str, Any]]:
        self.send_change(name, version, text)
        return self.diagnostics(name, version)

    def send_change(self, name: str, version: int, text: str) -> None:
        document = {"uri": self.uri(name), "version": version}
        self.tell("textDocument/didChange", {"textDocument": document, "contentChanges": [{"text": text}]})

    def diagnostics(self, name: str, version: int | None) -> list[dict[str, Any]]:
        def wanted(message: dict[str, Any]) -> bool:
            params = message.get("params")
            return (
                message.get("method") == "textDocument/publishDiagnostics"
                and params["uri"] == self.uri(name)
                and params.get("version") == version
            )

        found: list[dict[str, Any]] = self._wait(wanted)["params"]["diagnostics"]
        return found

    def message(self) -> str:
        text: str = self._wait(lambda message: message.get("method") == "window/showMessage")["params"]["message"]
        return text

    def hover(self, name: str, line: int, character: int) -> Any:
        place = {"line": line, "character": character}
        return self.ask("textDocument/hover", {"textDocument": {"uri": self.uri(name)}, "position": place})

    def actions(self, name: str, line: int, *only: str) -> list[dict[str, Any]]:
        place = {"line": line, "character": 0}
        context = {"diagnostics": [], **({"only": list(only)} if only else {})}
        document = {"uri": self.uri(name)}
        params = {"textDocument": document, "range": {"start": place, "end": place}, "context": context}
        found: list[dict[str, Any]] = self.ask("textDocument/codeAction", params)
        return found

    def end(self) -> int:
        self.ask("shutdown", None)
        self.tell("exit", None)
        return self.process.wait(timeout=30)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text("[tool.graphsafe]\n", encoding="utf-8")
    (tmp_path / "step.py").write_text(STEP, encoding="utf-8")
    return tmp_path


@pytest.fixture
def client(folder: Path) -> Iterator[Client]:
    client = Client(folder, ["utf-16"])
    yield client
    client.process.kill()


def changed(text: str, action: dict[str, Any]) -> str:
    """Return a text after an action, as an editor would change it. Columns count UTF-16 code units."""
    (change,) = action["edit"]["documentChanges"]
    lines = text.split("\n")
    for edit in sorted(change["edits"], key=lambda edit: -edit["range"]["start"]["character"]):
        start, end = edit["range"]["start"], edit["range"]["end"]
        assert start["line"] == end["line"]
        line = lines[start["line"]].encode("utf-16-le")
        after = line[: start["character"] * 2] + edit["newText"].encode("utf-16-le") + line[end["character"] * 2 :]
        lines[start["line"]] = after.decode("utf-16-le")
    return "\n".join(lines)


def test_code_in_a_hover_is_no_markdown(client: Client) -> None:
    """Otherwise, an image in a string of the scanned code would be loaded from a foreign server."""
    read = 'x["``` ![i](https://evil.example/i.png)"].item()'
    client.open("step.py", STEP.replace("torch.tensor(3.0, device=x.device)", read))
    page = client.hover("step.py", 6, 20)["contents"]["value"]
    fence = page.split("text\n")[0]
    assert set(fence) == {"`"} and page.index("evil.example") < page.index(f"\n{fence}\n")
    assert len(fence) > 3


def test_a_finding_from_opening_to_its_fix(client: Client) -> None:
    (found,) = client.open("step.py", STEP)
    assert (found["code"], found["source"], found["severity"]) == ("GS301", "graphsafe", 1)
    assert found["range"] == {"start": {"line": 6, "character": 19}, "end": {"line": 6, "character": 53}}

    page = client.hover("step.py", 6, 25)["contents"]
    assert page["kind"] == "markdown" and "GS301" in page["value"] and "pageable" in page["value"]
    assert client.hover("step.py", 5, 3) is None

    fix, every = client.actions("step.py", 6)
    assert fix["kind"] == "quickfix" and fix["isPreferred"] and fix["title"].startswith("GS301: ")
    assert every["kind"] == "source.fixAll.graphsafe"
    after = STEP.replace("torch.tensor(3.0", "torch.full((), 3.0")
    assert changed(STEP, fix) == changed(STEP, every) == after
    assert [one["kind"] for one in client.actions("step.py", 6, "source.fixAll")] == ["source.fixAll.graphsafe"]
    assert client.actions("step.py", 2, "quickfix") == []

    assert [one["severity"] for one in client.type("step.py", 2, after)] == [3]
    assert client.end() == 0


def test_an_editor_that_knows_no_versions_of_documents_gets_plain_changes(folder: Path) -> None:
    client = Client(folder, ["utf-16"], takes_versions=False)
    client.open("step.py", STEP)
    for action in client.actions("step.py", 6):
        ((uri, edits),) = action["edit"]["changes"].items()
        assert uri.endswith("/step.py") and len(edits) == 1 and "documentChanges" not in action["edit"]
    assert client.end() == 0


def test_what_is_not_saved_counts_in_other_files_too(client: Client, folder: Path) -> None:
    ops = "import torch\n\n\ndef scaled(x: torch.Tensor) -> torch.Tensor:\n    return x * x.sum()\n"
    (folder / "ops.py").write_text(ops, encoding="utf-8")
    (folder / "step.py").write_text(STEP.replace("x + torch.tensor(3.0, device=x.device)", "x"), encoding="utf-8")
    assert client.open("ops.py", ops) == []
    assert client.type("ops.py", 2, ops.replace("x.sum()", "x.sum().item()")) == []
    calls = STEP.replace("from torch import nn", "from torch import nn\n\nfrom ops import scaled").replace(
        "x + torch.tensor(3.0, device=x.device)", "scaled(x)"
    )
    assert client.open("step.py", calls) == []
    (found,) = client.type("ops.py", 3, ops.replace("x.sum()", "x.sum().item() "))
    assert found["code"] == "GS101"
    (related,) = found["relatedInformation"]
    assert related["location"]["uri"] == client.uri("step.py")


def test_names_that_a_uri_has_to_encode(client: Client, folder: Path) -> None:
    name = "été à deux.py"
    (folder / name).write_text(STEP, encoding="utf-8")
    assert [one["code"] for one in client.open(name, STEP)] == ["GS301"]
    client.tell("textDocument/didSave", {"textDocument": {"uri": client.uri(name)}})
    assert [one["code"] for one in client.diagnostics(name, 1)] == ["GS301"]
    assert client.hover(name, 6, 20) is not None


def test_typing_fast_gives_the_last_answer_only(client: Client) -> None:
    client.open("step.py", STEP)
    for version in range(2, 12):
        client.send_change("step.py", version, STEP + "#" * version)
    last = client.type("step.py", 12, STEP.replace("torch.tensor(3.0, device=x.device)", "1"))
    assert last == []


def test_columns_are_those_of_the_editor(folder: Path) -> None:
    text = STEP.replace("return x", 'return len("😀é") * x')
    place = text.split("\n")[6].index("torch.tensor")
    for encoding, expected in (("utf-16", place + 1), ("utf-32", place), ("utf-8", place + 4)):
        client = Client(folder, [encoding])
        assert client.answer["capabilities"]["positionEncoding"] == encoding
        (found,) = client.open("step.py", text)
        assert found["range"]["start"]["character"] == expected
        if encoding == "utf-16":
            assert changed(text, client.actions("step.py", 6)[0]) == text.replace("tensor(3.0", "full((), 3.0")
        assert client.end() == 0


def test_code_that_is_half_written(client: Client) -> None:
    (found,) = client.open("step.py", STEP + "def (\n")
    assert found["code"] == "GS900" and found["range"]["start"]["line"] == 7
    (found,) = client.type("step.py", 2, STEP)
    assert found["code"] == "GS301"


def test_a_bad_configuration_is_said_once(client: Client, folder: Path) -> None:
    (folder / "pyproject.toml").write_text("[tool.graphsafe]\nselekt = 1\n", encoding="utf-8")
    assert client.open("step.py", STEP) == []
    assert "selekt: unknown key" in client.message()
    assert client.type("step.py", 2, STEP + "\n") == []
    (folder / "pyproject.toml").write_text("[tool.graphsafe]\n", encoding="utf-8")
    assert len(client.type("step.py", 3, STEP)) == 1


def test_suppressed_findings_and_closed_files_say_nothing(client: Client) -> None:
    text = STEP.replace("x.device)", "x.device)  # graphsafe: ignore[GS301] once")
    assert client.open("step.py", text) == []
    assert len(client.type("step.py", 2, STEP)) == 1
    client.tell("textDocument/didClose", {"textDocument": {"uri": client.uri("step.py")}})
    assert client.diagnostics("step.py", None) == []


def test_without_pygls_it_says_what_to_install(folder: Path) -> None:
    script = (
        "import sys; from importlib.machinery import PathFinder\n"
        "class No:\n"
        "    @staticmethod\n"
        "    def find_spec(name, path=None, target=None):\n"
        "        if name == 'pygls': return None\n"
        "        return PathFinder.find_spec(name, path, target)\n"
        "sys.meta_path = [one for one in sys.meta_path if one is not PathFinder] + [No]\n"
        "from graphsafe.cli import main; sys.exit(main(['lsp']))"
    )
    source = str(Path(graphsafe.__file__).parents[1])
    ran = subprocess.run([sys.executable, "-c", script], env={"PYTHONPATH": source}, capture_output=True, text=True)
    assert ran.returncode == 2
    assert ran.stderr == 'graphsafe: lsp needs pygls: pip install "graphsafe[lsp]"\n'
