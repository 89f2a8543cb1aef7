from __future__ import annotations

import json

from shared.reporting.index import write_index

from .test_page import Tree


def index(root, scale="laptop"):
    html = (root / write_index(scale)).read_text(encoding="utf-8")
    return html, " ".join(Tree(html).text.split())


def test_every_paper_is_listed_with_its_answer_or_its_command(own_tree):
    html, text = index(own_tree)
    assert '<a href="toy.html">Scaled Initialization' in html
    assert "Yes, as far as decided. At laptop scale" in text
    assert "1 of 2 papers have verdicts" in text
    assert "A Paper That Waits" in text
    assert "not run yet Run it: snakemake reports/idle.html" in text
    assert 'href="idle.html"' not in html


def test_another_scale_has_its_own_verdicts_and_command(own_tree):
    _, text = index(own_tree, "full")
    assert "0 of 2 papers have verdicts" in text
    assert "snakemake reports/toy.html --config scale=full" in text


def test_counts_are_summed_over_papers(own_tree):
    verdicts = own_tree / "results/laptop/verdicts"
    content = json.loads((verdicts / "toy.json").read_text("utf-8"))
    (verdicts / "idle.json").write_text(json.dumps({**content, "paper": "idle"}), "utf-8")
    _, text = index(own_tree)
    assert "6 reproduced 4 not reproduced 2 inconclusive 4 not run" in text
