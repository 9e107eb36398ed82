"""Packages whose names are loaded when they are first used, so that an import costs nothing."""

from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from typing import Any


def lazy(
    package: str,
    names: Mapping[str, Collection[str]],
    elsewhere: Mapping[str, Collection[str]] | None = None,
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package.

    Args:
        package: its name.
        names: for each module of the package, the names that it provides.
        elsewhere: likewise for modules outside of it.
    """
    places = {f"{package}.{module}": provided for module, provided in names.items()}
    places |= elsewhere or {}
    modules = {name: module for module, provided in places.items() for name in provided}

    def load(name: str) -> Any:  # noqa: ANN401 - a name of any type
        if name not in modules:
            msg = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(msg)
        return getattr(import_module(modules[name]), name)

    return load, lambda: sorted(modules)
