"""gitcp: save points for coding agents. Files and conversation, together, as one git commit.

Importing this package loads no large dependency. The API (`gitcp.open(path)`, see gitcp.api), its
values and its errors are loaded on first use.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gitcp.api import aopen, open
    from gitcp.api.asynchronous import AsyncCheckpoints, AsyncSession, AsyncTransaction
    from gitcp.api.checkpoints import Checkpoints
    from gitcp.api.opened import SaveOptions
    from gitcp.api.session import Session
    from gitcp.api.transaction import TransactionBlock
    from gitcp.errors import (
        AlreadyExists,
        BadValue,
        ConversationUnreadable,
        DiskFull,
        FilteredFiles,
        FormatTooNew,
        GitcpError,
        GitFailed,
        IndexUnreadable,
        NotTrusted,
        OthersAffected,
        Refused,
        RepositoryNotFound,
        RevisionAmbiguous,
        RevisionNotFound,
        SecretsFound,
        StoreBusy,
        StoreDamaged,
    )
    from gitcp.history.matching import Hit
    from gitcp.history.sessions import Session as SessionSummary
    from gitcp.history.show import Listing
    from gitcp.history.states import StateStatus
    from gitcp.history.why import LineOrigin, PathHistory
    from gitcp.lifecycle.check import CheckReport
    from gitcp.lifecycle.fork import Forked
    from gitcp.lifecycle.prune import PrunePlan, PruneReport
    from gitcp.model import (
        Agent,
        Checkpoint,
        CheckpointId,
        FileChange,
        Handoff,
        Host,
        Kind,
        Note,
        Trigger,
    )
    from gitcp.restoring.others import OtherSession
    from gitcp.restoring.restore import Report, RestorePlan
    from gitcp.restoring.revert import RevertPlan
    from gitcp.retention import Policy
    from gitcp.running.bisect import Culprit
    from gitcp.running.compensate import Outcome
    from gitcp.running.steps import PlannedStep, StepPlan
    from gitcp.running.transaction import Failure
    from gitcp.saving.save import Saved
    from gitcp.sharing.export import ExportedFile
    from gitcp.sharing.fetch import Fetched
    from gitcp.sharing.importing import Imported
    from gitcp.sharing.push import PushReport
    from gitcp.state.effects import Effect
    from gitcp.state.note import PendingNote
    from gitcp.store import Store, Summary

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "AlreadyExists",
    "AsyncCheckpoints",
    "AsyncSession",
    "AsyncTransaction",
    "BadValue",
    "CheckReport",
    "Checkpoint",
    "CheckpointId",
    "Checkpoints",
    "ConversationUnreadable",
    "Culprit",
    "DiskFull",
    "Effect",
    "ExportedFile",
    "Failure",
    "Fetched",
    "FileChange",
    "FilteredFiles",
    "Forked",
    "FormatTooNew",
    "GitFailed",
    "GitcpError",
    "Handoff",
    "Hit",
    "Host",
    "Imported",
    "IndexUnreadable",
    "Kind",
    "LineOrigin",
    "Listing",
    "NotTrusted",
    "Note",
    "OtherSession",
    "OthersAffected",
    "Outcome",
    "PathHistory",
    "PendingNote",
    "PlannedStep",
    "Policy",
    "PrunePlan",
    "PruneReport",
    "PushReport",
    "Refused",
    "Report",
    "RepositoryNotFound",
    "RestorePlan",
    "RevertPlan",
    "RevisionAmbiguous",
    "RevisionNotFound",
    "SaveOptions",
    "Saved",
    "SecretsFound",
    "Session",
    "SessionSummary",
    "StateStatus",
    "StepPlan",
    "Store",
    "StoreBusy",
    "StoreDamaged",
    "Summary",
    "TransactionBlock",
    "Trigger",
    "aopen",
    "open",
]

_PUBLIC = {
    "Agent": "gitcp.model",
    "AlreadyExists": "gitcp.errors",
    "AsyncCheckpoints": "gitcp.api.asynchronous",
    "AsyncSession": "gitcp.api.asynchronous",
    "AsyncTransaction": "gitcp.api.asynchronous",
    "BadValue": "gitcp.errors",
    "CheckReport": "gitcp.lifecycle.check",
    "Checkpoint": "gitcp.model",
    "CheckpointId": "gitcp.model",
    "Checkpoints": "gitcp.api.checkpoints",
    "ConversationUnreadable": "gitcp.errors",
    "Culprit": "gitcp.running.bisect",
    "DiskFull": "gitcp.errors",
    "Effect": "gitcp.state.effects",
    "ExportedFile": "gitcp.sharing.export",
    "Failure": "gitcp.running.transaction",
    "Fetched": "gitcp.sharing.fetch",
    "FileChange": "gitcp.model",
    "FilteredFiles": "gitcp.errors",
    "Forked": "gitcp.lifecycle.fork",
    "FormatTooNew": "gitcp.errors",
    "GitFailed": "gitcp.errors",
    "GitcpError": "gitcp.errors",
    "Handoff": "gitcp.model",
    "Hit": "gitcp.history.matching",
    "Host": "gitcp.model",
    "Imported": "gitcp.sharing.importing",
    "IndexUnreadable": "gitcp.errors",
    "Kind": "gitcp.model",
    "LineOrigin": "gitcp.history.why",
    "Listing": "gitcp.history.show",
    "NotTrusted": "gitcp.errors",
    "Note": "gitcp.model",
    "OtherSession": "gitcp.restoring.others",
    "OthersAffected": "gitcp.errors",
    "Outcome": "gitcp.running.compensate",
    "PathHistory": "gitcp.history.why",
    "PendingNote": "gitcp.state.note",
    "PlannedStep": "gitcp.running.steps",
    "Policy": "gitcp.retention",
    "PrunePlan": "gitcp.lifecycle.prune",
    "PruneReport": "gitcp.lifecycle.prune",
    "PushReport": "gitcp.sharing.push",
    "Refused": "gitcp.errors",
    "Report": "gitcp.restoring.restore",
    "RepositoryNotFound": "gitcp.errors",
    "RestorePlan": "gitcp.restoring.restore",
    "RevertPlan": "gitcp.restoring.revert",
    "RevisionAmbiguous": "gitcp.errors",
    "RevisionNotFound": "gitcp.errors",
    "SaveOptions": "gitcp.api.opened",
    "Saved": "gitcp.saving.save",
    "SecretsFound": "gitcp.errors",
    "Session": "gitcp.api.session",
    "SessionSummary": "gitcp.history.sessions:Session",
    "StateStatus": "gitcp.history.states",
    "StepPlan": "gitcp.running.steps",
    "Store": "gitcp.store",
    "StoreBusy": "gitcp.errors",
    "StoreDamaged": "gitcp.errors",
    "Summary": "gitcp.store",
    "TransactionBlock": "gitcp.api.transaction",
    "Trigger": "gitcp.model",
    "aopen": "gitcp.api",
    "open": "gitcp.api",
}
"""Where each public name is: a module, with the name there if it is another one."""


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


if not TYPE_CHECKING:  # a checker knows the names from above, and would allow any other

    def __getattr__(name):
        if name not in _PUBLIC:
            raise AttributeError(f"module 'gitcp' has no attribute {name!r}")
        from importlib import import_module

        module, _, other = _PUBLIC[name].partition(":")
        return getattr(import_module(module), other or name)
