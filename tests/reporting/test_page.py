from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest

from shared.reporting.__main__ import main
from shared.reporting.page import write_page

BLOCKS = {"p", "div", "td", "th", "tr", "dt", "dd", "h4", "li"}


class Tree(HTMLParser):
    """Text per element id, and all attributes that could load something."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.loads, self.text = [], [], ""
        self._skip = 0
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self._skip += tag in ("script", "style")
        self.text += " " if tag in BLOCKS else ""
        for name, value in attributes:
            if name in ("src", "srcset", "data", "poster", "background") or (
                tag in ("link", "use") and name in ("href", "xlink:href")
            ):
                self.loads.append((tag, name, value))

    def handle_endtag(self, tag):
        self._skip -= tag in ("script", "style")

    def handle_data(self, data):
        if not self._skip:
            self.text += data


@pytest.fixture(scope="module")
def html(page):
    return page.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def parsed(html):
    return Tree(html)


@pytest.fixture(scope="module")
def text(parsed):
    return " ".join(parsed.text.split())


def row(html, claim):
    after = html.partition(f'<tbody id="claim-{claim}"')[2]
    return re.split(r'<tbody id="claim-|</section>', after)[0]


def test_one_file_below_six_megabytes(page):
    assert page.stat().st_size < 6_000_000


def test_nothing_is_loaded(parsed, html):
    assert [load for load in parsed.loads if not load[2].startswith(("#", "data:"))] == []
    assert "@import" not in html
    assert not re.search(r"url\((?!#)", re.search(r"<style>(.*?)</style>", html, re.DOTALL)[1])


def test_the_policy_allows_only_the_scripts_of_the_page(html):
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', html).group(1)
    assert "default-src &#39;none&#39;" in policy
    for script in re.findall(r"<script>(.*?)</script>", html, re.DOTALL):
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert digest.replace("+", "&#43;") in policy or digest in policy


def test_text_of_the_paper_is_escaped(html, text):
    assert '<script>document.title = "injected"</script>' not in html
    assert '<script>document.title = "injected"</script> a deep network fails & stops.' in text
    assert "<b>not</b> smoothed" not in html
    assert "<b>not</b> smoothed" in text


def test_the_first_screen_answers(text):
    assert "Ada Example, Bo Sample, Chi Placeholder · ICLR 2019 · arXiv:1901.00001v2" in text
    assert "Laptop scale: Fashion-MNIST instead of CIFAR-10" in text
    assert "Yes, as far as decided. At laptop scale, of 2 main claims 1 is reproduced" in text
    assert "3 reproduced 2 not reproduced 1 inconclusive 2 not run" in text


def test_sections_stand_in_the_agreed_order(parsed):
    ids = [attributes["id"] for tag, attributes in parsed.tags if tag == "section"]
    assert ids == ["verdicts", "figures", "scaled-down", "runs", "pipeline", "cost", "rerun"]


def test_a_row_has_both_numbers_bound_and_verdict(html):
    words = " ".join(Tree(row(html, "toy2_gap")).text.split())
    for part in (
        "7.24 (BatchNorm 6.61) in percent",
        "number verified",
        "Table 1, row 4",
        "1.21 percent",
        "0.31 … 2.12 percent · 7 seeds",
        "laptop scale: dataset fashion-mnist (full: cifar-10)",
        "≤ 2 percent",
        "inconclusive",
        "1 of 8 planned runs of fixup is missing, and the interval crosses 2.",
        "The test was changed after data had been seen",
        "Seeds that would decide 14",
        "What would change the verdict A tuned learning rate",
        "fixup 8 7 0 1 bn 8 8 0 0",
        "0.90, 1.80, 0.20, 2.40, 1.10, 0.70, 1.40",
        "1 5 0.025 2 8 0.025",
        "Twice the gap that the paper prints, rounded up.",
    ):
        assert part in words, part


def test_a_number_that_nobody_verified_says_so(html):
    words = " ".join(Tree(row(html, "toy8_translation")).text.split())
    assert "number not verified" in words
    assert "source not verified" in words
    assert "No translation data set is wired yet." in words


def test_no_number_of_ours_stands_without_its_scale(html):
    for claim in re.findall(r'<tbody id="claim-([^"]+)"', html):
        cells = re.findall(
            r"<td data-label=\"Here, laptop scale\">(.*?)</td>", row(html, claim), re.DOTALL
        )
        assert len(cells) == 1
        assert "no number" in cells[0] or '<a href="#scaled-down">laptop scale</a>' in cells[0]


def test_a_verdict_is_more_than_a_colour(html):
    for verdict in ("reproduced", "not_reproduced", "inconclusive", "not_run"):
        badge = rf'class="badge {verdict}"><svg aria-hidden="true"><use href="#i-{verdict}"/></svg>'
        assert re.search(badge + verdict.replace("_", " "), html)
        assert f'<symbol id="i-{verdict}"' in html


def test_every_figure_has_chart_picture_caption_and_stamp(html):
    figures = re.findall(r"<figure id=.*?</figure>", html, re.DOTALL)
    assert len(figures) == 4
    for figure in figures:
        spec = json.loads(
            re.search(r'<script type="application/json">(.*?)</script>', figure, re.DOTALL)[1]
        )
        assert spec["width"] == "container"
        assert re.search(r"<noscript>.*?<svg.*?</svg>.*?</noscript>", figure, re.DOTALL)
        assert "Laptop scale: Fashion-MNIST" in figure.partition("<figcaption>")[2]
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))


def test_pictures_are_side_by_side_with_a_slider(html, parsed):
    figure = re.search(r'<figure class="pictures".*?</figure>', html, re.DOTALL)[0]
    assert "The same &lt;i&gt;noise&lt;/i&gt; everywhere." in figure
    assert re.findall(r'<option value="(\d)" label="([\d,]+)">', figure) == [
        ("0", "0"),
        ("1", "50"),
        ("2", "1,000"),
    ]
    names = re.findall(r'<img src="data:image/png;base64,[^"]+" alt="([^"]+)"', figure)
    assert len(names) == 4 * 3 - 1 + 1  # two arms, two seeds, three steps; one ended early; real
    assert "BatchNorm, seed 0, step 1000" in names
    assert names[-1] == "real images"
    # Without scripts the last step is seen, and in the place of a run that had ended, a word.
    seen = re.findall(r'alt="([^"]+)" data-frame="\d">', figure)
    assert seen == [
        f"{arm}, step 1000"
        for arm in ("BatchNorm, seed 0", "BatchNorm, seed 1", "Fixup, one lr, seed 0")
    ]
    assert re.search(r'data-frame="2">no picture at this step', figure)
    assert "Laptop scale: Fashion-MNIST" in figure.partition("<figcaption>")[2]


def test_every_planned_run_is_a_row(html, text):
    assert len(re.findall(r"<tbody data-run=", html)) == 150
    assert html.count('data-outcome="diverged"') == 17
    assert "132 finished, 17 diverged, 1 missing" in text
    assert "train_loss was inf at step 47" in text


def test_deviations_and_what_was_scaled_down(text):
    assert "Fashion-MNIST stands in for CIFAR-10, so absolute errors cannot be compared." in text
    assert "conv trainer.max_epochs 3 200" in text


def test_how_to_rerun(text):
    commit = "0123456789abcdef0123456789abcdef01234567"
    assert f"git checkout {commit} snakemake reports/toy.html" in text
    assert "snakemake reports/toy.html --config seeds=14" in text
    assert "20 of these with uncommitted changes" in text


def test_tables_have_captions_and_the_headings_are_in_order(parsed, html):
    outer = re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL)
    outer = re.sub(r'<div class="behind-grid">.*?</details>', "", outer, flags=re.DOTALL)
    assert outer.count("<table") == outer.count("<caption")
    levels = [int(tag[1]) for tag, _ in parsed.tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1


def test_the_same_inputs_give_the_same_bytes(own_tree, html):
    write_page("toy", "laptop")
    assert (own_tree / "reports" / "toy.html").read_text(encoding="utf-8") == html


def test_the_page_says_what_the_verdicts_say(own_tree):
    file = own_tree / "results/laptop/verdicts/toy.json"
    content = json.loads(file.read_text(encoding="utf-8"))
    for claim in content["claims"][:2]:
        claim |= {"verdict": "not_reproduced", "estimate": 7.77, "low": 7.0, "high": 8.54}
    file.write_text(json.dumps(content), encoding="utf-8")
    write_page("toy", "laptop")
    text = " ".join(Tree((own_tree / "reports/toy.html").read_text(encoding="utf-8")).text.split())
    assert "No. At laptop scale, both main claims are not reproduced" in text
    assert "1 reproduced 4 not reproduced 1" not in text
    assert "2 reproduced 4 not reproduced" in text
    assert "7.77 percent" in text


@pytest.fixture
def fails(own_tree, capsys):
    """Runs a command that must fail as users' faults do; returns its message."""

    def message(*arguments):
        assert main(arguments) == 1
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.startswith("error: ")
        return said.err

    return message


def test_a_page_without_verdicts_names_the_command(own_tree, fails):
    (own_tree / "results/laptop/verdicts/toy.json").unlink()
    message = fails("page", "toy", "--scale", "laptop")
    assert "python -m shared.claims judge toy --scale laptop" in message


def test_a_page_without_metrics_names_the_command(fails):
    message = fails("page", "toy", "--scale", "smoke")
    assert "python -m shared.claims collect toy --scale smoke" in message


def test_an_unknown_paper_lists_those_that_exist(fails):
    assert "expected one of idle, toy" in fails("page", "nobody", "--scale", "laptop")


def test_stale_verdicts_are_refused(own_tree, fails):
    file = own_tree / "papers/toy/paper.yaml"
    file.write_text(file.read_text("utf-8").replace("id: toy8_translation", "id: toy9"), "utf-8")
    message = fails("page", "toy", "--scale", "laptop")
    assert "toy8_translation" in message
    assert "judge toy" in message


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("", "expected a function `figures(metrics, scale)"),
        ("def figures(metrics, scale): return [1]", "expected a list of Figure"),
        ("def figures(metrics, scale): raise ValueError('no such arm')", "no such arm"),
    ],
)
def test_faulty_figures_are_named(own_tree, fails, code, message):
    (own_tree / "papers/toy/figures.py").write_text(code, encoding="utf-8")
    found = fails("page", "toy", "--scale", "laptop")
    assert "papers/toy/figures.py" in found
    assert message in found


def test_missing_figures_are_named(own_tree, fails):
    (own_tree / "papers/toy/figures.py").unlink()
    assert "no such file" in fails("page", "toy", "--scale", "laptop")


def test_a_page_that_is_too_large_is_not_written(own_tree, fails):
    code = (
        "import altair as alt\n"
        "from shared.reporting.figures import Figure\n"
        "def figures(metrics, scale):\n"
        "    rows = [{'x': i, 'y': 'long' * 99} for i in range(14000)]\n"
        "    chart = alt.Chart(alt.InlineData(values=rows)).mark_bar().encode(x='count()')\n"
        "    return [Figure('t', 'c', chart)]\n"
    )
    (own_tree / "papers/toy/figures.py").write_text(code, encoding="utf-8")
    assert "expected at most 6,000,000" in fails("page", "toy", "--scale", "laptop")
    assert not (own_tree / "reports/toy.html").exists()
