"""The digest changes with what can change a number, and with nothing else."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from shared.plan import closure
from shared.plan.closure import CACHE, CodeIndex, closure_digest
from shared.records.base import RecordError

SOURCE = '''"""What it is."""
import math

RATE = 0.1  # a comment


def area(radius):
    """Of a circle."""
    return math.pi * radius**2


class Shape:
    """Any."""

    sides = 4
'''


def write(root: Path, **modules: str) -> None:
    """Writes modules; `a_b` stands for a/b.py and `a_init` for a/__init__.py."""
    for name, text in modules.items():
        path = root / f"{name.replace('_', '/').replace('init', '__init__')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def digest_of(root: Path, source: str) -> str:
    write(root, shared_one=source)
    return closure_digest("shared.one", root=root)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  # a comment", ""),
        ("  # a comment", "  # another comment"),
        ("Of a circle.", "Of a disc."),
        ('    """Of a circle."""\n', ""),
        ("What it is.", "Longer.\n\nA second paragraph."),
        ("Any.", "All."),
        ("\n\n\n", "\n\n\n\n\n"),
        ("math.pi * radius**2", "(math.pi\n        * radius ** 2)"),
    ],
)
def test_an_edit_that_computes_the_same_changes_nothing(tmp_path, old, new):
    assert old in SOURCE
    assert digest_of(tmp_path, SOURCE) == digest_of(tmp_path, SOURCE.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("0.1", "0.2"),
        ("0.1", "'0.1'"),
        ("radius**2", "radius**3"),
        ("radius", "diameter"),
        ("sides = 4", "sides = '''4'''"),
        ("import math", "import cmath as math"),
        ("import math", "import math, shared.two"),
    ],
)
def test_an_edit_that_may_compute_something_else_changes_the_digest(tmp_path, old, new):
    assert old in SOURCE
    assert digest_of(tmp_path, SOURCE) != digest_of(tmp_path, SOURCE.replace(old, new))


@pytest.mark.parametrize(
    "statement",
    [
        "import shared.deep.leaf",
        "import shared.deep.leaf as name",
        "from shared.deep import leaf",
        "from shared.deep.leaf import VALUE",
        "from shared.deep.leaf import *",
        "from .deep import leaf",
        "from .deep.leaf import VALUE",
        "from . import one, bridge",
        "def late():\n    from shared.deep import leaf",
        "try:\n    import shared.deep.leaf\nexcept ImportError:\n    pass",
    ],
)
@pytest.mark.parametrize("edited", ["shared_deep_leaf", "shared_deep_init"])
def test_every_form_of_import_is_followed(tmp_path, statement, edited):
    write(tmp_path, shared_one=statement, shared_bridge="import shared.deep.leaf")
    write(tmp_path, shared_deep_init="", shared_deep_leaf="VALUE = 1")
    before = closure_digest("shared.one", root=tmp_path)
    write(tmp_path, **{edited: "VALUE = 2"})
    assert closure_digest("shared.one", root=tmp_path) != before


def test_relative_imports_start_at_the_package_that_holds_the_file(tmp_path):
    write(tmp_path, shared_a_init="from . import b", shared_a_b="from .. import c")
    write(tmp_path, shared_c="from .a.b import d", shared_b="", shared_a_c="")
    found = CodeIndex(tmp_path).closure("shared.a")
    assert sorted(found) == ["shared.a", "shared.a.b", "shared.c"]


def test_what_is_not_imported_does_not_count(tmp_path):
    write(tmp_path, shared_one="import shared.two, json", shared_two="", shared_three="")
    write(tmp_path, json="import shared.three")
    before = closure_digest("shared.one", root=tmp_path)
    write(tmp_path, shared_three="VALUE = 3")
    (tmp_path / "shared" / "one.yaml").write_text("claims: []")
    assert closure_digest("shared.one", root=tmp_path) == before


def test_modules_that_import_each_other_are_followed_once(tmp_path):
    write(tmp_path, shared_one="import shared.two", shared_two="import shared.one")
    assert sorted(CodeIndex(tmp_path).closure("shared.one")) == ["shared.one", "shared.two"]


def test_a_syntax_error_names_file_and_line(tmp_path):
    write(tmp_path, shared_one="import shared.two", shared_two="VALUE = 1\ndef f(:\n    pass")
    with pytest.raises(RecordError, match=r"^shared/two.py:2: not Python: .*Correct the file"):
        closure_digest("shared.one", root=tmp_path)


def test_a_missing_module_names_the_expected_file(tmp_path):
    with pytest.raises(RecordError, match=r"no module shared.nine: expected .*shared/nine.py"):
        closure_digest("shared.nine", root=tmp_path)


# The cache


def parsed_files(monkeypatch) -> list[str]:
    files: list[str] = []
    original = closure.parse

    def counting(source, module, file):
        files.append(module)
        return original(source, module, file)

    monkeypatch.setattr(closure, "parse", counting)
    return files


def test_a_later_process_parses_only_what_was_edited(tmp_path, monkeypatch):
    write(tmp_path, shared_one="import shared.two", shared_two="")
    index = CodeIndex(tmp_path)
    index.digest("shared.one")
    index.save()
    parsed = parsed_files(monkeypatch)
    assert CodeIndex(tmp_path).digest("shared.one") == index.digest("shared.one")
    assert parsed == []
    write(tmp_path, shared_two="VALUE = 2")
    assert CodeIndex(tmp_path).digest("shared.one") != index.digest("shared.one")
    assert parsed == ["shared.two"]


def test_an_edit_of_the_same_size_is_seen(tmp_path):
    write(tmp_path, shared_one="VALUE = 1")
    index = CodeIndex(tmp_path)
    before = index.digest("shared.one")
    index.save()
    write(tmp_path, shared_one="VALUE = 2")
    os.utime(tmp_path / "shared/one.py", ns=(1, 1))
    assert CodeIndex(tmp_path).digest("shared.one") != before


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        '"text"',
        '{"format": "0", "files": {"shared/one.py": [1, 1, "wrong", []]}}',
        json.dumps({"format": closure.CACHE_FORMAT, "files": {"shared/one.py": [1]}}),
        json.dumps({"format": closure.CACHE_FORMAT, "files": []}),
        "\udcff",
    ],
)
def test_a_broken_cache_is_built_again(tmp_path, content):
    write(tmp_path, shared_one="VALUE = 1")
    expected = closure_digest("shared.one", root=tmp_path)
    (tmp_path / CACHE).parent.mkdir(exist_ok=True)
    (tmp_path / CACHE).write_bytes(content.encode("utf-8", "surrogateescape"))
    index = CodeIndex(tmp_path)
    assert index.digest("shared.one") == expected
    index.save()
    assert "shared/one.py" in json.loads((tmp_path / CACHE).read_text())["files"]


def test_parallel_processes_agree_and_leave_a_whole_cache(tmp_path):
    write(tmp_path, **{f"shared_m{n}": f"import shared.m{n + 1}" for n in range(100)})
    code = (
        "import sys; from pathlib import Path; from shared.plan.closure import closure_digest; "
        "print(closure_digest('shared.m0', root=Path(sys.argv[1])))"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert len({process.communicate()[0] for process in processes}) == 1
    assert len(json.loads((tmp_path / CACHE).read_text())["files"]) == 100
    assert [path.name for path in (tmp_path / CACHE).parent.iterdir()] == [CACHE.name]


# This repository


def test_imports_of_computed_names_are_where_the_rules_expect_them():
    """A static closure cannot see them: the rules name the paper's or the derivation's module."""
    found = {
        str(path)
        for folder in ("shared", "papers")
        for path in Path(folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute | ast.Name)
        and (node.attr if isinstance(node, ast.Attribute) else node.id)
        in ("import_module", "__import__", "exec", "runpy", "spec_from_file_location")
    }
    # The benchmark tries optional peers by name; no run and no report imports it.
    found.remove("shared/norms/benchmark/peers.py")
    assert found <= {
        "shared/data/prepare.py",
        "shared/training/entry.py",
        "shared/reporting/inputs.py",
    }


def test_the_table_that_auto_reads_is_part_of_the_code_of_runs():
    """Another choice may change the last digits of a result."""
    assert "shared.kernels.measured" in CodeIndex().closure("shared.norms")


def test_the_code_of_runs_does_not_hang_on_claims_reports_or_the_workflow():
    found = CodeIndex().closure("shared.training.run")
    parts = {name.split(".")[1] for name in found if "." in name}
    assert not parts & {"claims", "reporting"}
    assert {"shared.plan.targets", "shared.records.claim", "shared.records.paper"}.isdisjoint(found)
