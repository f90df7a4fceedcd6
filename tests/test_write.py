"""Writing files: all or none, whole at every moment, and back again."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import ampify.write
from ampify.write import (
    Change,
    Committed,
    DiskFull,
    JournalDamaged,
    NothingToUndo,
    NotWritable,
    OutsideRoot,
    StaleFile,
    UnfinishedCommit,
    WriteError,
    commit,
    undo,
)
from ampify.write.failure import write_error
from tests.nobody import as_nobody, needs_user_ids, open_to_all

OLD = b"loss.backward()\r\n"
NEW = b"with scale_loss(loss) as s:\r\n    s.backward()\r\n"
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and user ids")


class Meanwhile:
    """Something that happens in the middle of a write: called with the target of every renaming, once it is active.

    Python's audit hooks cannot be removed, so there is a single one, which does nothing unless a test asks for it.
    """

    action: Callable[[str], None] | None = None

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "os.rename" and self.action is not None:
            self.action(str(arguments[1]))

    @contextlib.contextmanager
    def does(self, action: Callable[[str], None]) -> Iterator[None]:
        self.action = action
        try:
            yield
        finally:
            self.action = None


MEANWHILE = Meanwhile()
sys.addaudithook(MEANWHILE.hear)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def make(root: Path, *names: str, content: bytes = OLD) -> list[Path]:
    paths = [root / name for name in names]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return paths


def changes(paths: list[Path]) -> list[Change]:
    return [Change(path, OLD, NEW) for path in paths]


def contents(root: Path) -> dict[str, bytes]:
    """All files but those of the journal."""
    files = (path for path in root.rglob("*") if path.is_file() and ".ampify" not in path.relative_to(root).parts)
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in files}


def true_for_nobody(work: Callable[[], bool]) -> bool:
    """Whether `work` returns True in a child process that is no superuser."""
    child = os.fork()
    if child == 0:
        verdict = 1
        try:
            if os.getuid() == 0:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            verdict = 0 if work() else 2
        finally:
            os._exit(verdict)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def refuses(kind: type[WriteError], work: Callable[[], object], says: str = "") -> bool:
    try:
        work()
    except kind as problem:
        return says in str(problem)
    return False


def test_changes_are_written_and_put_back(root: Path) -> None:
    paths = make(root, "a.py", "pkg/b.py")
    made = [Change(root / "pkg/new.py", None, b"x = 1\n"), Change(root / "deep/er/new.py", None, b"")]
    assert commit(root, changes(paths) + made) == Committed(tuple(paths), tuple(change.path for change in made))
    assert contents(root) == {"a.py": NEW, "pkg/b.py": NEW, "pkg/new.py": b"x = 1\n", "deep/er/new.py": b""}
    undone = undo(root)
    assert (undone.restored, undone.removed) == (tuple(paths), tuple(change.path for change in made))
    assert (undone.edited, undone.interrupted) == ((), False)
    assert contents(root) == {"a.py": OLD, "pkg/b.py": OLD}
    assert not (root / "deep").exists()
    with pytest.raises(NothingToUndo, match="no write of ampify is on record here"):
        undo(root)


def test_nothing_to_write_leaves_no_trace(root: Path) -> None:
    (path,) = make(root, "a.py")
    assert commit(root, []) == commit(root, [Change(path, OLD, OLD)]) == Committed()
    assert [entry.name for entry in root.iterdir()] == ["a.py"]


def test_git_does_not_see_the_journal(root: Path) -> None:
    subprocess.run(["git", "init", "-q", root], check=True)
    paths = make(root, "a.py")
    commit(root, changes(paths))
    listing = ["git", "ls-files", "--others", "--exclude-standard"]
    assert subprocess.run(listing, cwd=root, check=True, capture_output=True, text=True).stdout.split() == ["a.py"]


def test_undo_puts_back_the_last_write_only(root: Path) -> None:
    (path,) = make(root, "a.py")
    commit(root, [Change(path, OLD, b"1")])
    commit(root, [Change(path, b"1", b"2")])
    commit(root, [Change(path, b"2", b"3")])
    assert undo(root).restored == (path,)
    assert path.read_bytes() == b"2"
    with pytest.raises(NothingToUndo):
        undo(root)


def test_files_edited_since_are_named_and_keep_all_from_being_put_back_unless_they_may_be_left(root: Path) -> None:
    paths = make(root, "a.py", "b.py", "c.py", "d.py")
    made = [Change(root / "lib/new.py", None, b"1"), Change(root / "lib/gone.py", None, b"2")]
    commit(root, changes(paths) + made)
    paths[0].write_bytes(b"mine")
    paths[1].unlink()
    paths[2].write_bytes(OLD)
    made[0].path.write_bytes(b"mine too")
    made[1].path.unlink()
    before = contents(root)
    refused = undo(root)
    assert (refused.refused, refused.restored, refused.removed) == (True, (), ())
    assert refused.edited == (paths[0], paths[1], made[0].path)
    assert contents(root) == before
    undone = undo(root, "keep")
    assert undone.refused is False
    assert undone.edited == (paths[0], paths[1], made[0].path)
    assert undone.restored == (paths[3],)
    assert undone.removed == ()
    assert contents(root) == {"a.py": b"mine", "c.py": OLD, "d.py": OLD, "lib/new.py": b"mine too"}
    # Once the edits are out of the way the rest can be undone.
    paths[0].write_bytes(NEW)
    paths[1].write_bytes(NEW)
    shutil.rmtree(root / "lib")
    assert undo(root).restored == (paths[0], paths[1])
    assert contents(root) == {"a.py": OLD, "b.py": OLD, "c.py": OLD, "d.py": OLD}


def test_files_edited_since_are_put_back_if_their_edits_may_be_lost(root: Path) -> None:
    paths = make(root, "a.py", "b.py")
    made = Change(root / "lib/new.py", None, b"1")
    commit(root, [*changes(paths), made])
    paths[0].write_bytes(b"mine")
    paths[1].unlink()
    made.path.write_bytes(b"mine too")
    undone = undo(root, "overwrite")
    assert (undone.restored, undone.removed, undone.edited) == (tuple(paths), (made.path,), ())
    assert contents(root) == {"a.py": OLD, "b.py": OLD}


@pytest.mark.skipif(os.name == "nt", reason="modes are of little meaning there")
def test_modes_are_kept_both_ways(root: Path) -> None:
    (path,) = make(root, "run.py")
    path.chmod(0o754)
    commit(root, changes([path]))
    assert path.stat().st_mode & 0o777 == 0o754
    undo(root)
    assert path.stat().st_mode & 0o777 == 0o754


def test_a_link_stays_a_link_and_its_target_changes(root: Path) -> None:
    make(root, "code/a.py")
    link = root / "a.py"
    link.symlink_to("code/a.py")
    assert commit(root, [Change(link, OLD, NEW)]).changed == (link,)
    assert link.is_symlink()
    assert (root / "code/a.py").read_bytes() == NEW
    undo(root)
    assert link.is_symlink()
    assert contents(root) == {"code/a.py": OLD, "a.py": OLD}


@pytest.mark.parametrize("name", ["gone.py", "changed.py", "there.py", "dangling.py"])
def test_a_file_that_is_not_what_was_read_stops_everything(root: Path, name: str) -> None:
    (first,) = make(root, "a.py")
    make(root, "changed.py", "there.py", content=b"edited")
    (root / "dangling.py").symlink_to("nowhere.py")
    before = None if name in ("there.py", "dangling.py") else OLD
    with pytest.raises(StaleFile) as caught:
        commit(root, [Change(first, OLD, NEW), Change(root / name, before, NEW)])
    assert caught.value.path == root / name
    assert first.read_bytes() == OLD
    assert not (root / ".ampify").exists()


def test_a_folder_in_place_of_a_file_stops_everything(root: Path) -> None:
    (root / "a.py").mkdir()
    with pytest.raises(NotWritable, match=r"a\.py: cannot be written"):
        commit(root, [Change(root / "a.py", OLD, NEW)])


def test_files_outside_the_root_are_refused(root: Path) -> None:
    (outside,) = make(root.parent, "other.py")
    (root / "link.py").symlink_to(outside)
    for path in (outside, root / "link.py", root / "../other.py"):
        with pytest.raises(OutsideRoot, match="run ampify from a folder that holds all the files"):
            commit(root, [Change(path, OLD, NEW)])
    assert outside.read_bytes() == OLD


def test_one_file_cannot_be_written_twice_at_once(root: Path) -> None:
    (path,) = make(root, "a.py")
    (root / "link.py").symlink_to("a.py")
    with pytest.raises(NotWritable, match="written twice"):
        commit(root, [Change(path, OLD, NEW), Change(root / "link.py", OLD, b"other")])


def test_a_read_only_file_is_refused_even_for_the_superuser(root: Path) -> None:
    first, locked = make(root, "a.py", "locked.py")
    locked.chmod(0o444)
    with pytest.raises(NotWritable, match=r"locked\.py: is read-only"):
        commit(root, changes([first, locked]))
    assert contents(root) == {"a.py": OLD, "locked.py": OLD}


@needs_fork
def test_files_and_folders_of_others_are_refused(root: Path) -> None:
    (theirs,) = make(root, "theirs.py")
    (inside,) = make(root, "closed/inside.py")
    open_to_all(root)
    root.chmod(0o777)
    theirs.chmod(0o644)
    inside.chmod(0o666)
    (root / "closed").chmod(0o555)
    if os.getuid() != 0:
        theirs.chmod(0o444)
    assert true_for_nobody(
        lambda: refuses(NotWritable, lambda: commit(root, changes([theirs])), "theirs.py: is read-only")
    )
    assert true_for_nobody(lambda: refuses(NotWritable, lambda: commit(root, changes([inside])), "closed is read-only"))
    new = Change(root / "closed/new/a.py", None, NEW)
    assert true_for_nobody(lambda: refuses(NotWritable, lambda: commit(root, [new]), "closed is read-only"))
    assert contents(root) == {"theirs.py": OLD, "closed/inside.py": OLD}
    inside.chmod(0)
    assert true_for_nobody(lambda: refuses(NotWritable, lambda: commit(root, changes([inside])), "Permission denied"))


@needs_fork
def test_a_root_that_cannot_hold_the_journal_is_refused(root: Path) -> None:
    (path,) = make(root, "open/a.py")
    open_to_all(root)
    (root / "open").chmod(0o777)
    path.chmod(0o666)
    root.chmod(0o555)
    assert true_for_nobody(
        lambda: refuses(NotWritable, lambda: commit(root, changes([path])), ".ampify: cannot be written")
    )
    assert path.read_bytes() == OLD


@needs_user_ids
def test_what_undo_may_not_read_or_remove_is_named(root: Path) -> None:
    (path,) = make(root, "a.py")
    commit(root, [*changes([path]), Change(root / "sub/new.py", None, NEW)])
    open_to_all(root / "sub")
    path.chmod(0)
    with as_nobody(), pytest.raises(NotWritable, match=r"a\.py: cannot be written: Permission denied"):
        undo(root)
    path.write_bytes(OLD)
    path.chmod(0o644)
    (root / "sub").chmod(0o555)
    with as_nobody(), pytest.raises(NotWritable, match=r"new\.py: cannot be written: Permission denied"):
        undo(root)
    (root / ".ampify/last").chmod(0)
    with as_nobody(), pytest.raises(JournalDamaged, match="Permission denied"):
        undo(root)
    (root / ".ampify/last").chmod(0o755)


BIG = b"x" * 300_000


@needs_fork
def test_a_file_size_limit_leaves_everything_as_it_was(root: Path) -> None:
    import resource

    paths = make(root, "a.py", "b.py")

    def work() -> bool:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        return refuses(
            DiskFull, lambda: commit(root, [*changes(paths[:1]), Change(paths[1], OLD, BIG)]), "b.py: no room"
        )

    root.chmod(0o777)
    open_to_all(root)
    for path in paths:
        path.chmod(0o666)
    assert true_for_nobody(work)
    assert contents(root) == {"a.py": OLD, "b.py": OLD}
    assert not (root / ".ampify/flight").exists()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)]
    if not shutil.which("mount") or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_leaves_everything_as_it_was(small_disk: Path) -> None:
    paths = make(small_disk, "a.py", "b.py")
    with pytest.raises(DiskFull) as caught:
        commit(small_disk, [*changes(paths[:1]), Change(paths[1], OLD, BIG)])
    assert caught.value.path == paths[1]
    assert contents(small_disk) == {"a.py": OLD, "b.py": OLD}
    # No room for the copies of the old content either: the journal is refused, and nothing is touched.
    make(small_disk, "c.py", content=BIG[:150_000])
    with pytest.raises(DiskFull):
        commit(small_disk, [Change(small_disk / "c.py", BIG[:150_000], NEW)])
    assert not (small_disk / ".ampify/flight").exists()
    commit(small_disk, changes(paths))
    assert undo(small_disk).restored == tuple(paths)


def test_a_change_between_check_and_write_rolls_all_back(root: Path) -> None:
    paths = make(root, "a.py", "b.py", "c.py")
    made = Change(root / "lib/new.py", None, NEW)

    def edit_the_last(target: str) -> None:
        if target == str(paths[1]):
            paths[2].write_bytes(b"edited meanwhile")

    with MEANWHILE.does(edit_the_last), pytest.raises(StaleFile, match=r"c\.py: has changed since it was read"):
        commit(root, [made, *changes(paths)])
    assert contents(root) == {"a.py": OLD, "b.py": OLD, "c.py": b"edited meanwhile"}
    assert not (root / "lib").exists()


def test_an_interrupt_at_any_line_leaves_each_file_old_or_new(root: Path) -> None:
    """The interrupt is raised at each line of our code that a write runs through, one after the other."""
    package = str(Path(ampify.write.__file__).parent)
    names = ("a.py", "sub/b.py")
    line, completed = 0, False
    while not completed:
        line += 1
        shutil.rmtree(root)
        paths = make(root, *names)
        work = [*changes(paths), Change(root / "lib/new.py", None, NEW)]
        completed = _interrupted_at(line, package, lambda work=work: commit(root, work))
        assert {path.read_bytes() for path in paths} <= {OLD, NEW}
        # Only an interrupt within the clean-up itself leaves something for `undo` to do.
        if any((root / ".ampify" / name).exists() for name in ("flight", "last")):
            undo(root)
        assert contents(root) == dict.fromkeys(names, OLD)
        assert not (root / "lib").exists()
    assert line > 100


def _interrupted_at(line: int, package: str, work: Callable[[], object]) -> bool:
    """Whether `work` came to its end before as many lines of `package` as `line` says were run."""
    seen = 0

    def count(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal seen
        if not frame.f_code.co_filename.startswith(package):
            return None
        if event == "line":
            seen += 1
            if seen == line:
                raise KeyboardInterrupt
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        work()
    except KeyboardInterrupt:
        return False
    finally:
        sys.settrace(before)
    return seen < line


CHILD = """
import os, signal, sys
from pathlib import Path
from ampify.write import Change, commit

root, fatal, seen = Path(sys.argv[1]), int(sys.argv[2]), 0
paths = sorted((root / "code").glob("*.py"))
changes = [Change(path, path.read_bytes(), b"new " * 500) for path in paths]
changes.append(Change(root / "lib/new.py", None, b"new " * 500))

def count(event, arguments):
    global seen
    if event in ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.chmod"):
        seen += 1
        if seen == fatal:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(count)
commit(root, changes)
"""


@pytest.mark.skipif(os.name == "nt", reason="no SIGKILL there")
def test_a_killed_process_leaves_each_file_old_or_new_and_undo_works(root: Path) -> None:
    """The process dies at its first call of the system, its fifteenth, and so on, until one comes to its end."""
    environment = {**os.environ, "PYTHONPATH": str(Path(ampify.write.__file__).parents[2])}
    old, new = b"old " * 500, b"new " * 500
    mixed = unfinished = 0
    for fatal in range(1, 1_000, 14):
        shutil.rmtree(root)
        paths = make(root, *(f"code/f{number:02d}.py" for number in range(20)), content=old)
        status = subprocess.run([sys.executable, "-c", CHILD, str(root), str(fatal)], env=environment, check=False)
        found = [path.read_bytes() for path in paths]
        assert set(found) <= {old, new}
        mixed += len(set(found)) > 1
        if (root / ".ampify/flight").exists():
            unfinished += 1
            with pytest.raises(UnfinishedCommit, match="run `ampify undo`"):
                commit(root, [Change(paths[0], found[0], b"again")])
        if (root / ".ampify/flight").exists() or (root / ".ampify/last").exists():
            undo(root)
        assert contents(root) == {f"code/f{number:02d}.py": old for number in range(20)}
        assert not (root / "lib").exists()
        if status.returncode == 0:
            break
        assert status.returncode == -signal.SIGKILL
    assert mixed >= 2
    assert unfinished >= 5


def test_an_unfinished_write_is_put_back_first_and_the_one_before_it_afterwards(root: Path) -> None:
    (path,) = make(root, "a.py")
    commit(root, [Change(path, OLD, b"1")])

    def stop_at_the_end(target: str) -> None:
        if target.endswith("outdated"):
            raise KeyboardInterrupt

    with MEANWHILE.does(stop_at_the_end), pytest.raises(KeyboardInterrupt):
        commit(root, [Change(path, b"1", b"2")])
    assert path.read_bytes() == b"2"
    undone = undo(root)
    assert (undone.interrupted, undone.restored, path.read_bytes()) == (True, (path,), b"1")
    assert undo(root).interrupted is False
    assert path.read_bytes() == OLD


def test_a_write_that_cannot_be_put_back_says_so_and_undo_does_it_later(root: Path) -> None:
    paths = make(root, "a.py", "b.py")
    flight = root / ".ampify/flight"

    def spoil(target: str) -> None:
        if target == str(paths[1]):
            (copy,) = flight.glob("copy-*-0")
            copy.rename(flight / "away")
            paths[1].write_bytes(b"edited meanwhile")
            for temporary in root.glob(".ampify-*-1"):
                temporary.unlink()

    with (
        MEANWHILE.does(spoil),
        pytest.raises(UnfinishedCommit, match=r"some files are new, some old: run `ampify undo`"),
    ):
        commit(root, changes(paths))
    assert paths[0].read_bytes() == NEW
    record = json.loads((flight / "journal.json").read_text())
    (flight / "away").rename(flight / record["entries"][0]["copy"])
    assert undo(root).restored == (paths[0],)
    assert contents(root) == {"a.py": OLD, "b.py": b"edited meanwhile"}


def tampered(root: Path, change: Callable[[dict[str, Any]], object]) -> None:
    place = root / ".ampify/last/journal.json"
    data = json.loads(place.read_text())
    change(data)
    place.write_text(json.dumps(data))


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.update(schema=99),
        lambda data: data.pop("schema"),
        lambda data: data.update(entries=[{"path": "a.py"}]),
        lambda data: data.update(folders=[3]),
        lambda data: data["entries"][0].update(copy="../copy"),
        lambda data: data["entries"][0].update(temporary=".."),
        lambda data: data["entries"][0].update(temporary=None),
        lambda data: data["entries"][0].update(path=None),
    ],
)
def test_a_record_that_makes_no_sense_is_refused(root: Path, change: Callable[[dict[str, Any]], object]) -> None:
    paths = make(root, "a.py")
    commit(root, changes(paths))
    tampered(root, change)
    with pytest.raises(JournalDamaged, match="put the files back with your version control"):
        undo(root)
    assert paths[0].read_bytes() == NEW


def test_a_record_that_is_no_json_is_refused(root: Path) -> None:
    commit(root, changes(make(root, "a.py")))
    (root / ".ampify/last/journal.json").write_bytes(b"{\xff")
    with pytest.raises(JournalDamaged):
        undo(root)


@pytest.mark.parametrize("path", ["../victim.py", "/etc/hostname", "linked/victim.py", "sub/../../victim.py"])
def test_a_record_may_not_lead_out_of_the_root(root: Path, path: str) -> None:
    """A repository from elsewhere may hold a journal made to overwrite files of whoever runs `ampify undo` in it."""
    paths = make(root, "a.py")
    (victim,) = make(root.parent, "victim.py", content=NEW)
    (root / "linked").symlink_to("..")
    commit(root, changes(paths))
    tampered(root, lambda data: data["entries"][0].update(path=path))
    with pytest.raises(OutsideRoot):
        undo(root)
    assert victim.read_bytes() == NEW


def test_a_copy_that_is_damaged_or_gone_is_not_written_back(root: Path) -> None:
    paths = make(root, "a.py")
    commit(root, changes(paths))
    (copy,) = (root / ".ampify/last").glob("copy-*")
    copy.write_bytes(b"garbled")
    with pytest.raises(JournalDamaged, match="is not the copy that was made"):
        undo(root)
    copy.unlink()
    with pytest.raises(JournalDamaged):
        undo(root)
    assert paths[0].read_bytes() == NEW


def test_a_journal_folder_that_is_a_link_is_not_followed(root: Path) -> None:
    paths = make(root, "a.py")
    elsewhere = root.parent / "elsewhere"
    elsewhere.mkdir()
    (root / ".ampify").symlink_to(elsewhere)
    for work in (lambda: commit(root, changes(paths)), lambda: undo(root)):
        with pytest.raises(JournalDamaged, match="is a link"):
            work()
    assert list(elsewhere.iterdir()) == []


def test_a_file_in_the_place_of_the_journal_is_named(root: Path) -> None:
    paths = make(root, "a.py")
    (root / ".ampify").write_text("")
    with pytest.raises(NotWritable, match=r"\.ampify: cannot be written"):
        commit(root, changes(paths))


def test_a_folder_that_cannot_be_made_is_named(root: Path) -> None:
    make(root, "lib")
    with pytest.raises(WriteError, match="lib"):
        commit(root, [Change(root / "lib/a.py", None, NEW)])
    assert contents(root) == {"lib": OLD}


def test_a_folder_the_system_does_not_take_is_named(root: Path) -> None:
    (path,) = make(root, "a.py")
    with pytest.raises(NotWritable, match="File name too long"):
        commit(root, [Change(path, OLD, NEW), Change(root / ("x" * 300) / "a.py", None, NEW)])
    assert contents(root) == {"a.py": OLD}


def test_a_journal_that_cannot_be_closed_is_named(root: Path) -> None:
    paths = make(root, "a.py")

    def fail(target: str) -> None:
        if target.endswith("last"):
            raise OSError(errno.EIO, "Input/output error")

    with MEANWHILE.does(fail), pytest.raises(NotWritable, match="last: cannot be written: Input/output error"):
        commit(root, changes(paths))
    assert undo(root).restored == tuple(paths)


def test_errors_of_the_system_are_told_apart() -> None:
    path = Path("a.py")
    for number in (errno.ENOSPC, errno.EFBIG):
        assert isinstance(write_error(path, OSError(number, os.strerror(number))), DiskFull)
    assert isinstance(write_error(path, OSError(errno.EROFS, "Read-only file system")), NotWritable)
    assert str(write_error(path, OSError("odd"))) == (
        "a.py: cannot be written: odd (check the permissions of the file and of its folder)"
    )
