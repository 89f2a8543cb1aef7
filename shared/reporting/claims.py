"""One row of the verdict table for each claim, with what stands behind it."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from shared.records.claim import Claim
from shared.records.verdict import ClaimVerdict
from shared.reporting.answer import WORDS, strength
from shared.reporting.glyph import glyph
from shared.reporting.inputs import Inputs, Judged
from shared.reporting.numbers import NO_NUMBER, accepted, half_width, interval, number, percent
from shared.reporting.scaled import scale_note


@dataclass(frozen=True)
class ClaimView:
    """What the template shows of a claim. All texts are plain; the template escapes them."""

    claim: Claim
    verdict: ClaimVerdict
    main: bool
    word: str
    reason: str
    estimate: str
    interval: str
    bound: str
    scale_note: str
    glyph: Markup
    test: str
    facts: tuple[tuple[str, str], ...]
    per_seed: tuple[str, ...]


def claim_views(inputs: Inputs) -> list[ClaimView]:
    """The rows of the verdict table, in the order of paper.yaml."""
    return [_view(item, inputs) for item in inputs.judged]


def _view(item: Judged, inputs: Inputs) -> ClaimView:
    claim, verdict = item.claim, item.verdict
    spread = half_width(verdict.low, verdict.high)
    measured = verdict.estimate is not None
    bound = verdict.bound or claim.bound
    return ClaimView(
        claim=claim,
        verdict=verdict,
        main=claim.id in inputs.paper.main_claims,
        word=WORDS[verdict.verdict],
        reason=sentence(verdict.reason),
        estimate=number(verdict.estimate, spread) if measured else NO_NUMBER,
        interval=_interval(verdict),
        bound=f"{accepted(bound)} {verdict.unit or claim.printed_unit}".rstrip()
        if bound
        else NO_NUMBER,
        scale_note=f": {note}" if (note := scale_note(inputs, claim)) else "",
        glyph=glyph(verdict),
        test="" if claim.not_run else describe_test(claim),
        facts=tuple(_facts(verdict)),
        per_seed=tuple(number(value, spread) for value in verdict.per_seed),
    )


def sentence(text: str) -> str:
    """A reason of the judge as a sentence.

    Example:
        >>> sentence("the interval lies inside"), sentence("No data.")
        ('The interval lies inside.', 'No data.')
    """
    text = text.strip()
    end = "" if text.endswith((".", "!", "?")) else "."
    return f"{text[:1].upper()}{text[1:]}{end}"


def describe_test(claim: Claim) -> str:
    """The test in words.

    Example:
        >>> from shared.records.claim import Bound, Source
        >>> describe_test(Claim(id="c", statement="s", source=Source(where="w", verified=True),
        ...     kind="gap", experiment="e", arms=("a", "b"), metric="test_error_percent",
        ...     unit="percent", bound=Bound(at_most=1.0), bound_reason="r"))
        'test_error_percent (test, last value) of a minus b, paired by seed, is ≤ 1 percent.'
    """
    metric = f"{claim.metric}{_where(claim)}"
    arms = " → ".join(claim.arms)
    what = {
        "value": f"{metric} of {arms} is",
        "gap": f"{metric} of {' minus '.join(claim.arms)}, paired by seed, is",
        "ratio": f"{metric} of {' over '.join(claim.arms)}, paired by seed, is",
        "ordering": f"{metric}, each arm minus the next ({arms}), is everywhere",
        "trend": f"The slope of {metric} over x = {', '.join(f'{x:g}' for x in claim.x)} "
        f"({arms}), one per seed, is",
        "rate": f"The share of runs of {arms} with {metric} {_success(claim)} is",
        "exact": f"The largest {metric} of all runs of {', '.join(claim.arms)} is",
    }[claim.kind]
    if claim.bound is None:
        return f"{what} tested."
    unit = {"rate": "", "ratio": "", "trend": f"{claim.printed_unit} per unit of x"}.get(
        claim.kind, claim.printed_unit
    )
    return f"{what} {f'{accepted(claim.bound)} {unit.lstrip()}'.rstrip()}."


def _where(claim: Claim) -> str:
    """Which rows of a metric count; a measurement has neither splits nor steps."""
    if claim.split == "none" and claim.at == "last":
        return ""
    which = "mean" if claim.at == "mean" else f"{claim.at} value"
    return f" ({which})" if claim.split == "none" else f" ({claim.split}, {which})"


def _success(claim: Claim) -> str:
    return f"{accepted(claim.success)} {claim.printed_unit}".rstrip() if claim.success else ""


def _interval(verdict: ClaimVerdict) -> str:
    if verdict.low is None and verdict.high is None:
        return ""
    return interval(verdict.low, verdict.high)


def _facts(verdict: ClaimVerdict) -> list[tuple[str, str]]:
    facts = []
    if verdict.effect_size is not None:
        name = verdict.effect_size_name or "effect over the spread of seeds"
        facts.append(("Effect size", f"{number(verdict.effect_size)} ({name})"))
    if verdict.confidence is not None:
        facts.append(("Confidence of the interval", percent(verdict.confidence)))
    if (value := strength(verdict)) is not None:
        facts.append(("Strength", f"{value:.2g} times the distance that decides"))
    if verdict.seeds_to_decide is not None:
        facts.append(
            ("Seeds that would decide", f"{verdict.seeds_to_decide} (80 % power, observed spread)")
        )
    return facts
