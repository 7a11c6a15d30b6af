"""What gitcp prints does not depend on how the user likes git's own output, or on how git works
inside: with any of these settings, each command that only reads prints the same.

Left out are settings that gitcp honours because they say what is a file's content or whose name is
on a checkpoint: `core.autocrlf`, `core.excludesFile`, `core.attributesFile`, filters, `user.*`.
"""

from __future__ import annotations

import re

import pytest
from talk import Talk

from driver import Project

COMMANDS = (
    "log",
    "log -p",
    "log --stat app.py",
    "log --all --json",
    "show 1",
    "show 2 --json",
    "show --conversation",
    "diff 1 2",
    "diff 1 2 --stat",
    "diff 1",
    "status --json",
    "sessions",
    "find zebra",
    "why app.py:1",
    "why app.py",
    "check",
    "review main..HEAD",
    "tag",
    "prune --keep-last 1 --dry-run",
    "restore 1 --dry-run",
    "publish --dry-run",
    "oplog",
)

OUTPUT = """
blame.blankBoundary=true blame.coloring=repeatedLines blame.date=raw blame.showEmail=true
blame.showRoot=true
blame.ignoreRevsFile=missing blame.markUnblamableLines=true blame.markIgnoredLines=true
color.ui=always color.diff=always color.blame.highlightRecent=red color.branch=always
color.grep=always
color.interactive=always color.showBranch=always color.status=always color.diff.meta=red
color.diff.old=blue
color.pager=true color.decorate.head=red color.remote=always color.advice=always color.push=always
color.transport=always
column.ui=always column.status=always column.branch=always column.tag=always
diff.algorithm=patience diff.autoRefreshIndex=false diff.colorMoved=zebra
diff.colorMovedWS=ignore-all-space
diff.context=0 diff.dirstat=lines diff.external=false diff.ignoreSubmodules=all
diff.indentHeuristic=false
diff.interHunkContext=9 diff.mnemonicPrefix=true diff.noPrefix=true diff.orderFile=missing
diff.relative=true
diff.renameLimit=1 diff.renames=false diff.statGraphWidth=2 diff.statNameWidth=5 diff.submodule=log
diff.suppressBlankEmpty=true
diff.tool=vimdiff diff.wordRegex=. diff.wsErrorHighlight=all diff.srcPrefix=x/ diff.dstPrefix=y/
diff.trustExitCode=true
format.attach=true format.coverLetter=true format.from=true format.headers=X format.notes=true
format.numbered=true
format.outputDirectory=out format.pretty=%h%x00 format.signOff=true format.subjectPrefix=P
format.suffix=.p
format.thread=deep format.useAutoBase=true format.encodeEmailHeaders=false
grep.column=true grep.fullName=true grep.lineNumber=true grep.patternType=perl grep.threads=1
grep.extendedRegexp=true
i18n.commitEncoding=ISO-8859-1 i18n.logOutputEncoding=ISO-8859-1
log.abbrevCommit=true log.date=relative log.decorate=full log.diffMerges=on
log.excludeDecoration=refs/* log.follow=true
log.graphColors=red log.initialDecorationSet=all log.mailmap=false log.showRoot=false
log.showSignature=true
notes.displayRef=refs/notes/* pretty.oneline=%H pretty.medium=%x00 core.commentChar=;
core.quotePath=false
status.aheadBehind=false status.branch=true status.displayCommentPrefix=true
status.relativePaths=false
status.renameLimit=1 status.renames=false status.short=true status.showStash=true
status.showUntrackedFiles=no
status.submoduleSummary=true tag.sort=-refname tag.gpgSign=true branch.sort=-committerdate
versionsort.suffix=-rc
showBranch.default=--topo-order tag.forceSignAnnotated=true commit.gpgSign=true commit.verbose=2
commit.status=false
advice.detachedHead=false advice.statusHints=false advice.ignoredHook=false help.autoCorrect=1
help.format=web
core.pager=false core.editor=false pager.log=false pager.diff=false pager.show=false
pager.blame=false sequence.editor=false
mailmap.file=missing mailmap.blob=HEAD:x rerere.enabled=true merge.conflictStyle=diff3
merge.renames=false
""".split()

INSIDE = """
core.abbrev=4 core.bigFileThreshold=1k core.compression=9 core.looseCompression=0
core.deltaBaseCacheLimit=1k
core.commitGraph=false core.multiPackIndex=false core.packedGitLimit=1m core.packedGitWindowSize=1m
core.preloadIndex=false core.untrackedCache=keep core.splitIndex=false core.logAllRefUpdates=always
core.checkStat=minimal core.trustctime=false core.createObject=rename core.fsync=none
core.warnAmbiguousRefs=true
core.disambiguate=tree core.hooksPath=missing core.notesRef=refs/notes/x
core.sparseCheckoutCone=false
core.alternateRefsPrefixes=refs/heads core.protectNTFS=false core.protectHFS=false
core.maxTreeDepth=64
core.useReplaceRefs=false core.whitespace=trailing-space core.unsetenvvars=X
core.restrictinheritedhandles=auto
alias.log=!false alias.cat-file=!false alias.rev-list=!false alias.blame=!false alias.diff=!false
credential.helper=!false fetch.fsckObjects=true fetch.prune=true fetch.parallel=4
fetch.writeCommitGraph=true
feature.manyFiles=false feature.experimental=true fsck.missingEmail=error gc.auto=1
gc.autoPackLimit=1 gc.pruneExpire=now
gpg.program=false gpg.format=ssh index.version=2 index.threads=1 index.skipHash=true
init.defaultBranch=x init.templateDir=missing interactive.diffFilter=false maintenance.auto=false
pack.allowPackReuse=false pack.compression=0 pack.depth=1 pack.threads=1 pack.useSparse=false
pack.window=0
pack.writeBitmapHashCache=false pack.writeReverseIndex=false pack.useBitmaps=false pack.island=refs
protocol.version=0 protocol.allow=never push.default=nothing push.followTags=true
push.recurseSubmodules=check
push.autoSetupRemote=true rebase.autoStash=true receive.denyDeletes=true remote.pushDefault=x
repack.useDeltaBaseOffset=false repack.writeBitmaps=false submodule.recurse=true submodule.active=:
submodule.alternateLocation=superproject submodule.fetchJobs=4 transfer.fsckObjects=true
transfer.hideRefs=refs/gitcp
transfer.unpackLimit=1 transfer.credentialsInUrl=die uploadpack.hideRefs=refs/gitcp
uploadpack.allowFilter=false
checkout.guess=false checkout.workers=4 clean.requireForce=false clone.defaultRemoteName=x
worktree.guessRemote=true
commitGraph.generationVersion=1 commitGraph.maxNewFilters=0 lsrefs.unborn=ignore
stash.showPatch=true
trace2.configParams=* uploadarchive.allowUnreachable=false url.x:.insteadOf=y: web.browser=false
""".split()


TIME = re.compile(r" *(?:\d+ \w+ ago|just now) *|(?<=when) +|(?<=last saved) +")


def printed(project: Project) -> dict[str, tuple[int, str, str]]:
    """Return the exit code and the output of each command, without what is the time of day."""
    done = {command: project.gitcp(*command.split()) for command in COMMANDS}
    return {
        name: (
            each.code,
            TIME.sub("", each.out),
            each.err,
        )
        for name, each in done.items()
    }


@pytest.fixture
def saved(project: Project) -> Project:
    """A project with commits, renamed and odd files, two checkpoints, a tag, an undone restore."""
    project.write("app.py", "one\n\ttwo \n" * 9)
    project.write("ä b.txt", "ä\n")
    project.commit()
    project.git("checkout", "-q", "-b", "topic")
    talk = Talk(project)
    for number in range(2):
        talk.say(f"the zebra {number}", "Which?")
        project.write("app.py", f"two {number}\n" + "one\n\ttwo \n" * 9)
        project.write(f"sub/x{number}.txt", "same\n" * 20)
        project.gitcp("save", check=0)
    project.git("mv", "app.py", "moved.py")
    project.git("commit", "-q", "-m", "move")
    project.write("app.py", "three\n")
    project.gitcp("save", "--tag", "t", check=0)
    return project


@pytest.mark.parametrize("settings", [OUTPUT, INSIDE], ids=["output", "inside"])
def test_settings_change_nothing(saved: Project, settings: list[str]) -> None:
    """All settings of a group at once: each command prints what it printed without them."""
    saved.gitcp("check", check=0)  # which says what it has verified before
    before = printed(saved)
    for each in settings:
        name, _, value = each.partition("=")
        saved.git("config", name, value)

    after = printed(saved)

    assert {c: done for c, done in after.items() if done != before[c]} == {}
