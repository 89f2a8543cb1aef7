"""Records: bad files end in one message with the line; schemas are those in the repository."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import polars as pl
import pytest

from shared.records.base import RecordError, read_record, write_text
from shared.records.catalog import paper_file, paper_names
from shared.records.claim import Bound, Claim
from shared.records.experiment import Experiment, RunKey, resolve
from shared.records.metrics import SCHEMA, Row, read_metrics, table, write_metrics
from shared.records.paper import Paper
from shared.records.schemas import SCHEMAS, schema_text

EXPERIMENT = {
    "title": "t",
    "kind": "training",
    "entry": "module:Net",
    "data": {"dataset": "images", "batch_size": 8},
    "trainer": {"max_epochs": 2},
    "settings": {"lr": 0.1, "width": 3},
    "grid": {"method": ["bn", "none"], "depth": [10, 100]},
    "seeds": 4,
    "scales": {"smoke": {"trainer": {"max_steps": 2}}, "laptop": None, "full": {"seeds": 2}},
}
CLAIM = {
    "id": "c1",
    "statement": "s",
    "source": {"where": "Table 1", "verified": False},
    "kind": "gap",
    "experiment": "e",
    "arms": ["a", "b"],
    "metric": "m",
    "unit": "percent",
    "bound": {"at_least": 1},
    "bound_reason": "r",
}
RATE = {"kind": "rate", "arms": ["a"], "success": {"at_least": 1}, "bound": {"at_least": 0.5}}


def key(**changes):
    return RunKey(
        **{"scale": "laptop", "paper": "p", "experiment": "e", "arm": "bn-100", "seed": 0} | changes
    )


def test_layers_of_settings():
    experiment = Experiment.model_validate(EXPERIMENT)
    settings = resolve(
        {"e": experiment}, key(scale="smoke"), {"settings.lr": 0.5, "data.batch_size": 4}
    )
    assert settings.settings == {"lr": 0.5, "width": 3, "method": "bn", "depth": 100}
    assert (settings.trainer.max_epochs, settings.trainer.max_steps) == (2, 2)
    assert settings.data.batch_size == 4


def test_a_swap_of_norms_is_inherited_and_undone():
    experiments = {
        "e": Experiment.model_validate(
            {
                "title": "t",
                "kind": "training",
                "entry": "module:M",
                "trainer": {"max_steps": 1},
                "norm": "group",
                "arms": {"swapped": {}, "other": {"norm": "rms"}, "own": {"norm": None}},
                "scales": {"laptop": {}},
            }
        )
    }

    def norm(arm, overrides=None):
        run = RunKey(scale="laptop", paper="p", experiment="e", arm=arm, seed=0)
        return resolve(experiments, run, overrides).norm

    assert [norm(arm) for arm in ("swapped", "other", "own")] == ["group", "rms", None]
    assert norm("own", {"norm": "layer"}) == "layer"
    assert norm("swapped", {"norm": None}) is None


def test_seeds_can_only_be_added():
    experiment = Experiment.model_validate(EXPERIMENT)
    assert list(experiment.seeds_at("laptop")) == [0, 1, 2, 3]
    assert len(experiment.seeds_at("laptop", 12)) == 12
    assert len(experiment.seeds_at("laptop", 1)) == 4
    assert len(experiment.seeds_at("full")) == 2
    assert len(experiment.seeds_at("smoke", 12)) == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"grid": {}}, "either `arms` or `grid`"),
        ({"arms": {"a": {}}}, "either `arms` or `grid`"),
        ({"entry": "module"}, "entry"),
        ({"grid": {"norm": ["BN"]}}, "the grid gives the arm 'BN'"),
        ({"scales": {"tiny": {}}}, "scales.tiny"),
        ({"grid": {"m": ["a", "a-b"], "n": ["b-c", "c"]}}, "share a name"),
        ({"seeds": 0}, "seeds"),
        ({"speed": 1}, "speed"),
        ({"scales": {"laptop": {"arms": ["gn-10"]}}}, "unknown arms"),
        ({"kind": "measurement"}, "a measurement takes"),
    ],
)
def test_a_wrong_experiment_names_file_line_and_key(tmp_path, change, said):
    path = tmp_path / "paper.yaml"
    path.write_text(json.dumps(EXPERIMENT | change, indent=1), encoding="utf-8")
    with pytest.raises(RecordError, match=rf"paper\.yaml:\d+: .*{re.escape(said)}"):
        read_record(path, Experiment)


def test_the_line_is_that_of_the_fault(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text("at_least: 1\n\nat_most: high\n", encoding="utf-8")
    with pytest.raises(RecordError, match=r"x\.yaml:3: at_most: .*got 'high'"):
        read_record(path, Bound)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("at_least: 1\nat_least: 2\n", r":2: .*stands twice"),
        ("at_least: [1\n", r":\d: "),
        ("", r":1: \(top level\)"),
        ("[1, 2]: 3\n", r":1: got .* as a key"),
        ("a: \0\n", r"x\.yaml:1: "),
        ("- 1\n", r":1: \(top level\)"),
    ],
)
def test_broken_yaml(tmp_path, text, said):
    path = tmp_path / "x.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(RecordError, match=said):
        read_record(path, Bound)


def test_text_in_another_encoding(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_bytes("at_least: 1 # é".encode("latin-1"))
    with pytest.raises(RecordError, match="not UTF-8"):
        read_record(path, Bound)


@pytest.mark.parametrize("name", ["My_Paper", "my-paper", "2nd", "index"])
def test_a_folder_that_cannot_be_a_paper_is_named(tmp_path, name):
    (tmp_path / name).mkdir()
    (tmp_path / name / "paper.yaml").touch()
    with pytest.raises(RecordError, match=f"got a paper named '{name}'"):
        paper_names(tmp_path)


def test_missing_files_and_papers(tmp_path):
    with pytest.raises(RecordError, match="no such file"):
        read_record(tmp_path / "x.json", Bound)
    with pytest.raises(RecordError, match="expected one of"):
        paper_file("nothing")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"arms": ["a"]}, "gap expects 2"),
        ({"bound": None}, "give bound"),
        ({"bound_reason": ""}, "give bound_reason"),
        ({"kind": "rate", "arms": ["a"]}, "a rate needs it"),
        ({"kind": "trend"}, "`x` holds one number per arm"),
        ({"kind": "trend", "x": [1, 1]}, "expected two different numbers"),
        (RATE | {"bound": {"at_least": 50}}, "shares of runs from 0 to 1"),
        (RATE | {"metric": "diverged"}, "never counts as a success"),
        ({"kind": "exact"}, "bound.at_most only"),
        ({"kind": "exact", "bound": {"at_most": 0}}, "above 0"),
        ({"kind": "exact", "bound": {"at_most": -1}}, "above 0"),
        # Every error is `not >= nan`, so an exact claim with it would always be reproduced.
        ({"kind": "exact", "bound": {"at_most": math.nan}}, "finite number"),
        ({"bound": {"at_least": -math.inf}}, "finite number"),
        ({"kind": "trend", "x": [1, math.nan]}, "finite number"),
        ({"kind": "ratio", "bound": {"at_most": 0}}, "above 0"),
        ({"bound": {"at_least": 2, "at_most": 1}}, "at_least < at_most"),
        ({"bound": {}}, "expected `at_least`"),
        ({"alpha": 0}, "alpha"),
    ],
)
def test_a_claim_that_cannot_be_judged_is_refused(change, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        Claim.model_validate(CLAIM | change)


def test_a_claim_may_say_why_it_is_not_judged():
    claim = Claim.model_validate(
        {k: CLAIM[k] for k in ("id", "statement", "source", "kind")} | {"not_run": "no data"}
    )
    assert claim.not_run


def test_a_paper_refuses_references_to_nothing():
    experiment = EXPERIMENT | {"grid": {}, "arms": {"a": {}, "b": {}}}
    paper = {
        "title": "t",
        "authors": ["A"],
        "year": 2019,
        "venue": "v",
        "arxiv": "1901.09321v2",
        "summary": "s",
        "main_claims": ["c1"],
        "here": "h",
        "experiments": {"e": experiment},
        "claims": [CLAIM],
        "deviations": [],
    }
    Paper.model_validate(paper)
    for change, said in [
        ({"main_claims": ["c2"]}, "main_claims"),
        ({"claims": [CLAIM, CLAIM]}, "unique"),
        ({"claims": [CLAIM | {"experiment": "f"}]}, "got experiment 'f'"),
        ({"claims": [CLAIM | {"arms": ["a", "c"]}]}, r"got arms \['c'\]"),
        (
            {"experiments": {"e": experiment | {"needs": {"s": {"experiment": "e", "arm": "z"}}}}},
            "no run e/z",
        ),
    ]:
        with pytest.raises(ValueError, match=said):
            Paper.model_validate(paper | change)


def test_metrics_round_trip(tmp_path):
    metrics = table("e", "a", 1, [Row("m", 1.5, "nats", "test", 7)])
    write_metrics(tmp_path / "m.parquet", metrics)
    assert read_metrics(tmp_path / "m.parquet").equals(metrics)


def test_metrics_refuse_other_tables(tmp_path):
    path = tmp_path / "m.parquet"
    pl.DataFrame({"value": [1.0]}).write_parquet(path)
    with pytest.raises(RecordError, match="expected"):
        read_metrics(path)
    path.write_bytes(b"PAR1 cut off")
    with pytest.raises(RecordError, match="not a metrics table"):
        read_metrics(path)
    assert SCHEMA.names()[-1] == "unit"


def test_text_is_replaced_as_a_whole(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    write_text(path, "old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_text(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", SCHEMAS)
def test_schemas_in_the_repository_are_those_of_the_records(name):
    file = Path("workflow/schemas") / f"{name}.schema.json"
    assert file.read_text(encoding="utf-8") == schema_text(name), (
        "run `python -m shared.records.schemas`"
    )
