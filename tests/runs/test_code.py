import dataclasses
import sys

import pytest

from calmix import InputError
from calmix.runs import code
from calmix.runs.code import Code, file_digest, given, is_code, load
from tests.own import write_code


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Code of this test alone: nothing that another test was given is known."""
    write_code(tmp_path)
    monkeypatch.setattr(code, "_OBJECTS", {})
    monkeypatch.setattr(code, "_IMPORTED", {})
    for name in [name for name in sys.modules if name.startswith("calmix_own_")]:
        monkeypatch.delitem(sys.modules, name)
    return tmp_path


def as_if_from_elsewhere(monkeypatch):
    monkeypatch.setattr(code, "_OBJECTS", {})


def test_texts_that_name_code():
    assert is_code("a.py:f")
    assert is_code("a.b:f")
    assert is_code(r"C:\nets.py:make")
    for text in ("cifar10", "mine.npz", r"C:\mine.npz", ":f", "a:"):
        assert not is_code(text)


def test_a_file_is_named_shortly_and_digested(folder, monkeypatch):
    monkeypatch.chdir(folder)
    for text in ("nets.py:make", f"{folder}/nets.py:make"):
        assert given("network", text) == Code(
            "nets.py:make", file_digest(folder / "nets.py"), str(folder / "nets.py")
        )


def test_a_module_is_found_without_importing_its_package(folder, monkeypatch):
    package = folder / "somepackage" / "inner"
    package.mkdir(parents=True)
    (folder / "somepackage" / "__init__.py").write_text("raise RuntimeError('imported')")
    (package / "__init__.py").write_text("")
    (package / "nets.py").write_text("def make(): return 7")
    monkeypatch.syspath_prepend(str(folder))
    assert code._module_file("somepackage.inner.nets", sys.path) == package / "nets.py"
    assert code._module_file("somepackage.other", sys.path) is None
    with pytest.raises(InputError, match="raised RuntimeError: imported"):
        given("network", "somepackage.inner.nets:make")
    (folder / "somepackage" / "__init__.py").write_text("")
    found = given("network", "somepackage.inner.nets:make")
    assert found.text == "somepackage.inner.nets:make"
    assert load("network", found)() == 7


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("none.py:make", "none.py does not exist"),
        ("nets.py:mak", "did you mean 'make'"),
        ("no.such.module:make", "no module 'no.such.module' is importable"),
    ],
)
def test_what_is_not_there_is_said(folder, monkeypatch, text, message):
    monkeypatch.chdir(folder)
    with pytest.raises(InputError, match=message):
        given("network", text)


def test_a_file_that_cannot_be_executed(folder):
    (folder / "bad.py").write_text("import nosuchmodule\n")
    with pytest.raises(InputError, match=r"network bad.py:make raised ModuleNotFoundError.*line 1"):
        given("network", f"{folder}/bad.py:make")


def test_a_recipe_runs_an_unchanged_file(folder, monkeypatch):
    found = given("mixing", f"{folder}/mixers.py:make_nothing")
    as_if_from_elsewhere(monkeypatch)
    assert load("mixing", found)(num_classes=2, members=1) == 5


def test_a_recipe_runs_no_other_code(folder, monkeypatch):
    """Not a changed file, not one at a relative path, not one in a run folder, and nothing is executed."""
    evil = folder / "evil.py"
    evil.write_text("import pathlib\npathlib.Path(__file__).with_name('ran').touch()\ndef make(): pass\n")
    found = Code("evil.py:make", file_digest(evil), str(evil))
    monkeypatch.chdir(folder)
    with pytest.raises(InputError, match="is not on this machine; pass network="):
        load("network", dataclasses.replace(found, path="evil.py"))
    with pytest.raises(InputError, match="is not on this machine; pass network="):
        load("network", dataclasses.replace(found, path=""))
    with pytest.raises(InputError, match="has changed since the recipe was written; restore it, or pass"):
        load("network", dataclasses.replace(found, digest="0" * 64))
    (folder / "recipe.json").write_text("{}")
    with pytest.raises(InputError, match="lies in a run folder"):
        load("network", found)
    assert not (folder / "ran").exists()


def test_the_user_may_run_any_code(folder, monkeypatch):
    found = given("mixing", f"{folder}/mixers.py:make_nothing")
    as_if_from_elsewhere(monkeypatch)
    (folder / "mixers.py").write_text("def make_other(*, num_classes, members): return 6\n")
    warning = code.stand_in("mixing", found, f"{folder}/mixers.py:make_other")
    assert "is not the one of the recipe" in warning
    assert load("mixing", found)(num_classes=2, members=1) == 6


def test_a_function_is_named_by_its_source(folder, monkeypatch):
    def make(*, shape, num_classes):
        return 1

    first = given("network", make)
    assert (first.text, first.path) == ("<python>:make", "")

    def make(*, shape, num_classes):
        return 2

    second = given("network", make)
    assert first.digest != second.digest
    assert [load("network", each)(shape=(), num_classes=2) for each in (first, second)] == [1, 2]
    as_if_from_elsewhere(monkeypatch)
    with pytest.raises(InputError, match=r"was given as a Python object.*pass network="):
        load("network", first)
    assert code.stand_in("network", second, make) == ""


def test_objects_without_source(folder):
    with pytest.raises(InputError, match="must be a function, a class, or a text"):
        given("network", 3)
    space = {}
    exec("def make(): pass", space)
    with pytest.raises(InputError, match="source of network 'make' cannot be read"):
        given("network", space["make"])


def test_siblings_can_be_imported(folder):
    (folder / "sibling_of_nets.py").write_text("answer = 3\n")
    (folder / "with_sibling.py").write_text("from sibling_of_nets import answer\ndef make(): return answer\n")
    path = list(sys.path)
    assert load("network", given("network", f"{folder}/with_sibling.py:make"))() == 3
    assert sys.path == path
