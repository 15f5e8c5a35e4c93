"""`graphsafe lsp`: diagnostics, explanations and fixes over the language server protocol, on stdin and stdout.

A scan may take seconds, so one worker thread does all scans. The worker scans the content in the editor, and drops the
findings if the document has changed meanwhile.
"""

from __future__ import annotations

import asyncio
import gc
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path

from graphsafe.api import scan
from graphsafe.config import config_over
from graphsafe.errors import RequestError
from graphsafe.files import saved
from graphsafe.lsp import shapes
from graphsafe.report.model import Finding, unsuppressed
from graphsafe.rulebook.book import rulebook_of
from graphsafe.rulebook.explain import page_for
from graphsafe.scan.sources.source import MAX_BYTES, encoded
from graphsafe.version import __version__

PATIENCE = 0.3
"The number of seconds without a key press after which a scan begins."


class Session:
    """The open documents, and the findings in them."""

    def __init__(self, server: LanguageServer) -> None:
        self._server = server
        self._worker = ThreadPoolExecutor(max_workers=1)
        self._waiting: dict[str, asyncio.TimerHandle] = {}
        self._answers: dict[str, tuple[int | None, Sequence[Finding]]] = {}
        "Document -> the version that was scanned, and the findings in it."
        self._said: set[str] = set()

    def changed(self, uri: str, patience: float = PATIENCE) -> None:
        """Scan a document when no key has been pressed for `patience` seconds."""
        loop = asyncio.get_running_loop()
        if uri in self._waiting:
            self._waiting.pop(uri).cancel()
        self._waiting[uri] = loop.call_later(patience, lambda: loop.create_task(self._scan(uri)))

    def saved(self) -> None:
        """Scan the open documents again, because a saved file may affect findings in other files."""
        for document in self._server.workspace.text_documents.values():
            self.changed(document.uri, patience=0)

    def closed(self, uri: str) -> None:
        if uri in self._waiting:
            self._waiting.pop(uri).cancel()
        self._answers.pop(uri, None)
        self._publish(uri, [], None)

    async def _scan(self, uri: str) -> None:
        self._waiting.pop(uri, None)
        path = _path_of(uri)
        document = self._document(uri)
        if path is None or document is None:
            return
        buffers = dict(self._unsaved())
        version = document.version
        findings: Sequence[Finding] = ()
        try:
            findings = await asyncio.get_running_loop().run_in_executor(self._worker, _findings, path, buffers)
        except RequestError as error:
            self._say(str(error))
        except Exception as error:  # an error in one document must not end the service for the others
            self._say(f"{path} cannot be scanned: {type(error).__name__}: {error}")
        now = self._document(uri)
        if now is None or now.version != version:
            return
        self._answers[uri] = (version, findings)
        range_of = self._ranges(now)
        self._publish(uri, [shapes.diagnostic(one, range_of) for one in findings], version)

    def _document(self, uri: str) -> Any | None:
        """Return an open document, or None. pygls 2.1 stores it under the URI without percent-encoding. Older versions
        store it under the URI that the editor sent.
        """
        documents = self._server.workspace.text_documents
        return documents.get(uri) or documents.get(unquote(uri))

    def _unsaved(self) -> Iterator[tuple[str, bytes]]:
        """Yield the contents in the editor that differ from the saved files.

        Saved files are left out, so that a scan of them uses the cache.
        """
        for document in self._server.workspace.text_documents.values():
            path = _path_of(document.uri)
            if path is None or not path.endswith(".py"):
                continue
            data = encoded(document.source)
            if data != saved(path, MAX_BYTES):
                yield path, data

    def _ranges(self, document: Any) -> shapes.RangeOf:
        lines, codec = shapes.lines_of(document.source), self._server.workspace.position_codec
        return lambda at: codec.range_to_client_units(lines, shapes.in_code_points(at))

    def _publish(self, uri: str, diagnostics: Sequence[Any], version: int | None) -> None:
        self._server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, diagnostics, version))

    def _say(self, text: str) -> None:
        """Show a message only once. Otherwise, an invalid configuration would be reported at every key stroke."""
        if text not in self._said:
            self._said.add(text)
            self._server.window_show_message(types.ShowMessageParams(types.MessageType.Warning, f"graphsafe: {text}"))

    def hover(self, uri: str, position: Any) -> Any | None:
        """Return the page of the rule whose finding is at a position, or None."""
        findings, range_of = self._found(uri)
        for finding in findings:
            span = range_of(finding.location)
            if _place(span.start) <= _place(position) <= _place(span.end):
                book = rulebook_of(config_over(Path(finding.location.path)))
                text = f"{_literal(finding.message)}\n\n---\n\n{page_for(finding.code, book)}"
                return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, text), span)
        return None

    def actions(self, uri: str, wanted: Any, only: Sequence[str] | None) -> list[Any]:
        """Return the fixes of the findings on the selected lines, and one action for all safe fixes."""
        findings, range_of = self._found(uri)
        if not findings:
            return []
        # An editor without support for document versions ignores edits that name a version.
        document: Any = types.TextDocumentIdentifier(uri)
        if self._takes_versions():
            document = types.OptionalVersionedTextDocumentIdentifier(uri, self._answers[uri][0])
        actions = [
            shapes.quick_fix(finding, document, range_of)
            for finding in findings
            if finding.edits and (span := range_of(finding.location)).start.line <= wanted.end.line
            if wanted.start.line <= span.end.line
        ]
        every = shapes.fix_all(findings, document, range_of)
        if every is not None:
            actions.append(every)
        return [one for one in actions if not only or any(one.kind.startswith(kind) for kind in only)]

    def _takes_versions(self) -> bool:
        workspace = self._server.client_capabilities.workspace
        edit = workspace.workspace_edit if workspace is not None else None
        return edit is not None and bool(edit.document_changes)

    def _found(self, uri: str) -> tuple[Sequence[Finding], shapes.RangeOf]:
        """Return the findings of a document, and a function that returns their ranges. If the document has changed
        since the scan, there are no findings."""
        version, findings = self._answers.get(uri, (None, ()))
        document = self._document(uri)
        if document is None or document.version != version:
            return (), shapes.in_code_points
        return findings, self._ranges(document)


def _findings(path: str, buffers: Mapping[str, bytes]) -> Sequence[Finding]:
    try:
        found, real = unsuppressed(scan(path, buffers=buffers)), os.path.realpath(path)
        return [finding for finding in found if os.path.realpath(finding.location.path) == real]
    finally:
        gc.collect()


def _path_of(uri: str) -> str | None:
    """Return the path of a document. Return None if it is not a file or if its name cannot be a file name."""
    try:
        path: str | None = to_fs_path(uri) if uri.startswith("file:") else None
        if path is not None:
            os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return path
    except (OSError, ValueError):
        return None
    return path


def _place(position: Any) -> tuple[int, int]:
    return position.line, position.character


def make_server() -> LanguageServer:
    """Return a language server whose handlers call one `Session`."""
    server = LanguageServer("graphsafe", __version__)
    session = Session(server)
    on = server.feature
    on(types.TEXT_DOCUMENT_DID_OPEN)(lambda params: session.changed(params.text_document.uri, patience=0))
    on(types.TEXT_DOCUMENT_DID_CHANGE)(lambda params: session.changed(params.text_document.uri))
    on(types.TEXT_DOCUMENT_DID_SAVE)(lambda params: session.saved())
    on(types.TEXT_DOCUMENT_DID_CLOSE)(lambda params: session.closed(params.text_document.uri))
    on(types.TEXT_DOCUMENT_HOVER)(lambda params: session.hover(params.text_document.uri, params.position))
    kinds = types.CodeActionOptions([types.CodeActionKind.QuickFix, shapes.FIX_ALL])
    on(types.TEXT_DOCUMENT_CODE_ACTION, kinds)(
        lambda params: session.actions(params.text_document.uri, params.range, params.context.only)
    )
    return server


def _literal(text: str) -> str:
    """Escape a string so that Markdown shows it unchanged. A message quotes the user's code, which may contain links
    and images."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}text\n{text}\n{fence}"


def serve() -> None:
    gc.enable()  # the command line disables garbage collection, because its processes are short
    answers = os.dup(1)
    os.dup2(2, 1)  # other output must not mix with the protocol; pygls also closes the streams that it gets
    make_server().start_io(os.fdopen(os.dup(0), "rb"), os.fdopen(answers, "wb"))
