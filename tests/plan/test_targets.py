"""What cannot be seen in a run of the workflow; the rest is proved in tests/workflow."""

from __future__ import annotations

import pytest
import yaml

from shared.plan.targets import Plan, exits_on_error, has_gpu, yaml_text
from shared.records.base import RecordError


@pytest.mark.parametrize(
    ("devices", "visible", "expected"),
    [
        ([], None, False),
        (["nvidiactl", "nvidia-uvm"], None, False),
        (["nvidia0", "nvidiactl"], None, True),
        (["dxg"], None, True),
        (["nvidia0"], "", False),
        (["nvidia0"], "0", True),
    ],
)
def test_a_gpu_is_one_that_a_run_could_use(tmp_path, monkeypatch, devices, visible, expected):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    for name in devices:
        (tmp_path / name).touch()
    assert has_gpu(tmp_path) is expected


@pytest.mark.parametrize(
    "value",
    [1, 1e-5, 1e30, -0.5, True, None, "he", "1", "1e-5", "true", "a b: c", [1, "x"], {"a": [1.0]}],
)
def test_values_of_overrides_survive_the_command_line(value):
    text = yaml_text(value)
    assert "\n" not in text
    read = yaml.safe_load(text)
    assert (read, type(read)) == (value, type(value))


def test_a_record_error_ends_the_process_with_its_message():
    def read():
        raise RecordError("papers/p/paper.yaml:3: wrong")

    with pytest.raises(SystemExit, match=r"^Error: papers/p/paper.yaml:3: wrong$"):
        exits_on_error(read)()


def test_a_wrong_configuration_ends_the_process():
    with pytest.raises(SystemExit, match="scale: got 'tiny'"):
        Plan({"scale": "tiny"})
