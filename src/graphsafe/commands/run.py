"""`graphsafe run` on the command line."""

from __future__ import annotations

from pathlib import Path

import click

from graphsafe.commands.options import (
    FINDINGS,
    Output,
    check_outputs,
    config_here,
    form_option,
    outputs_option,
    own_output,
    put_outputs,
    refuse_trace,
)
from graphsafe.errors import RequestError

LEDGER_FILE = "graphsafe-ledger.json"


@click.command(
    short_help="Run a program and watch its CUDA graphs.", context_settings={"allow_interspersed_args": False}
)
@click.argument("program", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--device",
    "devices",
    multiple=True,
    metavar="DEVICE",
    help="cuda, cuda:N, all, or without a GPU sim or sim:N. cuda:N shows only this GPU. Default: all GPUs. Repeatable.",
)
@click.option(
    "--waits", is_flag=True, help="Also report lines that wait for the device between replays, and how long they wait."
)
@click.option(
    "--stacks",
    is_flag=True,
    help="Also record the lines that allocate on a GPU. An eager step then takes a fifth longer.",
)
@click.option("--fail", is_flag=True, help="Exit with 1 if an error was found.")
@form_option(
    has_timeline=False, help="The format on stdout, and of -o FILE. Without it, the ledger is shown on stderr."
)
@outputs_option(instead_of=LEDGER_FILE)
def run(
    program: tuple[str, ...],
    devices: tuple[str, ...],
    waits: bool,
    stacks: bool,
    fail: bool,
    form: str | None,
    outputs: tuple[Output, ...],
) -> int:
    """Run PROGRAM unchanged, watch every CUDA graph that its Python processes capture, and write the ledger.

    The ledger says which line captured each graph, how often the graph was replayed, and whether the memory that it
    uses still exists. It also lists captures that failed and steps that ran without a graph. It is shown on stderr and
    written into graphsafe-ledger.json, or into the files of -o. The exit code is the program's.

    \b
    graphsafe run -- python serve.py --port 8000
    graphsafe run -o ledger.html -- torchrun --nproc-per-node 2 train.py
    graphsafe run --device sim --fail -- python serve.py
    """
    if not program:
        raise RequestError("run: no program; write it after `--`: graphsafe run -- python serve.py")
    from graphsafe.run.parent.launch import parsed_devices

    watched = parsed_devices(devices)
    refuse_trace(outputs or [Output(None, None)], form)
    shown = [output for output in outputs if output.file is None] or ([Output(None, form)] if form else [])
    files = [Output(Path.cwd() / output.file, output.form) for output in outputs if output.file is not None]
    files = files or [own_output(Path.cwd() / LEDGER_FILE)]
    check_outputs(files)

    from graphsafe.console import put_ledger_on_stderr
    from graphsafe.rulebook.book import rulebook_of
    from graphsafe.run.parent.launch import check_present, run_program
    from graphsafe.run.parent.merge import ledger_of
    from graphsafe.run.part import Options

    check_present(devices)
    config = config_here()
    book = rulebook_of(config)  # read the rules first, because the program may run for hours
    ran = run_program(program, Options(watched, waits, stacks))
    ledger = ledger_of(ran.parts, program, ran.exit_code, book, ran.readings)
    put_outputs(ledger, form, files, "json", config)
    if shown:
        put_outputs(ledger, None, shown, "terminal", config)
    else:
        put_ledger_on_stderr(ledger)
    if fail:
        from graphsafe.report.no_line import unplaced

        errors = [one for one in ledger.findings if one.level == "error" and one.suppressed is None]
        if errors or any(one.level == "error" for one in unplaced(ledger.limits)):
            return FINDINGS
    return ran.exit_code
