"""Changes one expression with libcst, which keeps the comments, line breaks and spaces inside it."""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

_EMPTY = cst.Module(body=[])


def call(text: str, change: Callable[[cst.Call], cst.BaseExpression]) -> str:
    """Return the source of a call after a change. Raises cst.ParserSyntaxError."""
    node = _expression(text)
    if not isinstance(node, cst.Call):
        raise ValueError(f"not a call: {text}")
    return _EMPTY.code_for_node(change(node))


def _expression(text: str) -> cst.BaseExpression:
    try:
        return cst.parse_expression(text)
    except cst.ParserSyntaxError:
        if "\n" not in text:
            raise
        # An expression over several lines can only be parsed in parentheses.
        inner = cst.parse_expression(f"({text})")
        return inner.with_changes(lpar=inner.lpar[1:], rpar=inner.rpar[:-1])


def named(node: cst.Call, name: str) -> cst.Call:
    """Replace the last part of the function's name."""
    if isinstance(node.func, cst.Attribute):
        return node.with_changes(func=node.func.with_changes(attr=cst.Name(name)))
    return node.with_changes(func=cst.Name(name))


def called(node: cst.Call, function: str) -> cst.Call:
    return node.with_changes(func=cst.parse_expression(function))


def with_first(node: cst.Call, *values: str) -> cst.Call:
    """Replace the first argument by other arguments."""
    first, *rest = node.args
    replaced = first.with_changes(keyword=None, equal=cst.MaybeSentinel.DEFAULT, value=_expression(values[-1]))
    before = [cst.Arg(_expression(value), comma=_comma()) for value in values[:-1]]
    return node.with_changes(args=[*before, replaced, *rest])


def with_keyword(node: cst.Call, name: str, value: str) -> cst.Call:
    """Set `name=value`: replace the old value, or add the argument after the other arguments."""
    new = cst.Arg(
        _expression(value),
        keyword=cst.Name(name),
        equal=cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace("")),
    )
    args = list(node.args)
    for at, old in enumerate(args):
        if old.keyword is not None and old.keyword.value == name:
            args[at] = old.with_changes(value=new.value)
            return node.with_changes(args=args)
    if args:
        last = args[-1]
        # The new argument gets the layout of the last one, because each argument may have its own line.
        if isinstance(last.comma, cst.Comma):
            comma = args[-2].comma if len(args) > 1 else None
            before = comma.whitespace_after if isinstance(comma, cst.Comma) else node.whitespace_before_args
            between, after = _parted(last.comma.whitespace_after, before)
            args[-1] = last.with_changes(comma=cst.Comma(whitespace_after=between))
            new = new.with_changes(comma=last.comma.with_changes(whitespace_after=after))
        else:
            new = new.with_changes(whitespace_after_arg=last.whitespace_after_arg)
            args[-1] = last.with_changes(comma=_comma(), whitespace_after_arg=cst.SimpleWhitespace(""))
    return node.with_changes(args=[*args, new])


def without_keywords(node: cst.Call, *names: str) -> cst.Call:
    kept = [arg for arg in node.args if arg.keyword is None or arg.keyword.value not in names]
    last = node.args[-1] if node.args else None
    if last is not None and kept and kept[-1] is not last:
        comma = last.comma
        if isinstance(comma, cst.Comma) and isinstance(kept[-1].comma, cst.Comma):
            comma = comma.with_changes(whitespace_after=_ended(kept[-1].comma.whitespace_after, comma.whitespace_after))
        kept[-1] = kept[-1].with_changes(comma=comma)
    return node.with_changes(args=kept)


def _ended(
    own: cst.BaseParenthesizableWhitespace, end: cst.BaseParenthesizableWhitespace
) -> cst.BaseParenthesizableWhitespace:
    """Return the space at the end of all arguments, with the comment of the argument before it."""
    if isinstance(own, cst.ParenthesizedWhitespace) and isinstance(end, cst.ParenthesizedWhitespace):
        return end.with_changes(first_line=own.first_line)
    return end


def _parted(
    end: cst.BaseParenthesizableWhitespace, before: cst.BaseParenthesizableWhitespace
) -> tuple[cst.BaseParenthesizableWhitespace, cst.BaseParenthesizableWhitespace]:
    """Return the space before and after the new last argument, so that a comment stays on its line."""
    if isinstance(end, cst.ParenthesizedWhitespace) and isinstance(before, cst.ParenthesizedWhitespace):
        plain = cst.TrailingWhitespace(newline=end.first_line.newline)
        return end.with_changes(indent=before.indent, last_line=before.last_line), end.with_changes(first_line=plain)
    return cst.SimpleWhitespace(" "), end


def _comma() -> cst.Comma:
    return cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
