"""What a paper's code sees of its run."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from shared.records.experiment import RunKey, RunSettings
from shared.records.run import Outcome
from shared.training.inputs import WEIGHTS
from shared.training.recorder import Recorder

if TYPE_CHECKING:
    import numpy as np
    import torch

    from shared.data.load import PreparedData

PREDICTIONS = "predictions.safetensors"


@dataclass(frozen=True)
class Computed:
    """How the computing of a run went. `first_step_at` is in seconds since the epoch."""

    outcome: Outcome
    wall_seconds: float
    processor_seconds: float
    first_step_at: float | None
    resumed_at_steps: tuple[int, ...] = ()


@dataclass
class Run:
    """One run of an experiment, handed to the paper's module or measurement.

    Attributes:
        settings: all that was resolved from paper.yaml; `settings.settings` are the paper's own.
        directory: where the files of the run go.
        device: where to compute.
    """

    settings: RunSettings
    directory: Path
    device: torch.device
    recorder: Recorder = field(default_factory=Recorder)

    @property
    def key(self) -> RunKey:
        return self.settings.key

    def dataset(self, name: str | None = None) -> PreparedData:
        """The prepared arrays of the experiment's data set, memory-mapped.

        Raises:
            ValueError: the experiment names no data set, or another than `name`.
        """
        from shared.data.load import load

        own = self.settings.dataset
        if own is None or (name is not None and name != own):
            raise ValueError(
                f"{self.key}: got data set {name!r}, expected the experiment's {own!r}. "
                "Name it under `data.dataset` in paper.yaml, so that a change of it reruns the run."
            )
        return load(own)

    def artifact(self, name: str) -> Path:
        """The final weights (safetensors) of a run named under `needs`.

        Raises:
            ValueError: no such name under `needs`.
            FileNotFoundError: that run has not been computed.
        """
        if name not in self.settings.needs:
            known = ", ".join(self.settings.needs) or "(none)"
            raise ValueError(f"{self.key}: got artefact {name!r}, `needs` has {known}")
        path = self.settings.needs[name].directory() / WEIGHTS
        if not path.is_file():
            raise FileNotFoundError(
                f"{path}: the artefact {name!r} is missing. `snakemake` computes it first; by hand "
                f"run {self.settings.needs[name]} before this one."
            )
        return path

    def save_image(self, name: str, image: np.ndarray) -> None:
        """Writes images/NAME.png. Shape: (H, W) or (H, W, 3). Dtype: uint8."""
        from PIL import Image

        if image.dtype.name != "uint8":
            raise TypeError(f"image {name!r}: got {image.dtype}, expected uint8 (0..255)")
        path = self.directory / "images" / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)

    def save_predictions(self, probabilities_NC: torch.Tensor, labels_N: torch.Tensor) -> None:
        """Writes the class probabilities of every test example. Dtype: float32 and int64."""
        import torch
        from safetensors.torch import save_file

        save_file(
            {
                "probabilities": probabilities_NC.to("cpu", torch.float32).contiguous(),
                "labels": labels_N.to("cpu", torch.int64).contiguous(),
            },
            self.directory / PREDICTIONS,
        )
