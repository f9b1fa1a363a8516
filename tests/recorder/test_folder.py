"""The folder of a new recording."""

import json
import stat
from pathlib import Path

import pytest

from hicachectl.exits import UnreachableError, UsageError
from hicachectl.recorder import folder


def test_a_folder_is_made_under_home_for_the_owner_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recordings hold request ids and page hashes: nobody else may look."""
    monkeypatch.setenv("HICACHECTL_HOME", str(tmp_path / "a" / "home"))
    first, second = folder.make(None), folder.make(None)
    assert first.parent == tmp_path / "a" / "home"
    assert first.name < second.name
    assert stat.S_IMODE(first.stat().st_mode) == 0o700


def test_a_folder_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    """An earlier recording is never mixed with a new one; an empty or absent folder will do."""
    (tmp_path / "file").touch()
    for asked in (tmp_path, tmp_path / "file"):
        with pytest.raises(UsageError):
            folder.make(asked)
    assert folder.make(tmp_path / "new" / "run").is_dir()
    assert folder.make(tmp_path / "new" / "run").is_dir()


def test_a_place_that_cannot_be_written_is_unreachable() -> None:
    """One sentence with the place."""
    with pytest.raises(UnreachableError, match="/proc/absent"):
        folder.make(Path("/proc/absent/run"))


def test_the_first_claim_stays(tmp_path: Path) -> None:
    """Whoever comes second leaves run.json alone, and no temporary file behind."""
    folder.claim(tmp_path, ["first"])
    folder.claim(tmp_path, ["second"])
    assert json.loads((tmp_path / "run.json").read_text())["command"] == ["first"]
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_values_of_secret_options_are_hidden() -> None:
    """A key on the command line does not end in a recording; other words stay."""
    command = ["serve", "--api-key", "abc", "--hf-token=def", "--tokenizer-path", "x", "API_KEY=ghi", "--port", "1"]
    assert folder.without_secrets(command) == [
        "serve", "--api-key", "***", "--hf-token=***", "--tokenizer-path", "x", "API_KEY=***", "--port", "1",
    ]  # fmt: skip
