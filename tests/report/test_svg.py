import re
import xml.dom.minidom

import pytest

from calmix.errors import InputError
from calmix.report.style import figure, save_figure, styled
from calmix.report.svg import svg_text


def drawing():
    with styled():
        made, (axes,) = figure(3, 2)
        axes.plot([0.123456, 0.654321], [0, 1], color="#000000", marker="o")
        axes.bar([0.3], [0.5], color="#0072B2")
        axes.set_title("<b>&0.123456 #000000")
        axes.set_xticks([0.125, 0.5])
    return made


def page_text(name="f1"):
    return svg_text(drawing(), title="A <title>", alt='it "rises"', name=name, themed=True)


def test_a_figure_on_a_page_has_a_title_and_a_description():
    text = page_text()
    assert text.startswith("<svg viewBox=")
    assert text.endswith("</svg>")
    assert "<title>A &lt;title&gt;</title>" in text
    assert 'role="img" aria-label="it &quot;rises&quot;"' in text
    xml.dom.minidom.parseString(text.replace("xlink:", ""))


@pytest.mark.parametrize("themed", [False, True])
def test_letters_stay_letters_and_are_escaped(themed):
    text = svg_text(drawing(), themed=themed)
    assert ">&lt;b&gt;&amp;0.123456 #000000<" in text
    assert ">0.125<" in text


@pytest.mark.parametrize("themed", [False, True])
def test_numbers_of_shapes_are_short_and_nothing_is_superfluous(themed):
    text = svg_text(drawing(), themed=themed)
    shapes = "".join(re.findall("<[^>]+>", text))
    assert not re.search(r"\d\.\d{3}", shapes)
    assert "<metadata" not in text
    assert "DejaVu" not in text
    assert "\n" not in text


def test_rounding_keeps_every_point():
    points = re.findall(r'd="(M [^"]*)"', svg_text(drawing()))
    assert max(len(re.findall("L", d)) for d in points) >= 3
    assert all(re.fullmatch(r"[MLCQz\d. -]+", d) for d in points)


@pytest.mark.parametrize("themed", [False, True])
def test_ids_are_those_that_are_used_and_two_figures_share_none(themed):
    texts = [svg_text(drawing(), name=name, themed=themed) for name in ("f1", "f2")]
    ids = [set(re.findall(r' id="([^"]+)"', text)) for text in texts]
    assert ids[0]
    assert not ids[0] & ids[1]
    for text, known in zip(texts, ids, strict=True):
        assert set(re.findall(r'(?:url\(|href=")#([\w-]+)', text)) == known


def test_colours_on_a_page_are_those_of_its_theme():
    tags = "".join(re.findall("<[^>]+>", page_text()))
    assert "stroke: currentColor" in tags
    assert "stroke: var(--line)" in tags
    assert "fill: color-mix(in oklab, #0072b2, white var(--lift))" in tags
    assert not re.search(r"#(000000|dddddd|ffffff)", tags)


def test_a_file_has_its_own_colours_and_is_the_same_every_time(tmp_path):
    save_figure(drawing(), tmp_path / "x.svg")
    save_figure(drawing(), tmp_path / "y.svg")
    text = (tmp_path / "x.svg").read_text()
    assert text == (tmp_path / "y.svg").read_text()
    assert 'xmlns="http://www.w3.org/2000/svg"' in text
    assert "#0072b2" in text
    assert "var(" not in text
    xml.dom.minidom.parseString(text)


@pytest.mark.parametrize(("ending", "start"), [("pdf", b"%PDF"), ("png", b"\x89PNG")])
def test_other_files(tmp_path, ending, start):
    for name in ("x", "y"):
        save_figure(drawing(), tmp_path / f"{name}.{ending}")
    content = (tmp_path / f"x.{ending}").read_bytes()
    assert content.startswith(start)
    assert content == (tmp_path / f"y.{ending}").read_bytes()


def test_another_ending_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"\.svg, \.pdf or \.png"):
        save_figure(drawing(), tmp_path / "x.jpg")
