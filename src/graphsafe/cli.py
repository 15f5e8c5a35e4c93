"""The command line: parses, calls and prints. Each command imports the heavy modules that it needs."""

from __future__ import annotations

import contextlib
import errno
import gc
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from graphsafe.commands.capture import capture
from graphsafe.commands.diff import diff
from graphsafe.commands.options import (
    BAD_REQUEST,
    CLOSED_PIPE,
    FINDINGS,
    INTERNAL_ERROR,
    INTERRUPTED,
    OK,
    PATH,
    Output,
    check_outputs,
    config_here,
    form_option,
    outputs_option,
    put_outputs,
)
from graphsafe.commands.run import run as run_command
from graphsafe.commands.scan import scan
from graphsafe.console import complain, put_page, put_settings, say
from graphsafe.errors import RequestError
from graphsafe.version import __version__

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"Error numbers of writes to a disk that is full or fails."

_NO_WAY = (errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.ELOOP)
"Error numbers of a path that this user cannot access, or that cannot exist."


def run() -> int:
    """Run `main` and return its exit code. Call it only in a process that does nothing else.

    Garbage collection is disabled: a large scan leaves reference cycles, and collecting them would take 3 % of its
    time.
    """
    gc.disable()
    code = main()
    # Python's last collection at exit skips frozen objects.
    gc.freeze()
    return code


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    0: nothing prevents a graph. 1: something does. 2: the request is wrong. 3: graphsafe itself failed.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # the stream is None if the parent process closed it
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        elif hasattr(getattr(sys, name), "reconfigure"):
            getattr(sys, name).reconfigure(errors="backslashreplace")
    try:
        words = list(sys.argv[1:] if argv is None else argv)
        code = commands.main(args=words, prog_name="graphsafe", standalone_mode=False, obj=words)
        sys.stdout.flush()
        return int(code or OK)
    except click.ClickException as error:
        if isinstance(error, click.UsageError) and not isinstance(error, _WITHOUT_ARGUMENTS):
            complain(_usage_error(error))
            return BAD_REQUEST
        shown = io.StringIO()
        error.show(shown)
        with contextlib.suppress(OSError):
            say(shown.getvalue().removesuffix("\n"), err=True)
        return BAD_REQUEST
    except RequestError as error:
        complain(str(error))
        return BAD_REQUEST
    except (KeyboardInterrupt, click.Abort):
        complain("interrupted")
        return INTERRUPTED
    except (BrokenPipeError, SystemExit) as error:  # the reader of the pipe (`| head`) has ended
        if isinstance(error, SystemExit) and error.code != FINDINGS:
            raise  # click exits with 1 for a closed pipe, and with 0 after it has completed words for a shell
        _discard_output()
        return CLOSED_PIPE
    except Exception as error:
        if isinstance(error, OSError) and error.filename is None and error.errno in _NO_ROOM:
            _discard_output()
            complain(f"the output cannot be written: {error.strerror}")
            return BAD_REQUEST
        if isinstance(error, OSError) and error.filename is not None and error.errno in _NO_WAY:
            complain(f"{os.fsdecode(error.filename)}: {error.strerror}")
            return BAD_REQUEST
        if isinstance(error, FileNotFoundError) and not _has_working_directory():
            complain("the working directory has been removed")
            return BAD_REQUEST
        from graphsafe.failure import what_to_report

        with contextlib.suppress(OSError):
            say(what_to_report(error, list(sys.argv[1:] if argv is None else argv)), err=True)
        return INTERNAL_ERROR


_WITHOUT_ARGUMENTS: Any = getattr(click.exceptions, "NoArgsIsHelpError", ())
"The exception that newer versions of click raise to show the help."


def _usage_error(error: click.UsageError) -> str:
    """Return one line that describes the mistake on the command line and names the help to read."""
    path = error.ctx.command_path if error.ctx is not None else "graphsafe"
    text = error.format_message().rstrip(".")
    command = path.partition(" ")[2]
    shown = f"{command}: " * bool(command) + text[:1].lower() + text[1:]
    return f"{' '.join(shown.split())}; see {path} --help"


def _has_working_directory() -> bool:
    try:
        os.getcwd()
    except OSError:
        return False
    return True


def _discard_output() -> None:
    """Drop the output that stdout still buffers. Otherwise, Python would try to write this output again at exit, and
    print an error."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, "-V", "--version", message="graphsafe %(version)s")
def commands() -> None:
    """Can one step of your PyTorch code be captured and replayed as a CUDA graph?

    \b
    graphsafe scan src/               find the lines that prevent a CUDA graph
    graphsafe capture model.py:build  prove whether a graph can replay a step
    graphsafe run -- python serve.py  watch the graphs of a running program
    graphsafe explain GS101           read a rule: meaning, cause and repair

    scan needs neither torch nor a GPU. Without a GPU, capture runs on a simulated device.

    \b
    Exit codes: 0 nothing prevents a graph, 1 something does,
    2 the request is wrong, 3 graphsafe itself failed.
    """


for command in (scan, capture, run_command, diff):
    commands.add_command(command)


@commands.command(short_help="Explain rules, CUDA error codes and error messages.")
@click.argument("words", metavar="CODE|ERROR", nargs=-1, required=True)
def explain(words: tuple[str, ...]) -> None:
    """Explain a rule, a family of rules, a CUDA error code, or an error message.

    \b
    graphsafe explain GS101
    graphsafe explain 101
    graphsafe explain GS2
    graphsafe explain E906
    graphsafe explain 'Offset increment outside graph capture'
    """
    from graphsafe.rulebook.book import rulebook_of
    from graphsafe.rulebook.explain import page_for

    put_page(page_for(" ".join(words), rulebook_of(config_here())))


@commands.group(invoke_without_command=True)
@click.pass_context
def rules(context: click.Context) -> None:
    """List the rules. `rules test` runs the cases in rule files."""
    if context.invoked_subcommand is None:
        from graphsafe.rulebook.book import rulebook_of

        listed = rulebook_of(config_here()).rules.values()
        code, name = (max(map(len, texts)) for texts in zip(*((one.code, one.name) for one in listed), strict=True))
        for rule in listed:
            say(f"{rule.code:<{code}}  {rule.level_of():<7}  {rule.name:<{name}}  {rule.summary}")


@rules.command("test")
@click.argument("packs", metavar="[PACK]...", nargs=-1, type=PATH)
def rules_test(packs: tuple[Path, ...]) -> int:
    """Run the cases in rule files.

    PACK is a file or a folder. Without PACK, the cases of graphsafe's own rules are run.
    """
    from graphsafe.rule_cases import rule_faults, run_cases

    faults = list(rule_faults(packs))
    for fault in faults:
        say(fault)
    ran = failed = 0
    for problem in run_cases(packs):
        ran += 1
        if problem is not None:
            failed += 1
            say(problem)
    say(f"{ran - failed} of {ran} cases passed")
    return FINDINGS if failed or faults else OK


@commands.command(short_help="Convert saved reports to another format, or join them.")
@click.argument("files", metavar="[merge] FILE...", nargs=-1, required=True, type=PATH)
@form_option(has_timeline=True)
@outputs_option()
def report(files: tuple[Path, ...], form: str | None, outputs: tuple[Output, ...]) -> None:
    """Convert a saved JSON report or ledger to another format.

    `report merge` joins several reports, such as those of `capture --shard`. If a shard is missing, the others are
    joined, and the exit code is 2.

    \b
    graphsafe report graphsafe-report.json
    graphsafe report graphsafe-report.json --format html -o report.html
    graphsafe report merge shard-*.json -o graphsafe-report.json
    """
    from graphsafe.report.json_form import read_reports, read_saved
    from graphsafe.report.saved_lines import changed_files
    from graphsafe.report.shards import in_order_of_targets, missing_shards
    from graphsafe.report.source import lines_inside

    is_merge = str(files[0]) == "merge" and (len(files) > 1 or not files[0].exists())
    if is_merge and len(files) == 1:
        raise RequestError("report merge: name the reports to join")
    if not is_merge and len(files) > 1:
        raise RequestError("report: give one FILE, or `merge` before several")
    parts = [(str(file), read_reports(file)) for file in files[1:]] if is_merge else []
    missing = missing_shards(parts)
    saved = in_order_of_targets([reports for _, reports in parts]) if is_merge else read_saved(files[0])
    check_outputs(outputs)
    findings = [finding for each in (saved if isinstance(saved, Sequence) else (saved,)) for finding in each.findings]
    lines = lines_inside(Path.cwd())
    changed = changed_files(findings, lines)
    if changed:
        complain(f"changed since the report was written, so their code is not shown: {', '.join(sorted(changed))}")
    config = config_here()
    put_outputs(saved, form, outputs, "terminal", config, lambda path: None if path in changed else lines(path))
    if missing:  # the report of the other shards is still useful
        raise RequestError(f"report merge: some shards are {missing}")


@commands.command()
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=PATH)
def config(paths: tuple[Path, ...]) -> None:
    """Show the settings for PATH, and where each value comes from.

    Without PATH, show those for the working directory. `graphsafe scan --show-settings` also shows the effect of a
    scan's options.
    """
    from graphsafe.scan_request.request import ScanRequest, parts_of
    from graphsafe.scan_request.settings import settings

    for path in paths:
        if not path.exists():
            raise RequestError(f"{path}: no such file or folder")
    request = ScanRequest(paths=paths or (Path(),))
    put_settings([settings(part, request) for part in parts_of(request)])


@commands.command()
def schema() -> None:
    """Print the JSON Schema of reports and ledgers."""
    from graphsafe.report.schema import schema_text

    click.echo(schema_text(), nl=False)


@commands.command()
def lsp() -> None:
    """Serve an editor (language server protocol).

    The editor shows findings while you type, the page of a rule on hover, and fixes as code actions. Needs
    `graphsafe[lsp]`.
    """
    import importlib.util

    if importlib.util.find_spec("pygls") is None:
        raise RequestError('lsp needs pygls: pip install "graphsafe[lsp]"')
    from graphsafe.lsp.server import serve

    serve()
