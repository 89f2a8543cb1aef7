"""The settings of a run against the signature of the paper's code that gets them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError

from shared.records.base import RecordError
from shared.records.experiment import RunSettings

_STAR = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)


def check_arguments(entry: Callable[..., Any], settings: RunSettings) -> None:
    """Refuses settings that the paper's function or class does not take.

    Names have to be those of parameters, and values have to be of the annotated type, taken
    strictly: `Literal["sn", "wn"]` takes no third word, `float` no text, `bool` no number. A class
    that hands `**rest` to its base takes what the base takes.

    Args:
        entry: the class of a training, or the function of a measurement, which gets the run first.

    Raises:
        RecordError: the first setting that is unknown, missing, or of another type.
    """
    key, given = settings.key, settings.settings
    where = f"papers/{key.paper}/paper.yaml or an override: {key.paper}.{key.experiment}.settings"
    known = _parameters(entry, skipped=0 if settings.kind == "training" else 1)
    for name in given:
        if name not in known:
            raise RecordError(
                f"{where}.{name}: got a setting that {settings.entry} does not take, expected one "
                f"of {', '.join(known)}"
            )
    for name, (parameter, annotation) in known.items():
        if name in given:
            _check(given[name], annotation, f"{where}.{name}")
        elif parameter.default is parameter.empty:
            raise RecordError(f"{where}: got no {name}, expected one: {settings.entry} needs it")


@contextmanager
def named_in_errors(settings: RunSettings) -> Iterator[None]:
    """The run before the message of a ValueError by which the paper's code refuses its settings.

    Raises:
        RecordError: in place of any ValueError.
    """
    try:
        yield
    except RecordError:
        raise
    except ValueError as error:
        raise RecordError(f"{settings.key}: {settings.entry}: {error}") from error


def _check(value: Any, annotation: Any, where: str) -> None:
    try:
        TypeAdapter(annotation).validate_python(value, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        expected = first.get("ctx", {}).get("expected") or getattr(
            annotation, "__name__", str(annotation)
        )
        raise RecordError(f"{where}: got {value!r}, expected {expected}") from None


def _parameters(
    entry: Callable[..., Any], skipped: int
) -> dict[str, tuple[inspect.Parameter, Any]]:
    """Name -> parameter and annotation, with those of base classes that get `**rest`."""
    found: dict[str, tuple[inspect.Parameter, Any]] = {}
    functions = [entry]
    if inspect.isclass(entry):
        functions = [vars(c)["__init__"] for c in entry.__mro__[:-1] if "__init__" in vars(c)]
        skipped += 1  # self
    for function in functions:
        parameters = list(inspect.signature(function).parameters.values())[skipped:]
        for parameter in parameters:
            if parameter.kind not in _STAR and parameter.name not in found:
                found[parameter.name] = parameter, _annotation(function, parameter.name)
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            break
    return found


def _annotation(function: Callable[..., Any], name: str) -> Any:
    # One by one: the annotation of `run` may be imported for type checkers only.
    written = function.__annotations__.get(name, Any)
    holder = SimpleNamespace(__annotations__={name: written})
    return get_type_hints(holder, globalns=function.__globals__)[name]
