"""Fetch: the canonical raw bytes of a data set, verified, in data/NAME/."""

from __future__ import annotations

import sys
from pathlib import Path

from shared.data.lock import alone
from shared.data.registry import FETCHED, RAW, DataError, find
from shared.data.sources import MIRROR, SOURCES, NotApplicableError, SourceError
from shared.data.verified import WrongFileError, check, describe
from shared.records.base import RecordError, read_record, write_json
from shared.records.dataset import Dataset, RawFile, Receipt
from shared.records.derived import DERIVED


def fetch(name: str) -> Receipt:
    """Puts the files of a data set into data/NAME/ and writes results/fetched/NAME.json.

    Right files that are already there are kept, and a wrong one is never replaced. Of several
    processes that fetch the same data set one works and the others wait.

    Raises:
        DataError: the files could not be had; says what was tried and what to do.
    """
    if name in DERIVED:
        raise DataError(
            f"{name} is made of {DERIVED[name]} and has no raw files. Fetch and prepare "
            f"{DERIVED[name]}, then run `python -m shared.data prepare {name}`."
        )
    dataset = find(name)
    folder = RAW / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with alone(RAW / f".{name}.lock", f"fetch {name}"):
            source = _complete(dataset, folder)
            receipt = _write_receipt(dataset, source)
    except OSError as error:
        raise DataError(f"{name}: {describe(error, folder)}") from None
    _say(f"{name}: verified in {folder} ({source})")
    return receipt


def _complete(dataset: Dataset, folder: Path) -> str:
    """Gets what is missing from the sources, one after the other; names those that gave files."""
    missing = _missing(dataset, folder)
    if not missing:
        return "already there"
    used, tried = [], []
    for label, source in SOURCES.items():
        before = missing
        try:
            source(dataset, missing, folder)
            reason = "did not give all files"
        except SourceError as error:
            reason = str(error)
            if not isinstance(error, NotApplicableError):
                _say(f"{dataset.name}: {label}: {reason}")
        missing = _missing(dataset, folder)
        if len(missing) < len(before):
            used.append(label)
        if not missing:
            return ", ".join(used)
        tried.append(f"{label}: {reason}")
    raise DataError(_advice(dataset, missing, folder, tried))


def _missing(dataset: Dataset, folder: Path) -> list[RawFile]:
    """The files that are not there. One that is there but wrong is the user's: never touched."""
    missing = []
    for file in dataset.meta.files:
        path = folder / file.name
        if not path.exists() and not path.is_symlink():
            missing.append(file)
            continue
        try:
            if not path.is_file():
                raise WrongFileError("not a file, or a link that leads nowhere")
            check(path, file)
        except WrongFileError as error:
            raise DataError(
                f"{path}: {error}. Restore it, or delete it and run "
                f"`python -m shared.data fetch {dataset.name}` again."
            ) from None
    return missing


def _advice(dataset: Dataset, missing: list[RawFile], folder: Path, tried: list[str]) -> str:
    lines = [f"{dataset.name}: {len(missing)} of {len(dataset.meta.files)} files are missing."]
    lines += ["Tried:", *(f"  {reason}" for reason in tried)]
    if dataset.meta.manual:
        lines += [f"What to do: {dataset.meta.manual}"]
    lines += [
        f"Put these files into {folder}/, or into a folder (as NAME or NAME.gz) that the "
        f"environment variable {MIRROR} names, and run the same command again:"
    ]
    lines += [
        f"  {file.name}  {file.size} bytes  sha256 {file.sha256}"
        + (f"\n    from {file.url}" if file.url else "")
        for file in missing
    ]
    return "\n".join(lines)


def _write_receipt(dataset: Dataset, source: str) -> Receipt:
    path = FETCHED / f"{dataset.name}.json"
    receipt = Receipt(
        dataset=dataset.name,
        files={file.name: file.sha256 for file in dataset.meta.files},
        source=source,
        licence=dataset.meta.licence,
    )
    try:
        old = read_record(path, Receipt) if path.exists() else None
    except RecordError:
        old = None
    if old is not None and old.model_copy(update={"source": source}) == receipt:
        return old  # it also says where the files came from when they came
    write_json(path, receipt)
    return receipt


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
