// A session store for the Claude Agent SDK: transcripts and files of each turn in one checkpoint.
// Copy this file into your program. It runs the command `gitcp`, and reads with `git`.
//
//     const store = new GitSessionStore("/path/to/repository");
//     query({ prompt, options: { ...store.options(), resume: sessionId } });

import { spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type {
  HookJSONOutput,
  Options,
  SessionKey,
  SessionStore,
  SessionStoreEntry,
} from "@anthropic-ai/claude-agent-sdk";

const NAMES = /^[A-Za-z0-9][A-Za-z0-9._-]*$/;
const BELOW = "+";

export class GitSessionStore implements SessionStore {
  readonly directory: string;
  private last: Promise<unknown> = Promise.resolve();

  /** Saves to the repository around `directory`, where the agent works. */
  constructor(directory: string = process.cwd()) {
    this.directory = directory;
  }

  /** Options with this store, and a checkpoint when a prompt arrives, before the agent acts on it. */
  options(): Options {
    const prompted = async (input: { session_id: string }): Promise<HookJSONOutput> => {
      const key = { projectKey: "", sessionId: input.session_id };
      await this.inTurn(async () => this.save(key, await this.lines(key), "prompt"));
      return {};
    };
    return {
      cwd: this.directory,
      sessionStore: this,
      hooks: { UserPromptSubmit: [{ hooks: [(input) => prompted(input)] }] },
    };
  }

  async append(key: SessionKey, entries: SessionStoreEntry[]): Promise<void> {
    await this.inTurn(async () => {
      const lines = await this.lines(key);
      const known = new Set(lines.map((line) => line.uuid));
      const added = entries.filter((entry) => !entry.uuid || !known.has(entry.uuid));
      if (added.length > 0) await this.save(key, [...lines, ...added], "turn");
    });
  }

  async load(key: SessionKey): Promise<SessionStoreEntry[] | null> {
    const lines = await this.lines(key);
    const rewound = !lines.some((line) => line.type === "user" || line.type === "assistant");
    if (rewound && lines.length > 0 && !key.subpath) lines.push(beginning(key.sessionId));
    return lines.length > 0 ? lines : null;
  }

  async listSessions(_projectKey: string): Promise<{ sessionId: string; mtime: number }[]> {
    const listed: { sessionId: string; mtime: number }[] = [];
    for (const [name, second] of await this.sessions()) {
      const sessionId = name.includes(BELOW) ? "" : await this.owner(name);
      if (sessionId) listed.push({ sessionId, mtime: Number(second) * 1000 });
    }
    return listed;
  }

  async listSubkeys(key: { sessionId: string }): Promise<string[]> {
    const prefix = (await this.name({ ...key, projectKey: "" })) + BELOW;
    return (await this.sessions()).filter(([name]) => name.startsWith(prefix))
      .map(([name]) => name.slice(prefix.length).replaceAll(BELOW, "/"));
  }

  /**
   * Restore files and transcript to before a user's message, as `gitcp restore` does: rejected if
   * another agent at work changed files since. `gitcp undo` restores the files.
   */
  async rewind(sessionId: string, message: string, filesOnly = false): Promise<void> {
    const name = await this.name({ projectKey: "", sessionId });
    const what = filesOnly ? ["--files"] : [];
    // The SDK reads transcripts from this store: the restored one goes to a home that is removed.
    const home = await mkdtemp(join(tmpdir(), "gitcp-"));
    try {
      const given = ["restore", "--session", name, "--message", message, "--yes", ...what];
      await this.inTurn(() => this.gitcp(given, "", { CLAUDE_CONFIG_DIR: home }));
    } finally {
      await rm(home, { recursive: true });
    }
  }

  private async save(key: SessionKey, lines: SessionStoreEntry[], trigger: string): Promise<void> {
    const text = lines.map((line) => `${JSON.stringify(line)}\n`).join("");
    const options = ["--session", await this.name(key), "--trigger", trigger, "--quiet"];
    if (key.subpath || lines.length === 0) {
      await this.gitcp(["save", ...options, "--conversation", "-"], text);
      return;
    }
    // Named as the agent names it, so that gitcp knows the session as this agent's.
    const scratch = await mkdtemp(join(tmpdir(), "gitcp-"));
    try {
      const file = join(scratch, `${key.sessionId}.jsonl`);
      await writeFile(file, text, { mode: 0o600 });
      const agent = ["--agent", "claude-code", "--conversation", file];
      await this.gitcp(["save", ...options, ...agent]);
    } finally {
      await rm(scratch, { recursive: true });
    }
  }

  private async lines(key: SessionKey): Promise<SessionStoreEntry[]> {
    const tree = `refs/gitcp/sessions/${await this.name(key)}:.gitcp/conversation/main`;
    const listed = await this.git("ls-tree", "-r", tree).catch(() => "");
    let text = "";
    for (const line of listed.split("\n").filter(Boolean)) {
      text += await this.git("cat-file", "blob", line.split(/\s/)[2]!);
    }
    return text.split("\n").filter(Boolean).map((line) => JSON.parse(line));
  }

  /** The gitcp session of a transcript, as gitcp itself names it; a sub-agent's is one of its own. */
  private async name(key: SessionKey): Promise<string> {
    const parts = [key.sessionId, ...(key.subpath?.split("/") ?? [])];
    if (!parts.every((part) => NAMES.test(part))) throw new Error(`invalid key: ${parts.join("/")}`);
    const short = key.sessionId.slice(0, 8);
    const owner = await this.owner(short);
    const name = owner === "" || owner === key.sessionId ? short : key.sessionId;
    return [name, ...parts.slice(1)].join(BELOW);
  }

  /** The agent's id of a gitcp session, "" if it is not one of these or does not exist. */
  private async owner(name: string): Promise<string> {
    const format = "--format=%(trailers:key=Gitcp-Agent-Session,valueonly)";
    const ref = `refs/gitcp/sessions/${name}`;
    return (await this.git("log", "-1", format, ref, "--").catch(() => "")).trim();
  }

  /** The gitcp sessions of this repository, each with its last second. */
  private async sessions(): Promise<[string, string][]> {
    const format = "--format=%(refname:lstrip=3) %(committerdate:unix)";
    const listed = await this.git("for-each-ref", format, "refs/gitcp/sessions/");
    return listed.split("\n").filter(Boolean).map((line) => line.split(" ") as [string, string]);
  }

  private inTurn<T>(act: () => Promise<T>): Promise<T> {
    const next = this.last.then(act);
    this.last = next.catch(() => undefined);
    return next;
  }

  private git(...given: string[]): Promise<string> {
    return run("git", ["-C", this.directory, ...given], this.directory);
  }

  private gitcp(given: string[], input = "", env: NodeJS.ProcessEnv = {}): Promise<string> {
    return run("gitcp", given, this.directory, input, env);
  }
}

/** The entry by which the agent finds a session that was rewound to its beginning. */
function beginning(sessionId: string): SessionStoreEntry {
  const uuid = sessionId.replace(/^.{8}/, "00000000");
  const message = { subtype: "informational", content: "rewound to the beginning", level: "info" };
  const place = { uuid, parentUuid: null, isSidechain: false, isMeta: true, sessionId };
  return { type: "system", ...message, ...place, timestamp: new Date().toISOString() };
}

function run(
  program: string, given: string[], cwd: string, input = "", env: NodeJS.ProcessEnv = {},
): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, given, { cwd, env: { ...process.env, ...env } });
    const printed: Buffer[] = [];
    const errors: Buffer[] = [];
    child.stdout.on("data", (chunk) => printed.push(chunk));
    child.stderr.on("data", (chunk) => errors.push(chunk));
    child.on("error", reject);
    child.on("close", (code) => {
      if (code === 0 || code === 3) resolve(Buffer.concat(printed).toString());
      else reject(new Error(Buffer.concat(errors).toString().trim() || `${program} failed: ${code}`));
    });
    child.stdin.on("error", () => undefined); // it ended without reading: its exit code says why
    child.stdin.end(input);
  });
}
