"""Which code a result depends on: the digest of a module's static import closure.

Snakemake sees the text of a shell command, never the modules behind it. So every rule gets, as a
parameter, a digest over the module that it runs and all modules of this repository which that one
imports, directly or not. The digest is taken from the syntax tree without comments, docstrings
and line numbers: only an edit that can change a number changes it.

Not seen are imports of computed names. A run and a report load code of their paper in that way, and
a derived data set its derivation, so the digest of each is taken over two modules.
"""

from __future__ import annotations

import ast
import atexit
import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from shared.records.base import RecordError, write_text

PACKAGES = ("shared", "papers")
CACHE = Path(".cache/code.json")
# Part of the cache file; raise the number when this module computes digests in another way.
CACHE_FORMAT = f"1 python {sys.version_info.major}.{sys.version_info.minor}"


class ModuleCode(NamedTuple):
    """One source file: digest of what it computes, names that it may import from `PACKAGES`."""

    mtime_ns: int
    size: int
    digest: str
    imports: tuple[str, ...]


class CodeIndex:
    """Digests of the modules under `root`; each file is parsed once and remembered on disk."""

    def __init__(self, root: Path = Path()) -> None:
        self._root = root
        self._modules: dict[str, ModuleCode | None] = {}
        self._digests: dict[tuple[str, ...], str] = {}
        self._cache = _read_cache(root / CACHE)
        self._changed = False
        atexit.register(self.save)

    def digest(self, *modules: str) -> str:
        """SHA-256 over the import closure of `modules`.

        Raises:
            RecordError: a module does not exist, or a file of the closure is not Python.
        """
        if modules not in self._digests:
            found = self.closure(*modules)
            parts = [f"{name} {code.digest}" for name, code in sorted(found.items())]
            self._digests[modules] = hashlib.sha256("\n".join(parts).encode()).hexdigest()
        return self._digests[modules]

    def closure(self, *modules: str) -> dict[str, ModuleCode]:
        """The modules that `modules` import, directly or not, with themselves."""
        for name in modules:
            if self._module(name) is None:
                file = self._root / name.replace(".", "/")
                raise RecordError(f"no module {name}: expected the file {file}.py")
        found: dict[str, ModuleCode] = {}
        waiting = list(modules)
        while waiting:
            name = waiting.pop()
            if name in found or (code := self._module(name)) is None:
                continue
            found[name] = code
            waiting += code.imports
            waiting += _parents(name)
        return found

    def save(self) -> None:
        """Writes the cache. Parallel processes may overwrite each other: that costs time only."""
        if self._changed:
            self._changed = False
            content = {"format": CACHE_FORMAT, "files": self._cache}
            write_text(self._root / CACHE, json.dumps(content))

    def _module(self, name: str) -> ModuleCode | None:
        if name not in self._modules:
            self._modules[name] = self._load(name)
        return self._modules[name]

    def _load(self, name: str) -> ModuleCode | None:
        base = name.replace(".", "/")
        for file in (f"{base}/__init__.py", f"{base}.py"):
            try:
                status = (self._root / file).stat()
            except (FileNotFoundError, NotADirectoryError):
                continue
            code = self._cache.get(file)
            if code is None or (code.mtime_ns, code.size) != (status.st_mtime_ns, status.st_size):
                source = (self._root / file).read_bytes()
                digest, imports = parse(source, name, Path(file))
                code = ModuleCode(status.st_mtime_ns, status.st_size, digest, imports)
                self._cache[file] = code
                self._changed = True
            return code
        return None


def closure_digest(*modules: str, root: Path = Path()) -> str:
    """The digest of all code that `modules` import; see `CodeIndex.digest`."""
    index = CodeIndex(root)
    digest = index.digest(*modules)
    index.save()
    return digest


def parse(source: bytes, module: str, file: Path) -> tuple[str, tuple[str, ...]]:
    """The digest of a source file and the names that it imports from this repository.

    Example:
        >>> code = b"from shared import norms  # a comment"
        >>> parse(code, "papers.p.module", Path("papers/p/module.py"))[1]
        ('shared', 'shared.norms')
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        message = getattr(error, "msg", None) or str(error)
        raise RecordError(f"{file}:{line}: not Python: {message}. Correct the file.") from None
    imports: set[str] = set()
    for node in ast.walk(tree):
        imports.update(_imported(node, module, is_package=file.name == "__init__.py"))
        _drop_docstring(node)
    ours = (name for name in imports if name.partition(".")[0] in PACKAGES)
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest(), tuple(sorted(ours))


def _imported(node: ast.AST, module: str, is_package: bool) -> Iterator[str]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.name
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            package = module.split(".") if is_package else module.split(".")[:-1]
            above = package[: len(package) - (node.level - 1)]
            base = ".".join([*above, base] if base else above)
        yield base
        # `y` of `from x import y` may be a module or not: what does not exist is passed over.
        for alias in node.names:
            yield f"{base}.{alias.name}"


def _drop_docstring(node: ast.AST) -> None:
    if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return
    match node.body:
        case [ast.Expr(ast.Constant(str())), *rest]:
            node.body = rest


def _parents(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts))]


def _read_cache(path: Path) -> dict[str, ModuleCode]:
    """What an earlier process wrote; a cache that is not whole or not ours is as good as none."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != CACHE_FORMAT:
            return {}
        return {
            file: ModuleCode(int(mtime), int(size), str(digest), tuple(map(str, imports)))
            for file, (mtime, size, digest, imports) in content["files"].items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
