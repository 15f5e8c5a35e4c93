"""The language server: one hostile document or file is no reason to leave the others without an answer."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pygls")

from test_lsp import STEP, Client

pytestmark = [pytest.mark.child, pytest.mark.skipif(os.name == "nt", reason="needs a fifo and such names")]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """One server for all: each test leaves its document open."""
    folder = tmp_path_factory.mktemp("documents")
    (folder / "pyproject.toml").write_text("[tool.graphsafe]\n", encoding="utf-8")
    (folder / "step.py").write_text(STEP, encoding="utf-8")
    client = Client(folder, ["utf-16"])
    yield client
    client.process.kill()


def opened(client: Client, uri: str, text: str) -> None:
    item = {"uri": uri, "languageId": "python", "version": 1, "text": text}
    client.tell("textDocument/didOpen", {"textDocument": item})


VERSIONS = iter(range(2, 100))


def is_served(client: Client) -> bool:
    version = next(VERSIONS)
    if version == 2:
        client.open("step.py", STEP)
    return [one["code"] for one in client.type("step.py", version, f"{STEP}# {version}\n")] == ["GS301"]


@pytest.mark.parametrize(
    "name", ["a%00b.py", "a%ED%A0%80.py", "a" * 5000 + ".py", "step.py/x.py", "%FF.py", "x" * 300 + "/y.py"]
)
def test_a_name_that_no_file_has(client: Client, name: str) -> None:
    opened(client, f"{client.folder.as_uri()}/{name}", STEP)
    assert is_served(client)


def test_an_address_that_is_none(client: Client) -> None:
    for uri in ("file://[", "file:", "file://host/share/a.py", "untitled:one", "http://host/a.py"):
        opened(client, uri, STEP)
    assert is_served(client)


def test_a_lone_surrogate_in_a_text(client: Client) -> None:
    opened(client, client.uri("surrogate.py"), "import torch  # forward \ud800\n" + STEP)
    assert is_served(client)


def test_a_pipe(client: Client) -> None:
    os.mkfifo(client.folder / "pipe.py")
    opened(client, client.uri("pipe.py"), STEP)
    assert is_served(client)


def test_a_device(client: Client) -> None:
    (client.folder / "device.py").symlink_to("/dev/zero")
    opened(client, client.uri("device.py"), STEP)
    assert is_served(client)


def test_ranges_in_a_file_of_another_encoding(client: Client) -> None:
    text = "# coding: latin-1\n" + STEP.replace("return x + torch", 'return "äöü" and x + torch')
    path: Path = client.folder / "latin.py"
    path.write_bytes(text.encode("latin-1"))
    column = text.split("\n")[7].index("torch")
    for version, now in ((1, text), (2, text + "\n")):  # as it is saved, and as it is not
        found = client.open("latin.py", now) if version == 1 else client.type("latin.py", version, now)
        assert [one["range"]["start"] for one in found] == [{"line": 7, "character": column}]
