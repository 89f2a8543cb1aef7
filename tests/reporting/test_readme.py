from __future__ import annotations

import json

import pytest

from shared.records.base import RecordError
from shared.reporting.__main__ import main
from shared.reporting.readme import BEGIN, END, write_readme


@pytest.fixture
def readme(own_tree):
    file = own_tree / "README.md"
    file.write_text(f"# Title\n\n{BEGIN}\nold table\n{END}\n\nThe rest.\n", encoding="utf-8")
    return file


def test_the_table_comes_from_the_snapshot(readme, own_tree):
    assert main(["readme", "--scale", "laptop", "--snapshot"]) == 0
    text = readme.read_text(encoding="utf-8")
    assert text.startswith(f"# Title\n\n{BEGIN}\n")
    assert text.endswith(f"{END}\n\nThe rest.\n")
    assert "old table" not in text
    assert "**Yes, as far as decided.** At laptop scale" in text
    assert "| 2 | 2 | 1 | 2 | 1 of 1 hold |" in text
    assert "not run yet" in text
    claims = (own_tree / "docs/verdicts/laptop/toy.md").read_text("utf-8")
    assert "| toy2_gap | The scaled network comes within" in claims
    assert "Laptop scale: Fashion-MNIST instead of CIFAR-10" in claims
    assert "<script>" not in text + claims
    assert "(docs/verdicts/laptop/toy.md)" in text
    snapshot = json.loads((own_tree / "docs/verdicts/laptop/toy.json").read_text("utf-8"))
    results = json.loads((own_tree / "results/laptop/verdicts/toy.json").read_text("utf-8"))
    assert snapshot == results


def test_rewriting_twice_changes_nothing(readme, own_tree):
    write_readme("laptop", snapshot=True)
    once = readme.read_text(encoding="utf-8")
    write_readme("laptop")
    assert readme.read_text(encoding="utf-8") == once


def test_without_snapshot_the_results_are_not_looked_at(readme, own_tree):
    write_readme("laptop", snapshot=True)
    once = readme.read_text(encoding="utf-8")
    (own_tree / "results/laptop/verdicts/toy.json").unlink()
    write_readme("laptop")
    assert readme.read_text(encoding="utf-8") == once


@pytest.mark.parametrize("text", ["", BEGIN, END, f"{END}\n{BEGIN}", f"{BEGIN}{BEGIN}{END}"])
def test_missing_markers_are_an_error(readme, text):
    readme.write_text(text, encoding="utf-8")
    with pytest.raises(RecordError, match="verdicts:begin"):
        write_readme("laptop", snapshot=True)
    assert readme.read_text(encoding="utf-8") == text


def test_no_snapshot_is_an_error(readme):
    with pytest.raises(RecordError, match="--snapshot"):
        write_readme("laptop")


def test_no_results_to_copy_is_an_error(readme):
    with pytest.raises(RecordError, match="no verdicts"):
        write_readme("full", snapshot=True)


def test_a_snapshot_of_other_claims_is_refused(readme, own_tree):
    write_readme("laptop", snapshot=True)
    file = own_tree / "docs/verdicts/laptop/toy.json"
    file.write_text(file.read_text("utf-8").replace("toy8_translation", "toy8_other"), "utf-8")
    with pytest.raises(RecordError, match="toy8_other"):
        write_readme("laptop")
