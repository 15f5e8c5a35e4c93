"""All calls of git. None of them runs a program that the repository names.

A repository may be hostile. Its configuration can name programs (`core.fsmonitor`, filters, hooks, diff drivers, remote
helpers), even through `include`, and a bare repository can be hidden among committed files. So the repository is the
nearest folder with a `.git`, and git is kept from searching for another repository. Git only reads stored objects:
commits, trees, the index and blobs. It never compares the work tree, because a comparison runs filters. It is also kept
from fetching missing objects. Files are compared by `git diff --no-index` in a temporary folder that belongs to no
repository.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from graphsafe.errors import RequestError

PATIENCE = 60.0
"The largest number of seconds for one call. Without a limit, git would wait forever for a file that is a FIFO."
_POLL = 0.05
MAX_OUTPUT = 100_000_000
"""The largest size in bytes of the output of one call. A few small trees that contain one another can list more files
than fit into any memory."""
LINK, SUBMODULE = "120000", "160000"
"The modes of entries that are not files."
_NO_PROGRAMS = (
    "safe.bareRepository=explicit",
    "core.fsmonitor=false",
    f"core.hooksPath={os.devnull}",
    f"core.attributesFile={os.devnull}",
    "core.pager=cat",
)
_ENVIRONMENT = {
    "LC_ALL": "C",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "",  # git before 2.44 has no option that forbids fetching, so every protocol is forbidden
    "GIT_TERMINAL_PROMPT": "0",
}
_OF_ANOTHER_PLACE = frozenset(
    ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_NAMESPACE")
)
"Environment variables that git sets for hooks. They may refer to another repository."
_PLAIN_DIFF = (
    "--no-index --unified=0 --inter-hunk-context=0 --text --no-color --no-ext-diff --no-textconv --find-renames "
    "--diff-filter=d --src-prefix=a/ --dst-prefix=b/"
).split()
"""These options override the user's configuration of git, so that the output contains one hunk per change and nothing
else."""


class GitError(RequestError):
    """Raised if git is missing, does not respond, or reports an error. The message is one line."""


@dataclass(frozen=True, slots=True)
class Entry:
    mode: str
    blob: str
    "The hash of the content. For a submodule, it is the hash of its commit."


@dataclass(frozen=True, slots=True)
class Repository:
    """A git repository with a work tree."""

    top: str
    "The folder as an absolute path without links."

    @staticmethod
    def over(folder: Path) -> Repository:
        """Return the repository of the nearest folder with a `.git`. Raises GitError if there is none."""
        real = folder.resolve()
        for parent in (real, *real.parents):
            if os.path.lexists(parent / ".git"):
                repository = Repository(str(parent))
                repository._ask("rev-parse", "--git-dir")
                return repository
        raise GitError(f"--diff: {folder} is not in a git repository")

    def commit(self, revision: str) -> str | None:
        """Return the hash of the commit that a revision names, or None if there is no such commit."""
        return self._line("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")

    def is_shallow(self) -> bool:
        """Return whether the clone may lack older commits."""
        return self._line("rev-parse", "--is-shallow-repository") != "false"

    def merge_base(self, commit: str) -> str | None:
        """Return the last common commit of HEAD and `commit`, or None if none is known here."""
        return self._line("merge-base", commit, "HEAD")

    def last_change(self, path: str) -> str | None:
        """Return the commit that last changed a file, before or at HEAD. `path` is relative to the top folder.

        Return None if there is no such commit or if a shallow clone may lack it.
        """
        # `git log` would run the program that checks signatures, if the configuration names one.
        found = self._line("rev-list", "-1", "HEAD", "--", f":(literal){path}")
        parents = self._line("rev-list", "-1", "--parents", found) if found else None
        is_cut_off = parents is None or (" " not in parents and self.is_shallow())
        return None if is_cut_off else found

    def tree(self, commit: str) -> Mapping[str, Entry]:
        listed = self._listed("ls-tree", "-r", "-z", "--full-tree", commit)
        return {path: Entry(mode, blob) for (mode, _, blob), path in listed}

    def index(self) -> Mapping[str, str]:
        """Return the modes of the files that git tracks, by path."""
        return {path: words[0] for words, path in self._listed("ls-files", "--stage", "-z")}

    def sizes(self, hashes: Iterable[str]) -> Mapping[str, int]:
        """Return the sizes in bytes of stored contents by their hashes. Contents that are missing, as in a partial
        clone, are left out."""
        rows = (line.split(" ") for line in self._batch("--batch-check", hashes)[1].decode("ascii").splitlines())
        return {row[0]: int(row[2]) for row in rows if len(row) == 3 and row[1] == "blob"}

    def blobs(self, hashes: Iterable[str]) -> Mapping[str, bytes]:
        """Return stored contents by their hashes. Contents that are missing are left out."""
        wanted, answer = self._batch("--batch", hashes)
        return dict(_contents(answer, wanted))

    def _batch(self, how: str, hashes: Iterable[str]) -> tuple[Sequence[str], bytes]:
        """Return the hashes without repetition, and git's output about these objects."""
        wanted = list(dict.fromkeys(hashes))
        given = "".join(f"{each}\n" for each in wanted).encode("ascii")
        return wanted, self._ask("cat-file", how, given=given) if wanted else b""

    def _line(self, *arguments: str) -> str | None:
        """Return the single line of git's output, or None if git reports an error."""
        try:
            return self._ask(*arguments).decode("ascii").strip()
        except GitError:
            return None

    def _listed(self, *arguments: str) -> Iterator[tuple[list[str], str]]:
        """Yield the entries that git lists: the words before the path, and the path."""
        for line in self._ask(*arguments).split(b"\0"):
            head, _, path = line.partition(b"\t")
            if path:
                yield head.decode("ascii").split(" "), os.fsdecode(path)

    def _ask(self, *arguments: str, given: bytes = b"") -> bytes:
        return _git(arguments, self.top, {"GIT_WORK_TREE": self.top}, given)


def diff(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> bytes:
    """Return the differences between two sets of files as a diff without context. A renamed file is compared with its
    old content.

    The file names are single words. In the diff, they follow `a/before/` and `b/after/`.
    """
    with tempfile.TemporaryDirectory(prefix="graphsafe-") as folder:
        for side, files in (("before", before), ("after", after)):
            os.mkdir(os.path.join(folder, side))
            for name, data in files.items():
                Path(folder, side, name).write_bytes(data)
        return _git(("diff", *_PLAIN_DIFF, "before", "after"), os.path.realpath(folder), {}, differs=1)


def _git(
    arguments: Sequence[str], folder: str, environment: Mapping[str, str], given: bytes = b"", differs: int = 0
) -> bytes:
    """Return the output of one call of git. Raises GitError.

    `differs` is an exit code that does not mean an error.
    """
    about = f"--diff: git {arguments[0]}"
    inherited = {name: value for name, value in os.environ.items() if name not in _OF_ANOTHER_PLACE}
    try:
        with tempfile.TemporaryFile() as asked, tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            asked.write(given)
            asked.seek(0)
            process = subprocess.Popen(
                [_program(), *(word for one in _NO_PROGRAMS for word in ("-c", one)), "--no-pager", *arguments],
                cwd=folder,
                env={**inherited, **_ENVIRONMENT, "GIT_CEILING_DIRECTORIES": os.path.dirname(folder), **environment},
                stdin=asked,
                stdout=output,
                stderr=errors,
            )
            _wait(process, (output.fileno(), errors.fileno()), about)
            output.seek(0)
            errors.seek(0)
            answer, said = output.read(), errors.read().decode("utf-8", "replace").strip().partition("\n")[0]
    except OSError as error:
        raise GitError(f"{about}: {error.strerror}") from None
    if process.returncode not in (0, differs):
        if "not a git repository" in said:
            raise GitError(f"--diff: {folder} is not in a git repository")
        raise GitError(f"{about}: {said}")
    return answer


def _wait(process: subprocess.Popen[bytes], outputs: Sequence[int], about: str) -> None:
    """Wait for git to end. Meanwhile, git writes to the open files `outputs`. If git takes too long or writes too much,
    end it and raise GitError."""
    deadline = time.monotonic() + PATIENCE
    try:
        while process.returncode is None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_POLL)
            if sum(os.fstat(one).st_size for one in outputs) > MAX_OUTPUT:
                raise GitError(f"{about}: more than {MAX_OUTPUT // 1_000_000} MB of output")
            if process.returncode is None and time.monotonic() > deadline:
                raise GitError(f"{about}: no answer in {PATIENCE:g} seconds")
    finally:
        process.kill()
        process.wait()


def _program() -> str:
    """Return the path of git.

    Only absolute folders of PATH are searched, so that no folder of the repository can provide the program.
    """
    name = "git.exe" if os.name == "nt" else "git"
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        path = os.path.join(folder, name)
        if os.path.isabs(folder) and os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    raise GitError("--diff: git is not installed")


def _contents(answer: bytes, wanted: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Read the output of `cat-file --batch`: a line for each object, and the object's content if it exists."""
    at = 0
    for each in wanted:
        end = answer.find(b"\n", at)
        if end < 0:
            return
        head = answer[at:end].split(b" ")
        at = end + 1
        if len(head) == 3 and head[1] == b"blob":
            size = int(head[2])
            yield each, answer[at : at + size]
            at += size + 1
        elif len(head) == 3:
            at += int(head[2]) + 1
