"""The terminal: what all commands share of printing, progress, signals and exit codes.

Ctrl-C is for us alone: a terminal sends it to every process that we have begun, too.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from io import TextIOWrapper
from multiprocessing import resource_tracker
from pathlib import Path
from threading import Event, Thread
from types import FrameType
from typing import Annotated, NoReturn

from rich.console import Console

from ruler_data.errors import RulerError, UsageError
from ruler_data.names import parse_config
from ruler_data.version import DATA_VERSION, __version__

# Piped output is for programs and logs: wide enough that no table cuts a hash.
out = Console(highlight=False, emoji=False, width=None if sys.stdout.isatty() else 200)
err = Console(stderr=True, highlight=False, emoji=False, soft_wrap=True)


class Stopped(BaseException):
    """SIGINT or SIGTERM came; no Exception, so that nothing takes it for a fault of its own."""


#: The signal that came, if one did.
_came: list[int] = []


def run(program: str, command: Callable[[], object]) -> NoReturn:
    """Run a program's command; every error that a user can mend is one line on standard error."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # workers share the cores
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # what the terminal cannot show must not stop us
            stream.reconfigure(errors="backslashreplace")
    _came.clear()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    code = 0
    try:
        command()
    except SystemExit as end:  # typer's own way to end
        code = end.code if isinstance(end.code, int) else 1
    except RulerError as error:
        code = _fail(program, str(error), error.exit_code)
    except Stopped as stop:
        code = _fail(program, "stopped; run the same command again to go on", 128 + stop.args[0])
    except BrokenPipeError:  # the reader of our output went away
        code = 1
    except OSError as error:
        code = _fail(program, f"{error.filename or 'system'}: {error.strerror or error}", 1)
    try:
        sys.stdout.flush()
    except OSError as error:
        code = code or _fail(program, f"standard output: {error.strerror}", 1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def run_program(program: str, about: str, commands: Mapping[str, tuple[str, str]]) -> NoReturn:
    """Run the command that the user names; only its module is loaded, so that help is quick.

    Args:
        program: name of the program.
        about: what it is for, in a line.
        commands: where each command is (a module with a function of its name), and what
            `--help` says of it in a line.
    """
    import typer

    app = typer.Typer(
        name=program,
        help=about,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )

    @app.callback(invoke_without_command=True)
    def _version(
        version: Annotated[
            bool, typer.Option("--version", help="Print versions and exit.")
        ] = False,
    ) -> None:
        if version:
            out.print(f"{program} {__version__} (data {DATA_VERSION})")
            raise typer.Exit

    def load() -> None:
        named = next((word for word in sys.argv[1:] if not word.startswith("-")), None)
        for name, (module, line) in commands.items():
            if name == named:
                app.command(name)(getattr(import_module(module), name))
            else:
                app.command(name, help=line)(lambda: None)
        app()

    run(program, load)


def named_path(text: str | Path) -> Path:
    """Return a path that an option names; an empty one would silently be the working directory.

    Raises:
        UsageError: it is empty.
    """
    if text == "":
        msg = "--out '': is empty; name a folder ('.' is the working directory)"
        raise UsageError(msg)
    return Path(text)


def say(line: str) -> None:
    """Print one line, however long it is."""
    out.print(_printable(line), markup=False, soft_wrap=True)


def warn(message: str) -> None:
    """Print a warning on standard error."""
    err.print(f"warning: {message}", style="yellow", markup=False)


def raise_if_interrupted() -> None:
    """Stop if a signal came before: what it raised may have been swallowed.

    It is raised in whatever code runs just then, and the callbacks of libraries in C, or a bare
    `except`, have no place to pass it on. Work that goes on asks here when it tells how far it is.

    Raises:
        Stopped: one came.
    """
    if _came:
        raise Stopped(_came[0])


@contextmanager
def progress(tokens: int | None) -> Iterator[Callable[[str, int], None]]:
    """Yield what advances a progress bar by rows; silent when standard error is no terminal.

    Work is measured in tokens, since a row of 131,072 takes as long as thirty of 4,096; without
    a total the bar only shows that it goes on.
    """
    from rich.progress import (
        BarColumn,
        Progress,
        TaskID,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    bar = Progress(
        TextColumn("{task.description:<24}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[rows]} rows"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=err,
        disable=not sys.stderr.isatty(),
        transient=True,
    )
    done = 0
    with bar:
        whole: TaskID = bar.add_task("reading sources", total=tokens, rows=0)

        def advance(name: str, rows: int) -> None:
            nonlocal done
            raise_if_interrupted()
            done += rows
            bar.update(whole, advance=rows * parse_config(name)[1], description=name, rows=done)

        yield advance


def _fail(program: str, message: str, code: int) -> int:
    err.print(f"{program}: {_printable(message)}", markup=False)
    return code


def _stop(number: int, _frame: FrameType | None) -> NoReturn:
    _came.append(number)
    for other in (signal.SIGINT, signal.SIGTERM):
        signal.signal(other, signal.SIG_IGN)  # what ends in order is not to be torn down again
    raise Stopped(number)


def _printable(text: str) -> str:
    """Return text with what a terminal would obey or could not show written as escapes."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


@contextmanager
def block_sigint_in_children() -> Iterator[None]:
    """Keep Ctrl-C from the processes begun meanwhile; they end in order when their parent does.

    A process inherits which signals the thread that began it does not take. While this one takes
    none, another hears in its place, and this one obeys as soon as it is back in Python: a call
    that waits is not cut short.
    """
    resource_tracker.ensure_running()  # as it begins, it would have this thread take them again
    over = Event()
    Thread(target=over.wait, daemon=True, name="interrupts").start()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        over.set()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
