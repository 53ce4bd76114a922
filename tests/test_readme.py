from docs.make_map import END, README, START, package_map


def test_the_map_of_packages_matches_their_docstrings():
    shown = README.read_text().split(START)[1].split(END)[0]
    assert shown == package_map(), "run: python -m docs.make_map"
