"""Settings come from pyproject.toml, the command line wins, and a mistake is told in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardfix.analysis.model import Evidence, Location, Options, Setting
from shardfix.config import Asked, Config, ConfigError, checked_codes, load


def project(folder: Path, settings: str) -> Path:
    (folder / "pyproject.toml").write_text(settings, "utf-8")
    return folder


def test_without_settings_the_defaults_hold(tmp_path: Path) -> None:
    assert load(tmp_path) == Config(tmp_path, Options())
    assert load(project(tmp_path, "[project]\nname = 'x'\n")) == Config(tmp_path, Options())


def test_every_setting_is_read(tmp_path: Path) -> None:
    settings = """
[tool.shardfix]
target = "ddp"
exclude = ["third_party/", "*_old.py"]
select = ["shd2", "SHD301", "insert-set-epoch"]
ignore = ["add_sanitizer"]
prepare-functions = ["prepare_all"]
sanitizer = "all"
sanitizer-from = "package"
eval-set-epoch = false

[tool.shardfix.per-file-ignores]
"legacy/*" = ["SHD3"]

[tool.shardfix.owners]
"pkg.data.make_loader" = "accelerate"
pkg.other = "self"

[tool.shardfix.roles]
"scripts/*.py" = "eval"
"""
    file = "pyproject.toml"
    assert load(project(tmp_path, settings)) == Config(
        tmp_path,
        Options(
            target="ddp",
            select=("SHD2", "SHD301", "insert_set_epoch"),
            ignore=("add_sanitizer",),
            sanitizer="all",
            sanitizer_from="package",
            eval_set_epoch=False,
            prepare_functions=("prepare_all",),
            per_file_ignores=(("legacy/*", ("SHD3",)),),
            owners=(
                Setting(
                    "pkg.data.make_loader",
                    "accelerate",
                    Evidence(Location(file, 16, 1), '"pkg.data.make_loader" = "accelerate"'),
                ),
                Setting("pkg.other", "self", Evidence(Location(file, 17, 1), 'pkg.other = "self"')),
            ),
            roles=(Setting("scripts/*.py", "eval", Evidence(Location(file, 20, 1), '"scripts/*.py" = "eval"')),),
        ),
        exclude=("third_party/", "*_old.py"),
    )


def test_command_line_wins(tmp_path: Path) -> None:
    project(tmp_path, '[tool.shardfix]\ntarget = "ddp"\nselect = ["SHD2"]\nignore = ["SHD6"]\nsanitizer = "all"\n')
    asked = Asked(target="accelerate", select=("SHD3",), ignore=("SHD4",), sanitizer="off", unsafe=True)
    options = load(tmp_path, asked).options
    assert options == Options(target="accelerate", select=("SHD3",), ignore=("SHD4",), sanitizer="off", unsafe=True)


def test_cosmetic_changes_are_off_where_asked_unless_codes_are_selected(tmp_path: Path) -> None:
    assert load(tmp_path, Asked(cosmetic=False)).options.cosmetic is False
    assert load(tmp_path, Asked(cosmetic=False, select=("SHD103",))).options.cosmetic is True
    assert load(tmp_path).options.cosmetic is True


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        pytest.param(
            '[tool.shardfix]\ntraget = "ddp"\n',
            "[tool.shardfix] has an unknown key 'traget'; did you mean 'target'?",
            id="typo",
        ),
        pytest.param(
            "[tool.shardfix]\nprepare_functions = []\n",
            "[tool.shardfix] has an unknown key 'prepare_functions'; did you mean 'prepare-functions'?",
            id="underscore",
        ),
        pytest.param(
            '[tool.shardfix]\ntarget = "dpp"\n',
            """[tool.shardfix] target is 'dpp'; it must be "auto" or "accelerate" or "ddp\"""",
            id="no such target",
        ),
        pytest.param(
            '[tool.shardfix]\nexclude = "build"\n',
            """[tool.shardfix] exclude is 'build'; it must be a list of strings, as in ["a", "b"]""",
            id="string for list",
        ),
        pytest.param(
            "[tool.shardfix]\neval-set-epoch = 0\n",
            "[tool.shardfix] eval-set-epoch is 0; it must be true or false",
            id="number for truth",
        ),
        pytest.param(
            '[tool.shardfix]\nper-file-ignores = ["a"]\n',
            """[tool.shardfix] per-file-ignores is ['a']; it must be a table of pattern = list of codes, """
            """as in { "legacy/*" = ["SHD3"] }""",
            id="list for table",
        ),
        pytest.param(
            '[tool.shardfix]\nselect = ["SHD291"]\n',
            "[tool.shardfix] select: unknown code or codemod 'SHD291'; did you mean SHD201",
            id="no such code",
        ),
        pytest.param(
            '[tool.shardfix.per-file-ignores]\n"a/*" = ["insert_epoch"]\n',
            "[tool.shardfix.per-file-ignores] 'a/*': unknown code or codemod 'insert_epoch'; did you mean insert_set",
            id="no such codemod",
        ),
        pytest.param(
            '[tool.shardfix.owners]\n"a.make" = "acelerate"\n',
            "[tool.shardfix.owners] 'a.make' is 'acelerate'; did you mean 'accelerate'?",
            id="no such owner",
        ),
        pytest.param(
            '[tool.shardfix.roles]\nmake = "both"\n',
            "[tool.shardfix.roles] 'make' is 'both'; it is one of train, eval",
            id="no such role",
        ),
        pytest.param(
            '[tool.shardfix.owners]\nmake = ["ddp"]\n',
            "[tool.shardfix] owners is {'make': ['ddp']}; it must be a table of name = word, as in "
            '{ "pkg.data.make_loader" = "accelerate" }',
            id="list for word",
        ),
        pytest.param(
            "[tool]\nshardfix = 3\n", "`shardfix` in [tool] is 3; it must be a table, [tool.shardfix]", id="no table"
        ),
        pytest.param("[tool.shardfix\n", "is not valid TOML", id="no TOML"),
    ],
)
def test_mistake_is_told_in_one_line_with_the_file(tmp_path: Path, settings: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(project(tmp_path, settings))
    told = str(caught.value)
    assert told.startswith(f"{tmp_path / 'pyproject.toml'}: {message}")
    assert "\n" not in told


def test_file_of_other_tools_is_not_judged(tmp_path: Path) -> None:
    assert load(project(tmp_path, "[tool.other\n")) == Config(tmp_path, Options())


def test_byte_order_mark_and_crlf_are_read(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_bytes(b'\xef\xbb\xbf[tool.shardfix]\r\ntarget = "ddp"\r\n')
    assert load(tmp_path).options.target == "ddp"


def test_bytes_that_are_no_text_are_told(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_bytes(b"[tool.shardfix]\n# \xe9\n")
    with pytest.raises(ConfigError, match="is not UTF-8, which TOML must be; save it as UTF-8"):
        load(tmp_path)


def test_codes_have_one_spelling() -> None:
    assert checked_codes(["shd201", "SHD", "Add-Sanitizer"], "--select") == ("SHD201", "SHD", "add_sanitizer")
    with pytest.raises(ConfigError, match=r"^--select: unknown code or codemod 'X'; `shardfix rules` lists them$"):
        checked_codes(["X"], "--select")
