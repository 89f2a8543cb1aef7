"""ResNet-50 on a folder of images that the test writes: two steps through the whole envelope."""

from __future__ import annotations

import polars as pl
import pytest

from shared.records.base import read_record
from shared.records.metrics import read_metrics
from shared.records.run import Provenance


@pytest.mark.parametrize("arm", ["fixup_mixup", "batchnorm"])
def test_two_steps_on_a_folder_of_images(run_on_imagenet, arm):
    directory = run_on_imagenet(
        *("fixup", "imagenet_resnet50", arm),
        "trainer.max_epochs=1",
        *("settings.batch_size=4", "settings.image_size=32", "settings.num_workers=0"),
    )
    outcome = read_record(directory / "provenance.json", Provenance).outcome
    assert (outcome.status, outcome.step) == ("finished", 2)
    rows = read_metrics(directory / "metrics.parquet")
    errors = rows.filter(pl.col("metric") == "test_error_percent")
    assert errors["step"].to_list() == [2]
