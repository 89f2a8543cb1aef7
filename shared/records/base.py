"""The base of all records, and reading and writing them with errors that name the line."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Hashable
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError


class RecordError(ValueError):
    """A file on disk does not say what its record demands. The message names file and line."""


class Record(BaseModel):
    """A typed file, or a part of one. Unknown keys are errors and instances are immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True)


RecordT = TypeVar("RecordT", bound=Record)


def read_yaml(path: Path) -> Any:
    """The content of a YAML file; duplicate keys and broken syntax raise `RecordError`."""
    try:
        return parse_yaml(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RecordError(f"{path}: no such file. Create it, or correct the name.") from None
    except UnicodeDecodeError as error:
        raise RecordError(f"{path}:1: not UTF-8 text ({error.reason}). Save it as UTF-8.") from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise RecordError(f"{path}:{line}: {error.problem or error}") from None
    except yaml.YAMLError as error:
        raise RecordError(f"{path}:1: {error}") from None


def parse_yaml(text: str) -> Any:
    """The value of a YAML text.

    Example:
        >>> parse_yaml("lr: 1e-4")  # YAML 1.1, which the library reads, would take it for a text
        {'lr': 0.0001}
    """
    return yaml.load(text, Loader=_Loader)


def read_record(path: Path, model: type[RecordT]) -> RecordT:
    """Reads and validates one JSON or YAML file.

    Raises:
        RecordError: all faults at once, each as `file:line: key: got ..., expected ...`.
    """
    if path.suffix == ".json":
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise RecordError(f"{path}: no such file. Create it, or correct the name.") from None
        except json.JSONDecodeError as error:
            raise RecordError(f"{path}:{error.lineno}: not JSON: {error.msg}") from None
    else:
        content = read_yaml(path)
    return validate(content, model, path)


def validate(content: Any, model: type[RecordT], path: Path) -> RecordT:
    """Validates what was read from `path`; see `read_record`."""
    try:
        return model.model_validate(content)
    except ValidationError as error:
        faults = [_describe(fault, path) for fault in error.errors()]
        raise RecordError("\n".join(faults)) from None


def write_json(path: Path, record: Record) -> None:
    """Writes a record as JSON, atomically."""
    write_text(path, record.model_dump_json(indent=2) + "\n")


def sha256_of(path: Path) -> str:
    """The sha256 of a file's content, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_text(path: Path, text: str) -> None:
    """Writes a text file so that a reader sees the old content or the new, never a part of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


class _Loader(yaml.CSafeLoader):
    """YAML allows a repeated key and keeps the last; here that would hide a claim."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                raise yaml.constructor.ConstructorError(
                    None, None, f"got {key!r} as a key, expected a name", key_node.start_mark
                )
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} stands twice; remove one", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+"), list("-+0123456789")
)


def _describe(fault: Any, path: Path) -> str:
    where = ".".join(str(part) for part in fault["loc"]) or "(top level)"
    got = "" if fault["type"] == "missing" else f" (got {_short(fault['input'])})"
    return f"{path}:{_line_of(path, fault['loc'])}: {where}: {fault['msg']}{got}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _line_of(path: Path, location: tuple[int | str, ...]) -> int:
    """The line of the deepest part of `location` that the file has."""
    try:
        node = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    except (OSError, yaml.YAMLError):
        return 1
    line = 1
    for part in location:
        child = None
        if isinstance(node, yaml.MappingNode):
            for key_node, value_node in node.value:
                if key_node.value == str(part):
                    line, child = key_node.start_mark.line + 1, value_node
        elif isinstance(node, yaml.SequenceNode) and part in range(len(node.value)):
            child = node.value[int(part)]
            line = child.start_mark.line + 1
        if child is None:
            # Discriminated unions put a tag in the location that the file does not have.
            continue
        node = child
    return line
