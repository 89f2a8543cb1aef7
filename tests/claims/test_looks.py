"""Looks at the data: what they spend, what is remembered, what a reader is told."""

from __future__ import annotations

import pytest

from shared.claims.judge import judge
from shared.claims.looks import alpha_of_look, append_looks, claim_sha256, read_ledger
from shared.records.base import RecordError
from shared.records.verdict import Look
from tests.claims.cases import KINDS, good, make_claim, make_paper, make_table, run_rows

CHANGED = "the test was changed after data were seen"


def look_at(claim, numbers, seeds, ledger=(), wanted=None):
    """One call of the judge with a ledger; returns the verdict and the ledger afterwards."""
    paper = make_paper(claim, seeds=seeds)
    verdicts, new = judge("p", paper, make_table(numbers), "laptop", wanted, ledger)
    return verdicts.claims[0], (*ledger, *new)


def cut(numbers, seeds):
    return {arm: values[:seeds] for arm, values in numbers.items()}


def test_the_shares_add_up_to_less_than_alpha():
    shares = [alpha_of_look(0.05, look) for look in range(1, 60)]
    assert shares[:3] == pytest.approx([0.04, 0.005, 0.0025])
    assert sum(shares) <= 0.05 + 1e-15
    assert sum(shares) == pytest.approx(0.05)


def test_more_seeds_are_another_look_with_less_alpha():
    numbers = good("gap")
    ledger = ()
    for seeds, confidence in [(5, 0.92), (7, 0.99), (8, 0.995)]:
        verdict, ledger = look_at(make_claim("gap"), cut(numbers, seeds), 5, ledger, wanted=seeds)
        assert verdict.confidence == pytest.approx(confidence)
        assert verdict.looks == ledger
        assert verdict.warnings == ()
    assert [look.seeds for look in ledger] == [5, 7, 8]
    assert [look.alpha for look in ledger] == pytest.approx([0.04, 0.005, 0.0025])


def test_the_same_look_again_costs_nothing():
    first, ledger = look_at(make_claim("gap"), good("gap"), 8)
    again, after = look_at(make_claim("gap"), good("gap"), 8, ledger)
    assert after == ledger
    assert again == first


def test_fewer_seeds_than_were_looked_at_give_no_verdict():
    numbers = good("gap")
    _, ledger = look_at(make_claim("gap"), numbers, 8)
    verdict, ledger = look_at(make_claim("gap"), cut(numbers, 5), 5, ledger)
    assert ledger[-1].alpha == 0
    assert verdict.verdict == "inconclusive"
    assert "8 seeds were looked at before and only 5 are judged now" in verdict.reason
    verdict, _ = look_at(make_claim("gap"), numbers, 8, ledger)
    assert verdict.verdict == "reproduced"


def test_computed_again_with_other_numbers_is_told():
    numbers = good("gap")
    other = numbers | {"a": [x + 0.01 for x in numbers["a"]]}
    _, ledger = look_at(make_claim("gap"), numbers, 8)
    verdict, ledger = look_at(make_claim("gap"), other, 8, ledger)
    assert [look.alpha for look in ledger] == pytest.approx([0.04, 0.04])
    assert len({look.metrics_sha256 for look in ledger}) == 2
    assert "the look with 8 seeds was repeated with other numbers" in verdict.warnings[0]
    back, after = look_at(make_claim("gap"), numbers, 8, ledger)
    assert after == ledger
    assert back.warnings == verdict.warnings


@pytest.mark.parametrize(
    "change",
    [
        {"metric": "other"},
        {"arms": ("b", "a")},
        {"bound": {"at_least": 0.9}},
        {"alpha": 0.1},
        {"at": "max"},
        {"split": "none"},
        {"unit": "nats"},
        {"experiment": "f"},
    ],
)
def test_each_part_of_the_test_enters_its_digest(change):
    assert claim_sha256(make_claim("gap", **change)) != claim_sha256(make_claim("gap"))


def test_kind_success_and_x_enter_the_digest():
    assert claim_sha256(make_claim("gap", bound={"at_least": 1.5})) != claim_sha256(
        make_claim("ratio")
    )
    rate, trend = make_claim("rate"), make_claim("trend")
    assert claim_sha256(rate) != claim_sha256(make_claim("rate", success={"at_most": 21.0}))
    assert claim_sha256(trend) != claim_sha256(make_claim("trend", x=(3.0, 2.0, 0.0)))


@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_test_is_told_for_ever(kind):
    claim = make_claim(kind)
    changed = make_claim(kind, alpha=0.04)
    _, ledger = look_at(claim, good(kind), 8)
    verdict, ledger = look_at(changed, good(kind), 8, ledger)
    assert CHANGED in verdict.warnings
    back, _ = look_at(claim, good(kind), 8, ledger)
    assert CHANGED in back.warnings


def test_text_is_not_part_of_the_test():
    _, ledger = look_at(make_claim("gap"), good("gap"), 8)
    reworded = make_claim("gap", statement="Other words.", bound_reason="why", would_change="this")
    verdict, after = look_at(reworded, good("gap"), 8, ledger)
    assert (verdict.warnings, after) == ((), ledger)


def test_a_test_that_changed_after_a_divergence_was_seen_is_told():
    runs = make_table({"a": good("value")["a"][:7]})
    runs = runs.vstack(run_rows("a", 7, [], diverged=True))
    value, rate = make_claim("value"), make_claim("rate")
    verdicts, looks = judge("p", make_paper(value), runs, "laptop")
    assert verdicts.claims[0].verdict == "inconclusive"
    assert [look.alpha for look in looks] == [0.0]
    verdicts, more = judge("p", make_paper(rate), runs, "laptop", None, looks)
    assert CHANGED in verdicts.claims[0].warnings
    assert [look.alpha for look in more] == pytest.approx([0.04]), "the first real test"


def test_a_look_without_a_test_does_not_use_up_the_first_share():
    runs = make_table({"a": good("value")["a"][:7]}).vstack(run_rows("a", 7, [], diverged=True))
    _, looks = judge("p", make_paper(make_claim("value")), runs, "laptop")
    more = runs.vstack(run_rows("a", 8, [15.0]))
    _, new = judge("p", make_paper(make_claim("rate")), more, "laptop", 9, looks)
    assert [(look.seeds, look.alpha) for look in new] == [(9, pytest.approx(0.04))]


def test_a_claim_that_was_taken_out_after_a_look_says_so():
    _, ledger = look_at(make_claim("gap"), good("gap"), 8)
    verdict, after = look_at(make_claim("gap", not_run="too dear"), good("gap"), 8, ledger)
    assert verdict.verdict == "not_run"
    assert verdict.warnings == ("the data were looked at before the claim was taken out",)
    assert verdict.looks == after == ledger


def test_missing_runs_are_not_a_look():
    _, ledger = look_at(make_claim("gap"), cut(good("gap"), 7), 8)
    assert ledger == ()


def test_the_ledger_is_kept_on_disk(tmp_path):
    path = tmp_path / "looks" / "p.jsonl"
    assert read_ledger(path) == ()
    looks = [
        Look(claim="c", seeds=n, alpha=0.1, claim_sha256="x", metrics_sha256="y") for n in (5, 8)
    ]
    append_looks(path, looks[:1])
    append_looks(path, [])
    append_looks(path, looks[1:])
    assert read_ledger(path) == tuple(looks)
    assert path.read_text().count("\n") == 2
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("damage", ["cut", "text", "key", "empty line", "bytes"])
def test_a_damaged_ledger_is_an_error_that_names_the_line(tmp_path, damage):
    path = tmp_path / "p.jsonl"
    look = Look(claim="c", seeds=5, alpha=0.1, claim_sha256="x", metrics_sha256="y")
    append_looks(path, [look, look])
    whole = path.read_bytes()
    path.write_bytes(
        {
            "cut": whole[:-5],
            "text": whole.replace(b"}\n{", b"}\nx{"),
            "key": whole[: len(whole) // 2] + b'{"claim": "c"}\n',
            "empty line": whole.replace(b"}\n{", b"}\n\n{"),
            "bytes": whole[: len(whole) // 2] + b"\xff\xfe\n",
        }[damage]
    )
    with pytest.raises(RecordError, match=r"p\.jsonl:2: damaged look.*Restore the file"):
        append_looks(path, [look])
