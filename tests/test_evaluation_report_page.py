"""The web page of the report: what it holds, and how a browser shows it."""

import json
import re
import shutil
import subprocess
from html import unescape
from html.parser import HTMLParser

import pytest

from span_marker import EvaluationReport
from span_marker.evaluation_report.heat_map import STRONGEST
from span_marker.evaluation_report.page import OUTCOME_TEXTS, write_page

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
VOID = {"meta", "input", "br", "path", "rect"}


def entity(label, start, end, **others):
    return {"label": label, "start": start, "end": end, **others}


TOKENS = [
    ["<script>document.title='bad'</script>", "said", '"Ada"', "&", "'Bob'", "<img", "src=x", "onerror=alert(1)>"],
    ["زارت", "نور", "مدينة", "القاهرة", "أمس"],
    ["👩‍💻", "met", "🦄", "in", "Zürich"],
    ["x" * 300, "y"],
]
GOLD = [
    [entity("PER<b>", 2, 3), entity("O'X", 4, 5)],
    [entity("PER", 1, 2), entity("LOC", 2, 4)],
    [entity("LOC", 4, 5)],
    [entity("LONG " * 30, 0, 1)],
]
PREDICTED = [
    [entity("PER<b>", 0, 3, score=0.9), entity('"><script>', 5, 8, score=0.8)],
    [entity("PER", 1, 2, score=0.9), entity("LOC", 3, 4, score=0.7)],
    [entity("MISC", 2, 3, score=0.51), entity("PER", 4, 5, score=0.99)],
    [entity("LOC", 0, 2, score=1.0)],
]


class Page(HTMLParser):
    """Reads a page, and checks that it is well-formed and asks for no other file."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.open, self.text, self.classes = [], [], [], []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            assert name not in {"src", "href", "srcset", "action"}
            assert not name.startswith("on")
            if name == "class":
                self.classes += value.split()

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.text.append(data)

    @property
    def words(self):
        return " ".join("".join(self.text).split())


@pytest.fixture(scope="module")
def report():
    return EvaluationReport.from_entities(TOKENS, GOLD, PREDICTED, training=(TOKENS[:2], GOLD[:2]))


def test_the_page_escapes_what_it_shows(report):
    page = Page(write_page(report, "Report of <data> & 'more'"))
    assert not {"script", "img", "link", "b>", "data", "iframe"} & {*page.tags}
    for text in ("Report of <data> & 'more'", "PER<b>", '"><script>', "onerror=alert(1)>", "القاهرة", "🦄", "O'X"):
        assert text in page.words
    assert page.tags.count("title") == 1


def test_the_page_is_one_file(report):
    html = write_page(report, "Report")
    assert not re.search(r"https?:|url\((?!#)|@import|@font-face", html)
    assert html.startswith("<!doctype html>")


def test_every_outcome_is_told_in_words(report):
    page = Page(write_page(report, "Report"))
    for outcome, text in OUTCOME_TEXTS.items():
        assert outcome in page.classes
        assert text in page.words


def test_the_page_says_what_is_left_out():
    words = [["a", "b"]] * 60
    gold = [[entity(f"T{row}", 0, 1)] for row in range(60)]
    report = EvaluationReport.from_entities(words, gold, [[]] * 60, max_sentences=7)
    page = Page(write_page(report, "Report"))
    assert "7 of 60 sentences with errors, those with the most errors first; 53 are left out" in page.words
    assert "the 20 types with the most errors; 40 others are left out" in page.words
    unlisted = EvaluationReport.from_entities(words, gold, [[]] * 60, max_sentences=0)
    assert "None are listed." in Page(write_page(unlisted, "Report")).words


def test_200_types():
    words = [[f"w{row}"] for row in range(200)]
    gold = [[entity(f"TYPE_{row:03d}", 0, 1)] for row in range(200)]
    predicted = [[entity(f"TYPE_{row * 7 % 200:03d}", 0, 1, score=row / 200)] for row in range(200)]
    page = Page(write_page(EvaluationReport.from_entities(words, gold, predicted), "Report"))
    assert all(f"TYPE_{row:03d}" in page.words for row in range(200))


@pytest.mark.parametrize(
    ("tokens", "gold", "predicted", "text"),
    [
        ([], [], [], "There are no entities, neither gold nor predicted."),
        ([["a", "b"]], [[]], [[entity("X", 0, 1, score=0.5)]], "1 of 1 sentences with errors"),
        ([["a", "b"]], [[entity("X", 0, 1)]], [[]], "1 of 1 sentences with errors"),
        ([["a", "b"]], [[entity("X", 0, 1)]], [[entity("X", 0, 1)]], "There are none."),
        ([[]], [[]], [[]], "There are none."),
    ],
)
def test_pages_of_little(tokens, gold, predicted, text):
    page = Page(write_page(EvaluationReport.from_entities(tokens, gold, predicted), "Report"))
    assert text in page.words
    assert "nan" not in page.words


def test_parts_that_are_unknown_are_left_out(report):
    full = Page(write_page(report, "Report"))
    assert "Seen in training?" in full.words
    assert "By threshold" in full.words
    assert "polyline" in full.tags
    bare = Page(write_page(EvaluationReport.from_entities(TOKENS, GOLD, GOLD), "Report"))
    assert "Seen in training?" not in bare.words
    assert "By threshold" not in bare.words


def test_to_html_writes_the_page(report, tmp_path):
    report.to_html(tmp_path / "page.html", title="Title")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == write_page(report, "Title")


# ---- Colours ----


def luminance(colour):
    parts = [part / 255 for part in colour]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one, other):
    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def mixed(colour, page, share):
    return [share * one + (1 - share) * other for one, other in zip(colour, page, strict=True)]


def test_colours_have_contrast(report):
    html = write_page(report, "Report")
    themes = re.findall(r":root \{(.*?)\}", html, re.DOTALL)
    assert len(themes) == 2
    for theme in themes:
        found = dict(re.findall(r"--(\w+): #(\w{6})", theme))
        colours = {name: list(bytes.fromhex(value)) for name, value in found.items()}
        assert colours.keys() == {"page", "text", "muted", "line", "red", "orange", "purple", "blue", "green"}
        page = colours["page"]
        for name in colours.keys() - {"page", "line"}:
            assert contrast(colours[name], page) >= 4.5, name
            assert contrast(colours[name], mixed(colours[name], page, 0.12)) >= 4.5, name
        for name in ("red", "green"):  # the strongest cells of the heat map
            assert contrast(colours["text"], mixed(colours[name], page, STRONGEST / 100)) >= 4.5, name
    assert {*re.findall(r"var\(--\w+\) (\d+)%", html)} == {"12"}


# ---- In a browser ----


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """Shows a page in a frame of a given width, and tells the value of an expression in it."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip(f"no browser: none of {', '.join(BROWSERS)} is installed")
    folder = tmp_path_factory.mktemp("browser")

    def show(html, width, expression):
        script = (
            "<script>addEventListener('load', () => { const frame = document.querySelector('iframe');"
            f"const page = frame.contentDocument; const value = {expression};"
            "document.documentElement.replaceChildren(document.createElement('body'));"
            "document.body.textContent = JSON.stringify(value); })</script>"
        )
        source = html.replace("&", "&amp;").replace('"', "&quot;")
        outer = f'{script}<iframe srcdoc="{source}" style="width: {width}px; height: 800px; border: 0"></iframe>'
        (folder / "outer.html").write_text(f"<!doctype html><meta charset=utf-8>{outer}", encoding="utf-8")
        options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}", "--dump-dom"]
        done = subprocess.run(
            [program, *options, (folder / "outer.html").as_uri()],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        return json.loads(unescape(re.search(r"<body>(.*?)</body>", done.stdout, re.DOTALL)[1]))

    return show


@pytest.mark.parametrize("width", [340, 1000])
def test_in_a_browser(browser, report, width):
    found = browser(
        write_page(report, "Report"),
        width,
        """(() => {
            const shown = () => [...page.querySelectorAll('.errors > li')].filter(row => row.offsetHeight).length;
            const before = shown();
            page.querySelector('#only-missed').click();
            return {
                title: page.title,
                scripts: page.querySelectorAll('script, img').length,
                overflow: page.documentElement.scrollWidth - page.documentElement.clientWidth,
                before: before,
                missed: shown(),
                bar: page.querySelector('rect.recall').getBoundingClientRect().width,
                heat: [...page.querySelectorAll('.heat td')].map(
                    cell => frame.contentWindow.getComputedStyle(cell).backgroundColor),
                direction: [...page.querySelectorAll('dd')].map(
                    line => frame.contentWindow.getComputedStyle(line).direction),
            };
        })()""",
    )
    assert found["title"] == "Report"
    assert found["scripts"] == 0
    assert found["overflow"] == 0  # tables scroll by themselves
    assert (found["before"], found["missed"]) == (4, 1)
    assert found["bar"] > 0
    assert len({*found["heat"]}) > 2  # the mixed colours are understood
    assert {"ltr", "rtl"} == {*found["direction"]}
