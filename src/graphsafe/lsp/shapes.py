"""Converts findings into objects of the language server protocol."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lsprotocol import types

from graphsafe.fixes.apply import apart
from graphsafe.fixes.proposals import SAFE
from graphsafe.report.model import Edit, Finding, Level, Location

FIX_ALL = "source.fixAll.graphsafe"
_SEVERITIES: Mapping[Level, Any] = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "note": types.DiagnosticSeverity.Information,
}
_LINE_END = re.compile(r"\r\n|\r|\n")
RangeOf = Callable[[Location | Edit], Any]
"A function that returns the range of a location or an edit in the editor's units for columns."


def lines_of(text: str) -> Sequence[str]:
    """Split text into lines in the same way as Python and the protocol. A form feed does not end a line."""
    return _LINE_END.split(text)


def in_code_points(at: Location | Edit) -> Any:
    """Return the range of a location in code points. The protocol counts from 0."""
    return types.Range(types.Position(at.line - 1, at.column - 1), types.Position(at.end_line - 1, at.end_column - 1))


def diagnostic(finding: Finding, range_of: RangeOf) -> Any:
    """Return the diagnostic that shows a finding, with its calls as related information."""
    related = [
        types.DiagnosticRelatedInformation(
            types.Location(
                Path(call.path).resolve().as_uri(),
                types.Range(types.Position(call.line - 1, 0), types.Position(call.line, 0)),
            ),
            f"{call.function or 'the module level'} leads to it",
        )
        for call in finding.call_chain
    ]
    return types.Diagnostic(
        range=range_of(finding.location),
        severity=_SEVERITIES[finding.level],
        code=finding.code,
        source="graphsafe",
        message=f"{finding.message}\n{finding.fix}" if finding.fix else finding.message,
        related_information=related or None,
    )


def quick_fix(finding: Finding, document: Any, range_of: RangeOf) -> Any:
    """Return the fix of a finding. The fix names the version of the document if the editor knows versions."""
    is_safe = finding.data.get("edits") == SAFE
    title = str(finding.data.get("edits_title", finding.fix))
    return types.CodeAction(
        title=f"{finding.code}: {title}" + ("" if is_safe else f" (unsafe: {finding.data.get('edits_risk', '')})"),
        kind=types.CodeActionKind.QuickFix,
        diagnostics=[diagnostic(finding, range_of)],
        is_preferred=is_safe,
        edit=_edit(finding.edits, document, range_of),
    )


def fix_all(findings: Iterable[Finding], document: Any, range_of: RangeOf) -> Any | None:
    """Return all safe fixes as one action, or None if there are none."""
    edits, _ = apart(one for one in findings if one.data.get("edits") == SAFE)
    if not edits:
        return None
    return types.CodeAction(title="graphsafe: make all safe fixes", kind=FIX_ALL, edit=_edit(edits, document, range_of))


def _edit(edits: Sequence[Edit], document: Any, range_of: RangeOf) -> Any:
    changes = [types.TextEdit(range_of(edit), edit.text) for edit in edits]
    if not isinstance(document, types.OptionalVersionedTextDocumentIdentifier):
        return types.WorkspaceEdit(changes={document.uri: changes})
    return types.WorkspaceEdit(document_changes=[types.TextDocumentEdit(document, changes)])
