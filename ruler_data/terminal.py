"""Printing, errors, signals and exit codes of all commands."""

import errno
import inspect
import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from difflib import get_close_matches
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from threading import Condition, Event, Thread
from types import FrameType, NoneType, UnionType
from typing import (
    Annotated,
    Any,
    NoReturn,
    Union,
    cast,
    get_args,
    get_origin,
)

from rich.console import Console, ConsoleDimensions, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table

from ruler_data import memory
from ruler_data.errors import RulerError, Stopped, UsageError
from ruler_data.names import quote
from ruler_data.signatures import declared, options_of
from ruler_data.version import DATA_VERSION, __version__


class SafeConsole(Console):
    """A console that prints control characters of texts as pictures; styles are its own.

    Texts come from manifests, models and servers of strangers, and a terminal acts on escapes.
    """

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(
            stderr=stderr, highlight=False, emoji=False, markup=False, soft_wrap=stderr
        )

    @property  # type: ignore[misc]
    def size(self) -> ConsoleDimensions:
        """Columns and lines; a pipe is so wide that no table cuts a hash, unless COLUMNS is set."""
        size = super().size
        width = os.environ.get("COLUMNS", "")
        columns = int(width) if width.isdecimal() and int(width) else 200
        return size if self.is_terminal else ConsoleDimensions(columns, size.height)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        """Render with every control character of a text made visible, and no number or hash cut."""
        if isinstance(renderable, Table):
            for column in renderable.columns:
                column.overflow = "fold"
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)


def visible(text: str) -> str:
    """Return text with each control character replaced by its Unicode picture; line feeds stay."""
    return text.translate(_PICTURES)


#: Also the characters that reorder text; those without a picture get the replacement character.
_PICTURES = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n"} | {
    127: 0x2421,
    **dict.fromkeys([*range(128, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A)], 0xFFFD),
}

out, err = SafeConsole(), SafeConsole(stderr=True)


#: The signal that arrived, if any.
_signals: list[int] = []
#: Set once a signal is handled; and the seconds that this may take.
_heard = Event()
UNHEARD = 2.0
#: What a signal does first, e.g. end connections whose bytes a thread waits for.
at_stop: list[Callable[[], None]] = []
#: Seconds after a signal in which another is the same one: a terminal and a wrapper both send it.
SAME_SIGNAL = 1.0


def is_terminal() -> bool:
    """Whether standard error is a terminal; it may be closed, or None."""
    return sys.stderr is not None and not sys.stderr.closed and sys.stderr.isatty()


def run(program: str, command: Callable[[], object]) -> NoReturn:
    """Run a program's command; an error that the user can fix is one line on standard error."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # workers share the cores
    if sys.stdout is None or sys.stderr is None:  # its file is closed, e.g. by `>&-`
        nothing = Path(os.devnull).open("w")  # noqa: SIM115 - until the process ends
        sys.stdout, sys.stderr = sys.stdout or nothing, sys.stderr or nothing
    if not is_terminal():
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a character that the terminal lacks is no error
            stream.reconfigure(errors="backslashreplace")
    if sys.platform == "win32":
        sys.exit(_fail(program, "Windows is not supported; use Linux, macOS, or WSL on Windows", 2))
    _signals.clear()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    code = 0
    try:
        with _watched_signals():
            command()
    except SystemExit as end:  # raised by typer at the end
        code = end.code if isinstance(end.code, int) else 1
    except RulerError as error:
        code = _fail(program, str(error), error.exit_code)
    except Stopped as stop:
        code = _fail(program, "stopped; run the same command again to resume", 128 + stop.args[0])
    except BrokenPipeError:  # the program that reads the output has ended
        code = 1
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        remedy = "; free space, and run the same command again" if full else ""
        where = error.filename or ("a file cannot be written" if full else "system")
        code = _fail(program, f"{where}: {error.strerror or error}{remedy}", 1)
    except BaseException as error:
        reason = memory.failure(error)
        if not reason:
            raise
        code = _fail(program, reason, 1)
    try:
        sys.stdout.flush()
    except OSError as error:
        code = code or _fail(program, f"standard output: {error.strerror}", 1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def run_program(
    program: str, about: str, load_commands: Callable[[], Mapping[str, Callable[..., Any]]]
) -> NoReturn:
    """Run the command that the user names, in a process whose memory is limited.

    Args:
        program: name of the program.
        about: what it is for, in one line.
        load_commands: returns by name the functions that the package exports.
    """
    try:
        memory.limit_process()
    except UsageError as error:
        sys.exit(_fail(program, str(error), error.exit_code))
    commands = load_commands()

    def print_version() -> None:
        out.print(f"{program} {__version__} (data {DATA_VERSION})")

    def load() -> None:
        import typer
        from typer.core import TyperCommand

        class Command(TyperCommand):
            def make_context(self, *args: Any, **more: Any) -> Any:  # noqa: ANN401 - typer's own
                words = [*args[1]]  # typer takes them off the list
                try:
                    return super().make_context(*args, **more)
                except _usage_error(typer.BadParameter) as error:
                    raise _in_one_line(error, self, words) from error

        def callback(
            version: Annotated[
                bool, typer.Option("--version", help="Print versions and exit.")
            ] = False,
        ) -> None:
            if version:
                print_version()
                raise typer.Exit

        app = typer.Typer(
            name=program,
            help=about,
            no_args_is_help=True,
            pretty_exceptions_enable=False,
            rich_markup_mode=None,
        )
        app.callback(invoke_without_command=True)(callback)
        # Typer reads each signature anew: of a command that is named, its own alone.
        named = {name: commands[name] for name in sys.argv[1:2] if name in commands}
        for name, function in (named or commands).items():
            text = _help(function)
            about_it = text.partition("\n\n")[0]  # else typer cuts it
            command = app.command(name, cls=Command, help=text, short_help=about_it)
            command(_as_command(program, function))
        app(prog_name=program)  # the usage line is the same however the program was started

    run(program, print_version if sys.argv[1:] == ["--version"] else load)


def _usage_error(kind: type[Exception]) -> type[Exception]:
    """Return the class of all errors of usage, of which typer exports only some."""
    return next(cls for cls in kind.__mro__ if cls.__name__ == "UsageError")


def _in_one_line(error: Any, command: Any, words: Sequence[str]) -> Exception:  # noqa: ANN401
    """Return what is wrong with the words of a command line, in one line where that says more."""
    first = next(
        (parameter.opts[0] for parameter in command.params if parameter.opts[0].startswith("--")),
        "",
    )
    extra = re.search(r"unexpected extra argument.* \((.*)\)", error.message)
    param: Any = getattr(error, "param", None)
    takes_none = all(parameter.opts[0].startswith("-") for parameter in command.params)
    stray = takes_none and words[:1] and not words[0].startswith("-")
    if extra and first not in words:
        return UsageError(f"{command.name} {extra[1]}: did you mean {first} {extra[1]}?")
    if type(error).__name__ == "MissingParameter" and param.opts[0].startswith("--") and stray:
        option = param.opts[0]
        return UsageError(f"{option} is missing; did you mean {option} {words[0]}?")
    if type(error).__name__ != "BadParameter" or param is None:
        return cast("Exception", error)  # the usage helps
    faults: list[Any] = getattr(error.__cause__, "errors", list)()
    value = [quote(str(fault["input"])) for fault in faults[:1]]
    problem = error.message.removeprefix("Value error, ")
    names = re.findall(r"'([^']+)'", problem.partition(" is not one of ")[2])
    near = get_close_matches(str(faults[0]["input"]), names, 1) if faults else []
    hint = f"did you mean {near[0]}?" if near else problem
    return UsageError(" ".join([param.opts[0], *value]), hint)


def _as_command(program: str, function: Callable[..., Any]) -> Callable[..., None]:
    """Return a function as typer reads it; it prints the result and sets the exit status.

    A parameter is an option if its annotation has typer's metadata; all others are for Python
    alone. The command line passes the first type of a union. Every command takes `--json`.

    A result may have `notes`, printed as warnings; `to_record()`, for `--json`; `__rich__` or
    `__str__`, for people; `failure`, one line on standard error; `exit_status`, 0 by default.
    """
    import typer

    hints = options_of(function)
    options = {
        name: param.replace(kind=param.KEYWORD_ONLY, annotation=_first_type(name, hints[name]))
        for name, param in inspect.signature(declared(function)).parameters.items()
        if name in hints
    }
    as_json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]
    keyword = inspect.Parameter.KEYWORD_ONLY
    json_flag = inspect.Parameter("as_json", keyword, default=False, annotation=as_json)

    def call(*, as_json: bool, **values: Any) -> None:  # noqa: ANN401 - checked
        for name, value in values.items():
            is_path, default = Path in get_args(hints[name].__origin__), options[name].default
            if value == "" != default and (is_path or default is None):  # an unset variable
                flag = "--" + name.replace("_", "-")
                raise UsageError(flag, "is empty; give a value, or leave it out")
        # Standard output is for the JSON alone; a function of the user may print.
        with redirect_stdout(sys.stderr) if as_json else nullcontext():
            result = function(**values)
        raise typer.Exit(print_result(program, result, as_json=as_json))

    call.__annotations__ = {}  # typer would evaluate them
    parameters = sorted(
        [*options.values(), json_flag], key=lambda param: param.default is not param.empty
    )
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return call


def _first_type(name: str, hint: Any) -> Any:  # noqa: ANN401 - typing has no type of types
    """Return an annotation as typer reads it: one type, or None; a switch has no `--no-` twin.

    An option's path stays a text: typer would make the working directory of an empty one.
    """
    from typer.models import OptionInfo

    kinds = get_args(hint.__origin__)
    union = isinstance(hint.__origin__, UnionType) or get_origin(hint.__origin__) is Union
    kind = kinds[0] if union else hint.__origin__
    (option,) = hint.__metadata__
    if kind is Path and isinstance(option, OptionInfo):
        kind, option.metavar = str, "<path>"
    if kind is bool and not getattr(option, "param_decls", None):
        option.param_decls = ("--" + name.replace("_", "-"),)
    return Annotated[kind | None if union and NoneType in kinds else kind, option]


def _help(function: Callable[..., Any]) -> str:
    """Return what a docstring says before its `Raises:`; indented lines stay as they are."""
    text = re.split(
        r"^(?:Args|Returns|Raises):\n", inspect.cleandoc(function.__doc__ or ""), flags=re.M
    )
    paragraphs = text[0].strip().split("\n\n")
    return "\n\n".join(
        "\b\n" * paragraph.startswith("    ") + paragraph for paragraph in paragraphs
    )


def print_result(program: str, result: Any, *, as_json: bool = False) -> int:  # noqa: ANN401
    """Print what a command returned, and return its exit status (`_as_command`)."""
    for note in getattr(result, "notes", ()):
        warn(note)
    if as_json:
        record = result.to_record() if hasattr(result, "to_record") else result
        # For a program, so without the colours that FORCE_COLOR asks for.
        out.file.write(json.dumps(record, default=str, indent=2) + "\n")
    elif hasattr(result, "__rich__") or hasattr(result, "__rich_console__"):
        out.print(result, crop=False)
    elif result is not None:
        out.print(str(result), soft_wrap=True)
    if failure := getattr(result, "failure", None):
        err.print(f"{program}: {visible_line(failure)}")
    return int(getattr(result, "exit_status", 0))


def out_path(text: str | Path) -> Path:
    """Return the path of `--out`; an empty one would silently be the working directory.

    Raises:
        UsageError: it is empty.
    """
    if text == "":
        msg = "--out '': is empty; name a folder ('.' is the working directory)"
        raise UsageError(msg)
    return Path(text)


def say(line: str) -> None:
    """Print one line without wrapping it."""
    out.print(visible_line(line), soft_wrap=True)


def tell(line: str) -> None:
    """Print a line about a step on standard error."""
    err.print(visible_line(line))


def warn(message: str) -> None:
    """Print a warning on standard error."""
    err.print(f"warning: {visible_line(message)}", style="yellow")


def raise_if_interrupted() -> None:
    """Stop if a signal has arrived, because the exception that it raised may have been lost.

    A callback of a C library, or a bare `except`, can swallow it. Long work calls this whenever it
    reports progress.

    Raises:
        Stopped: a signal has arrived.
    """
    if _signals:
        signal.setitimer(signal.ITIMER_REAL, 0)  # the orderly exit has begun
        raise Stopped(_signals[0])


def _fail(program: str, message: str, code: int) -> int:
    err.print(f"{program}: {visible_line(message)}")
    return code


@contextmanager
def _watched_signals() -> Iterator[None]:
    """End the process where Python does not handle a signal, as it is inside a library for long."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    _heard.clear()
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    Thread(target=_end_if_unheard, args=(reader,), daemon=True, name="signals").start()
    try:
        yield
    finally:
        _heard.set()
        signal.set_wakeup_fd(before)
        os.close(writer)


def _end_if_unheard(reader: int) -> None:
    """Read the numbers of signals; end the process if one is not handled in time."""
    while number := os.read(reader, 1):
        is_stop = number[0] in (signal.SIGINT, signal.SIGTERM)
        if is_stop and not _heard.wait(UNHEARD):
            _end_at_once(0, number[0], None)
    os.close(reader)


def _stop(number: int, frame: FrameType | None) -> None:
    _signals.append(number)
    _heard.set()
    for stop_signal in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop_signal, partial(_end_at_once, time.monotonic() + SAME_SIGNAL))
    for action in at_stop:
        action()
    # Libraries print an exception that a check of types in Rust cannot pass on, with its traceback.
    hook = sys.unraisablehook
    sys.unraisablehook = lambda lost: None if lost.exc_type is Stopped else hook(lost)
    # An exception inside `threading` may leave a lock held, for which threads then wait for ever.
    # Try again in 10 ms; code that is there a third time waits for a thread, and is interrupted.
    library = Condition.wait.__code__.co_filename
    if frame is None or frame.f_code.co_filename != library or len(_signals) > 2:
        raise Stopped(number)
    signal.signal(signal.SIGALRM, lambda _, later: _stop(number, later))
    signal.setitimer(signal.ITIMER_REAL, 0.01)


def _end_at_once(since: float, number: int, _: FrameType | None) -> None:
    """End at a second signal, without the orderly exit that the first began."""
    if time.monotonic() > since:
        os.write(2, b"stopped at once; run the same command again to resume\n")
        os._exit(128 + number)


def visible_line(text: str) -> str:
    """Return text with control and unprintable characters as escapes."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


@contextmanager
def block_sigint_in_children() -> Iterator[None]:
    """Block SIGINT in the processes started meanwhile; the parent shuts them down.

    A terminal sends Ctrl-C to all of them. A process inherits the signals that its starting thread
    blocks. While this thread blocks SIGINT, a second thread receives it, and Python handles it in
    this one once it runs Python code again; a blocking call is not interrupted.
    """
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # its start would unblock SIGINT in this thread
    over = Event()
    Thread(target=over.wait, daemon=True, name="sigint").start()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        over.set()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
