"""The lines that start a project's scripts are found in whatever file people write them, and name the right script."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from shardfix.sources.launches import Scripts, launches_in, read_launches

FILES = frozenset(
    {"train.py", "pkg/train.py", "pkg/tool/main.py", "other/eval.py", "src/lib/cli.py", "lib2/__main__.py"}
)


def found(text: str, path: str = "run.sh") -> list[tuple[str, bool]]:
    return [(launch.path, launch.several) for launch in launches_in(path, text, Scripts(FILES))]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("python train.py --lr 1", ("train.py", False)),
        ("python3.11 -u ./train.py", ("train.py", False)),
        ("CUDA_VISIBLE_DEVICES=0,1 python train.py", ("train.py", False)),
        ("nohup python pkg/train.py > log &", ("pkg/train.py", False)),
        ("python $ROOT/tool/main.py", ("pkg/tool/main.py", False)),
        ("${PYTHON} /workspace/pkg/tool/main.py", ("pkg/tool/main.py", False)),
        ("python -m pkg.tool.main", ("pkg/tool/main.py", False)),
        ("python -m lib2 --x", ("lib2/__main__.py", False)),
        ("python -m lib.cli", ("src/lib/cli.py", False)),
        ("torchrun --nproc_per_node 8 train.py --data d", ("train.py", True)),
        ("torchrun --nproc_per_node=8 -m pkg.tool.main", ("pkg/tool/main.py", True)),
        ("python -m torch.distributed.launch --nproc_per_node=$N --use_env train.py", ("train.py", True)),
        ("python -m torch.distributed.run --standalone other/eval.py", ("other/eval.py", True)),
        ("accelerate launch --config_file c.yaml --multi_gpu train.py", ("train.py", True)),
        ("deepspeed --include localhost:0,1 train.py --deepspeed", ("train.py", True)),
        ("horovodrun -np 4 -H a:2,b:2 python train.py", ("train.py", True)),
        ("srun --ntasks=8 python -u train.py", ("train.py", True)),
        ("srun bash -c 'python train.py'", ("train.py", True)),
        ("cd pkg && torchrun tool/main.py", ("pkg/tool/main.py", True)),
        ("if true; then torchrun train.py; fi", ("train.py", True)),
        ("torchrun \\\n  --nnodes 2 \\\n  train.py", ("train.py", True)),
    ],
)
def test_a_command_names_its_script(line: str, expected: tuple[str, bool]) -> None:
    assert found(line) == [expected]


@pytest.mark.parametrize(
    "line",
    [
        "# torchrun train.py",
        "python missing.py",
        "python ../train.py",
        "pip install torchrun",
        "python -m pip install train.py",
        "cp train.py /tmp",
        "python $SCRIPT",
        "python -c 'import train'",
    ],
)
def test_what_starts_no_script_of_the_project(line: str) -> None:
    assert found(line) == []


def test_a_launcher_counts_for_its_own_script_only() -> None:
    assert found("torchrun train.py && python other/eval.py\n") == [("train.py", True), ("other/eval.py", False)]


def test_a_name_that_several_files_have_is_the_nearest() -> None:
    scripts = Scripts(frozenset({"a/main.py", "b/main.py", "b/sub/main.py"}))
    assert [launch.path for launch in launches_in("a/README.md", "`python main.py`", scripts)] == ["a/main.py"]
    assert [launch.path for launch in launches_in("run.sh", "python $D/main.py", scripts)] == []


def test_documents_speak_of_commands_in_code_only() -> None:
    text = "Start python train.py or `torchrun other/eval.py`:\n```bash\n$ python pkg/train.py \\\n  --x\n```\n"
    launches = list(launches_in("README.md", text, Scripts(FILES)))
    assert [(x.path, str(x.evidence.location)) for x in launches] == [
        ("other/eval.py", "README.md:1:1"),
        ("pkg/train.py", "README.md:3:1"),
    ]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("pyproject.toml", '[project]\nname = "a:b"\n[project.scripts]\nrun = "lib.cli:main"\n'),
        ("setup.cfg", "[options.entry_points]\nconsole_scripts =\n    run = lib.cli:main\n"),
        ("setup.py", "setup(entry_points={'console_scripts': ['run = lib.cli:main']})\n"),
    ],
)
def test_console_scripts_name_a_function(path: str, text: str) -> None:
    assert [(x.path, x.function) for x in launches_in(path, text, Scripts(FILES))] == [("src/lib/cli.py", "main")]


@pytest.mark.parametrize("versioned", [True, False])
def test_every_kind_of_file_is_read(tmp_path: Path, versioned: bool) -> None:
    files = {
        "a.py": "",
        "run.slurm": "srun python a.py\n",
        "Makefile": "train:\n\tpython a.py\n",
        "scripts/go.sh": "torchrun ../a.py\n",
        "notes.txt": "torchrun a.py\n",
        "Dockerfile": 'CMD ["python", "b/c.py"]\n',
        "b/c.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    if versioned:
        subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    launches = read_launches(tmp_path, [name for name in files if name.endswith(".py")])
    assert sorted((x.path, x.several, x.evidence.location.path) for x in launches) == [
        ("a.py", False, "Makefile"),
        ("a.py", True, "run.slurm"),
        ("b/c.py", False, "Dockerfile"),
    ]


def test_a_folder_outside_of_the_project_ends_the_search() -> None:
    assert found("cd /workspace/x\ncd ../..\npython train.py") == [("train.py", False)]
