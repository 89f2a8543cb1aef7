"""paper.yaml: all that is particular to a paper and not code."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, model_validator

from shared.records.base import Record, read_record
from shared.records.catalog import PAPERS, paper_file
from shared.records.claim import Claim
from shared.records.experiment import Experiment, Name


class Paper(Record):
    """One paper: citation, experiments, claims and deviations."""

    title: str
    authors: tuple[str, ...]
    year: int
    venue: str
    arxiv: str = Field(
        pattern=r"^\d{4}\.\d{4,5}v\d+$", description="with the version that was read"
    )
    code: str = Field("", description="URL of the official or the authors' code")
    summary: str = Field(description="the paper's main point, in our words")
    main_claims: tuple[Name, ...] = Field(description="the claims that answer `does it hold here?`")
    here: str = Field(description="what `here` means: the laptop scale in one or two sentences")
    experiments: dict[Name, Experiment]
    claims: tuple[Claim, ...]
    deviations: tuple[str, ...]

    @model_validator(mode="after")
    def _references_exist(self) -> Paper:
        ids = [claim.id for claim in self.claims]
        repeated = {name for name in ids if ids.count(name) > 1}
        if repeated:
            raise ValueError(f"claim ids are unique; these stand twice: {sorted(repeated)}")
        if set(self.main_claims) - set(ids):
            raise ValueError(f"main_claims are ids of claims; the ids are {', '.join(ids)}")
        for claim in self.claims:
            if claim.experiment is None:
                continue
            if claim.experiment not in self.experiments:
                raise ValueError(
                    f"{claim.id}: got experiment {claim.experiment!r}, expected one of "
                    f"{', '.join(self.experiments)}"
                )
            arms = self.experiments[claim.experiment].all_arms()
            if unknown := [arm for arm in claim.arms if arm not in arms]:
                raise ValueError(f"{claim.id}: got arms {unknown}, expected of {', '.join(arms)}")
        for name, experiment in self.experiments.items():
            for ref in experiment.needs.values():
                source = self.experiments.get(ref.experiment)
                if source is None or ref.arm not in source.all_arms():
                    raise ValueError(f"{name}.needs: no run {ref.experiment}/{ref.arm}")
        return self


def read_paper(name: str, root: Path = PAPERS) -> Paper:
    """Reads and validates a paper by its name."""
    return read_record(paper_file(name, root), Paper)
