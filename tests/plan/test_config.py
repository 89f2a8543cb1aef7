"""What a user may configure, and what a wrong value says."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from shared.plan.config import SCHEMA, read_config, schema_text
from shared.records.base import RecordError


def test_nothing_means_laptop_scale():
    config = read_config({})
    assert (config.scale, config.seeds, config.overrides) == ("laptop", None, {})


def test_the_shipped_file_is_valid():
    content = yaml.safe_load(Path("config/config.yaml").read_text(encoding="utf-8"))
    assert read_config(content).scale == "laptop"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"scale": "tiny"}, r"scale: got 'tiny'.*'smoke', 'laptop' or 'full'"),
        ({"seeds": 0}, r"seeds: got 0.*greater than or equal to 1"),
        ({"seeds": 1001}, r"seeds: got 1001.*less than or equal to 1000"),
        ({"seeds": "many"}, r"seeds: got 'many'.*integer"),
        ({"sede": 3}, r"sede: unknown key, expected one of scale, seeds, overrides"),
        ({"overrides": {"lr": 1}}, r"overrides: got 'lr', expected PAPER.EXPERIMENT.SECTION.NAME"),
        ({"overrides": {"p.e.lr.x": 1}}, r"overrides: got 'p.e.lr.x', expected"),
        ({"overrides": 3}, r"overrides: got 3\."),
    ],
)
def test_a_wrong_value_gives_one_message(config, message):
    with pytest.raises(RecordError, match=message) as caught:
        read_config(config)
    assert len(str(caught.value).splitlines()) == 1


def test_all_faults_are_told_at_once():
    with pytest.raises(RecordError, match=r"(?s)scale: .*\n.*seeds: "):
        read_config({"scale": "tiny", "seeds": 0})


def test_overrides_of_one_experiment():
    config = read_config({"overrides": {"p.deep.trainer.max_steps": 3, "p.deep2.settings.lr": 0.1}})
    assert config.overrides_of("p", "deep") == {"trainer.max_steps": 3}
    assert config.overrides_of("q", "deep") == {}


def test_values_from_the_command_line_get_their_type_back():
    """`--config 'overrides={...}'` hands over every value inside as text."""
    text = {"p.e.settings.a": "1e-5", "p.e.settings.b": "he", "p.e.settings.c": ["1", "2"]}
    assert list(read_config({"overrides": text}).overrides.values()) == [1e-5, "he", [1, 2]]


def test_the_schema_file_is_up_to_date():
    assert SCHEMA.read_text(encoding="utf-8") == schema_text(), "run python -m shared.plan.config"
