"""Contrast of the style sheets (WCAG 2.2: 4.5 for text, 3 for graphics)."""

from __future__ import annotations

import re

import pytest

from shared.reporting.templates import FOLDER
from shared.reporting.vega import LIGHT_SERIES


def variables(file):
    text = (FOLDER / file).read_text(encoding="utf-8")
    return dict(re.findall(r"--([a-z-]+): ([^;]+);", text))


LIGHT = variables("style.css")
THEMES = {"light": LIGHT, "dark": {**LIGHT, **variables("dark.css")}}
THEME = pytest.mark.parametrize("theme", THEMES.values(), ids=THEMES)


def luminance(color):
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@THEME
@pytest.mark.parametrize("ground", ["bg", "surface"])
@pytest.mark.parametrize("text", ["ink", "muted", "accent", "good", "bad", "open", "none"])
def test_text_can_be_read(theme, text, ground):
    assert contrast(theme[text], theme[ground]) >= 4.5


@THEME
@pytest.mark.parametrize("tone", ["good", "bad", "open", "none"])
def test_badges_can_be_read(theme, tone):
    assert contrast(theme[tone], theme[f"{tone}-bg"]) >= 4.5
    assert contrast(theme["ink"], theme[f"{tone}-bg"]) >= 4.5
    assert contrast(theme["accent"], theme[f"{tone}-bg"]) >= 4.5


@THEME
def test_lines_and_marks_can_be_seen(theme):
    for color in theme["series"].split(", "):
        assert contrast(color, theme["bg"]) >= 3, color


def test_pictures_have_the_colours_of_the_light_page():
    assert LIGHT["series"].split(", ") == list(LIGHT_SERIES)


def test_both_themes_define_the_same_colours():
    colors = {name for name, value in LIGHT.items() if value.startswith("#")}
    assert colors <= variables("dark.css").keys()
