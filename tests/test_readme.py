from docs.make_tree import END, README, START, tree


def test_the_file_tree_is_what_the_files_say():
    shown = README.read_text().split(START)[1].split(END)[0]
    assert shown == tree(), "run: python -m docs.make_tree"
