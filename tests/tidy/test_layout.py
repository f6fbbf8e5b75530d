"""Where things must not be."""

from __future__ import annotations

from support.repository import tree


def test_the_operator_folder_is_a_project_and_never_a_package() -> None:
    # With an __init__.py it would win over the standard library in every process that has the
    # repository's root on its path, and `import collections` would fail there.
    assert not (tree.ROOT / "operator" / "__init__.py").exists()


def test_no_test_folder_is_a_package() -> None:
    assert [
        tree.name(path) for path in tree.files(".py") if path.name == "__init__.py" and "tests" in path.parts
    ] == []


def test_no_module_of_ours_has_the_name_of_the_standard_library_operator() -> None:
    modules = [path.parent.name if path.name == "__init__.py" else path.stem for path in tree.sources()]
    assert "operator" not in modules


def test_every_distribution_says_that_it_is_typed_and_carries_its_licence() -> None:
    assert (tree.ENGINE / "py.typed").exists()
    assert (tree.SPEC / "py.typed").exists()
    assert (tree.COMPILED / "py.typed").exists()
    for name, says in (("LICENSE", "END OF TERMS AND CONDITIONS"), ("NOTICE", "The sparkstate authors")):
        text = (tree.ROOT / name).read_text()
        assert says in text
        assert {(tree.ROOT / project / name).read_text() for project in tree.PROJECTS} == {text}
    for project in tree.PROJECTS:
        assert 'license = "Apache-2.0"' in (tree.ROOT / project / "pyproject.toml").read_text()
