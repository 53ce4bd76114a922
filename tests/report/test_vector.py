import re

from calmix.report.style import figure
from calmix.report.vector import inline_svg


def drawing():
    made, (axes,) = figure(3, 2)
    axes.plot([0.123456, 0.654321], [0, 1], color="#000000", marker="o")
    axes.set_title("<b>&0.123456")
    axes.set_xticks([0.125, 0.5])
    return made


def test_a_figure_in_a_page():
    text = inline_svg(drawing(), title="A <title>", alt='it "rises"', name="f1")
    assert text.startswith("<svg ")
    assert text.endswith("</svg>")
    assert "<title>A &lt;title&gt;</title>" in text
    assert 'aria-label="it &quot;rises&quot;"' in text
    assert "<image" not in text  # vectors only


def test_letters_stay_letters_and_are_escaped():
    text = inline_svg(drawing(), title="t", alt="a", name="f1")
    assert "&lt;b&gt;&amp;0.123456" in text
    assert ">0.125<" in text


def test_numbers_of_shapes_are_short():
    shapes = "".join(re.findall("<[^>]+>", inline_svg(drawing(), title="t", alt="a", name="f1")))
    assert not re.search(r"\d\.\d{3}", shapes)


def test_two_figures_do_not_share_an_id():
    first, second = (inline_svg(drawing(), title="t", alt="a", name=name) for name in ("f1", "f2"))
    ids = [set(re.findall(r' id="([^"]+)"', text)) for text in (first, second)]
    assert ids[0]
    assert not ids[0] & ids[1]
    for text, known in zip((first, second), ids, strict=True):
        assert set(re.findall(r'(?:url\(|href=")#([\w-]+)', text)) == known


def test_ink_has_the_colour_of_the_page():
    text = inline_svg(drawing(), title="t", alt="a", name="f1")
    assert "currentColor" in text
    assert "#000000" not in text
    assert "#dddddd" not in text.lower()
