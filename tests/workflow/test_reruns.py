"""What runs again after which edit, with the real Snakemake on a small repository."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.workflow.synthetic import registry, snakemake, write

SEEDS = {"alpha": 3, "beta": 1}
REPORT = ("judge", "notebook", "page")


def planned(root: Path, *arguments: str) -> set[str]:
    """The names of the jobs that the next call would run."""
    result = snakemake(root, *arguments, "--dry-run")
    assert result.returncode == 0, result.stdout + result.stderr
    return set(re.findall(r"^Job \d+: (.+)$", result.stdout + result.stderr, re.MULTILINE))


def runs(*papers: str) -> set[str]:
    return {
        f"run {paper}/toy/{arm}/seed-{seed}"
        for paper in papers
        for arm in ("left", "right")
        for seed in range(SEEDS[paper])
    }


def steps(*papers: str, names: tuple[str, ...] = ("collect", *REPORT)) -> set[str]:
    return {f"{name} {paper}" for name in names for paper in papers}


def edit(root: Path, file: str, old: str, new: str) -> None:
    text = (root / file).read_text(encoding="utf-8")
    assert old in text
    (root / file).write_text(text.replace(old, new), encoding="utf-8")


INDEX = {"index of the papers"}
PAPER = "papers/alpha/paper.yaml"
CODE = "papers/alpha/measurements.py"


def test_a_second_call_has_nothing_to_do(project):
    result = snakemake(project)
    assert "Nothing to be done" in result.stderr
    assert result.returncode == 0


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        (PAPER, "statement: It holds.", "statement: It really holds."),
        (PAPER, "at_least: 1.0", "at_least: 2.0"),
        (PAPER, "bound_reason: a fake", "bound_reason: pilots"),
    ],
)
def test_editing_a_claim_judges_again_and_computes_nothing(project, file, old, new):
    edit(project, file, old, new)
    assert planned(project) - {"all"} == steps("alpha", names=REPORT) | INDEX


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("papers/alpha/figures.py", "return []", "return [1]"),
        (PAPER, "title: On alpha", "title: On alphas"),
        (PAPER, "deviations: []", "deviations: [shorter]"),
    ],
)
def test_editing_figures_or_prose_only_renders_again(project, file, old, new):
    edit(project, file, old, new)
    assert planned(project, "reports/alpha.html") == steps("alpha", names=("notebook", "page"))


def test_editing_a_template_renders_all_reports_again(project):
    edit(project, "shared/reporting/templates/page.html", "<html>", "<html lang='en'>")
    expected = steps("alpha", "beta", names=("notebook", "page")) | INDEX
    assert planned(project) - {"all"} == expected


def test_editing_the_judge_judges_all_papers_again(project):
    edit(project, "shared/claims/__main__.py", "step, paper", "phase, paper, step")
    assert planned(project) - {"all"} == steps("alpha", "beta") | INDEX


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        (CODE, "RATE = 0.1", "RATE = 0.2"),
        ("shared/norms/one.py", "VALUE = 1", "VALUE = 3"),
        (PAPER, "width: 1", "width: 4"),
    ],
)
def test_editing_code_or_settings_of_one_paper_reruns_that_paper_only(project, file, old, new):
    edit(project, file, old, new)
    assert planned(project) - {"all"} == runs("alpha") | steps("alpha") | INDEX


def test_editing_the_envelope_reruns_every_run(project):
    edit(project, "shared/training/run.py", "started", "begun")
    assert planned(project) >= runs("alpha", "beta")


def test_editing_one_arm_reruns_that_arm_only(project):
    edit(project, PAPER, "depth: 3", "depth: 4")
    right = {name for name in runs("alpha") if "right" in name}
    assert planned(project) - {"all"} == right | steps("alpha") | INDEX


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        (CODE, '"""Measures."""', '"""Measures well."""  # a comment'),
        ("shared/norms/one.py", "VALUE = 1", "# one\n\nVALUE = 1  # one"),
        ("shared/training/run.py", "\nimport", '"""Fake."""\nimport'),
        (PAPER, "title: Toy", "title: Toy  # a comment"),
        ("environment.yml", "[]", "[pip]"),
        ("config/config.yaml", "scale: laptop", "# The default.\nscale: laptop"),
    ],
)
def test_editing_comments_or_docstrings_reruns_nothing(project, file, old, new):
    edit(project, file, old, new)
    assert planned(project) == set()


def test_swapping_the_values_of_two_settings_reruns(project):
    edit(project, PAPER, "width: 1\n      depth: 2", "width: 2\n      depth: 1")
    assert planned(project, "reports/alpha.html") == runs("alpha") | steps("alpha")


def test_changing_the_hash_of_a_data_set_reruns_its_consumers_only(project):
    registry(project, first="c", second="b")
    data = {"fetch first", "prepare first"}
    assert planned(project) - {"all"} == data | runs("alpha") | steps("alpha") | INDEX


def test_adding_a_data_set_or_a_paper_reruns_nothing_else(project):
    registry(project, first="a", second="b", third="c")
    assert planned(project) == set()
    (project / "papers/gamma").mkdir()
    for file in (project / "papers/beta").glob("*.*"):
        (project / "papers/gamma" / file.name).write_bytes(file.read_bytes())
    added = {name.replace("beta", "gamma") for name in runs("beta")}
    assert planned(project) - {"all"} == added | steps("gamma") | INDEX


def test_more_seeds_compute_only_the_new_runs(project):
    old = project / "results/laptop/runs/alpha/toy/left/seed-0/metrics.parquet"
    before = old.stat().st_mtime_ns
    result = snakemake(project, "reports/alpha.html", "--config", "seeds=5")
    assert result.returncode == 0, result.stderr
    computed = re.findall(r"\] run (\S+)", result.stderr)
    assert sorted(computed) == [
        f"alpha/toy/{a}/seed-{s}" for a in ("left", "right") for s in (3, 4)
    ]
    assert old.stat().st_mtime_ns == before
    assert "--seeds 5" in (project / "reports/alpha.html").read_text()
    again = snakemake(project, "reports/alpha.html", "--config", "seeds=5")
    assert "Nothing to be done" in again.stderr


def test_fewer_seeds_than_planned_compute_nothing(project):
    assert not planned(project, "reports/alpha.html", "--config", "seeds=2") & runs("alpha")


def test_an_override_reaches_the_runs_of_its_experiment_only(project):
    setting = 'overrides={"alpha.toy.settings.width": 1e-5, "alpha.toy.settings.init": "a b"}'
    result = snakemake(project, "--config", setting)
    assert result.returncode == 0, result.stderr
    computed = {f"run {name}" for name in re.findall(r"\] run (\S+)", result.stderr)}
    assert computed == runs("alpha")
    settings = (project / "results/laptop/runs/alpha/toy/left/seed-0/settings.json").read_text()
    assert "set=['settings.width=1.0e-05', 'settings.init=a b']" in settings
    assert planned(project) >= runs("alpha"), "without the override the runs are due again"


def test_scales_do_not_touch_each_other(project):
    assert planned(project, "reports/alpha.html", "--config", "scale=smoke") == {
        "run alpha/toy/left/seed-0",
        "run alpha/toy/right/seed-0",
        *steps("alpha"),
    }


@pytest.mark.parametrize(
    ("gone", "expected"),
    [
        (
            "results/laptop/runs/alpha/toy/left/seed-1",
            {"run alpha/toy/left/seed-1"} | steps("alpha") | INDEX,
        ),
        (
            "results/laptop/runs/alpha/toy/left/seed-1/settings.json",
            {"run alpha/toy/left/seed-1"} | steps("alpha") | INDEX,
        ),
        ("results/laptop/verdicts/alpha.json", steps("alpha", names=REPORT) | INDEX),
    ],
)
def test_a_lost_file_is_made_again_although_the_page_is_there(project, gone, expected):
    path = project / gone
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert planned(project) == expected
    assert snakemake(project).returncode == 0
    assert path.exists()
    assert planned(project) == set()


def test_a_derived_data_set_follows_its_source_and_its_own_code(project):
    halves = "shared/data/derived/halves.py"
    write(project / halves, "PARTS = 2\n")
    edit(project, "shared/records/derived.py", "DERIVED: ", 'DERIVED = {"halves": "first"}\n_: ')
    edit(project, "papers/beta/paper.yaml", "dataset: second", "dataset: halves")
    made = {"prepare halves"} | runs("beta") | steps("beta")
    assert planned(project, "reports/beta.html") == made
    assert snakemake(project, "reports/beta.html").returncode == 0
    assert planned(project, "reports/beta.html") == set()

    edit(project, halves, "2", "3")
    assert "prepare halves" in planned(project, "reports/beta.html")
    edit(project, halves, "3", "2")
    registry(project, first="c", second="b")
    expected = {"fetch first", "prepare first"} | made
    assert planned(project, "reports/beta.html") == expected
