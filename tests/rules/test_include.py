"""Rule files in parts."""

from __future__ import annotations

from pathlib import Path

import pytest

from ratelimit_middleware.errors import RuleFileError
from ratelimit_middleware.rules.load import load_rules
from ratelimit_middleware.rules.model import RuleSet

pytestmark = pytest.mark.arithmetic


def write(folder: Path, **files: str) -> Path:
    """Files by name, `__` for a slash; the one called main."""
    for name, text in files.items():
        path = folder / (name.replace("__", "/") + ".yaml")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return folder / "main.yaml"


def load(path: Path) -> RuleSet:
    return load_rules(path, env={"N": "7"})


def names(rules: RuleSet) -> list[str]:
    return [rule.name for rule in (*rules.limits, *rules.always)]


def problems(path: Path) -> list[str]:
    with pytest.raises(RuleFileError) as refusal:
        load(path)
    return [f"{Path(p.place.split(':')[0]).name}: {p.message}" for p in refusal.value.problems]


def test_included_rules_follow_those_of_the_file_in_order_of_name(tmp_path: Path) -> None:
    main = write(
        tmp_path,
        main="include: [limits.d/*.yaml]\nlimits: {/a: 5/s}\ndefault: 9/s\n",
        limits_d="",
        limits__d="limits: {/z: 5/s}\n",
    )
    folder = tmp_path / "limits.d"
    folder.mkdir()
    (folder / "20.yaml").write_text("limits: {/c: 5/s}\nalways: 50/s\n")
    (folder / "10.yaml").write_text("version: 1\nlimits: {/b: '${N}/s'}\n")
    rules = load(main)
    assert names(rules) == ["/a", "/b", "/c", "always-1"]
    assert rules.limits[1].limits[0].policy.quota == 7


def test_names_are_relative_to_the_file_that_holds_them(tmp_path: Path) -> None:
    main = write(
        tmp_path,
        main="include: parts/one.yaml\n",
        parts__one="include: two.yaml\nlimits: {/one: 5/s}\n",
        parts__two="limits: {/two: 5/s}\n",
    )
    assert names(load(main)) == ["/one", "/two"]


def test_an_absolute_name_is_fine(tmp_path: Path) -> None:
    main = write(tmp_path, main="", other="limits: {/o: 5/s}\n")
    main.write_text(f"include: {tmp_path}/other.yaml\n")
    assert names(load(main)) == ["/o"]


def test_a_glob_without_files_and_an_empty_list_are_fine(tmp_path: Path) -> None:
    assert names(load(write(tmp_path, main="include: [nothing.d/*.yaml]\nlimits: {/a: 5/s}\n"))) == ["/a"]
    assert names(load(write(tmp_path, main="include: []\nlimits: {/a: 5/s}\n"))) == ["/a"]


def test_a_file_that_is_named_twice_is_read_once(tmp_path: Path) -> None:
    main = write(tmp_path, main="include: [o*.yaml, other.yaml]\n", other="limits: {/o: 5/s}\n")
    assert names(load(main)) == ["/o"]


def test_rules_of_always_without_name_are_numbered_over_all_files(tmp_path: Path) -> None:
    main = write(
        tmp_path,
        main="include: other.yaml\nalways: [5/s, 6/s]\n",
        other="always: [7/s, {limit: 8/s, name: x}]\n",
    )
    assert names(load(main)) == ["always-1", "always-2", "always-3", "x"]


def test_a_dict_includes_files_of_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, main="", other="limits: {/o: 5/s}\n")
    monkeypatch.chdir(tmp_path)
    assert names(load_rules({"include": "other.yaml"}, env={})) == ["/o"]


def test_a_chain_of_files_is_followed_five_levels_deep(tmp_path: Path) -> None:
    chain = {f"f{n}": f"include: f{n + 1}.yaml\nlimits: {{/f{n}: 5/s}}\n" for n in range(7)}
    main = write(tmp_path, main="include: f2.yaml\n", **chain, f7="limits: {/f7: 5/s}\n")
    assert problems(main) == ["f6.yaml: files include each other more than 5 levels deep"]
    (tmp_path / "f6.yaml").write_text("limits: {/f6: 5/s}\n")
    assert len(names(load(main))) == 5


def test_a_cycle_over_a_link_is_seen(tmp_path: Path) -> None:
    main = write(tmp_path, main="include: link.yaml\n")
    (tmp_path / "link.yaml").symlink_to(main)
    (problem,) = problems(main)
    assert problem.endswith("includes itself, directly or through others")


def test_mistakes_of_all_files_are_told_at_once_each_with_its_file(tmp_path: Path) -> None:
    main = write(
        tmp_path,
        main="include: [one.yaml, two.yaml, three.yaml]\nlimits: {/a: 5/sek}\n",
        one="limits: {/b: 5/sek}\n",
        two="limits: [\n",
        three="limits: {/c: 5/s}\nalways: {limit: unlimited}\n",
    )
    assert [problem.split(".")[0] for problem in problems(main)] == ["main", "one", "three", "two"]


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    main = write(tmp_path, main="include: parts\n", parts__one="limits: {/o: 5/s}\n")
    assert problems(main) == ["main.yaml: there is no file `parts` beside this one"]
