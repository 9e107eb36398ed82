"""Chat templates: programs that come with a model, run in the sandbox of Jinja.

The sandbox limits neither time nor memory; `ruler_data.memory` limits the memory of the process.
"""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any, NoReturn

import jinja2
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

#: Templates that print the date get this one, so that lengths do not depend on the day.
#: It is the default of Llama 3.1's template.
TODAY = "26 Jul 2024"


class TemplateError(Exception):
    """The template fails, or refuses the turn."""


def run_template(source: str, variables: Mapping[str, Any] | None) -> str:
    """Return what a template renders; without variables, only compile it.

    Raises:
        TemplateError: it fails.
    """
    try:
        program = _compiled(source)
    except MemoryError:
        raise
    except Exception as error:
        raise TemplateError(f"it does not compile: {first_line(error)}") from error
    if variables is None:
        return ""
    try:
        text = program.render(variables)
    except (MemoryError, TemplateError):
        raise
    except Exception as error:  # a template is a program and may raise anything
        raise TemplateError(f"it fails: {first_line(error)}") from error
    try:
        text.encode()
    except UnicodeEncodeError as error:
        character = ascii(text[error.start])
        raise TemplateError(f"it renders {character}, which is not Unicode text") from error
    return text


@cache
def _compiled(source: str) -> jinja2.Template:
    """Compile a template once: every prompt of a run is rendered by it."""
    return _environment().from_string(source)


@cache
def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
    )
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = lambda _format: TODAY
    environment.filters["tojson"] = _tojson
    environment.filters["random"] = environment.globals["lipsum"] = _draw
    return environment


def _refuse(message: str) -> NoReturn:
    raise TemplateError(f"it refuses one user turn: {message}")


def _draw(*_: object, **__: object) -> NoReturn:
    raise TemplateError("it draws at random, so that no prompt is sent as it was counted")


def _tojson(value: object, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def first_line(error: Exception) -> str:
    """Return the first line of what an error says, or its type."""
    lines = str(error).splitlines()
    return lines[0][:300] if lines else type(error).__name__
