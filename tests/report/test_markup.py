from calmix.report.markup import Html, join, tag


def test_text_and_attributes_are_escaped_and_markup_is_not():
    made = tag("a", {"title": '"><script>'}, "<b>", tag("i", None, "x & y"))
    assert made == '<a title="&quot;&gt;&lt;script&gt;">&lt;b&gt;<i>x &amp; y</i></a>'
    assert isinstance(made, Html)


def test_joining_escapes_what_is_not_markup():
    assert join("<", Html("<br>"), "'") == "&lt;<br>&#x27;"


def test_what_is_done_to_markup_as_to_text_makes_it_text_again():
    assert join(Html("<b>") + "<script>") == "&lt;b&gt;&lt;script&gt;"
