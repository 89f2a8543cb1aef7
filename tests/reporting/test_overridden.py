from __future__ import annotations

import dataclasses

import pytest

from shared.reporting.inputs import read_inputs
from shared.reporting.overridden import Override, config_argument, overrides
from shared.reporting.page import render_page


@pytest.fixture
def inputs(tree, monkeypatch):
    monkeypatch.chdir(tree)
    return read_inputs("toy", "laptop")


def with_setting(inputs, experiment, arms=None, **values):
    def change(run):
        key = run.key
        if run.settings is None or key.experiment != experiment or (arms and key.arm not in arms):
            return run
        changed = {"settings": {**run.settings.settings, **values}}
        return dataclasses.replace(run, settings=run.settings.model_copy(update=changed))

    return dataclasses.replace(inputs, runs=tuple(map(change, inputs.runs)))


def test_the_settings_of_paper_yaml_are_no_overrides(inputs):
    assert overrides(inputs) == []
    assert 'id="overridden"' not in render_page(inputs, [])


def test_an_override_is_told_and_repeated_in_the_command(inputs):
    inputs = with_setting(inputs, "conv", width=5)
    runs = sum(r.key.experiment == "conv" and r.settings is not None for r in inputs.runs)
    assert overrides(inputs) == [Override("toy.conv.settings.width", 5, runs, True)]
    html = render_page(inputs, [])
    assert f"<code>toy.conv.settings.width: 5</code> in {runs} runs" in html
    assert (
        "snakemake reports/toy.html --config &#39;overrides={toy.conv.settings.width: 5}&#39;"
        in html
    )


def test_a_run_that_was_made_by_hand_is_told_but_is_no_override_of_all(inputs):
    found = overrides(with_setting(inputs, "conv", arms=("bn",), width=5))
    assert [(item.name, item.everywhere) for item in found] == [("toy.conv.settings.width", False)]
    assert config_argument(found) == ""


def test_a_value_that_some_arms_have_anyway_is_still_in_all_runs(inputs):
    (found,) = overrides(with_setting(inputs, "depth", method="bn"))
    runs = [run for run in inputs.runs if run.settings and run.key.experiment == "depth"]
    others = [run for run in runs if not run.key.arm.startswith("bn-")]
    assert (found.value, found.runs, found.everywhere) == ("bn", len(others), True)
    assert len(others) < len(runs)


def test_at_smoke_scale_more_seeds_are_not_offered(inputs):
    assert "seeds=" in render_page(inputs, [])
    assert "More seeds" not in render_page(dataclasses.replace(inputs, scale="smoke"), [])
