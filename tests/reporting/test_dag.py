from __future__ import annotations

import re

import pytest

from shared.reporting.dag import drawing, nodes
from shared.reporting.inputs import read_inputs


@pytest.fixture
def boxes(tree, monkeypatch):
    monkeypatch.chdir(tree)
    return nodes(read_inputs("toy", "laptop"))


def test_every_step_is_a_box_with_its_counts(boxes):
    by_name = {box.name: box for box in boxes}
    assert list(by_name) == [
        "raw:fashion-mnist",
        "prepared:fashion-mnist",
        *(f"runs:{name}" for name in ("init", "depth", "conv", "source", "adapt")),
        "collect",
        "judge",
        "page",
    ]
    assert (by_name["runs:conv"].detail, by_name["runs:conv"].warning) == (
        "40 runs",
        "2 diverged, 1 missing",
    )
    assert by_name["judge"].detail == "6 of 8 judged"


def test_a_derived_data_set_is_made_and_not_verified_bytes(tree, monkeypatch):
    monkeypatch.chdir(tree)
    monkeypatch.setattr("shared.reporting.dag.DERIVED", {"fashion-mnist": "clothes"})
    by_name = {box.name: box for box in nodes(read_inputs("toy", "laptop"))}
    assert by_name["raw:clothes"].detail == "raw bytes, verified"
    assert "raw:fashion-mnist" not in by_name
    assert by_name["prepared:fashion-mnist"].detail == "made of clothes"
    assert by_name["prepared:fashion-mnist"].reads == ("raw:clothes",)


def test_arrows_follow_the_records(boxes):
    by_name = {box.name: box for box in boxes}
    assert by_name["runs:init"].reads == ()
    assert by_name["runs:adapt"].reads == ("prepared:fashion-mnist", "runs:source")
    assert len(by_name["collect"].reads) == 5


def test_the_drawing_has_every_box_and_arrow_inside_its_frame(boxes):
    svg = drawing(boxes)
    assert svg.count("<rect") == len(boxes)
    assert svg.count('class="d-edge"') == sum(len(box.reads) for box in boxes)
    width, height = map(float, re.search(r'viewBox="0 0 (\S+) (\S+)"', svg).groups())
    for x, y in re.findall(r'translate\((\S+) (\S+)\)"><title>', svg):
        assert 0 <= float(x) <= width - 160
        assert 0 <= float(y) <= height - 64
