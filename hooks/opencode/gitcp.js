// gitcp: checkpoints of the files and the conversation, made by themselves. `gitcp disable opencode` (or kilo, which is
// made of it) removes this file. Each event calls `gitcp hook opencode EVENT` with what is known about it on stdin.
// Nothing here stops opencode: if gitcp is missing, slow or fails, the work goes on.
import { spawn, spawnSync } from "node:child_process"

const AGENT = /[/\\]\.?kilo[/\\]plugin/.test(import.meta.url) ? "kilo" : "opencode"
const LIMIT = 8000 // milliseconds; gitcp ends by itself sooner
const LIMIT_BEFORE_TOOL = 13000
const CHANGING = new Set(["bash", "edit", "multiedit", "patch", "apply_patch", "write"])

export const GitcpPlugin = async ({ directory }) => {
  const parents = new Map() // a sub-agent's session: the session that started it
  let last // the session that was worked in last

  const command = (event) => ["gitcp", ["hook", AGENT, event]]

  const payload = (event, session, more) => {
    if (session && !parents.has(session)) last = session
    const parent_id = parents.get(session) ?? null
    return JSON.stringify({ hook_event_name: event, session_id: session ?? last ?? null, parent_id, cwd: directory, ...more })
  }

  // Wait for the hook; what it printed, "" if anything went wrong. A process that cannot be killed is left behind.
  const call = (event, session, more) =>
    new Promise((resolve) => {
      try {
        const child = spawn(...command(event), { cwd: directory, stdio: ["pipe", "pipe", "ignore"] })
        const printed = []
        const limit = setTimeout(() => {
          child.kill("SIGKILL")
          child.unref()
          for (const stream of [child.stdin, child.stdout]) stream.destroy()
          resolve("")
        }, event === "tool.execute.before" ? LIMIT_BEFORE_TOOL : LIMIT)
        child.on("error", () => resolve(""))
        child.on("close", (code) => {
          clearTimeout(limit)
          resolve(code === 0 ? Buffer.concat(printed).toString("utf8") : "")
        })
        child.stdout.on("data", (data) => printed.push(data))
        child.stdin.on("error", () => {})
        child.stdin.end(payload(event, session, more))
      } catch {
        resolve("")
      }
    })

  // The same where opencode does not wait: it may be gone a moment later.
  const callAtOnce = (event, session, more) => {
    try {
      const stdio = ["pipe", "ignore", "ignore"]
      const input = payload(event, session, more)
      spawnSync(...command(event), { cwd: directory, input, stdio, timeout: LIMIT, killSignal: "SIGKILL" })
    } catch {}
  }

  // What the hook wants the model to know: plain text, or JSON that says so.
  const context = (printed) => {
    try {
      const said = JSON.parse(printed)
      return said?.hookSpecificOutput?.additionalContext ?? said?.additionalContext ?? ""
    } catch {
      return printed.trim()
    }
  }

  return {
    event: async ({ event }) => {
      const info = event.properties?.info
      if (event.type === "session.created" && info?.id) {
        if (info.parentID) parents.set(info.id, info.parentID)
        else callAtOnce("session.created", info.id)
      }
      const session = event.properties?.sessionID
      if (!session || parents.has(session)) return
      if (event.type === "session.idle") callAtOnce("session.idle", session)
      if (event.type === "session.error") callAtOnce("session.error", session)
    },
    "chat.message": async (input, output) => {
      const prompt = (output.parts ?? []).filter((part) => part.type === "text").map((part) => part.text).join("\n")
      const text = context(await call("chat.message", input.sessionID, { prompt }))
      const first = output.parts?.[0]
      if (text && first) output.parts.push({ ...first, id: `${first.id}g`, type: "text", text, synthetic: true })
    },
    "tool.execute.before": async (input, output) => {
      if (!CHANGING.has(input.tool)) return
      const more = { tool_name: input.tool, tool_input: output.args, tool_use_id: input.callID }
      await call("tool.execute.before", input.sessionID, more)
    },
    "tool.execute.after": async (input, output) => {
      if (!CHANGING.has(input.tool)) return
      const tool_response = { output: output.output, metadata: output.metadata }
      const more = { tool_name: input.tool, tool_input: input.args, tool_use_id: input.callID, tool_response }
      await call("tool.execute.after", input.sessionID, more)
    },
    "experimental.session.compacting": async (input) => {
      await call("experimental.session.compacting", input.sessionID)
    },
    dispose: async () => {
      if (last) await call("dispose", last)
    },
  }
}
