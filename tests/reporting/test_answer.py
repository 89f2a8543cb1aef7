from __future__ import annotations

import itertools
import math

import pytest

from shared.records.claim import Bound
from shared.records.verdict import ClaimVerdict
from shared.reporting.answer import answer, counts, evidence, strength
from shared.reporting.inputs import Judged, read_inputs


@pytest.fixture
def inputs(tree, monkeypatch):
    monkeypatch.chdir(tree)
    return read_inputs("toy", "laptop")


def with_verdicts(inputs, *words):
    """The main claims of the fake paper with other verdicts and without numbers."""
    main = [item for item in inputs.judged if item.claim.id in inputs.paper.main_claims]
    return tuple(
        Judged(
            item.claim,
            ClaimVerdict(id=item.claim.id, verdict=word, reason="", kind=item.claim.kind),
        )
        for item, word in zip(itertools.cycle(main), words, strict=False)
    )


@pytest.mark.parametrize(
    ("words", "headline", "part"),
    [
        (("reproduced", "reproduced"), "Yes.", "both main claims are reproduced"),
        (("not_reproduced", "not_reproduced"), "No.", "both main claims are not reproduced"),
        (("reproduced", "not_reproduced"), "In part.", "1 is not reproduced"),
        (("reproduced", "inconclusive"), "Yes, as far as decided.", "1 is inconclusive"),
        (("reproduced", *["inconclusive"] * 2), "Mostly undecided.", "2 are inconclusive"),
        (("not_reproduced", *["not_run"] * 2), "Mostly undecided.", "2 are not run"),
        (("not_run", "not_reproduced"), "No, as far as decided.", "1 is not run"),
        (("inconclusive", "not_run"), "Undecided.", "1 is inconclusive"),
        (("not_run", "not_run"), "Not run.", "both main claims are not run"),
    ],
)
def test_the_answer_follows_from_the_main_verdicts(inputs, words, headline, part):
    said = answer(inputs.paper, with_verdicts(inputs, *words), "laptop")
    assert said.headline == headline
    assert part in said.sentence
    assert "laptop scale" in said.sentence


def test_smoke_scale_answers_nothing(inputs):
    said = answer(inputs.paper, with_verdicts(inputs, "reproduced", "reproduced"), "smoke")
    assert (said.headline, said.tone) == ("No answer.", "not_run")


def test_counts_name_every_verdict(inputs):
    assert counts(inputs.judged) == {
        "reproduced": 3,
        "not_reproduced": 2,
        "inconclusive": 1,
        "not_run": 2,
    }
    assert counts([]) == dict.fromkeys(counts(inputs.judged), 0)


def decided(verdict, low, mid, high, kind="gap", **bound):
    return ClaimVerdict(
        id="c",
        verdict=verdict,
        reason="",
        kind=kind,
        estimate=mid,
        low=low,
        high=high,
        bound=Bound(**bound),
    )


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (decided("reproduced", 2, 3, 4, at_least=1), 2.0),
        (decided("reproduced", 2, 3, 4, at_most=4), 1.0),
        (decided("reproduced", 2, 3, 4, at_least=0, at_most=5), 2.0),
        (decided("not_reproduced", 2, 3, 4, at_most=0), 3.0),
        (decided("not_reproduced", 2, 3, 4, at_least=6), 3.0),
        (decided("not_reproduced", 2, 3, 4, at_least=-2, at_most=-1), 4.0),
        (decided("inconclusive", 2, 3, 4, at_least=3), None),
        (decided("reproduced", None, 3, 4, at_least=1), None),
    ],
)
def test_strength_is_measured_in_parts_of_the_interval(verdict, expected):
    assert strength(verdict) == expected


def test_the_strength_of_a_ratio_is_logarithmic():
    claim = decided("reproduced", 1.0, 2.0, 4.0, kind="ratio", at_least=0.25)
    assert math.isclose(strength(claim), 3.0)


def test_the_narrowest_decision_is_measured(inputs):
    by_id = {item.claim.id: item for item in inputs.judged}
    judged = (by_id["toy1_depth"], by_id["toy3_ratio"])
    paper = inputs.paper.model_copy(update={"main_claims": ("toy1_depth", "toy3_ratio")})
    weak = strength(judged[0].verdict)
    assert weak < strength(judged[1].verdict)
    sentence = answer(paper, judged, "laptop").sentence
    assert f"would stand with an interval {weak:.2g} times as wide" in sentence


def test_evidence_has_unit_interval_and_bound(inputs):
    text = evidence(inputs.judged[1].verdict)
    assert text == "1.21 percent (97.5 % interval 0.31 … 2.12); accepted ≤ 2"
    assert evidence(inputs.judged[-1].verdict) == ""
