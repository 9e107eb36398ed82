"""Chat templates: programs that come with a model, run in the sandbox of Jinja.

Most run in a process with limits (`ruler_data.untrusted.child`), since the sandbox limits neither
time nor memory.
"""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any, NoReturn

import jinja2
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from ruler_data.untrusted.child import first_line

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
    except Exception as error:
        msg = f"it does not compile: {first_line(error)}"
        raise TemplateError(msg) from error
    try:
        return program.render(variables) if variables is not None else ""
    except Exception as error:  # a template is a program and may raise anything
        msg = first_line(error)
        refuses = isinstance(error, jinja2.TemplateRuntimeError)
        raise TemplateError(msg if refuses else f"it fails: {msg}") from error


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
    msg = f"it refuses one user turn: {message}"
    raise jinja2.TemplateRuntimeError(msg)


def _draw(*_: object, **__: object) -> NoReturn:
    msg = "it draws at random, so that no prompt is sent as it was counted"
    raise jinja2.TemplateRuntimeError(msg)


def _tojson(value: object, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)
