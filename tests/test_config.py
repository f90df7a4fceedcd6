"""Options: presets from TOML, flags over presets, and every refusal in one clear line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ampify.config import InvalidOption, Options, import_folder, nearest_rule, read_options
from ampify.config.options import report_path
from ampify.config.toml import parse_toml, table_at

RULES = {"AMP101": "uninitialized-model", "AMP201": "unscaled-backward", "AMP209": "unresolved-receiver"}


@pytest.fixture(autouse=True)
def current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def options(*paths: str, config: str | None = None, **given: object) -> Options:
    flags = {name.replace("_", "-"): value for name, value in given.items()}
    return read_options(flags, [Path(path) for path in paths or (".",)], Path(config) if config else None, RULES)


def preset(folder: Path, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(f"[tool.ampify]\n{text}\n", encoding="utf-8")


def test_defaults() -> None:
    read = options()
    assert (read.format, read.reports, read.exit_zero) == ("text", (), False)
    settings = read.settings
    assert (settings.target, settings.opt_level, settings.dtype, settings.vendor) == ("runtime", "O1", "float16", None)
    assert settings.jobs >= 1
    assert settings.cache
    assert (settings.add_flag, settings.unsafe) == (False, False)
    assert (settings.select, settings.ignore, settings.exclude) == ((), (), ())


def test_every_key_can_be_preset(tmp_path: Path) -> None:
    preset(
        tmp_path,
        """
        target = "runtime"
        opt-level = "O4"
        dtype = "bfloat16"
        vendor = "third_party"
        add-flag = true
        unsafe = true
        select = ["AMP1", "AMP2"]
        ignore = ["AMP209"]
        exclude = ["old/*"]
        format = "json"
        report = ["out/report.json", "out/report.md"]
        jobs = 3
        exit-zero = true
        no-cache = true
        allow-dirty = true
        per-file-ignores = {"old/*" = ["AMP2"]}
        """,
    )
    read = options()
    settings = read.settings
    assert settings.opt_level == "O4"
    assert settings.vendor == "third_party"
    assert settings.runtime_module == "third_party.ampify_runtime"
    assert settings.add_flag
    assert settings.unsafe
    assert settings.select == ("AMP1", "AMP2")
    assert settings.ignore == ("AMP209",)
    assert settings.exclude == ("old/*",)
    assert settings.jobs == 3
    assert not settings.cache
    assert read.format == "json"
    assert read.reports == (tmp_path / "out" / "report.json", tmp_path / "out" / "report.md")
    assert read.exit_zero
    assert read.allow_dirty
    assert settings.per_file_ignores == ((f"{tmp_path}/old/*", ("AMP2",)),)


def test_flags_win_over_presets(tmp_path: Path) -> None:
    preset(tmp_path, 'opt-level = "O4"\njobs = 3')
    settings = options(opt_level="O0").settings
    assert (settings.opt_level, settings.jobs) == ("O0", 3)


def test_the_nearest_table_above_the_common_folder_holds(tmp_path: Path) -> None:
    preset(tmp_path, "jobs = 1")
    preset(tmp_path / "a", "jobs = 2")
    preset(tmp_path / "a" / "b", "jobs = 3")
    (tmp_path / "a" / "c").mkdir()
    assert options("a/b").settings.jobs == 3
    assert options("a/b", "a/c").settings.jobs == 2
    assert options("a/b/train.py", "other.py").settings.jobs == 1


@pytest.mark.parametrize(
    "text", ["[project]\nname = 'ampify-user'\n", "[tool.black]\nline-length = 3\n", "not = = toml\n"]
)
def test_a_pyproject_without_the_table_is_passed_over(tmp_path: Path, text: str) -> None:
    preset(tmp_path, "jobs = 4")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "pyproject.toml").write_text(text, encoding="utf-8")
    assert options("sub").settings.jobs == 4


def test_no_paths_in_common_means_no_presets(tmp_path: Path) -> None:
    preset(tmp_path, "jobs = 4")
    assert read_options({"jobs": 2}, [], None, RULES).settings.jobs == 2


def test_a_link_to_itself_is_looked_for_in_its_folder(tmp_path: Path) -> None:
    preset(tmp_path, "jobs = 3")
    (tmp_path / "loop.py").symlink_to("loop.py")
    assert read_options({}, [tmp_path / "loop.py"], None, RULES).settings.jobs == 3


def test_an_explicit_file_is_read_whatever_its_name(tmp_path: Path) -> None:
    preset(tmp_path, "jobs = 4")
    (tmp_path / "mine.toml").write_text('[tool.ampify]\nopt-level = "O0"\n', encoding="utf-8")
    settings = options(config="mine.toml", jobs=5).settings
    assert (settings.opt_level, settings.jobs) == ("O0", 5)


def test_byte_order_mark_and_windows_line_ends(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_bytes("\ufeff[tool.ampify]\r\njobs = 4\r\n".encode())
    assert options().settings.jobs == 4


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("opt_level = 'O1'", "unknown key `opt_level` in [tool.ampify]; did you mean `opt-level`?"),
        ("xyzzy = 1", "unknown key `xyzzy` in [tool.ampify]; the keys are target, opt-level"),
        ("write = true", "`write` cannot be preset; give --write on the command line"),
        ("jobs = 0", "`jobs` must be a whole number of at least 1, not 0"),
        ("jobs = true", "`jobs` must be a whole number of at least 1, not True"),
        ("unsafe = 'yes'", "`unsafe` must be true or false, not 'yes'"),
        ("select = 'AMP1'", "`select` must be a list of strings, not 'AMP1'"),
        ("exclude = [1]", "`exclude` must be a list of strings, not [1]"),
        ("vendor = ''", "`vendor` must be a string that is not empty, not ''"),
        ("opt-level = 'O9'", "`opt-level` must be one of O0, O1, O2, O3, O4, O5, not 'O9'"),
        ("target = ['runtime']", "`target` must be one of runtime, native, not ['runtime']"),
        ("dtype = 'float32'", "`dtype` must be one of float16, bfloat16, not 'float32'"),
        ("opt-level = 'O5'\ndtype = 'float16'", "opt-level O5 and dtype float16 do not go together: O1 to O3 cast to "),
        ("select = ['AMP7']", "--select AMP7: no rule has a code that starts so"),
        ("jobs = 1\njobs = 2", "is not TOML"),
    ],
)
def test_what_a_preset_may_not_be(tmp_path: Path, text: str, said: str) -> None:
    preset(tmp_path, text)
    with pytest.raises(InvalidOption) as refused:
        options()
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("preset_text", "given", "expected"),
    [
        ("", {"dtype": "bfloat16"}, ("O4", "bfloat16")),
        ("", {"dtype": "float16"}, ("O1", "float16")),
        ("", {"opt_level": "O5"}, ("O5", "bfloat16")),
        ("", {"opt_level": "O2"}, ("O2", "float16")),
        ("", {"opt_level": "O0", "dtype": "bfloat16"}, ("O0", "bfloat16")),
        ("dtype = 'bfloat16'", {}, ("O4", "bfloat16")),
        ("dtype = 'bfloat16'", {"opt_level": "O5"}, ("O5", "bfloat16")),
        ("dtype = 'bfloat16'", {"opt_level": "O1"}, ("O1", "float16")),
        ("opt-level = 'O2'", {"dtype": "float16"}, ("O2", "float16")),
        ("opt-level = 'O2'", {"dtype": "bfloat16"}, ("O4", "bfloat16")),
        ("opt-level = 'O2'\ndtype = 'float16'", {"opt_level": "O4"}, ("O4", "bfloat16")),
    ],
)
def test_the_level_and_the_type_follow_from_each_other(
    tmp_path: Path, preset_text: str, given: dict[str, object], expected: tuple[str, str]
) -> None:
    preset(tmp_path, preset_text)
    settings = options(**given).settings
    assert (settings.opt_level, settings.dtype) == expected


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"target": "apex"}, "--target must be one of runtime, native, not 'apex'"),
        ({"dtype": "bfloat16", "opt_level": "O1"}, "opt-level O1 and dtype bfloat16 do not go together"),
        ({"opt_level": "O6"}, "--opt-level must be one of O0, O1, O2, O3, O4, O5, not 'O6'"),
        ({"format": "yaml"}, "--format must be one of text, json, github, sarif, markdown, not 'yaml'"),
        ({"ignore": ("AMP9", "AMP1")}, "--ignore AMP9: no rule"),
        ({"report": ()}, "--report must be a file name, or a list of them"),
        ({"report": "r.txt"}, "--report r.txt: the ending .txt names no format of a report; use .md, "),
        ({"report": "r"}, "--report r: a name without an ending names no format"),
        ({"vendor": "../elsewhere"}, "only to below the current folder"),
        ({"vendor": "third-party"}, "Python cannot import from a folder called 'third-party'"),
        ({"vendor": "lib/class"}, "Python cannot import from a folder called 'class'"),
    ],
)
def test_what_a_flag_may_not_be(given: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        options(**given)
    assert said in str(refused.value)


def test_a_config_file_that_is_no_help(tmp_path: Path) -> None:
    (tmp_path / "empty.toml").write_text("# ampify\n", encoding="utf-8")
    (tmp_path / "value.toml").write_text("tool.ampify = 3\n", encoding="utf-8")
    for name, said in [
        ("missing.toml", "missing.toml cannot be read"),
        ("empty.toml", "empty.toml has no [tool.ampify] table"),
        ("value.toml", "value.toml: tool.ampify is not a table"),
    ]:
        with pytest.raises(InvalidOption, match=said.replace("[", r"\[").replace(".", r"\.")):
            options(config=name)


def test_a_preset_vendor_folder_is_relative_to_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    preset(tmp_path / "repo", 'vendor = "lib"')
    (tmp_path / "repo" / "scripts").mkdir()
    assert options("repo").settings.vendor == "repo/lib"
    monkeypatch.chdir(tmp_path / "repo")
    assert options("scripts").settings.vendor == "lib"


@pytest.mark.parametrize(
    ("path", "vendor", "module"),
    [
        ("train.py", "third_party", "third_party.ampify_runtime"),
        ("train.py", ".", "ampify_runtime"),
        ("src/train.py", "src", "ampify_runtime"),
        ("src/train.py", "src/lib", "lib.ampify_runtime"),
        ("src/train.py", "third_party", "third_party.ampify_runtime"),
        ("src/package/deep/train.py", "src/lib", "lib.ampify_runtime"),
    ],
)
def test_a_vendored_runtime_is_imported_from_where_the_scripts_import(
    tmp_path: Path, path: str, vendor: str, module: str
) -> None:
    (tmp_path / "src" / "package" / "deep").mkdir(parents=True)
    for package in ("src/package", "src/package/deep"):
        (tmp_path / package / "__init__.py").touch()
    assert options(path, vendor=vendor).settings.runtime_module == module


def test_import_folder_of_a_relative_package(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").touch()
    assert import_folder(Path("package")).resolve() == tmp_path
    assert import_folder(tmp_path) == tmp_path


def test_report_path() -> None:
    assert report_path("out/r.json") == Path("out/r.json")


def test_toml_tables() -> None:
    document = parse_toml("[a.b]\r\nc = 1\r\n")
    assert table_at(document, "a", "b") == {"c": 1}
    assert table_at(document, "a", "x", "y") == {}
    assert table_at(document, "a", "b", "c") == {}
    with pytest.raises(ValueError, match="line 2"):
        parse_toml("a = 1\nb = ]\n")


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("amp201", "did you mean AMP201?"),
        ("201", "did you mean AMP201?"),
        ("amp2", "did you mean AMP2?"),
        ("AMP2011", "did you mean AMP201?"),
        ("unscaled-backwards", "did you mean AMP201, unscaled-backward?"),
        (
            "AMP299",
            "those that start with AMP2 are AMP201, AMP209; codes look like AMP201, and `ampify rules` lists them",
        ),
        ("AMP7", "codes look like AMP201, and `ampify rules` lists them"),
        ("E501", "codes look like AMP201, and `ampify rules` lists them"),
        ("?", "codes look like AMP201, and `ampify rules` lists them"),
    ],
)
def test_the_rule_that_may_have_been_meant(wanted: str, said: str) -> None:
    assert nearest_rule(wanted, RULES) == said
    with pytest.raises(InvalidOption, match=rf"--select {re.escape(wanted)}: no rule has a code that starts so; "):
        options(select=(wanted,))
