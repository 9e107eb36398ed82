"""Printing, errors, signals and exit codes of all commands."""

import errno
import inspect
import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, redirect_stdout
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from threading import Condition, Event, Thread
from types import FrameType, NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    NoReturn,
    Union,
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

if TYPE_CHECKING:
    import typer
    from typer.exceptions import TyperException


#: Columns of a pipe, where no table may cut a hash.
PIPE_COLUMNS = 200


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
        """Columns and lines; of a pipe, as COLUMNS says, or `PIPE_COLUMNS`."""
        size = super().size
        if self.is_terminal:
            return size
        width = os.environ.get("COLUMNS", "")
        if width.isdecimal() and int(width) > 0:
            return ConsoleDimensions(int(width), size.height)
        return ConsoleDimensions(PIPE_COLUMNS, size.height)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        """Render with every control character of a text made visible, and no number or hash cut."""
        if isinstance(renderable, Table):
            for column in renderable.columns:
                column.overflow = "fold"
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(visible(segment.text), segment.style)


def visible(text: str) -> str:
    """Return text with each control character replaced by its Unicode picture; line feeds stay."""
    return text.translate(_PICTURES)


def _pictures() -> dict[int, int]:
    """Return the pictures of control characters, by code.

    Also of the characters that reorder text; those without a picture get the replacement character.
    """
    pictures = {code: 0x2400 + code for code in range(32)}
    del pictures[ord("\n")]
    pictures[127] = 0x2421
    for codes in (range(128, 160), range(0x202A, 0x202F), range(0x2066, 0x206A)):
        pictures.update(dict.fromkeys(codes, 0xFFFD))
    return pictures


_PICTURES = _pictures()

out = SafeConsole()
err = SafeConsole(stderr=True)

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
    _prepare_streams()
    if sys.platform == "win32":
        sys.exit(_fail(program, "Windows is not supported; use Linux, macOS, or WSL on Windows", 2))
    _signals.clear()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    code = _status_of(program, command)
    sys.exit(_flushed(program, code))


def _flushed(program: str, code: int) -> int:
    """Print what is left for standard output; return the exit status, 1 if it cannot be printed."""
    try:
        sys.stdout.flush()
    except OSError as error:
        if code == 0 and not isinstance(error, BrokenPipeError):  # its reader has ended
            _fail(program, f"standard output: {error.strerror}", 1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return code or 1
    return code


def _prepare_streams() -> None:
    """Let everything be printed, whatever standard output and standard error are."""
    # A stream is None if its file is closed, e.g. by `>&-`.
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 - until the process ends
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 - until the process ends
    if not is_terminal():
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a character that the terminal lacks is no error
            stream.reconfigure(errors="backslashreplace")


def _status_of(program: str, command: Callable[[], object]) -> int:
    """Run a command, and return its exit status."""
    try:
        with _watched_signals():
            command()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except RulerError as error:
        return _fail(program, str(error), error.exit_code)
    except Stopped as stop:
        return _fail(program, "stopped; run the same command again to resume", 128 + stop.args[0])
    except BrokenPipeError:  # the program that reads the output has ended
        return 1
    except OSError as error:
        return _fail(program, _system_failure(error), 1)
    except BaseException as error:
        reason = memory.failure(error)
        if not reason:
            raise
        return _fail(program, reason, 1)
    return 0


def _system_failure(error: OSError) -> str:
    """Return what the system refused, and for a full disk what to do."""
    problem = error.strerror or error
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        where = error.filename or "a file cannot be written"
        return f"{where}: {problem}; free space, and run the same command again"
    return f"{error.filename or 'system'}: {problem}"


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
        from typer.exceptions import TyperException

        # Typer reads each signature anew: of a command that is named, its own alone.
        names = [name for name in sys.argv[1:2] if name in commands]
        app = _application(program, about, names or [*commands], commands)
        app.callback(invoke_without_command=True)(_version_option(print_version))
        try:
            # The usage line is the same however the program was started.
            status = app(sys.argv[1:] or ["--help"], prog_name=program, standalone_mode=False)
        except TyperException as error:
            raise _usage_error(error, " ".join([program, *names])) from error
        sys.exit(status)

    run(program, print_version if sys.argv[1:] == ["--version"] else load)


def _version_option(print_version: Callable[[], None]) -> Callable[..., None]:
    """Return the callback of a program's options, which stand before the command."""
    import typer

    def options(
        version: Annotated[
            bool, typer.Option("--version", help="Print versions and exit.")
        ] = False,
    ) -> None:
        if version:
            print_version()
            raise typer.Exit

    return options


def _application(
    program: str,
    about: str,
    names: Iterable[str],
    commands: Mapping[str, Callable[..., Any]],
) -> "typer.Typer":
    """Return the program with its named commands."""
    import typer

    from ruler_data.help_page import HelpPage

    app = typer.Typer(
        name=program, help=about, pretty_exceptions_enable=False, rich_markup_mode=None
    )
    for name in names:
        text = _help(commands[name])
        summary = text.partition("\n\n")[0]  # else typer cuts it
        command = app.command(name, cls=HelpPage, help=text, short_help=summary)
        command(_as_command(program, commands[name]))
    return app


def _usage_error(error: "TyperException", command: str) -> UsageError:
    """Return what typer says of a command line; of a refused value, also the value."""
    import typer
    from pydantic import ValidationError

    cause = error.__cause__
    if isinstance(error, typer.BadParameter) and isinstance(cause, ValidationError):
        refusal = cause.errors()[0]
        option: Any = error.param
        problem = refusal["msg"].removeprefix("Value error, ").rstrip(".")
        if refusal["type"] == "value_error":  # typer's own, which names the value
            return UsageError(option.opts[0], problem)
        return UsageError(f"{option.opts[0]} {quote(str(refusal['input']))}", problem)
    problem = " ".join(error.format_message().split()).rstrip(".")  # choices stand in lines
    return UsageError(f"{problem}; see `{command} --help`")


def _as_command(program: str, function: Callable[..., Any]) -> Callable[..., None]:
    """Return a function as typer reads it; it prints the result and sets the exit status.

    A parameter is an option if its annotation has typer's metadata; all others are for Python
    alone. The command line passes the first type of a union. Every command takes `--json`.

    A result may have `notes`, printed as warnings; `to_record()`, for `--json`; `__rich__` or
    `__str__`, for people; `failure`, one line on standard error; `exit_status`, 0 by default.
    """
    import typer

    hints = options_of(function)
    declared_parameters = inspect.signature(declared(function)).parameters
    parameters = list[inspect.Parameter]()
    for name, parameter in declared_parameters.items():
        if name in hints:
            annotation = _typer_annotation(name, hints[name])
            default = parameter.default
            if default == "":
                default = None  # so that what is left out is no empty text
            parameters.append(
                parameter.replace(
                    kind=parameter.KEYWORD_ONLY, annotation=annotation, default=default
                )
            )
    json_flag = inspect.Parameter(
        "as_json",
        inspect.Parameter.KEYWORD_ONLY,
        default=False,
        annotation=Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")],
    )
    parameters.append(json_flag)
    # Arguments that a command needs come first.
    parameters.sort(key=lambda parameter: parameter.default is not parameter.empty)

    def call(*, as_json: bool, **values: Any) -> None:  # noqa: ANN401 - checked
        given = {name: value for name, value in values.items() if value is not None}
        for name, value in given.items():
            if value == "":
                _refuse_empty(name, hints[name], declared_parameters[name].default)
        # Standard output is for the JSON alone; a function of the user may print.
        with redirect_stdout(sys.stderr) if as_json else nullcontext():
            result = function(**given)
        raise typer.Exit(print_result(program, result, as_json=as_json))

    call.__annotations__ = {}  # typer would evaluate them
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return call


def _refuse_empty(name: str, hint: Any, default: object) -> None:  # noqa: ANN401 - any type
    """Refuse an empty text for a path, or for an option that may be left out: an unset variable."""
    from typer.models import ArgumentInfo

    if Path in get_args(hint.__origin__) or default in (None, ""):
        (info,) = hint.__metadata__
        option = "--" + name.replace("_", "-")
        if isinstance(info, ArgumentInfo):
            option = name.upper()
        elif isinstance(info.default, str):  # where typer keeps another name, e.g. `--in`
            option = info.default
        raise UsageError(option, "is empty; give a value, or leave it out")


def _typer_annotation(name: str, hint: Any) -> Any:  # noqa: ANN401 - typing has no type of types
    """Return an annotation as typer reads it: one type, or None; a switch has no `--no-` twin.

    An option's path stays a text: typer would make the working directory of an empty one.
    """
    from typer.models import OptionInfo

    kind = hint.__origin__
    may_be_none = False
    if isinstance(kind, UnionType) or get_origin(kind) is Union:
        kinds = get_args(kind)
        kind = kinds[0]
        may_be_none = NoneType in kinds
    (option,) = hint.__metadata__
    if kind is Path and isinstance(option, OptionInfo):
        kind = str
    if kind is bool and not getattr(option, "param_decls", None):
        option.param_decls = ("--" + name.replace("_", "-"),)
    if may_be_none:
        return Annotated[kind | None, option]
    return Annotated[kind, option]


def _help(function: Callable[..., Any]) -> str:
    """Return what a docstring says before its `Raises:`; indented lines stay as they are.

    A paragraph that begins with "In Python," is not for the command line.
    """
    docstring = inspect.cleandoc(function.__doc__ or "")
    text = re.split(r"^(?:Args|Returns|Raises):\n", docstring, flags=re.MULTILINE)[0]
    paragraphs = list[str]()
    for paragraph in text.strip().split("\n\n"):
        if paragraph.startswith("In Python,"):
            continue
        if paragraph.startswith("    "):
            paragraphs.append("\b\n" + paragraph)  # typer leaves its lines as they are
        else:
            paragraphs.append(paragraph)
    return "\n\n".join(paragraphs)


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
        raise UsageError("--out '': is empty; name a folder ('.' is the working directory)")
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

    def print_unless_stopped(lost: "sys.UnraisableHookArgs") -> None:
        if lost.exc_type is not Stopped:
            hook(lost)

    sys.unraisablehook = print_unless_stopped
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
