"""Loading of plugins and calls of their hooks."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from clerk.errors import InvalidPluginResult, PluginMissing, PluginRaised
from clerk.plugins import hookspecs, manager
from clerk.plugins.manager import Plugins
from clerk.sources.fetcher import Fetcher

Folder = Callable[..., Path]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    def make(**files: str) -> Path:
        for name, text in files.items():
            path = tmp_path / "plugins" / f"{name.replace('_in_', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("from clerk import hookimpl, Fetcher\n" + dedent(text))
        return tmp_path / "plugins"

    return make


@pytest.fixture(autouse=True)
def _empty_cache() -> Iterator[None]:
    manager._load.cache_clear()
    yield
    manager._load.cache_clear()


def test_every_hook_exists() -> None:
    plugins = manager._load(None)
    names = {
        "fetcher_class",
        "fetcher_extra",
        "deploy_municipality",
        "upload_static_file",
        "post_create",
        "post_deploy",
        "pre_compilation",
        "post_compilation",
        "extractor",
        "register_cli_commands",
    }
    assert {name for name in names if hasattr(plugins.manager.hook, name)} == names


def test_built_in_plugins_use_the_public_hooks() -> None:
    plugins = manager._load(None)
    assert not plugins.problems
    assert all(loaded.origin == "clerk itself" for loaded in plugins.loaded)
    name, fetcher = plugins.resolve("fetcher_class", "legistar", Fetcher)
    assert name == "clerk.sources.vendors"
    assert issubclass(fetcher, Fetcher)


def test_modules_and_packages_of_a_folder_are_loaded(folder: Folder) -> None:
    one = "@hookimpl\ndef fetcher_extra(label):\n    return {'from': 'one'} if label == 'one' else None\n"
    path = folder(
        one=one,
        two_in___init__="from . import part\nfetcher_extra = hookimpl(part.fetcher_extra)\n",
        two_in_part="def fetcher_extra(label):\n    return {'from': 'two'} if label == 'two' else None\n",
        _helper="raise SystemExit('must not be loaded')\n",
    )
    plugins = manager._load(path)
    assert plugins.problems == []
    assert {(loaded.name, loaded.origin) for loaded in plugins.loaded[-2:]} == {
        ("one", str(path / "one.py")),
        ("two", str(path / "two" / "__init__.py")),
    }
    assert plugins.call_first("fetcher_extra", label="two") == ("two", {"from": "two"})


def test_a_plugin_named_like_a_standard_module_does_not_replace_it(folder: Folder) -> None:
    plugins = manager._load(folder(json="@hookimpl\ndef fetcher_extra(label):\n    return {}\n"))
    import json

    assert json.loads("{}") == {}
    assert plugins.loaded[-1].name == "json"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def broken(:\n", "SyntaxError"),
        ("import no_such_module\n", "ModuleNotFoundError"),
        ("raise SystemExit(1)\n", "SystemExit"),
        ("1 / 0\n", "ZeroDivisionError: division by zero ({file}, line 2, in <module>)"),
        ("import no_such_module\n", "{file}, line 2, in <module>): install it in clerk's environment"),
        ("from clerk.fetcher import Fetcher\n", "plugins use `from clerk import …`; docs/how-to/plugin-author.md"),
        ("import good\n", "good.py is beside the plugin, in a folder that Python does not search; make a package"),
        (
            "@hookimpl\ndef fetcher_class(lable):\n    pass\n",
            "fetcher_class has an argument that clerk does not give: lable; it may have label ({file}, line 2)",
        ),
        (
            "@hookimpl\ndef fetcher_klass(label):\n    pass\n",
            "there is no hook fetcher_klass; did you mean fetcher_class? ({file}, line 2)",
        ),
        ("@hookimpl(wrapper=True)\ndef post_create(subdomain):\n    yield\n", "wrapper"),
    ],
)
def test_a_plugin_that_cannot_be_loaded_is_a_problem_and_the_others_are_loaded(
    folder: Folder, text: str, message: str
) -> None:
    plugins = manager._load(folder(bad=text, good="@hookimpl\ndef fetcher_extra(label):\n    return {'good': 1}\n"))
    (problem,) = plugins.problems
    assert problem.name == "bad"
    assert message.format(file=problem.origin) in problem.error
    assert plugins.loaded[-1].name == "good"
    assert plugins.call_first("fetcher_extra", label="x") == ("good", {"good": 1})
    with pytest.raises(PluginMissing, match=r"not loaded: bad"):
        plugins.resolve("fetcher_class", "x", Fetcher)


POST_CREATE = "@hookimpl\ndef post_create(subdomain):\n    pass\n"


def test_a_plugin_that_is_not_utf_8_a_second_one_of_its_name_and_a_marked_class_are_problems(folder: Folder) -> None:
    path = folder(same=POST_CREATE, same_in___init__=POST_CREATE, marked="@hookimpl\nclass Mine(Fetcher):\n    pass\n")
    (path / "latin.py").write_bytes("x = 'é'\n".encode("latin-1"))
    problems = {problem.origin: problem.error for problem in manager._load(path).problems}
    assert problems.pop(str(path / "latin.py")).endswith("line 1): save the file as UTF-8")
    assert problems == {
        str(path / "marked.py"): "the class Mine is marked with @hookimpl, which is for functions: a hook such as"
        " fetcher_class",
        str(path / "same.py"): f"there is already a plugin same ({path / 'same' / '__init__.py'}): rename one of them",
    }


def test_what_a_plugin_prints_while_it_is_imported_is_not_in_the_output_of_a_command(
    folder: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    manager._load(folder(noisy="print('hello')\n"))
    assert capsys.readouterr() == ("", "hello\n")


def test_a_function_named_like_a_hook_without_its_mark_is_a_problem(folder: Folder) -> None:
    plugins = manager._load(
        folder(
            unmarked=f"def fetcher_class(label):\n    return Fetcher\n{POST_CREATE}",
            importing=f"from json import loads as extractor\n{POST_CREATE}",
        )
    )
    (problem,) = plugins.problems
    assert problem.name == "unmarked"
    assert problem.error == (
        "the function fetcher_class is not called: mark it with @hookimpl (from clerk import hookimpl) "
        f"({problem.origin}, line 2)"
    )
    assert {"unmarked", "importing"} <= {plugin.name for plugin in plugins.loaded}, "their other hooks are called"


def test_a_plugin_replaces_a_built_in_of_the_same_label(folder: Folder) -> None:
    text = "class Mine(Fetcher):\n    pass\n@hookimpl\ndef fetcher_class(label):\n    return Mine\n"
    name, fetcher = manager._load(folder(mine=text)).resolve("fetcher_class", "links", Fetcher)
    assert (name, fetcher.__name__) == ("mine", "Mine")


@pytest.mark.parametrize("value", ["'text'", "42", "dict", "Fetcher.check"])
def test_an_invalid_result_is_rejected_with_the_plugins_name(folder: Folder, value: str) -> None:
    plugins = manager._load(folder(broken=f"@hookimpl\ndef fetcher_class(label):\n    return {value}\n"))
    with pytest.raises(InvalidPluginResult, match="plugin broken returned"):
        plugins.resolve("fetcher_class", "x", Fetcher)


def test_an_error_names_the_plugin_that_raised_it(folder: Folder) -> None:
    plugins = manager._load(folder(broken="@hookimpl\ndef post_create(subdomain):\n    raise OSError('disk')\n"))
    with pytest.raises(PluginRaised, match="plugin broken raised in post_create: OSError: disk"):
        list(plugins.call_each("post_create", subdomain="springfield"))


def test_installed_packages_are_found_by_their_entry_points(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A package with metadata as an installer writes them."""
    (tmp_path / "packaged.py").write_text(
        "from clerk import hookimpl\n@hookimpl\ndef fetcher_extra(label):\n    return {'packaged': True}\n"
    )
    info = tmp_path / "packaged-2.5.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: packaged\nVersion: 2.5\n")
    (info / "entry_points.txt").write_text("[clerk.plugins]\nboxed = packaged\nmissing = no_such_package\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert importlib.metadata.version("packaged") == "2.5"
    plugins = manager._load(None)
    assert ("boxed", "packaged 2.5") in {(loaded.name, loaded.origin) for loaded in plugins.loaded}
    assert [problem.name for problem in plugins.problems] == ["missing"]


def test_hooks_may_take_fewer_arguments(folder: Folder) -> None:
    plugins = manager._load(folder(brief="seen = []\n@hookimpl\ndef post_compilation(run_id):\n    return run_id\n"))
    results = plugins.call_each("post_compilation", subdomain="x", database_path=Path("y"), run_id=7)
    assert list(results) == [("brief", 7)]


def test_every_hook_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "plugins.md").read_text()
    hooks = [name for name, value in vars(hookspecs).items() if hasattr(value, "clerk_spec")]
    assert len(hooks) == 12
    assert [name for name in hooks if f"`{name}(" not in page] == []


def test_plugins_are_loaded_once() -> None:
    assert isinstance(manager._load(None), Plugins)
    assert manager._load(None) is manager._load(None)
