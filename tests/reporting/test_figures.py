from __future__ import annotations

import json
import re

import altair as alt
import polars as pl
import pytest
import vl_convert

from shared.records.metrics import SCHEMA, Row, table
from shared.reporting import vega
from shared.reporting.figures import Figure, dots_by_arm, figure, seed_band, sweep
from shared.reporting.series import MAX_STEPS, SHAPES, read_series

METHODS = ("BatchNorm", "Fixup", "He")
ARMS = {"bn": "BatchNorm", "he": "He"}


def run(arm, seed, errors, diverged_at=None):
    last = len(errors) if diverged_at is None else diverged_at
    rows = [Row("diverged", float(diverged_at is not None), "flag", "run", last)]
    for step, error in enumerate(errors, 1):
        rows.append(Row("test_error_percent", error, "percent", "test", step))
    return table("depth", arm, seed, rows)


@pytest.fixture
def metrics():
    return pl.concat(
        [
            run("bn", 0, [30.0, 20.0, 10.0]),
            run("bn", 1, [34.0, 24.0, 14.0]),
            run("he", 0, [50.0, 40.0, 44.0]),
            run("he", 1, [90.0, 91.0], diverged_at=2),
        ]
    )


OF_SWEEP = {"points": {"bn": ("BatchNorm", 10), "he": ("He", 100)}, "x_title": "depth"}


def draw(function, metrics, **changes):
    arguments = {
        "experiment": "depth",
        "metric": "test_error_percent",
        "methods": METHODS,
        **(OF_SWEEP if function is sweep else {"arms": ARMS}),
        **changes,
    }  # fmt: skip
    return function(metrics, **arguments)


ALL = pytest.mark.parametrize("function", [seed_band, dots_by_arm, sweep])


def layers(chart):
    return chart.to_dict()["layer"]


def rows_of(chart, layer):
    content = chart.to_dict()
    data = layer.get("data", content.get("data"))
    return data["values"] if "values" in data else content["datasets"][data["name"]]


def crosses(chart):
    found = [x for x in layers(chart) if x["mark"].get("shape", "").startswith("M-1")]
    return [row for layer in found for row in rows_of(chart, layer)]


@ALL
def test_a_diverged_run_is_a_cross_and_a_note(metrics, function):
    chart = draw(function, metrics)
    assert [row["arm"] for row in crosses(chart)] == ["he"]
    assert "diverged" in " ".join(chart.to_dict()["title"]["text"])


@ALL
def test_without_divergence_there_is_no_cross(metrics, function):
    chart = draw(function, metrics.filter(~((pl.col("arm") == "he") & (pl.col("seed") == 1))))
    assert crosses(chart) == []
    assert "title" not in chart.to_dict()


@ALL
def test_a_method_has_the_same_place_in_the_palette_in_every_figure(metrics, function):
    scales = [x["encoding"]["color"]["scale"] for x in layers(draw(function, metrics))]
    assert scales == [{"domain": list(METHODS)}] * len(scales)


@ALL
def test_all_arms_may_diverge(metrics, function):
    gone = pl.concat([run("bn", 0, [], diverged_at=3), run("he", 0, [], diverged_at=1)])
    chart = draw(function, gone)
    assert {row["arm"] for row in crosses(chart)} == {"bn", "he"}
    assert vega.svg(vega.spec(chart), "f").startswith("<svg")


@ALL
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"metric": "loss"}, "no rows of metric 'loss' with split 'test'"),
        ({"split": "train"}, "no rows of metric"),
        ({"experiment": "conv"}, "got arms"),
        ({"methods": ("BatchNorm",)}, r"got methods \['He'\]"),
        ({"methods": [*METHODS, *map(str, range(20))]}, "expected at most 16"),
    ],
)
def test_a_wrong_name_is_an_error(metrics, function, changes, message):
    only_finished = metrics.filter(pl.col("seed") == 0)
    with pytest.raises(ValueError, match=message):
        draw(function, only_finished, **changes)


def test_the_last_value_of_a_diverged_run_is_not_shown_as_a_result(metrics):
    series = read_series(metrics, "depth", "test_error_percent", "test", ARMS, METHODS)
    assert series.last().select("arm", "seed", "value").rows() == [
        ("bn", 0, 10.0),
        ("bn", 1, 14.0),
        ("he", 0, 44.0),
    ]


def test_the_band_goes_from_the_lowest_to_the_highest_seed(metrics):
    chart = draw(seed_band, metrics)
    last = [row for row in rows_of(chart, layers(chart)[0]) if row["step"] == 3]
    assert [(r["method"], r["mean"], r["low"], r["high"], r["seeds"]) for r in last] == [
        ("BatchNorm", 12.0, 10.0, 14.0, 2),
        ("He", 44.0, 44.0, 44.0, 1),
    ]


def test_a_sweep_says_how_many_runs_diverged(metrics):
    (cross,) = {row["label"] for row in crosses(draw(sweep, metrics))}
    assert cross == "1/2"


@ALL
def test_a_figure_has_the_arms_that_were_run_and_is_none_without_any(metrics, function):
    own = {"arms": ARMS | {"not_run": "Fixup"}}
    if function is sweep:
        own = OF_SWEEP | {"points": OF_SWEEP["points"] | {"not_run": ("Fixup", 1000)}}
    common = {"experiment": "depth", "metric": "test_error_percent", "methods": METHODS}
    some = figure("Error", "One dot a seed.", function, metrics, **common, **own)
    assert vega.spec(some.chart) == vega.spec(draw(function, metrics))
    assert (some.title, some.caption) == ("Error", "One dot a seed.")
    assert figure("Error", "", function, metrics.clear(), **common, **own) is None


def test_a_long_log_is_thinned_and_says_so():
    chart = draw(seed_band, run("bn", 0, [1.0] * 1000), arms={"bn": "BatchNorm"})
    steps = [row["step"] for row in rows_of(chart, layers(chart)[0])]
    assert len(steps) == MAX_STEPS
    assert steps[-1] == 1000
    assert chart.to_dict()["title"]["text"] == ["Every 5th logged step is drawn."]


def test_values_that_are_not_finite_are_counted(metrics):
    with_inf = pl.concat([metrics, run("bn", 2, [float("inf")])])
    text = " ".join(draw(dots_by_arm, with_inf).to_dict()["title"]["text"])
    assert "1 values are not finite and not drawn." in text


def test_a_logarithmic_axis_needs_positive_values(metrics):
    with pytest.raises(ValueError, match="above 0"):
        draw(seed_band, pl.concat([metrics, run("bn", 2, [0.0])]), log_y=True)


def test_a_band_has_one_arm_a_method(metrics):
    with pytest.raises(ValueError, match="one arm a method"):
        draw(seed_band, metrics, arms={"bn": "He", "he": "He"})
    chart = draw(dots_by_arm, metrics, arms={"bn": "He", "he": "He"})
    assert {row["label"] for row in rows_of(chart, layers(chart)[1])} == {"bn", "he"}


def test_more_methods_than_colours_differ_in_mark_and_dash(metrics):
    methods = [*METHODS, *(f"other {i}" for i in range(9))]
    chart = draw(seed_band, metrics, methods=methods)
    marks = layers(chart)[2]["encoding"]["shape"]["scale"]["range"]
    dashes = layers(chart)[1]["encoding"]["strokeDash"]["scale"]["range"]
    looks = {(i % len(SHAPES), marks[i], tuple(dashes[i])) for i in range(len(methods))}
    assert len(looks) == len(methods)


def test_axes_carry_the_unit(metrics):
    content = json.dumps(draw(sweep, metrics).to_dict())
    assert '"title": "test error (percent)"' in content


def test_ids_of_several_pictures_in_one_page_differ():
    rows = alt.InlineData(values=[{"a": 1}, {"a": 2}])
    clipped = vega.spec(alt.Chart(rows).mark_line(clip=True).encode(x="a:Q", y="a:Q"))
    one, two = vega.svg(clipped, "figure-1"), vega.svg(clipped, "figure-2")
    assert (
        set(re.findall(r'id="([^"]+)"', one)) == set(re.findall(r"url\(#([^)]+)\)", one)) != set()
    )
    assert not set(re.findall(r'id="([^"]+)"', one)) & set(re.findall(r'id="([^"]+)"', two))


def test_shortening_a_picture_changes_no_label():
    small = pl.concat([run("bn", seed, [0.00012 + seed / 1e5]) for seed in range(3)])
    content = vega.spec(draw(dots_by_arm, small, arms={"bn": "BatchNorm"}))
    raw = vl_convert.vegalite_to_svg({**content, "width": vega.PICTURE_WIDTH})
    labels = re.findall(r">([^<]+)</text>", raw)
    assert "0.00012" in " ".join(labels)
    assert re.findall(r">([^<]+)</text>", vega.svg(content, "f")) == labels


def test_a_chart_may_not_load_data():
    chart = alt.Chart("https://example.org/a.csv").mark_point().encode(x="a:Q")
    with pytest.raises(ValueError, match="without a network"):
        vega.spec(chart)


def test_a_notebook_gets_the_live_chart_and_a_picture(metrics):
    shown = Figure("Title", "Caption.", draw(seed_band, metrics))._repr_mimebundle_()
    live = shown["application/vnd.vegalite.v6+json"]
    assert live["width"] == vega.PICTURE_WIDTH
    assert live["$schema"].endswith(".json")
    assert shown["image/png"].startswith("iVBOR")


def test_the_table_of_the_tests_is_the_table_of_the_records(metrics):
    assert metrics.schema == SCHEMA
