"""The page in a real browser: no error, no request, nothing wider than the screen."""

from __future__ import annotations

import pytest

from .browser import Browser, executable
from .conftest import reporting

pytestmark = pytest.mark.skipif(
    executable() is None, reason="no Chromium: apt-get install chromium"
)

DRAWN = "[...document.querySelectorAll('figure .live')].every(e => e.dataset.drawn)"
BACKGROUND = "getComputedStyle(document.body).backgroundColor"
LINE = "document.querySelector('figure .live svg .mark-line path').getAttribute('stroke')"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [400, 1280])
def test_the_page_works(browser, page, width, dark):
    browser.open(page, width, dark, DRAWN)
    assert browser.errors() == []
    assert browser.requests() == []
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.evaluate("document.querySelectorAll('figure .live svg').length") == 4
    assert browser.evaluate(BACKGROUND) == ("rgb(15, 19, 24)" if dark else "rgb(255, 255, 255)")
    assert browser.evaluate("document.title").startswith("Scaled Initialization")


@pytest.mark.parametrize(("width", "stacked"), [(400, True), (1280, False)])
def test_rows_become_cards_on_a_narrow_screen(browser, page, width, stacked):
    browser.open(page, width, ready=DRAWN)
    for table in (".verdicts", ".plain"):
        row = f"document.querySelector('{table} tbody tr:has(td:nth-child(3))')"
        one, two = (f"{row}.children[{i}].getBoundingClientRect()" for i in (0, 1))
        assert browser.evaluate(f"{one}.bottom <= {two}.top") == stacked, table


def test_nothing_is_cut_off_on_a_narrow_screen_when_all_is_open(browser, page):
    browser.open(page, 400, ready=DRAWN)
    browser.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
    browser.evaluate(
        "[...document.querySelectorAll('.expand')].slice(0, 5).forEach(b => b.click())"
    )
    assert browser.evaluate("document.documentElement.scrollWidth") <= 400
    wide = (
        "[...document.querySelectorAll('main *')].filter(e => !e.closest('svg, pre, .live, thead,"
        " .behind-grid table') && e.getBoundingClientRect().right > 401).map(e => e.outerHTML"
        ".slice(0, 90))"
    )
    assert browser.evaluate(wide) == []


def test_the_theme_button_recolours_page_and_charts(browser, page):
    browser.open(page, 1280, ready=DRAWN)
    seen = {(browser.evaluate(BACKGROUND), browser.evaluate(LINE))}
    clear = "document.querySelectorAll('.live').forEach(e => { delete e.dataset.drawn })"
    browser.evaluate(f"{clear}; document.querySelector('.theme').click()")
    browser.wait(DRAWN)
    assert browser.evaluate("document.querySelector('.theme').textContent") == "Theme: dark"
    seen.add((browser.evaluate(BACKGROUND), browser.evaluate(LINE)))
    assert seen == {("rgb(255, 255, 255)", "#0072b2"), ("rgb(15, 19, 24)", "#4aa8e8")}
    browser.evaluate("localStorage.clear()")


def test_the_slider_shows_another_step(browser, page):
    browser.open(page, 1280, ready=DRAWN)
    slider = "document.querySelector('.pictures input')"
    seen = (
        "[...document.querySelectorAll('.pictures [data-frame]')].filter(e => e.offsetWidth)"
        ".map(e => e.dataset.frame).join('')"
    )
    assert browser.evaluate(seen) == "2222"
    browser.evaluate(f"{slider}.value = 0; {slider}.dispatchEvent(new Event('input'))")
    assert browser.evaluate(seen) == "0000"
    assert browser.evaluate("document.querySelector('.pictures output').textContent") == "0"


def test_hovering_shows_the_numbers(browser, page):
    browser.open(page, 1280, ready=DRAWN)
    browser.evaluate("document.querySelector('#figure-1').scrollIntoView({behavior: 'instant'})")
    place = browser.evaluate(
        "(() => { const mark = document.querySelector('#figure-1 .layer_3_marks path');"
        " const box = mark.getBoundingClientRect();"
        " return [box.x + box.width / 2, box.y + box.height / 2] })()"
    )
    for shift in (3, 0):
        browser.send("Input.dispatchMouseEvent", type="mouseMoved", x=place[0] + shift, y=place[1])
    browser.wait("!!document.querySelector('#vg-tooltip-element.visible')")
    shown = browser.evaluate("document.querySelector('#vg-tooltip-element').innerText")
    assert "mean (percent)" in shown
    assert "finished seeds" in shown


def test_the_filter_finds_runs(browser, page):
    browser.open(page, 1280, ready=DRAWN)
    shown = (
        "[...document.querySelectorAll('tbody[data-run]')].filter(e => e.checkVisibility()).length"
    )
    assert browser.evaluate(shown) == 0
    browser.evaluate(
        "(() => { const box = document.getElementById('filter-text'); box.value = 'CONV fixup';"
        " box.dispatchEvent(new Event('input')) })()"
    )
    assert browser.evaluate(shown) == 8
    assert browser.evaluate("document.getElementById('filter-count').textContent") == "8 runs shown"
    browser.evaluate(
        "(() => { const list = document.getElementById('filter-outcome'); list.value = 'missing';"
        " list.dispatchEvent(new Event('change')) })()"
    )
    assert browser.evaluate(shown) == 1


def test_a_run_opens_by_keyboard(browser, page):
    browser.open(page, 1280, ready=DRAWN)
    browser.evaluate("document.querySelector('.group').open = true")
    browser.evaluate("document.querySelector('.expand').focus()")
    key = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"}
    browser.send("Input.dispatchKeyEvent", type="keyDown", **key)
    browser.send("Input.dispatchKeyEvent", type="keyUp", **key)
    assert browser.evaluate("document.activeElement.getAttribute('aria-expanded')") == "true"
    assert browser.evaluate("document.querySelector('tbody.open .behind').checkVisibility()")


def test_without_scripts_pictures_and_runs_are_there(browser, page):
    browser.send("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(page, 1280, dark=True)
        assert browser.evaluate("document.querySelectorAll('noscript svg').length") == 4
        assert browser.evaluate("document.documentElement.scrollWidth") <= 1280
        assert browser.evaluate(BACKGROUND) == "rgb(15, 19, 24)"
    finally:
        browser.send("Emulation.setScriptExecutionDisabled", value=False)


def test_in_print_the_pictures_replace_the_charts(browser, page):
    browser.open(page, 800, dark=True, ready=DRAWN)
    browser.send("Emulation.setEmulatedMedia", media="print")
    assert browser.evaluate("!document.querySelector('.live').checkVisibility()")
    assert browser.evaluate("!!document.querySelector('.still svg').getBoundingClientRect().width")
    assert browser.evaluate(BACKGROUND) == "rgb(255, 255, 255)"
    browser.send("Emulation.setEmulatedMedia", media="")


@pytest.mark.parametrize("width", [400, 1280])
def test_the_index_works(browser, tree, width):
    assert reporting(tree, "index", "--scale", "laptop").returncode == 0
    browser.open(tree / "reports" / "index.html", width)
    assert browser.errors() == []
    assert browser.requests() == []
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
