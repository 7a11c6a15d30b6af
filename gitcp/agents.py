"""The agents that gitcp knows: one record each, from which everything else about them follows.

Adding an agent with transcripts of its own is a record here and an adapter in `gitcp/adapters/`
(docs/adapters.md). A hook loads this module and little else, so it imports nothing. What was
measured, and with which version, is in the adapter of each agent.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal

    How = Literal["merge", "copy", "section", "script"]
    Form = Literal["", "toml-command", "command", "args-command"]

START = "start"
PROMPT = "prompt"
BEFORE_TOOL = "before-tool"
AFTER_TOOLS = "after-tools"
TURN = "turn"
COMPACTION = "compaction"
END = "end"


class Piece:
    """A file or directory that `enable` installs: its source in `hooks/`, and its target below the
    agent's directory.

    "merge": its hooks are added to the agent's settings. "copy": the files are gitcp's own.
    "section": a marked section of a text. "script": a marked block of an executable shell script.
    `form` is the format that the files are converted to. `shared`: other people's files are in the
    target too, and one with the same name is kept. `without` files are not installed. A `local` one
    is installed in projects alone.
    """

    def __init__(
        self,
        source: str,
        target: str,
        how: How = "copy",
        *,
        form: Form = "",
        shared: bool = False,
        without: tuple[str, ...] = (),
        local: bool = False,
    ) -> None:
        self.source = source
        self.target = target
        self.how: How = how
        self.form: Form = form
        self.shared = shared
        self.without = without
        self.local = local


class Hooks:
    """How an agent calls hooks. `events` are those that can trigger a checkpoint, by its own name
    for them.

    `delay` is how many seconds it writes its transcript after calling the hook; `is_logged`: it
    notes there that it called one. `rewrites`: the transcript of a resumed session is complete at
    the next prompt. `always_compacts`: it announces a compaction before every request.
    `repeats_prompts`: it announces a prompt without text after each tool. `runs_others`: it runs
    Claude Code's hooks as well. `start_variable` names where it was started. `settings` is the
    module that knows where its hooks are turned off, `settings_variable` names an administrator's
    file that it asks for. `shows`: it shows the user a hook's
    `systemMessage`. `answer` is the field in which it takes what a hook tells it, "" for that of
    Claude Code. `hears_at_start`: a notice at the start of a session reaches it;
    `hears_at_prompts`: one at a prompt does.
    """

    def __init__(
        self,
        events: Mapping[str, str],
        *,
        delay: float = 0.0,
        is_logged: bool = False,
        rewrites: bool = False,
        always_compacts: bool = False,
        repeats_prompts: bool = False,
        runs_others: bool = False,
        start_variable: str = "",
        settings: str = "",
        settings_variable: str = "",
        shows: bool = False,
        answer: str = "",
        hears_at_start: bool = True,
        hears_at_prompts: bool = True,
    ) -> None:
        self.events = events
        self.delay = delay
        self.is_logged = is_logged
        self.rewrites = rewrites
        self.always_compacts = always_compacts
        self.repeats_prompts = repeats_prompts
        self.runs_others = runs_others
        self.start_variable = start_variable
        self.settings = settings
        self.settings_variable = settings_variable
        self.shows = shows
        self.answer = answer
        self.hears_at_start = hears_at_start
        self.hears_at_prompts = hears_at_prompts


NO_HOOKS = Hooks({})


class Transcripts:
    """Where the conversations of an agent are, and the adapter that reads them.

    They are below the agent's home, or if it says so in `data`, below the home directory; one of
    `data_variables` moves them. `session_variables` pass the session's id to its commands.
    `line_by_line`: the texts of a line's messages do not depend on other lines. `converts`: its
    conversations can be read as dialogues, and written (`converting` in its package). `resumes`: it
    takes conversations that others wrote; else none is placed for it or written. `tokens` is the
    module that reads the tokens of requests, "" if its transcripts record none.
    """

    def __init__(
        self,
        package: str,
        *,
        data: str = "",
        data_variables: tuple[str, ...] = (),
        session_variables: tuple[str, ...] = (),
        line_by_line: bool = True,
        converts: bool = True,
        resumes: bool = True,
        tokens: str = "",
    ) -> None:
        self.package = package
        self.data = data
        self.data_variables = data_variables
        self.session_variables = session_variables
        self.line_by_line = line_by_line
        self.converts = converts
        self.resumes = resumes
        self.tokens = tokens


NO_TRANSCRIPTS = Transcripts("")


class KnownAgent:
    """An agent. `command` is what people type for it, also after `gitcp enable`; `name` what
    checkpoints record; `title` its own name, and `aliases` others; `program` its executable.

    Its settings are in `project` below a project's root, and in `home` below the home directory, or
    in `below` of what `home_variable` names; `pieces` are installed there, the hooks first. A
    `reads_start` one reads a project's settings in the directory where it is started, not in those
    above. `trusting` ones need the digests of their hooks. `note` is a remark for a project, or on
    an agent whose conversations are not saved. Those without `hooks` are set up only if they are
    named, and those without `transcripts` not saved.
    """

    def __init__(
        self,
        command: str,
        title: str,
        *,
        name: str = "",
        aliases: tuple[str, ...] = (),
        program: str = "",
        project: str = "",
        home: str = "",
        home_variable: str = "",
        below: str = "",
        pieces: tuple[Piece, ...] = (),
        reads_start: bool = False,
        trusting: bool = False,
        note: str = "",
        transcripts: Transcripts = NO_TRANSCRIPTS,
        hooks: Hooks = NO_HOOKS,
    ) -> None:
        self.command = command
        self.title = title
        self.name = name or command
        self.aliases = aliases
        self.program = program
        self.project = project
        self.home = home
        self.home_variable = home_variable
        self.below = below
        self.pieces = pieces
        self.reads_start = reads_start
        self.trusting = trusting
        self.note = note
        self.transcripts = transcripts
        self.hooks = hooks

    def home_in(self, env: Mapping[str, str], home: str) -> str:
        """The absolute path of its home in this environment. A relative one does not count: it is
        below wherever the agent was started.
        """
        chosen = env.get(self.home_variable, "") if self.home_variable else ""
        if chosen.startswith("/"):
            return f"{chosen}/{self.below}" if self.below else chosen
        return f"{home}/{self.home}"

    @property
    def directory(self) -> str:
        """Where its conversations are, below the home directory."""
        return self.transcripts.data or self.home

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables that tell that it is there: of a running session, and those that move its
        conversations.
        """
        own = self.transcripts
        moved = own.data_variables or (self.home_variable,)
        return tuple(filter(None, (*own.session_variables, *moved)))


SKILL = Piece("claude/skills/gitcp", "skills/gitcp")
COMMANDS = "claude/commands"
COMMAND_NAMES = ("checkpoint", "checkpoints", "prune", "restore", "rollback")
"""The slash commands in there."""

TRUST = "runs a project's hooks only if you trust the folder; it asks when started there"

IS_TEXT = "has no hooks: an agent that reads it is asked to save, and gitcp watch saves without it"

BY_ITSELF = "has no hooks: it saves when it follows the skill, and gitcp watch saves without it"

OPENCODE_EVENTS = {
    "session.created": START,
    "chat.message": PROMPT,
    "tool.execute.before": BEFORE_TOOL,
    "tool.execute.after": AFTER_TOOLS,
    "session.idle": TURN,
    "session.error": TURN,
    "experimental.session.compacting": COMPACTION,
    "dispose": END,
}
"""Of opencode, and of what is made of it."""

OPENCODE_PIECES = (
    Piece("opencode/gitcp.js", "plugin/gitcp.js"),
    Piece(COMMANDS, "command/gitcp", form="command"),
    Piece(COMMANDS, "command", form="command", shared=True),
    SKILL,
)
"""Of opencode, and of Kilo, which is made of it."""

KNOWN = (
    KnownAgent(
        "claude",
        "Claude Code",
        name="claude-code",
        aliases=("claude-code", "claudecode"),
        program="claude",
        project=".claude",
        home=".claude",
        home_variable="CLAUDE_CONFIG_DIR",
        pieces=(
            Piece("claude/hooks/hooks.json", "settings.json", "merge"),
            Piece(COMMANDS, "commands/gitcp"),
            # Claude Code has a /checkpoint: its /rewind.
            Piece(COMMANDS, "commands", shared=True, without=("checkpoint.md",)),
            SKILL,
        ),
        reads_start=True,
        transcripts=Transcripts(
            "gitcp.adapters.claude_code",
            tokens="gitcp.adapters.claude_code.usage",
            session_variables=("CLAUDE_CODE_SESSION_ID",),
        ),
        hooks=Hooks(
            {
                "SessionStart": START,
                "UserPromptSubmit": PROMPT,
                "PreToolUse": BEFORE_TOOL,
                "PostToolUse": AFTER_TOOLS,
                "PostToolUseFailure": AFTER_TOOLS,
                "PostToolBatch": AFTER_TOOLS,
                "SubagentStop": AFTER_TOOLS,
                "Stop": TURN,
                "StopFailure": TURN,
                "PreCompact": COMPACTION,
                "SessionEnd": END,
            },
            delay=0.5,
            start_variable="CLAUDE_PROJECT_DIR",
            settings="gitcp.adapters.claude_code.hooks",
            shows=True,
        ),
    ),
    KnownAgent(
        "codex",
        "Codex",
        aliases=("codex-cli", "openai-codex"),
        program="codex",
        project=".codex",
        home=".codex",
        home_variable="CODEX_HOME",
        pieces=(Piece("codex/hooks.json", "hooks.json", "merge"), SKILL),
        trusting=True,
        transcripts=Transcripts(
            "gitcp.adapters.codex",
            tokens="gitcp.adapters.codex.usage",
            session_variables=("CODEX_THREAD_ID", "CODEX_SESSION_ID"),
        ),
        hooks=Hooks(
            {
                "SessionStart": START,
                "UserPromptSubmit": PROMPT,
                "PreToolUse": BEFORE_TOOL,
                "PostToolUse": AFTER_TOOLS,
                "SubagentStop": AFTER_TOOLS,
                "Stop": TURN,
                "Interrupt": END,
                "agent-turn-complete": TURN,
                "PreCompact": COMPACTION,
                "SessionEnd": END,
            },
            runs_others=True,
            settings="gitcp.adapters.codex.hooks",
            shows=True,
        ),
    ),
    KnownAgent(
        "gemini",
        "Gemini CLI",
        aliases=("gemini-cli", "google-gemini"),
        program="gemini",
        project=".gemini",
        home=".gemini",
        home_variable="GEMINI_CLI_HOME",
        below=".gemini",
        pieces=(
            Piece("gemini/hooks.json", "settings.json", "merge"),
            Piece(COMMANDS, "commands/gitcp", form="toml-command"),
            Piece(COMMANDS, "commands", form="toml-command", shared=True),
            SKILL,
        ),
        reads_start=True,
        note=TRUST,
        transcripts=Transcripts(
            "gitcp.adapters.gemini",
            tokens="gitcp.adapters.gemini.usage",
            session_variables=("GEMINI_SESSION_ID",),
            line_by_line=False,
        ),
        hooks=Hooks(
            {
                "SessionStart": START,
                "BeforeAgent": PROMPT,
                "BeforeTool": BEFORE_TOOL,
                "AfterTool": AFTER_TOOLS,
                "AfterAgent": TURN,
                "PreCompress": COMPACTION,
                "SessionEnd": END,
            },
            rewrites=True,
            always_compacts=True,
            settings="gitcp.adapters.gemini.hooks",
            settings_variable="GEMINI_CLI_SYSTEM_SETTINGS_PATH",
            hears_at_start=False,  # it ignores what is printed then
        ),
    ),
    KnownAgent(
        "opencode",
        "opencode",
        aliases=("open-code",),
        program="opencode",
        project=".opencode",
        home=".config/opencode",
        home_variable="XDG_CONFIG_HOME",
        below="opencode",
        pieces=OPENCODE_PIECES,
        transcripts=Transcripts(
            "gitcp.adapters.opencode:ADAPTER",
            tokens="gitcp.adapters.opencode.usage",
            data=".local/share/opencode",
            data_variables=("OPENCODE_DB", "XDG_DATA_HOME"),
        ),
        # the notice would take the place of the prompt
        hooks=Hooks(OPENCODE_EVENTS, hears_at_start=False),
    ),
    KnownAgent(
        "kilo",
        "Kilo",
        aliases=("kilocode", "kilo-code"),
        program="kilo",
        project=".kilo",
        home=".config/kilo",
        home_variable="XDG_CONFIG_HOME",
        below="kilo",
        pieces=OPENCODE_PIECES,
        transcripts=Transcripts(
            "gitcp.adapters.opencode:KILO",
            tokens="gitcp.adapters.opencode.usage",
            data=".local/share/kilo",
            data_variables=("KILO_DB", "XDG_DATA_HOME"),
            converts=False,
        ),
        hooks=Hooks(OPENCODE_EVENTS, hears_at_start=False),
    ),
    KnownAgent(
        "copilot",
        "Copilot CLI",
        aliases=("copilot-cli", "github-copilot", "github-copilot-cli"),
        program="copilot",
        project=".github",
        home=".copilot",
        home_variable="COPILOT_HOME",
        pieces=(Piece("copilot/gitcp.json", "hooks/gitcp.json"), SKILL),
        note=TRUST,
        transcripts=Transcripts(
            "gitcp.adapters.copilot",
            session_variables=("COPILOT_AGENT_SESSION_ID",),
            tokens="gitcp.adapters.copilot.usage",
        ),
        hooks=Hooks(
            {
                "sessionStart": START,
                "userPromptSubmitted": PROMPT,
                "preToolUse": BEFORE_TOOL,
                "postToolUse": AFTER_TOOLS,
                "subagentStop": AFTER_TOOLS,
                "agentStop": TURN,
                "errorOccurred": TURN,
                "preCompact": COMPACTION,
                "sessionEnd": END,
            },
            delay=5.0,
            is_logged=True,
            runs_others=True,
            settings="gitcp.adapters.copilot.hooks",
            answer="additionalContext",
        ),
    ),
    KnownAgent(
        "pi",
        "Pi",
        aliases=("pi-coding-agent",),
        program="pi",
        project=".pi",
        home=".pi/agent",
        home_variable="PI_CODING_AGENT_DIR",
        pieces=(
            Piece("pi/gitcp.js", "extensions/gitcp.js"),
            Piece(COMMANDS, "prompts", form="command", shared=True),
            SKILL,
        ),
        note=TRUST,
        transcripts=Transcripts(
            "gitcp.adapters.pi:ADAPTER",
            tokens="gitcp.adapters.pi.usage",
            session_variables=("PI_SESSION_ID",),
            data_variables=("PI_CODING_AGENT_DIR", "PI_CODING_AGENT_SESSION_DIR"),
        ),
        hooks=Hooks(
            {
                "session_start": START,
                "before_agent_start": PROMPT,
                "tool_call": BEFORE_TOOL,
                "tool_result": AFTER_TOOLS,
                "agent_settled": TURN,
                "session_before_compact": COMPACTION,
                "session_shutdown": END,
            },
            hears_at_start=False,  # no message can be added then
        ),
    ),
    KnownAgent(
        "qwen",
        "Qwen Code",
        aliases=("qwen-code",),
        program="qwen",
        project=".qwen",
        home=".qwen",
        home_variable="QWEN_HOME",
        pieces=(
            Piece("qwen/hooks.json", "settings.json", "merge"),
            Piece(COMMANDS, "commands/gitcp", form="args-command"),
            Piece(COMMANDS, "commands", form="args-command", shared=True),
            SKILL,
        ),
        transcripts=Transcripts(
            "gitcp.adapters.qwen:ADAPTER",
            tokens="gitcp.adapters.qwen.usage",
            session_variables=("QWEN_CODE_SESSION_ID",),
            data_variables=("QWEN_HOME", "QWEN_RUNTIME_DIR"),
        ),
        hooks=Hooks(
            {
                "SessionStart": START,
                "UserPromptSubmit": PROMPT,
                "PreToolUse": BEFORE_TOOL,
                "PostToolUse": AFTER_TOOLS,
                "PostToolUseFailure": AFTER_TOOLS,
                "SubagentStop": AFTER_TOOLS,
                "Stop": TURN,
                "StopFailure": TURN,
                "PreCompact": COMPACTION,
                "SessionEnd": END,
            },
            repeats_prompts=True,
            start_variable="QWEN_PROJECT_DIR",
            settings="gitcp.adapters.qwen.hooks",
        ),
    ),
    KnownAgent(
        "cursor",
        "Cursor",
        aliases=("cursor-agent",),
        program="cursor",
        project=".cursor",
        home=".cursor",
        pieces=(
            Piece("cursor/hooks.json", "hooks.json", "merge"),
            Piece("snippets/cursor.mdc", "rules/gitcp.mdc", local=True),
        ),
        note=TRUST,
        transcripts=Transcripts("gitcp.adapters.cursor:ADAPTER", resumes=False),
        hooks=Hooks(
            {
                "sessionStart": START,
                "beforeSubmitPrompt": PROMPT,
                "preToolUse": BEFORE_TOOL,
                "postToolUse": AFTER_TOOLS,
                "postToolUseFailure": AFTER_TOOLS,
                "subagentStop": AFTER_TOOLS,
                "stop": TURN,
                "preCompact": COMPACTION,
                "sessionEnd": END,
            },
            runs_others=True,
            start_variable="CURSOR_PROJECT_DIR",
            answer="additional_context",
            hears_at_prompts=False,
        ),
    ),
    KnownAgent(
        "openclaw",
        "OpenClaw",
        program="openclaw",
        project="skills",
        home=".openclaw/skills",
        note=BY_ITSELF,
        pieces=(Piece("claude/skills/gitcp", "gitcp"),),
        transcripts=Transcripts(
            "gitcp.adapters.openclaw:ADAPTER",
            tokens="gitcp.adapters.pi.usage",
            data=".openclaw",
            data_variables=("OPENCLAW_STATE_DIR",),
            resumes=False,
        ),
    ),
    KnownAgent(
        "agents-md",
        "AGENTS.md",
        aliases=("agents.md",),
        project=".",
        note=IS_TEXT,
        pieces=(Piece("snippets/AGENTS.md", "AGENTS.md", "section"),),
    ),
)
"""In the order in which `enable` names them."""

SAVED = {
    agent.name: agent
    for agent in sorted(KNOWN, key=lambda agent: agent.name)
    if agent.transcripts.package
}
"""Those whose conversations are saved, by the name that checkpoints record."""

_CALLED = {
    called: agent for agent in KNOWN for called in (agent.command, agent.name, *agent.aliases)
}


def called(name: str) -> KnownAgent | None:
    """Return the agent that people call so, in any case; None if there is none."""
    return _CALLED.get(name.lower())


def recorded(name: str) -> str:
    """Return the name by which checkpoints record an agent, given any of its names; another name
    stays, since an installed adapter may have it.
    """
    known = called(name)
    return known.name if known else name
