from __future__ import annotations

from shared.reporting.pictures import pictures


def sheet(scale="laptop", **changes):
    options = {
        "experiment": "conv",
        "arms": {"bn": "BatchNorm", "he": "He", "no-scalar-lr": "one lr"},
        "seeds": (0, 1),
        "title": "Samples",
        "caption": "",
    }
    return pictures("toy", scale, **(options | changes))


def test_pictures_are_found_by_arm_seed_and_step(own_tree):
    found = sheet()
    assert found.steps == (0, 50, 1000)
    assert found.columns == ("seed 0", "seed 1")
    assert sheet(seeds=(0, 1, 2)).columns == found.columns  # nothing was saved for seed 2
    assert list(found.rows) == ["BatchNorm", "one lr"]  # no run of He saved a picture
    assert [source is None for source in found.rows["one lr"][1].sources] == [False, False, True]
    assert all(source.startswith("data:image/png;base64,") for source in [found.real])


def test_without_pictures_there_is_nothing_to_show(own_tree):
    assert sheet(experiment="depth", arms={"bn-10": "BatchNorm"}) is None
    assert sheet(scale="full") is None
    assert sheet(prefix="layouts") is None


def test_a_notebook_shows_the_last_step(own_tree):
    text = sheet(arms={"no-scalar-lr": "<one> lr"})._repr_html_()
    assert text.count("<img") == 2
    assert "no picture" in text
    assert "&lt;one&gt; lr" in text
