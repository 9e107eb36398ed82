"""Options, declared once: the fields of a dataclass become arguments of a function and a command.

    @dataclass(frozen=True)
    class CopyConfig:
        folder: Annotated[str | Path, Option("Folder to copy.")]
        _: KW_ONLY
        rows: Annotated[int | None, Option("Rows of each config.", min=1)] = None

    @takes_options(CopyConfig)  # copy("dist/llama3", rows=5)
    def copy(config: CopyConfig) -> None: ...

    @command()  # --folder dist/llama3 --rows 5 --json
    def copy_command(config: CopyConfig, as_json: JsonFlag = False) -> None: ...

A field takes what a Python caller may pass, e.g. `str | Collection[int]`; the command line passes
the first of these types.
"""

import inspect
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial, wraps
from numbers import Real
from os import PathLike
from pathlib import Path
from types import UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    ParamSpec,
    Protocol,
    TypeVar,
    Union,
    get_args,
    get_origin,
    overload,
)

from ruler_data.errors import UsageError

P = ParamSpec("P")
Config = TypeVar("Config")
Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)


@dataclass(frozen=True)
class Option:
    """Help of an option, and how it is written on the command line.

    Attributes:
        help: what it is, for `--help` and for Python's `help`.
        name: on the command line, e.g. `--json`; by default that of the field.
        min: smallest value; only the command line checks it.
        max: largest value; only the command line checks it.
        metavar: how `--help` names its value, if not by its type.
        show_default: whether `--help` shows the default.
        argument: whether it is positional.
        after: name of the option that it follows in `--help`, if not the previous one.
        command: whether commands have it; if not, only the function has.
    """

    help: str
    name: str = ""
    min: int | None = None
    max: int | None = None
    metavar: str | None = None
    show_default: bool = True
    argument: bool = False
    after: str = ""
    command: bool = True


JsonFlag = Annotated[bool, Option("Print JSON on standard output.", "--json")]


def takes_options(
    config: Callable[P, Config],
) -> Callable[[Callable[[Config], Result]], Callable[P, Result]]:
    """Let a function of a dataclass take its fields as arguments, and document them."""
    options = _options(config)

    def decorate(function: Callable[[Config], Result]) -> Callable[P, Result]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> Result:
            signature.bind(*args, **kwargs)  # Python's own error for an argument that is missing
            for name, value in {**dict(zip(options, args, strict=False)), **kwargs}.items():
                if name in options:
                    _check_type(name, value, options[name][0])
            return function(config(*args, **kwargs))

        signature = inspect.Signature(
            [one.replace(annotation=_type(one)) for one, _ in options.values()],
            return_annotation=inspect.signature(function).return_annotation,
        )
        about, raises, errors = inspect.cleandoc(function.__doc__ or "").partition("Raises:\n")
        lines = [f"    {one.name}: {option.help}" for one, option in options.values()]
        call.__doc__ = "\n".join([f"{about}Args:", *lines, "", raises + errors])
        call.__signature__ = signature  # type: ignore[attr-defined]
        return call

    return decorate


class OpenCall(Protocol[P, Result_co]):
    """A function that takes further keyword arguments."""

    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Result_co: ...
    @overload
    def __call__(self, *args: Any, **kwargs: Any) -> Result_co: ...  # noqa: ANN401


def others_to(field: str) -> Callable[[Callable[P, Result]], OpenCall[P, Result]]:
    """Let a function take further keyword arguments, and pass them as the mapping `field`."""

    def decorate(function: Callable[..., Result]) -> OpenCall[P, Result]:
        known = inspect.signature(function).parameters

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Result:  # noqa: ANN401 - the function checks them
            others = {name: kwargs.pop(name) for name in [*kwargs] if name not in known}
            return function(*args, **kwargs, **({field: others} if others else {}))

        return call

    return decorate


def command(without: Collection[str] = ()) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a command of a function; a parameter that is a dataclass becomes its options.

    Args:
        without: fields of the dataclass that are no options of this command.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        parameters = inspect.signature(function).parameters.values()
        configs: dict[str, Callable[..., Any]] = {
            one.name: one.annotation for one in parameters if isinstance(one.annotation, type)
        }
        own, names = _options(function), list[str]()
        options = {
            name: one for config in configs.values() for name, one in _options(config).items()
        }
        options |= own
        for name, (_, option) in options.items():
            if option.command and name not in without:
                names.insert(names.index(option.after) + 1 if option.after else len(names), name)

        @wraps(function)
        def call(**values: Any) -> None:  # noqa: ANN401 - typer has checked them
            for name, value in values.items():
                if value == "" and options[name][0].default is None:  # e.g. an unset variable
                    raise UsageError(_flag(*options[name]), "is empty; give a value, or none")
            others = {name: values.pop(name) for name in own}
            function(**{name: config(**values) for name, config in configs.items()}, **others)

        call.__annotations__ = {}  # typer would evaluate them
        call.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [_typer_parameter(*options[name]) for name in names]
        )
        return call

    return decorate


def _options(function: Callable[..., Any]) -> dict[str, tuple[inspect.Parameter, Option]]:
    """Return the parameters of a function or dataclass that are declared as options."""
    return {
        name: (parameter, option)
        for name, parameter in inspect.signature(function).parameters.items()
        for option in getattr(parameter.annotation, "__metadata__", ())
        if isinstance(option, Option)
    }


def _type(parameter: inspect.Parameter) -> Any:  # noqa: ANN401 - a type, or a union of types
    return get_args(parameter.annotation)[0]


def _kinds(parameter: inspect.Parameter) -> tuple[Any, ...]:
    """Return the types that a parameter may have."""
    kind = _type(parameter)
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _check_type(name: str, value: object, parameter: inspect.Parameter) -> None:
    """Check an argument against the declared type, without the items of collections.

    Raises:
        UsageError: it is of another type.
    """
    kinds = _kinds(parameter)
    if value is parameter.default or any(_is_of(value, one) for one in kinds):
        return
    wanted = [getattr(one, "__name__", str(one)) for one in kinds if one is not type(None)]
    msg = f"{name}={value!r:.60}: {' or '.join(wanted)} expected, found {type(value).__name__}"
    raise UsageError(msg)


def _is_of(value: object, kind: Any) -> bool:  # noqa: ANN401 - a type, or one of `typing`
    origin = get_origin(kind) or kind
    if origin is Literal:
        return isinstance(value, str)
    if origin in (int, float):
        return isinstance(value, Real) and not isinstance(value, bool)
    if origin is Path:
        return isinstance(value, PathLike)
    return not isinstance(origin, type) or isinstance(value, origin)


def _flag(parameter: inspect.Parameter, option: Option) -> str:
    return option.name or "--" + parameter.name.replace("_", "-")


def _typer_parameter(parameter: inspect.Parameter, option: Option) -> inspect.Parameter:
    """Return an option as typer reads it."""
    import typer

    kind = _kinds(parameter)[0]
    if parameter.default is None:
        kind |= None
    flag = _flag(parameter, option)
    declare: Any = typer.Argument if option.argument else partial(typer.Option, flag)
    declared = declare(
        help=option.help,
        min=option.min,
        max=option.max,
        metavar=option.metavar,
        show_default=option.show_default,
    )
    return parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=Annotated[kind, declared])
