"""Digests of what a run reads: prepared data and the weights of other runs."""

from __future__ import annotations

from shared.data.registry import PREPARED
from shared.records.base import RecordError, read_record, sha256_of
from shared.records.experiment import RunSettings
from shared.records.run import Provenance

WEIGHTS = "weights.safetensors"


def data_sha256(settings: RunSettings) -> str | None:
    """The digest of the prepared data's manifest, which holds the digest of every array.

    Raises:
        RecordError: the data were not prepared.
    """
    if settings.dataset is None:
        return None
    manifest = PREPARED / settings.dataset / "manifest.json"
    if not manifest.is_file():
        raise RecordError(
            f"{manifest}: no such file. Run `python -m shared.data fetch {settings.dataset}` and "
            f"`python -m shared.data prepare {settings.dataset}`, or let snakemake do it."
        )
    return sha256_of(manifest)


def needs_sha256(settings: RunSettings) -> dict[str, str]:
    """Artefact name -> digest of its weights, as its run recorded it."""
    return {
        name: read_record(key.directory() / "provenance.json", Provenance).files[WEIGHTS]
        for name, key in settings.needs.items()
    }


def input_digests(settings: RunSettings) -> list[str]:
    return [data_sha256(settings) or "", *needs_sha256(settings).values()]
